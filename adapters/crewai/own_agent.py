"""The agent of examples/integrations/crewai_agent.py with CrewAI's own compaction: `respect_context_window`.

CrewAI takes the window from a list of models, so this LLM says its own.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from crewai import Agent
from crewai.llms.providers.openai.completion import OpenAICompletion
from crewai.tools import tool

MODEL = os.environ.get("MODEL", "gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))


class SmallLLM(OpenAICompletion):
    """An LLM with a smaller window."""

    def get_context_window_size(self) -> int:
        """Returns how much of the window may be used, as CrewAI does for the models that it knows."""
        return int(0.85 * WINDOW)


@tool
def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


_, task = sys.argv[1:]
agent = Agent(
    role="Reader",
    goal="Read the parts of a program.",
    backstory="You read programs.",
    llm=SmallLLM(model=MODEL),
    tools=[read_file],
    max_iter=500,
    respect_context_window=True,
)
print(agent.kickoff(task).raw)
