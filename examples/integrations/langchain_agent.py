"""An agent of LangChain in a small window: `python langchain_agent.py THREAD TASK`.

The line with `TenfoldMiddleware` is all that Tenfold adds. Run it again with the same thread: it goes on.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from langchain.agents import create_agent

from tenfold.apps.adapters.langchain import TenfoldMiddleware

MODEL = os.environ.get("MODEL", "openai:gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))


def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


agent = create_agent(
    MODEL, [read_file], system_prompt="You read the parts of a program.", middleware=[TenfoldMiddleware(window=WINDOW)]
)
thread, task = sys.argv[1:]
config = {"configurable": {"thread_id": thread}, "recursion_limit": 500}
print(agent.invoke({"messages": [("user", task)]}, config)["messages"][-1].text)
