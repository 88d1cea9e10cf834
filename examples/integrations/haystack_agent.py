"""An agent of Haystack in a small window: `python haystack_agent.py SESSION TASK`.

The argument `hooks` is all that Tenfold adds. Run it again with the same session: it goes on.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import tool

from tenfold.apps.adapters.haystack import build_hooks

MODEL = os.environ.get("MODEL", "gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))


@tool
def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


session, task = sys.argv[1:]
agent = Agent(
    chat_generator=OpenAIChatGenerator(model=MODEL),
    tools=[read_file],
    system_prompt="You read the parts of a program.",
    max_agent_steps=500,
    hooks=build_hooks(session, window=WINDOW),
)
print(agent.run(messages=[ChatMessage.from_user(task)])["last_message"].text)
