"""The agent of examples/integrations/langchain_agent.py with LangChain's own compaction."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware

MODEL = os.environ.get("MODEL", "openai:gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))


def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


agent = create_agent(
    MODEL,
    [read_file],
    system_prompt="You read the parts of a program.",
    middleware=[
        SummarizationMiddleware(MODEL, trigger=("tokens", int(0.85 * WINDOW)), keep=("tokens", int(0.4 * WINDOW)))
    ],
)
_, task = sys.argv[1:]
print(agent.invoke({"messages": [("user", task)]}, {"recursion_limit": 500})["messages"][-1].text)
