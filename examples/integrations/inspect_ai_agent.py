"""An agent of Inspect in a small window: `python inspect_ai_agent.py SESSION TASK`.

The line with `tenfold_model` is all that Tenfold adds. Run it again with the same session: it goes on.
"""

from __future__ import annotations

import os
import sys

import anyio
import inspect_ai
from inspect_ai import Task
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.tool import Tool, tool

from tenfold.apps.adapters.inspect_ai import tenfold_model

MODEL = os.environ.get("MODEL", "openai/gpt-4.1-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))


@tool
def read_file() -> Tool:
    """The tool that reads files."""

    async def execute(path: str) -> str:
        """Reads a file.

        Args:
            path: Where it is.
        """
        return await anyio.Path(path).read_text("utf-8")

    return execute


session, task = sys.argv[1:]
agent = react(
    prompt="You read the parts of a program.",
    tools=[read_file()],
    submit=False,
    model=tenfold_model(session=session, window=WINDOW),
)
(log,) = inspect_ai.eval(Task(dataset=[Sample(input=task, id=1)], solver=agent), model=MODEL, display="none")
print(log.samples[0].output.completion)
