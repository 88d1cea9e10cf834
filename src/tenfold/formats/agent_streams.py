"""What coding agents print while they run: `claude --output-format stream-json` and `codex exec --json`.

docs/formats/agents.md describes the mapping. The streams hold what the agent did, and often not what it was asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenfold.core.record.entry import Usage
from tenfold.core.record.message import Message, Part, Text, Thinking, get_text, get_tool_calls, get_tool_result
from tenfold.errors import UnknownRole
from tenfold.formats.content_blocks import (
    list_texts,
    make_answer,
    make_prompt,
    make_result,
    make_turn,
    parse_blocks,
    render_arguments,
)
from tenfold.formats.item_lists import Record, RecordFormat, RecordRules
from tenfold.formats.json_items import get_object, list_objects
from tenfold.formats.message_parts import dump_json, parse_call
from tenfold.formats.session_draft import parse_token_count

# -- claude --output-format stream-json --------------------------------------------------------------------------------


def _parse_claude(value: dict[str, Any]) -> Record:
    message, kind = get_object(value, "message"), str(value.get("type"))
    if not message:
        return Record(kind=f"{kind}/{value['subtype']}" if "subtype" in value else kind)
    role, content = message.get("role"), message.get("content")
    blocks = list_objects(message, "content")
    if isinstance(content, str):
        blocks = [{"type": "text", "text": content}]
    if role == "assistant":
        return Record([make_answer(parse_blocks(blocks, _parse_claude_call))], _parse_claude_usage(message))
    return Record(make_turn(role, blocks, _parse_claude_call, _parse_claude_result))


def _parse_claude_call(block: Mapping[str, Any]) -> Part | None:
    if block.get("type") not in ("tool_use", "server_tool_use", "mcp_tool_use"):
        return None
    return parse_call(block.get("id"), block.get("name"), block.get("input"))


def _parse_claude_result(block: Mapping[str, Any]) -> Message | None:
    if block.get("type") != "tool_result":
        return None
    is_error = block.get("is_error") is True
    return make_result(block.get("tool_use_id"), "", block.get("content"), is_error=is_error)


def _parse_claude_usage(message: Mapping[str, Any]) -> Usage | None:
    report = get_object(message, "usage")
    keys = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
    fresh, read, written, output = (parse_token_count(report.get(key)) for key in keys)
    prompt = fresh + read + written
    return Usage(prompt, output, read, written, str(message.get("model") or "")) if prompt else None


def _render_claude(messages: Sequence[Message]) -> list[dict[str, Any]]:
    out = []
    for message in messages:
        result = get_tool_result(message)
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in list_texts(message)]
        blocks += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": render_arguments(call)}
            for call in get_tool_calls(message)
        ]
        if result is not None:
            block = {"type": "tool_result", "tool_use_id": result.call_id, "content": get_text(message)}
            blocks = [block | {"is_error": True} if result.is_error else block]
        role = "assistant" if message.role == "assistant" else "user"
        out.append({"type": role, "message": {"role": role, "content": blocks}, "parent_tool_use_id": None})
    return out


def _is_claude_line(value: dict[str, Any]) -> bool:
    if value.get("type") == "system":
        return value.get("subtype") == "init" and "session_id" in value
    return "parent_tool_use_id" in value and value.get("type") in ("user", "assistant")


CLAUDE_STREAM = RecordFormat(
    "claude-stream",
    RecordRules(
        is_item=_is_claude_line,
        parse=_parse_claude,
        render=_render_claude,
        session_keys=("session_id",),
        id_key="uuid",
        frame=(b"", b"\n"),
        get_thread=lambda value: str(value.get("parent_tool_use_id") or ""),
        get_answer_id=lambda value: str(get_object(value, "message").get("id") or ""),
    ),
)
"""Reads and writes the lines of `claude --output-format stream-json`."""


# -- codex exec --json -------------------------------------------------------------------------------------------------


def _parse_codex(value: dict[str, Any]) -> Record:
    item = get_object(value, "item")
    if value.get("type") != "item.completed" or not item:
        return Record(kind=str(value.get("type")))
    match item.get("type", item.get("item_type")):
        case "agent_message" | "assistant_message":
            return Record([make_answer(parse_blocks(item.get("text")))])
        case "reasoning":
            return Record([make_answer([Thinking(str(item.get("text") or ""))])])
        case "user_message":
            return Record([make_prompt("user", parse_blocks(item.get("text")))])
        case "command_execution":
            is_error = item.get("exit_code") not in (0, None) or item.get("status") == "failed"
            output = item.get("aggregated_output")
            return _make_step(item, "shell", {"command": item.get("command")}, output, is_error=is_error)
        case "file_change":
            output, is_error = item.get("status"), item.get("status") == "failed"
            return _make_step(item, "apply_patch", {"changes": item.get("changes")}, output, is_error=is_error)
        case "mcp_tool_call":
            name = "__".join(filter(None, (str(item.get("server") or ""), str(item.get("tool") or ""))))
            return _make_step(item, name, item.get("arguments"), _read_output(item), is_error=bool(item.get("error")))
        case "web_search":
            return _make_step(item, "web_search", {"query": item.get("query")}, item.get("action"))
        case "todo_list":
            return _make_step(item, "update_plan", {"plan": item.get("items")}, "")
        case str(kind):
            about = {key: each for key, each in item.items() if key not in ("id", "type", "text", "message")}
            said = item.get("text") or item.get("message")
            text = said if isinstance(said, str) and said else dump_json(about).decode()
            return Record([Message("user", (Text(text),), "harness" if kind == "error" else "tool")])
        case kind:
            raise UnknownRole(str(kind))


def _read_output(item: Mapping[str, Any]) -> object:
    error, result = get_object(item, "error"), get_object(item, "result")
    return error.get("message") or result.get("content") or item.get("result")


def _make_step(
    item: Mapping[str, Any], name: str, arguments: object, output: object, *, is_error: bool = False
) -> Record:
    call = parse_call(item.get("id"), name, arguments)
    return Record([make_answer([call]), make_result(call.id, name, output, is_error=is_error)])


def _render_codex(messages: Sequence[Message]) -> list[dict[str, Any]]:
    results = {r.call_id: (r, get_text(m)) for m in messages if (r := get_tool_result(m)) is not None}
    items: list[dict[str, Any]] = []
    for message in messages:
        text, calls = "\n".join(list_texts(message)), get_tool_calls(message)
        if get_tool_result(message) is None and (text or not calls):
            items.append({"type": "agent_message" if message.role == "assistant" else "user_message", "text": text})
        for call in calls:
            found = results.pop(call.id, None)
            items.append(_render_call(call.id, call.name, render_arguments(call), found[1] if found else ""))
            items[-1] |= {"error": {"message": found[1]}} if found and found[0].is_error else {}
    items += [_render_call(r.call_id, r.name, {}, text) for r, text in results.values()]
    return [{"type": "item.completed", "item": item} for item in items]


def _render_call(call_id: str, name: str, arguments: object, text: str) -> dict[str, Any]:
    result = {"content": [{"type": "text", "text": text}]}
    return {"id": call_id, "type": "mcp_tool_call", "tool": name, "arguments": arguments, "result": result}


CODEX_STREAM = RecordFormat(
    "codex-stream",
    RecordRules(
        is_item=lambda value: value.get("type") == "thread.started" or str(value.get("type")).startswith("item."),
        parse=_parse_codex,
        render=_render_codex,
        session_keys=("thread_id",),
        id_key="",
        has_results=True,
        frame=(b"", b"\n"),
    ),
)
"""Reads and writes the lines of `codex exec --json`."""
