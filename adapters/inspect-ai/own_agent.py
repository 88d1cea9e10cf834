"""The agent of examples/integrations/inspect_ai_agent.py with Inspect's own compaction."""

from __future__ import annotations

import os
import sys

import anyio
import inspect_ai
from inspect_ai import Task
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import CompactionSummary, ModelInfo, get_model, set_model_info
from inspect_ai.tool import Tool, tool

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


async def count_text_tokens(text: str) -> int:
    """Counts as the provider of the test does, since Inspect's own counter downloads a vocabulary."""
    return len(text) // 4


_, task = sys.argv[1:]
set_model_info(MODEL, ModelInfo(context_length=WINDOW, output_tokens=1_000))
model = get_model(MODEL)
model.api.count_text_tokens = count_text_tokens
agent = react(
    prompt="You read the parts of a program.",
    tools=[read_file()],
    submit=False,
    compaction=CompactionSummary(prompt="Say what was done so far, and what is to be done next. {addendums}"),
)
(log,) = inspect_ai.eval(Task(dataset=[Sample(input=task, id=1)], solver=agent), model=model, display="none")
print(log.samples[0].output.completion)
