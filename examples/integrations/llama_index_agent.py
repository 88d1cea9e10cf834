"""An agent of LlamaIndex in a small window: `python llama_index_agent.py SESSION TASK`.

`TenfoldMemory` is all that Tenfold needs; `RECALL` are tools to look things up. Run it again with the same session: it
goes on.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI

from tenfold.apps.adapters.llama_index import RECALL, TenfoldMemory

MODEL = os.environ.get("MODEL", "gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))


def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


async def main() -> None:
    """Gives the agent its task."""
    session, task = sys.argv[1:]
    agent = FunctionAgent(
        tools=[read_file, *RECALL], llm=OpenAI(MODEL), system_prompt="You read the parts of a program."
    )
    print(await agent.run(task, memory=TenfoldMemory(session, window=WINDOW), max_iterations=500))


asyncio.run(main())
