"""A loop over Anthropic's SDK with two tools, thinking and cache marks. `python agent.py TASK`; see list.json."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anthropic

STATE = Path("list.json")
MARK = {"type": "ephemeral"}
TOOLS = [
    {"name": name, "input_schema": {"type": "object", "properties": {key: {"type": "string"}}, "required": [key]}}
    for name, key in (("read_file", "path"), ("shell", "command"))
]


def call_tool(name: str, given: dict[str, Any]) -> str:
    """Calls a tool."""
    if name == "read_file":
        return Path(given["path"]).read_text("utf-8")
    return subprocess.run(given["command"], shell=True, capture_output=True, text=True, check=False).stdout  # noqa: S602


history: list[Any] = json.loads(STATE.read_text("utf-8")) if STATE.exists() else []
history.append({"role": "user", "content": [{"type": "text", "text": sys.argv[1]}]})
system = [{"type": "text", "text": "You read the parts of a program.", "cache_control": MARK}]
client = anthropic.Anthropic()
while True:
    last = history[-1]["content"]
    marked = [*history[:-1], {**history[-1], "content": [*last[:-1], {**last[-1], "cache_control": MARK}]}]
    with client.messages.stream(
        model="claude-opus-4-6", max_tokens=1_000, system=system, tools=TOOLS, messages=marked,
        thinking={"type": "adaptive"},
    ) as stream:  # fmt: skip
        answer = stream.get_final_message()
    blocks = [block.model_dump(exclude_none=True, exclude={"parsed_output"}) for block in answer.content]
    history.append({"role": "assistant", "content": blocks})
    results = [
        {"type": "tool_result", "tool_use_id": block.id, "content": call_tool(block.name, block.input)}
        for block in answer.content
        if block.type == "tool_use"
    ]
    if not results:
        break
    history.append({"role": "user", "content": results})
STATE.write_text(json.dumps(history), "utf-8")
print("".join(block.text for block in answer.content if block.type == "text"))
