"""The agent of examples/integrations/llama_index_agent.py with LlamaIndex's own memory.

It drops the oldest messages over its limit, but none of the run that is going on: they reach it when the run ends.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.memory import Memory
from llama_index.llms.openai import OpenAI

MODEL = os.environ.get("MODEL", "gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))


def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


async def main() -> None:
    """Gives the agent its task."""
    session, task = sys.argv[1:]
    agent = FunctionAgent(tools=[read_file], llm=OpenAI(MODEL), system_prompt="You read the parts of a program.")
    memory = Memory.from_defaults(
        session, token_limit=int(0.7 * WINDOW), async_database_uri="sqlite+aiosqlite:///memory.db"
    )
    print(await agent.run(task, memory=memory, max_iterations=500))


asyncio.run(main())
