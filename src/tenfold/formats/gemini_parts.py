"""Records whose content is in the parts of Google's API: events of Google ADK, and the chats of Qwen Code.

docs/formats/frameworks.md and docs/formats/agents.md describe the mapping.
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
    make_result,
    make_turn,
    parse_blocks,
    render_arguments,
)
from tenfold.formats.item_lists import Record, RecordFormat, RecordRules
from tenfold.formats.json_items import get_object, list_objects
from tenfold.formats.message_parts import parse_call
from tenfold.formats.session_draft import parse_token_count


def parse_content(content: Mapping[str, Any], role: object) -> list[Message]:
    """Parses a content. Raises `UnknownRole` for a role that is neither the user's nor the model's."""
    parts = list_objects(content, "parts")
    if role in ("model", "assistant"):
        return [make_answer(parse_blocks(parts, _parse_part))]
    return make_turn(role, parts, _parse_part, _parse_response)


def _get(fields: Mapping[str, Any], camel: str, snake: str) -> dict[str, Any]:
    return get_object(fields, camel) or get_object(fields, snake)


def _parse_part(part: Mapping[str, Any]) -> Part | None:
    call = _get(part, "functionCall", "function_call")
    if call:
        return parse_call(call.get("id"), call.get("name"), call.get("args"))
    text = part.get("text")
    if isinstance(text, str):
        return Thinking(text) if part.get("thought") is True else Text(text)
    return None


def _parse_response(part: Mapping[str, Any]) -> Message | None:
    response = _get(part, "functionResponse", "function_response")
    if not response:
        return None
    body = response.get("response")
    output = next(iter(body.values())) if isinstance(body, dict) and len(body) == 1 else body
    is_error = isinstance(body, dict) and set(body) == {"error"}
    return make_result(response.get("id"), response.get("name"), output, is_error=is_error)


def parse_usage(value: Mapping[str, Any], model: object) -> Usage | None:
    """Parses the usage of an answer."""
    report = _get(value, "usageMetadata", "usage_metadata")
    numbers = [
        parse_token_count(report.get(camel, report.get(snake)))
        for camel, snake in (
            ("promptTokenCount", "prompt_token_count"),
            ("candidatesTokenCount", "candidates_token_count"),
            ("cachedContentTokenCount", "cached_content_token_count"),
        )
    ]
    return Usage(numbers[0], numbers[1], numbers[2], 0, str(model or "")) if numbers[0] else None


def render_content(message: Message) -> dict[str, Any]:
    """Renders a message as a content."""
    result = get_tool_result(message)
    if result is not None:
        key = "error" if result.is_error else "output"
        body = {"id": result.call_id, "name": result.name or "tool", "response": {key: get_text(message)}}
        return {"role": "user", "parts": [{"functionResponse": body}]}
    parts: list[dict[str, Any]] = [{"text": text} for text in list_texts(message)]
    parts += [
        {"functionCall": {"id": call.id, "name": call.name, "args": render_arguments(call)}}
        for call in get_tool_calls(message)
    ]
    return {"role": "model" if message.role == "assistant" else "user", "parts": parts}


# -- Google ADK --------------------------------------------------------------------------------------------------------


def _parse_event(value: dict[str, Any]) -> Record:
    content = get_object(value, "content")
    if not content or value.get("partial") is True:
        return Record(kind="event")
    role = content.get("role") or ("user" if value.get("author") == "user" else "model")
    return Record(parse_content(content, role), parse_usage(value, value.get("modelVersion")))


def _render_events(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [
        {"author": "agent" if m.role == "assistant" else "user", "content": render_content(m), "actions": {}}
        for m in messages
    ]


ADK = RecordFormat(
    "adk",
    RecordRules(
        parse=_parse_event, render=_render_events, paths=(("events",), ("session", "events")), session_keys=("id",)
    ),
)
"""Reads and writes sessions and lists of events of Google ADK."""


# -- Qwen Code ---------------------------------------------------------------------------------------------------------


def _parse_chat_record(value: dict[str, Any]) -> Record:
    message = get_object(value, "message")
    if not message:
        return Record(kind=str(value.get("subtype") or value.get("type")))
    role = message.get("role")
    if not isinstance(role, str):
        raise UnknownRole(str(role))
    return Record(parse_content(message, role), parse_usage(value, value.get("model")))


def _render_chat_records(messages: Sequence[Message]) -> list[dict[str, Any]]:
    kinds = {"assistant": "assistant", "tool": "tool_result"}
    return [{"type": kinds.get(m.role, "user"), "message": render_content(m)} for m in messages]


def _is_chat_record(value: dict[str, Any]) -> bool:
    return "uuid" in value and "parentUuid" in value and isinstance(get_object(value, "message").get("parts"), list)


QWEN = RecordFormat(
    "qwen-code",
    RecordRules(
        is_item=_is_chat_record,
        parse=_parse_chat_record,
        render=_render_chat_records,
        paths=(),
        session_keys=("sessionId",),
        id_key="uuid",
        parent_key="parentUuid",
        frame=(b"", b"\n"),
    ),
)
"""Reads and writes the chats that Qwen Code records."""
