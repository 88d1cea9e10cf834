"""An agent of pydantic-ai in a small window: `python pydantic_ai_agent.py SESSION TASK`.

The session and `Memory` are all that Tenfold adds. Run it again with the same session: it goes on.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pydantic_ai import Agent, UsageLimits

import tenfold
from tenfold.apps.agent.capability import Memory

MODEL = os.environ.get("MODEL", "openai-chat:gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))


def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


name, task = sys.argv[1:]
session = tenfold.open_session(name, model=MODEL, window=WINDOW)
agent = Agent(
    MODEL,
    instructions="You read the parts of a program.",
    tools=[read_file],
    capabilities=[Memory(session, window=WINDOW)],
)
print(agent.run_sync(task, usage_limits=UsageLimits(request_limit=None)).output)
