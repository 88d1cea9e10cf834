"""Sessions of goose: lines with or without a header, and what `goose session export` writes.

docs/formats/agents.md describes the mapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from tenfold.core.record.message import Message, Part, get_text, get_tool_calls, get_tool_result
from tenfold.core.wire.foreign_shapes import has_shape
from tenfold.errors import UnknownRole
from tenfold.formats.content_blocks import (
    list_texts,
    make_answer,
    make_result,
    make_turn,
    parse_blocks,
    render_arguments,
)
from tenfold.formats.item_lists import Record, RecordFormat, RecordRules
from tenfold.formats.json_items import get_object, list_objects
from tenfold.formats.message_parts import parse_call

_CALLS = ("toolRequest", "frontendToolRequest")


def _parse(value: dict[str, Any]) -> Record:
    if "role" not in value:
        return Record(kind="header")
    role, blocks = value["role"], list_objects(value, "content")
    if role == "assistant":
        return Record([make_answer(parse_blocks(blocks, _parse_call))])
    if role != "user":
        raise UnknownRole(str(role))
    messages = make_turn(role, blocks, _parse_call, _parse_result)
    if get_object(value, "metadata").get("userVisible") is False:  # goose wrote it, for instance a summary
        messages = [replace(m, origin="harness") if m.origin == "human" else m for m in messages]
    return Record(messages)


def _parse_call(block: Mapping[str, Any]) -> Part | None:
    if block.get("type") not in _CALLS:
        return None
    call = get_object(block, "toolCall")
    made = get_object(call, "value") or call
    return parse_call(block.get("id"), made.get("name"), made.get("arguments", made.get("error")))


def _parse_result(block: Mapping[str, Any]) -> Message | None:
    if block.get("type") != "toolResponse":
        return None
    result = get_object(block, "toolResult")
    output = result.get("value", result.get("error"))
    inner = output if isinstance(output, dict) else {}
    is_error = result.get("status") == "error" or inner.get("isError") is True
    content = inner.get("content", output)
    return make_result(block.get("id"), "", _strip_marks(content), is_error=is_error)


def _strip_marks(content: object) -> object:
    """Leaves out what says who should see a text: only the text itself is the output."""
    if not isinstance(content, list):
        return content
    return [
        {"type": b["type"], "text": b["text"]} if isinstance(b, dict) and {"type", "text"} <= b.keys() else b
        for b in content
    ]


def _render(messages: Sequence[Message]) -> list[dict[str, Any]]:
    out = []
    for message in messages:
        result = get_tool_result(message)
        content: list[dict[str, Any]] = [{"type": "text", "text": text} for text in list_texts(message)]
        for call in get_tool_calls(message):
            made = {"name": call.name, "arguments": render_arguments(call)}
            content.append({"type": "toolRequest", "id": call.id, "toolCall": {"status": "success", "value": made}})
        if result is not None:
            text = get_text(message)
            value = {"status": "success", "value": [{"type": "text", "text": text}]}
            body = {"status": "error", "error": text} if result.is_error else value
            content = [{"type": "toolResponse", "id": result.call_id, "toolResult": body}]
        role = "assistant" if message.role == "assistant" else "user"
        out.append({"role": role, "created": 0, "content": content, "metadata": {}})
    return out


def _is_message(value: dict[str, Any]) -> bool:
    is_header = "working_dir" in value and "message_count" in value and "conversation" not in value
    return is_header or has_shape(value, "goose")


GOOSE = RecordFormat(
    "goose",
    RecordRules(
        is_item=_is_message, parse=_parse, render=_render, paths=(("conversation",), ("messages",)), frame=(b"", b"\n")
    ),
)
"""Reads and writes the sessions of goose."""
