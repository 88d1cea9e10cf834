"""Records whose content is in the parts of Google's API: events of Google ADK, and the chats of Qwen Code.

docs/formats/frameworks.md and docs/formats/agents.md describe the mapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tenfold.core.record.entry import Usage
from tenfold.core.record.message import Message, Part, Text, Thinking, get_text, get_tool_calls, get_tool_result
from tenfold.formats.content_blocks import list_texts, make_result, make_turn, parse_call, render_arguments
from tenfold.formats.item_lists import Record, RecordFormat
from tenfold.formats.json_items import get_object, list_objects
from tenfold.formats.session_draft import build_usage


def parse_content(content: Mapping[str, Any], role: object) -> list[Message]:
    """Parses a content. Raises `UnknownRole` for a role that is neither the user's nor the model's."""
    return make_turn(role, list_objects(content, "parts"), _parse_part, _parse_response)


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
    if "prompt_token_count" in report:
        keys = ("prompt_token_count", "candidates_token_count", "cached_content_token_count", "")
    else:
        keys = ("promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount", "")
    return build_usage(report, keys, model)


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


class Adk(RecordFormat):
    """Reads and writes sessions and lists of events of Google ADK."""

    name = "adk"
    part_wires = ("gemini",)
    paths = (("events",), ("session", "events"))
    session_keys = ("id",)

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses an event."""
        content = get_object(value, "content")
        if not content or value.get("partial") is True:
            return Record(kind="event")
        role = content.get("role") or ("user" if value.get("author") == "user" else "model")
        return Record(parse_content(content, role), parse_usage(value, value.get("modelVersion")))

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages as events."""
        return [
            {"author": "agent" if m.role == "assistant" else "user", "content": render_content(m), "actions": {}}
            for m in messages
        ]


# -- Qwen Code ---------------------------------------------------------------------------------------------------------


class QwenCode(RecordFormat):
    """Reads and writes the chats that Qwen Code records."""

    name = "qwen-code"
    part_wires = ("gemini",)
    paths = ()
    session_keys = ("sessionId",)
    id_key = "uuid"
    parent_key = "parentUuid"
    frame = (b"", b"\n")

    def is_item(self, value: dict[str, Any]) -> bool:
        """Looks for a line of the tree with a content of Google's."""
        return "uuid" in value and "parentUuid" in value and isinstance(get_object(value, "message").get("parts"), list)

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses a line."""
        message = get_object(value, "message")
        if not message:
            return Record(kind=str(value.get("subtype") or value.get("type")))
        return Record(parse_content(message, message.get("role")), parse_usage(value, value.get("model")))

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages as lines."""
        kinds = {"assistant": "assistant", "tool": "tool_result"}
        return [{"type": kinds.get(m.role, "user"), "message": render_content(m)} for m in messages]
