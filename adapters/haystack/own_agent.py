"""The agent of examples/integrations/haystack_agent.py with Haystack's own compaction."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.hooks.compaction import CompactionHook, SummarizationCompactor
from haystack.tools import tool

MODEL = os.environ.get("MODEL", "gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))


@tool
def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


_, task = sys.argv[1:]
generator = OpenAIChatGenerator(model=MODEL)
agent = Agent(
    chat_generator=generator,
    tools=[read_file],
    system_prompt="You read the parts of a program.",
    max_agent_steps=500,
    hooks={"before_llm": [CompactionHook(SummarizationCompactor(generator), context_window=WINDOW)]},
)
print(agent.run(messages=[ChatMessage.from_user(task)])["last_message"].text)
