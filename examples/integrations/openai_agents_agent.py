"""An agent of the OpenAI Agents SDK in a small window: `python openai_agents_agent.py SESSION TASK`.

`TenfoldSession`, its `config()` and the tools `RECALL` are all that Tenfold adds. Run it again with the same session:
it goes on.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from agents import Agent, Runner, function_tool

from tenfold.apps.adapters.openai_agents import RECALL, TenfoldSession

MODEL = os.environ.get("MODEL", "gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))


@function_tool
def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


agent = Agent("worker", instructions="You read the parts of a program.", tools=[read_file, *RECALL], model=MODEL)
name, task = sys.argv[1:]
session = TenfoldSession(name, window=WINDOW)
done = Runner.run_sync(agent, task, session=session, run_config=session.config(), max_turns=500)
print(done.final_output)
