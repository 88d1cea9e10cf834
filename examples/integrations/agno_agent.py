"""An agent of agno in a small window: `python agno_agent.py SESSION TASK`.

The call of `keep_in_window` is all that Tenfold adds. Run it again with the same session: it goes on.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from agno.agent import Agent
from agno.models.openai import OpenAIChat

from tenfold.apps.adapters.agno import keep_in_window

MODEL = os.environ.get("MODEL", "gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))


def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


agent = keep_in_window(
    Agent(model=OpenAIChat(MODEL), tools=[read_file], instructions="You read the parts of a program."), window=WINDOW
)
session, task = sys.argv[1:]
print(agent.run(task, session_id=session).content)
