"""The messages of Microsoft's Agent Framework: `Message` with its `Content`, as OpenAI Chat messages.

What OpenAI Chat has no place for stands in the field `properties` of a message, a call or a part, as the framework
itself writes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from agent_framework import Content, Message

from tenfold.core.wire.given_values import name_type
from tenfold.errors import BadInput

_CALL = frozenset({"type", "call_id", "name", "arguments"})
_RESULT = frozenset({"type", "call_id", "result", "items"})
_FILE = frozenset({"type", "uri", "media_type"})


class AgentFrameworkConverter:
    """Converts the messages of the Agent Framework. See `Converter`."""

    wire = "openai-chat"

    def read(self, message: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - whatever stands in a list
        """See `Converter.read`. Each result of a tool is a message of its own."""
        if not isinstance(message, Message):
            raise BadInput(
                f"{name_type(message)} is no message of the Agent Framework: pass agent_framework.Message, as in "
                'Message("user", ["Hello"])'
            )
        items: list[dict[str, Any]] = []
        for content in message.contents:
            if content.type == "function_result" or message.role == "tool":
                items.append(_read_result(content))
                continue
            if not items or items[-1]["role"] == "tool":
                items.append(_begin(message))
            _add(items[-1], content)
        return [_simplify(item) for item in items or [_begin(message)]]

    def build(self, messages: Sequence[Mapping[str, Any]]) -> list[Message]:
        """See `Converter.build`."""
        return [
            Message(message["role"], list(_build_contents(message)), author_name=message.get("name"))
            for message in messages
        ]


# -- reading -----------------------------------------------------------------------------------------------------------


def _begin(message: Message) -> dict[str, Any]:
    return {"role": message.role, "content": []} | ({"name": message.author_name} if message.author_name else {})


def _add(item: dict[str, Any], content: Content) -> None:
    """Adds a content to a message: a thought and a call have fields of their own."""
    if content.type == "text_reasoning":
        item["reasoning_content"] = item.get("reasoning_content", "") + (content.text or "")
        item.setdefault("reasoning_details", []).append(content.to_dict())
    elif content.type == "function_call":
        given = content.arguments
        arguments = given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False, default=str)
        function = {"name": content.name or "", "arguments": arguments}
        call = {"id": content.call_id or "", "type": "function", "function": function}
        item.setdefault("tool_calls", []).append(call | _read_rest(content, _CALL))
    else:
        item["content"].append(_read_part(content))


def _read_result(content: Content) -> dict[str, Any]:
    item: dict[str, Any] = {"role": "tool", "tool_call_id": content.call_id or ""}
    if content.type != "function_result":
        return {**item, "content": [_read_part(content)]}
    parts = [_read_part(part) for part in content.items or ()]
    return {**item, "content": parts or str(content.result or "")} | _read_rest(content, _RESULT)


def _read_part(content: Content) -> dict[str, Any]:
    """Reads a content as a part of a message. A part of another type than text, image and file is the framework's."""
    uri, media = content.uri or "", content.media_type or ""
    if content.type in ("data", "uri") and media.startswith("image/"):
        return {"type": "image_url", "image_url": {"url": uri}, "media_type": media} | _read_rest(content, _FILE)
    if content.type == "data":
        name = str(content.name or content.additional_properties.get("filename") or "")
        return {"type": "file", "file": {"file_data": uri, "filename": name}} | _read_rest(content, _FILE)
    return {key: value for key, value in content.to_dict().items() if value or key == "text"}


def _read_rest(content: Content, known: frozenset[str]) -> dict[str, Any]:
    rest = {key: value for key, value in content.to_dict().items() if key not in known and value}
    return {"properties": rest} if rest else {}


def _simplify(item: dict[str, Any]) -> dict[str, Any]:
    """Writes a single text as a string, and nothing beside calls as null."""
    parts = item["content"]
    if len(parts) == 1 and isinstance(parts, list) and parts[0].keys() == {"type", "text"}:
        return {**item, "content": parts[0]["text"]}
    return {**item, "content": parts or (None if item.get("tool_calls") else "")}


# -- building ----------------------------------------------------------------------------------------------------------


def _build_contents(message: Mapping[str, Any]) -> Iterator[Content]:
    content = message.get("content") or ()
    parts = [Content.from_text(content)] if isinstance(content, str) else list(map(_build_part, content))
    if message["role"] == "tool":
        is_result = all(part.type in ("text", "data", "uri") for part in parts)
        yield from [_build_result(message, parts or [Content.from_text("")])] if is_result else parts
        return
    if details := message.get("reasoning_details"):
        yield from map(Content.from_dict, details)
    elif thought := message.get("reasoning_content"):
        yield Content.from_text_reasoning(text=thought)
    yield from chain(parts, map(_build_call, message.get("tool_calls") or ()))


def _build_result(message: Mapping[str, Any], parts: list[Content]) -> Content:
    result = Content.from_function_result(message["tool_call_id"], result=parts)
    return Content.from_dict({**result.to_dict(), **message.get("properties", {})})


def _build_call(call: Mapping[str, Any]) -> Content:
    function = call["function"]
    named = {"call_id": call["id"], "name": function["name"], "arguments": function["arguments"]}
    return Content.from_dict({"type": "function_call", **named, **call.get("properties", {})})


def _build_part(part: Mapping[str, Any]) -> Content:
    rest = part.get("properties", {})
    if part["type"] == "image_url":
        url = part["image_url"]["url"]
        return Content.from_uri(url, media_type=part.get("media_type") or "image/*", **rest)
    if part["type"] == "file":
        return Content.from_uri(part["file"]["file_data"], **rest)
    return Content.from_dict(part)


CONVERTER = AgentFrameworkConverter()
