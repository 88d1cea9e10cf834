"""Messages of LangChain in their three JSON forms, alone or in a state or checkpoint of LangGraph.

`messages_to_dict` writes `{"type", "data"}`, `dumpd` and `dumps` write constructors with `lc`, and `model_dump` writes
the fields themselves. docs/formats/frameworks.md describes the mapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenfold.core.record.entry import Usage
from tenfold.core.record.message import Message, Part, get_text, get_tool_calls, get_tool_result
from tenfold.errors import UnknownRole
from tenfold.formats.content_blocks import (
    list_texts,
    make_answer,
    make_prompt,
    make_result,
    parse_blocks,
    render_arguments,
)
from tenfold.formats.item_lists import Record, RecordFormat, RecordRules
from tenfold.formats.json_items import get_object, list_objects
from tenfold.formats.message_parts import parse_call
from tenfold.formats.session_draft import parse_token_count

_CLASSES: Mapping[str, str] = {
    "Human": "human",
    "AI": "ai",
    "System": "system",
    "Tool": "tool",
    "Function": "function",
    "Chat": "chat",
    "Remove": "remove",
}
_ROLES: Mapping[str, str] = {"human": "user", "user": "user", "system": "system", "developer": "system"}
_CALL_BLOCKS = frozenset({"tool_use", "function_call", "tool_call", "tool_call_chunk", "input_json_delta"})
"""Blocks of a content that repeat the calls of the message."""
_PATHS = (
    ("messages",),
    ("values", "messages"),
    ("channel_values", "messages"),
    ("checkpoint", "channel_values", "messages"),
    ("state", "messages"),
    ("state", "values", "messages"),
    ("output", "messages"),
    ("input", "messages"),
    ("kwargs", "messages"),
)
"""Where a state, a checkpoint or a snapshot of LangGraph has its messages."""


def _get_fields(value: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Returns the type of a message and its fields, whichever form it has."""
    if value.get("lc") == 1 and isinstance(value.get("id"), list):
        name = str((value["id"] or [""])[-1]).removesuffix("Chunk").removesuffix("Message")
        return _CLASSES.get(name, name), get_object(value, "kwargs")
    kind = str(value.get("type")).removesuffix("MessageChunk").lower()
    return kind, value["data"] if isinstance(value.get("data"), dict) else value


def _parse(value: dict[str, Any]) -> Record:
    kind, fields = _get_fields(value)
    if kind == "remove":
        return Record(kind="remove")
    role = str(fields.get("role")) if kind == "chat" else kind
    if role in ("ai", "assistant"):
        return Record([_parse_answer(fields)], _parse_usage(fields))
    if role in ("tool", "function"):
        is_error = fields.get("status") == "error"
        return Record(
            [make_result(fields.get("tool_call_id"), fields.get("name"), fields.get("content"), is_error=is_error)]
        )
    if role not in _ROLES:
        raise UnknownRole(str(role))
    return Record([make_prompt(_ROLES[role], parse_blocks(fields.get("content")))])


def _parse_answer(fields: Mapping[str, Any]) -> Message:
    content = fields.get("content")
    calls = [
        parse_call(c.get("id"), c.get("name"), c.get("args"))
        for key in ("tool_calls", "invalid_tool_calls")
        for c in list_objects(fields, key)
    ]
    more = get_object(fields, "additional_kwargs")
    if not calls:
        functions = [(c.get("id"), c.get("function")) for c in list_objects(more, "tool_calls")]
        functions += [("", more.get("function_call"))]
        calls = [parse_call(id_, f.get("name"), f.get("arguments")) for id_, f in functions if isinstance(f, dict)]
    blocks = content if isinstance(content, list) else [content] if content else []
    kept = [b for b in blocks if not (isinstance(b, dict) and calls and str(b.get("type")) in _CALL_BLOCKS)]
    thoughts: list[Part] = []
    if isinstance(thought := more.get("reasoning_content"), str) and thought:
        thoughts = parse_blocks([{"type": "reasoning", "text": thought}])
    return make_answer([*thoughts, *parse_blocks(kept), *calls])


def _parse_usage(fields: Mapping[str, Any]) -> Usage | None:
    match fields.get("usage_metadata"):
        case {"input_tokens": int(prompt), "output_tokens": int(output)} if prompt > 0:
            details = get_object(get_object(fields, "usage_metadata"), "input_token_details")
            about = get_object(fields, "response_metadata")
            read, written = (parse_token_count(details.get(key)) for key in ("cache_read", "cache_creation"))
            return Usage(prompt, output, read, written, str(about.get("model_name") or about.get("model") or ""))
    return None


def _render(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [_render_message(message) for message in messages]


def _render_message(message: Message) -> dict[str, Any]:
    result = get_tool_result(message)
    if result is not None:
        status = "error" if result.is_error else "success"
        about = {"tool_call_id": result.call_id, "name": result.name, "status": status}
        return {"type": "tool", "data": {"content": get_text(message), **about}}
    data: dict[str, Any] = {"content": "\n".join(list_texts(message)), "additional_kwargs": {}}
    if message.role == "assistant":
        data["tool_calls"] = [
            {"name": c.name, "args": render_arguments(c), "id": c.id, "type": "tool_call"}
            for c in get_tool_calls(message)
        ]
    return {"type": {"user": "human", "assistant": "ai"}.get(message.role, message.role), "data": data}


LANGCHAIN = RecordFormat(
    "langchain", RecordRules(parse=_parse, render=_render, paths=_PATHS, session_keys=("thread_id",))
)
"""Reads and writes lists of LangChain's messages, and LangGraph's states that hold them."""
