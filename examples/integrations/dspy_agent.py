"""An agent of DSPy in a small window: `python dspy_agent.py SESSION TASK`.

`TenfoldReAct` in place of `dspy.ReAct` is all that Tenfold adds. Run it again with the same session: it goes on.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import dspy

from tenfold.apps.adapters.dspy import TenfoldReAct

MODEL = os.environ.get("MODEL", "openai/gpt-4.1-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))


def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


session, task = sys.argv[1:]
dspy.configure(lm=dspy.LM(MODEL))
agent = TenfoldReAct("question -> answer", tools=[read_file], max_iters=500, session=session, window=WINDOW)
print(agent(question=task).answer)
