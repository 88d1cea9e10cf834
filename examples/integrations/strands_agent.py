"""An agent of Strands in a small window: `python strands_agent.py SESSION TASK`.

The line with `TenfoldConversationManager` is all that Tenfold adds. Run it again with the same session: it goes on.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from strands import Agent, tool
from strands.models.openai import OpenAIModel
from strands.session import FileSessionManager

from tenfold.apps.adapters.strands import TenfoldConversationManager

MODEL = os.environ.get("MODEL", "gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))


@tool
def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


session, task = sys.argv[1:]
agent = Agent(
    OpenAIModel(model_id=MODEL),
    tools=[read_file],
    system_prompt="You read the parts of a program.",
    session_manager=FileSessionManager(session),
    conversation_manager=TenfoldConversationManager(window=WINDOW),
    callback_handler=None,
)
print(agent(task))
