"""The agent of examples/integrations/agno_agent.py with agno's own compaction.

`Compaction` folds what a run begins with, and `CompressionManager` shortens tool results while it goes on. Agno counts
fewer tokens than a provider, so both act at a smaller share of the window than usual.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from agno.agent import Agent
from agno.compaction import Compaction
from agno.compression import CompressionManager
from agno.db.sqlite import SqliteDb
from agno.models.openai import OpenAIChat

MODEL = os.environ.get("MODEL", "gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))
LIMIT = int(0.7 * WINDOW)


def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


agent = Agent(
    model=OpenAIChat(MODEL),
    tools=[read_file],
    instructions="You read the parts of a program.",
    db=SqliteDb(db_file="../agno.db"),
    add_history_to_context=True,
    compaction=Compaction(compact_at_tokens=LIMIT, uncompacted_tokens=int(0.4 * WINDOW), on_context_overflow=True),
    compression_manager=CompressionManager(compress_token_limit=LIMIT),
)
session, task = sys.argv[1:]
print(agent.run(task, session_id=session).content)
