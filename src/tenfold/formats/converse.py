"""Messages of Bedrock's Converse API, which Strands Agents stores, too. docs/formats/frameworks.md has the mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenfold.core.record.message import Message, Part, Text, Thinking, ToolCall, get_text, get_tool_result
from tenfold.core.wire.foreign_shapes import has_shape
from tenfold.formats.content_blocks import (
    make_answer,
    make_prompt,
    make_result,
    make_turn,
    parse_blocks,
    render_arguments,
)
from tenfold.formats.item_lists import Record, RecordFormat, RecordRules
from tenfold.formats.json_items import get_object, list_objects
from tenfold.formats.message_parts import parse_call


def _get_message(value: dict[str, Any]) -> dict[str, Any]:
    """Returns the message itself: Strands stores it in an envelope."""
    return value["message"] if isinstance(value.get("message"), dict) else value


def _parse(value: dict[str, Any]) -> Record:
    message = _get_message(value)
    role, blocks = message.get("role"), list_objects(message, "content")
    if role == "assistant":
        return Record([make_answer(parse_blocks(blocks, _parse_block))])
    return Record(make_turn(role, blocks, _parse_block, _parse_result))


def _parse_block(block: Mapping[str, Any]) -> Part | None:
    match block:
        case {"toolUse": {"name": name, **call}}:
            return parse_call(call.get("toolUseId"), name, call.get("input"))
        case {"reasoningContent": {"reasoningText": {"text": str(text), **rest}}}:
            return Thinking(text, str(rest.get("signature") or ""))
        case {"citationsContent": {"content": [*contents]}}:
            return Text("".join(c["text"] for c in contents if isinstance(c, dict) and isinstance(c.get("text"), str)))
    return None


def _parse_result(block: Mapping[str, Any]) -> Message | None:
    if not isinstance(block.get("toolResult"), dict):
        return None
    result = get_object(block, "toolResult")
    output = [each.get("json", each) for each in list_objects(result, "content")]
    content = output[0] if len(output) == 1 and "text" not in output[0] else output
    return make_result(result.get("toolUseId"), "", content, is_error=result.get("status") == "error")


def _list_opening(request: Mapping[str, Any]) -> list[Message]:
    """Lists the system prompt of a request."""
    blocks = list_objects(request, "system")
    return [make_prompt("system", parse_blocks(blocks))] if blocks else []


def _render(messages: Sequence[Message]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _render_blocks(message)
        if out and out[-1]["role"] == role == "user":
            out[-1]["content"] += blocks
        else:
            out.append({"role": role, "content": blocks})
    return out


def _render_blocks(message: Message) -> list[dict[str, Any]]:
    result = get_tool_result(message)
    if result is not None:
        status = "error" if result.is_error else "success"
        content = [{"text": get_text(message)}]
        return [{"toolResult": {"toolUseId": result.call_id, "content": content, "status": status}}]
    out: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, Text):
            out.append({"text": part.text})
        elif isinstance(part, ToolCall):
            out.append({"toolUse": {"toolUseId": part.id, "name": part.name, "input": render_arguments(part)}})
    return out


def _is_message(value: dict[str, Any]) -> bool:
    return has_shape(_get_message(value), "bedrock-converse")


CONVERSE = RecordFormat("bedrock-converse", RecordRules(is_item=_is_message, parse=_parse, render=_render))
"""Reads and writes lists of Converse messages."""
