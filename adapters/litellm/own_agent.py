"""The agent of examples/integrations/litellm_agent.py with LiteLLM's own `trim_messages`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import litellm
from litellm.utils import trim_messages

MODEL = os.environ.get("MODEL", "openai/gpt-5-mini")
WINDOW = int(os.environ.get("WINDOW", "128000"))
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ_FILE = {"name": "read_file", "description": "Reads a file.", "parameters": PARAMETERS}


def read_file(path: str) -> str:
    """Reads a file."""
    return Path(path).read_text("utf-8")


_, task = sys.argv[1:]
messages: list[Any] = [
    {"role": "system", "content": "You read the parts of a program."},
    {"role": "user", "content": task},
]
while True:
    shown = trim_messages(messages, max_tokens=int(0.75 * WINDOW))
    tools = [{"type": "function", "function": READ_FILE}]
    answer = litellm.completion(MODEL, shown, tools=tools).choices[0].message
    messages.append(answer.model_dump(exclude_none=True))
    if not answer.tool_calls:
        break
    for call in answer.tool_calls:
        text = read_file(**json.loads(call.function.arguments))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
print(answer.content)
