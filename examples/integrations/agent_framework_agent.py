"""An agent of Microsoft's Agent Framework in a small window: `python agent_framework_agent.py SESSION TASK`.

The line with `TenfoldProvider` is all that Tenfold adds. Run it again with the same session: it goes on.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from agent_framework import Agent
from agent_framework.openai import OpenAIChatCompletionClient

from tenfold.apps.adapters.agent_framework import TenfoldProvider

MODEL = os.environ.get("MODEL", "gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))


def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


agent = Agent(
    OpenAIChatCompletionClient(model=MODEL),
    "You read the parts of a program.",
    tools=[read_file],
    context_providers=[TenfoldProvider(window=WINDOW)],
)
name, task = sys.argv[1:]
print(asyncio.run(agent.run(task, session=agent.create_session(session_id=name))).text)
