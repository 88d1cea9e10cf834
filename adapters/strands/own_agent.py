"""The agent of examples/integrations/strands_agent.py with the compaction of Strands itself."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from strands import Agent, tool
from strands.agent.conversation_manager import SummarizingConversationManager
from strands.models.openai import OpenAIModel
from strands.session import FileSessionManager

MODEL = os.environ.get("MODEL", "gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))


@tool
def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


session, task = sys.argv[1:]
agent = Agent(
    OpenAIModel(model_id=MODEL, context_window_limit=WINDOW),
    tools=[read_file],
    system_prompt="You read the parts of a program.",
    session_manager=FileSessionManager(session),
    conversation_manager=SummarizingConversationManager(proactive_compression=True),
    callback_handler=None,
)
print(agent(task))
