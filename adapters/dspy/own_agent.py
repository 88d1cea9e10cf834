"""The agent of examples/integrations/dspy_agent.py with DSPy's own truncation, which drops the oldest step."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import dspy

MODEL = os.environ.get("MODEL", "openai/gpt-4.1-mini")


def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


_, task = sys.argv[1:]
dspy.configure(lm=dspy.LM(MODEL))
print(dspy.ReAct("question -> answer", tools=[read_file], max_iters=500)(question=task).answer)
