"""An agent of CrewAI in a small window: `python crewai_agent.py SESSION TASK`.

The call of `keep_in_window` is all that Tenfold adds. Run it again with the same session: it goes on.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from crewai import Agent
from crewai.tools import tool

from tenfold.apps.adapters.crewai import keep_in_window

MODEL = os.environ.get("MODEL", "openai/gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))


@tool
def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


session, task = sys.argv[1:]
agent = Agent(
    role="Reader",
    goal="Read the parts of a program.",
    backstory="You read programs.",
    llm=MODEL,
    tools=[read_file],
    max_iter=500,
)
agent = keep_in_window(agent, session=session, window=WINDOW)
print(agent.kickoff(task).raw)
