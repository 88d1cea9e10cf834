"""A loop over OpenAI's SDK with two tools. `python agent.py chat|responses TASK`; its list is in list.json."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import openai

STATE = Path("list.json")
SCHEMAS = {
    "read_file": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    "shell": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}


def call_tool(name: str, arguments: str) -> str:
    """Calls a tool."""
    given = json.loads(arguments)
    if name == "read_file":
        return Path(given["path"]).read_text("utf-8")
    return subprocess.run(given["command"], shell=True, capture_output=True, text=True, check=False).stdout  # noqa: S602


def run_chat(items: list[Any]) -> str:
    """Works with Chat Completions until the model calls nothing more."""
    tools = [{"type": "function", "function": {"name": n, "parameters": s}} for n, s in SCHEMAS.items()]
    while True:
        with openai.OpenAI() as client:
            stream = client.chat.completions.stream(model="gpt-4o", messages=items, tools=tools)
            with stream as events:
                message = events.get_final_completion().choices[0].message
        items.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
        for call in items[-1].get("tool_calls", []):
            call["function"].pop("parsed_arguments", None)
        if not message.tool_calls:
            return message.content or ""
        for call in message.tool_calls:
            text = call_tool(call.function.name, call.function.arguments)
            items.append({"role": "tool", "tool_call_id": call.id, "content": text})


def run_responses(items: list[Any]) -> str:
    """Works with Responses until the model calls nothing more."""
    tools = [{"type": "function", "name": n, "parameters": s, "strict": False} for n, s in SCHEMAS.items()]
    include = ["reasoning.encrypted_content"]
    while True:
        with openai.OpenAI() as client:
            answer = client.responses.create(model="gpt-5", input=items, tools=tools, store=False, include=include)
        items += [item.model_dump(exclude_none=True) for item in answer.output]
        calls = [item for item in answer.output if item.type == "function_call"]
        if not calls:
            return answer.output_text
        for call in calls:
            text = call_tool(call.name, call.arguments)
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": text})


api, task = sys.argv[1:]
history: list[Any] = json.loads(STATE.read_text("utf-8")) if STATE.exists() else []
history.append({"role": "user", "content": task})
print(run_chat(history) if api == "chat" else run_responses(history))
STATE.write_text(json.dumps(history), "utf-8")
