"""The messages of Inspect: `ChatMessageUser` and the others, as OpenAI Chat messages.

What Chat has no place for (the id, the source, signed reasoning, server tools, ...) stands in `extra_content`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageBase,
    ChatMessageTool,
    Content,
    ContentAudio,
    ContentDocument,
    ContentImage,
    ContentReasoning,
    ContentText,
    ContentToolUse,
    ContentVideo,
)
from inspect_ai.tool import ToolCall
from pydantic import TypeAdapter

from tenfold.core.wire.given_values import name_type
from tenfold.errors import BadInput

Item = dict[str, Any]
_MESSAGE: TypeAdapter[Any] = TypeAdapter(ChatMessage)
_CONTENT: TypeAdapter[Any] = TypeAdapter(Content)
_CALL: TypeAdapter[Any] = TypeAdapter(ToolCall)
_BESIDE = {"role", "content", "tool_calls", "function"}
"""Fields that Chat has a place for. Others are kept as they are."""


class InspectConverter:
    """Converts the messages of Inspect. See `Converter`."""

    wire = "openai-chat"

    def read(self, message: Any) -> list[Item]:  # noqa: ANN401 - whatever stands in a list
        """See `Converter.read`."""
        if not isinstance(message, ChatMessageBase):
            raise BadInput(f"{name_type(message)} is no message of Inspect: pass ChatMessageUser(content=...)")
        item: Item = {"role": message.role}
        more = message.model_dump(mode="json", exclude_none=True, exclude=_BESIDE, fallback=str)
        content, places = _read_content(message.content)
        if isinstance(message, ChatMessageTool):
            item |= {"tool_call_id": more.pop("tool_call_id", ""), "name": message.function or ""}
            if message.error is not None:  # as Inspect tells the model
                content, places = f"Error: {message.error.message}", None
                more["output"] = _dump(message.content)
        if isinstance(message, ChatMessageAssistant):
            thoughts = [each for each in message.content_list if isinstance(each, ContentReasoning)]
            if thought := "\n".join(filter(None, map(_get_thought, thoughts))):
                item["reasoning_content"] = thought
            if message.tool_calls:
                item["tool_calls"] = [_read_call(call) for call in message.tool_calls]
        if places is not None:
            more["content"] = places
        return [{**item, "content": content, "extra_content": more}]

    def build(self, messages: Sequence[Mapping[str, Any]]) -> list[ChatMessageBase]:
        """See `Converter.build`."""
        return [_build_message(message) for message in messages]


def _dump(content: str | list[Any]) -> Any:  # noqa: ANN401 - JSON
    if isinstance(content, str):
        return content
    return [part.model_dump(mode="json", exclude_none=True, fallback=str) for part in content]


def _read_content(content: str | list[Any]) -> tuple[str | list[Item], list[Any] | None]:
    """Reads a content as parts of Chat. If they do not hold all of it, also returns what it takes to build it again.

    That is a list of the numbers of those parts that hold all, and of the others as they are.
    """
    if isinstance(content, str):
        return content, None
    parts: list[Item] = []
    places: list[Any] = []
    for part in content:
        read = _read_part(part)
        is_whole = read is not None and _build_part(read) == part
        places.append(len(parts) if is_whole else _dump([part])[0])
        parts += [] if read is None else [read]
    return parts or "", None if places == list(range(len(parts))) else places


def _read_part(part: Any) -> Item | None:  # noqa: ANN401 - one of many classes
    match part:
        case ContentText(text=text):
            return {"type": "text", "text": text}
        case ContentImage(image=image, detail=detail):
            return {"type": "image_url", "image_url": {"url": image, "detail": detail}}
        case ContentDocument(document=document, filename=name):
            return {"type": "file", "file": {"filename": name, "file_data": document}}
        case ContentAudio(audio=audio, format=form):
            return {"type": "input_audio", "input_audio": {"data": audio, "format": form}}
        case ContentVideo(video=video):
            return {"type": "video_url", "video_url": {"url": video}}
        case ContentToolUse(name=name, arguments=arguments, result=result, error=error):
            return {"type": "text", "text": f"[{name} {arguments}]\n{error or result}"}
    return None


def _get_thought(part: ContentReasoning) -> str:
    return (part.summary or "") if part.redacted else part.reasoning


def _read_call(call: ToolCall) -> Item:
    function = {"name": call.function, "arguments": json.dumps(call.arguments, ensure_ascii=False, default=str)}
    item: Item = {"id": call.id, "type": "function", "function": function}
    if call != ToolCall(call.id, call.function, call.arguments):
        more = _CALL.dump_python(call, mode="json", exclude_none=True, fallback=str)
        item["extra_content"] = {key: value for key, value in more.items() if key not in ("id", "function")}
    return item


def _build_message(message: Mapping[str, Any]) -> ChatMessageBase:
    more = dict(message.get("extra_content") or {})
    places = more.pop("content", None)
    content = more.pop("output") if "output" in more else _build_content(message.get("content") or "", places)
    fields: Item = {"role": message["role"], **more}
    if message["role"] == "tool":
        fields |= {"tool_call_id": message.get("tool_call_id"), "function": message.get("name") or None}
    if message["role"] == "assistant":
        thought = message.get("reasoning_content")
        if thought and not places:
            content = [ContentReasoning(reasoning=thought), *_list_parts(content)]
        if message.get("tool_calls"):
            fields["tool_calls"] = [_build_call(call) for call in message["tool_calls"]]
    built: ChatMessageBase = _MESSAGE.validate_python({**fields, "content": content})
    return built


def _build_content(content: str | Sequence[Item], places: Sequence[Any] | None) -> Any:  # noqa: ANN401 - text or parts
    parts = [] if isinstance(content, str) else list(map(_build_part, content))
    known = {place for place in places or () if isinstance(place, int)}
    if places and known <= set(range(len(parts))):
        return [parts[place] if isinstance(place, int) else place for place in places]
    return content if isinstance(content, str) else parts


def _list_parts(content: Any) -> list[Any]:  # noqa: ANN401 - text or parts
    return ([ContentText(text=content)] if content else []) if isinstance(content, str) else content


def _build_part(part: Mapping[str, Any]) -> Any:  # noqa: ANN401 - one of many classes
    match part:
        case {"type": "text", "text": text}:
            return ContentText(text=text)
        case {"type": "image_url", "image_url": {"url": url, **more}}:
            return ContentImage(image=url, detail=more.get("detail", "auto"))
        case {"type": "file", "file": {"filename": name, "file_data": data}}:
            return ContentDocument(document=data, filename=name)
        case {"type": "input_audio", "input_audio": {"data": data, "format": form}}:
            return ContentAudio(audio=data, format=form)
        case {"type": "video_url", "video_url": {"url": url}}:
            return ContentVideo(video=url, format="mp4")
    return ContentText(text=json.dumps(part, ensure_ascii=False))


def _build_call(call: Mapping[str, Any]) -> ToolCall:
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        arguments = {"arguments": function["arguments"]}
    more = {key: value for key, value in call.get("extra_content", {}).items() if key != "arguments"}
    built: ToolCall = _CALL.validate_python(
        {"id": call["id"], "function": function["name"], "arguments": arguments, **more}
    )
    return built


CONVERTER = InspectConverter()
