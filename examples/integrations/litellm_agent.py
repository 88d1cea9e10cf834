"""A loop with LiteLLM in a small window: `python litellm_agent.py SESSION TASK`.

`tenfold.completion` stands in place of `litellm.completion`, and `tenfold` answers the calls of its own tools. Run it
again with the same session: it goes on.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from tenfold.apps.adapters.litellm import TenfoldLogger

MODEL = os.environ.get("MODEL", "openai/gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ_FILE = {"name": "read_file", "description": "Reads a file.", "parameters": PARAMETERS}


def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


tenfold = TenfoldLogger(window=WINDOW)
session, task = sys.argv[1:]
messages: list[Any] = [
    {"role": "system", "content": "You read the parts of a program."},
    {"role": "user", "content": task},
]
request: dict[str, Any] = {
    "model": MODEL,
    "messages": messages,
    "tools": [{"type": "function", "function": READ_FILE}, *tenfold.tools],
    "litellm_session_id": session,
}
while True:
    answer = tenfold.completion(**request).choices[0].message
    messages.append(answer)
    if not answer.tool_calls:
        break
    for call in answer.tool_calls:
        text = tenfold.handle(call, **request) or read_file(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
print(answer.content)
