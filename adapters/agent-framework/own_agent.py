"""The agent of examples/integrations/agent_framework_agent.py with the framework's own compaction."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from agent_framework import Agent, ContextWindowCompactionStrategy
from agent_framework.openai import OpenAIChatCompletionClient

MODEL = os.environ.get("MODEL", "gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))


def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


agent = Agent(
    OpenAIChatCompletionClient(model=MODEL),
    "You read the parts of a program.",
    tools=[read_file],
    compaction_strategy=ContextWindowCompactionStrategy(max_context_window_tokens=WINDOW, max_output_tokens=0),
)
name, task = sys.argv[1:]
print(asyncio.run(agent.run(task, session=agent.create_session(session_id=name))).text)
