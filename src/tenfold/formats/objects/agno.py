"""Agno's messages, `agno.models.message.Message`, as OpenAI Chat messages. All of agno's providers have these."""

from __future__ import annotations

import base64
import json
import mimetypes
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agno.media import Audio, File, Image
from agno.models.message import Message
from agno.utils.message import normalize_tool_messages
from agno.utils.openai import process_image

from tenfold.core.wire.given_values import name_type
from tenfold.errors import BadInput


class AgnoConverter:
    """Converts agno's messages. See `Converter`."""

    wire = "openai-chat"

    def read(self, message: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - whatever stands in a list
        """See `Converter.read`. An older message with the results of several calls is one message for each."""
        if not isinstance(message, Message):
            raise BadInput(f"{name_type(message)} is no message of agno: pass agno.models.message.Message")
        return [_read_message(each) for each in normalize_tool_messages([message])]

    def build(self, messages: Sequence[Mapping[str, Any]]) -> list[Message]:
        """See `Converter.build`."""
        return [_build_message(message) for message in messages]


CONVERTER = AgnoConverter()


def _read_message(message: Message) -> dict[str, Any]:
    role = "system" if message.role == "developer" else message.role
    content, media = _read_content(message.content), list(_read_media(message))
    if not content and message.audio_output is not None:
        content = message.audio_output.transcript or ""
    if media:
        texts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        content = [*(texts if content else ()), *media]
    item: dict[str, Any] = {"role": role, "content": content}
    if role == "tool":
        item["tool_call_id"] = message.tool_call_id or ""
    elif message.reasoning_content:
        item["reasoning_content"] = message.reasoning_content
    if role != "tool" and message.tool_calls:
        item["tool_calls"] = [_read_call(call) for call in message.tool_calls]
    name = (message.tool_name if role == "tool" else "") or message.name
    return {**item, "name": name} if name else item


def _read_content(content: Any) -> str | list[dict[str, Any]]:  # noqa: ANN401 - agno lets everything pass
    """Reads what a message says. Parts are those of a provider; anything else is told as JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list) and all(isinstance(part, dict) and "type" in part for part in content):
        return list(content)
    if isinstance(content, list) and all(isinstance(part, str) for part in content):
        return "\n".join(content)
    return json.dumps(content, ensure_ascii=False, default=str)


def _read_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = dict(call.get("function") or {})
    if not isinstance(function.get("arguments"), str):
        function["arguments"] = json.dumps(function.get("arguments") or {}, ensure_ascii=False)
    return {**call, "type": "function", "function": function}


def _read_media(message: Message) -> Iterator[dict[str, Any]]:
    """Reads what stands beside the text. Nothing is downloaded: what is only named by its address stays a name."""
    for image in [*(message.images or ()), *filter(None, [message.image_output])]:
        yield process_image(image) or _read_name("image", image)
    for audio in message.audio or ():
        data = _read_bytes(audio)
        shape = {"data": base64.b64encode(data).decode() if data else "", "format": audio.format or "wav"}
        yield {"type": "input_audio", "input_audio": shape} if data else _read_name("audio", audio)
    for file in [*(message.files or ()), *filter(None, [message.file_output])]:
        name, data = file.filename or Path(str(file.filepath or "file")).name, _read_bytes(file)
        kind = file.mime_type or mimetypes.guess_type(name)[0] or "application/pdf"
        shape = {"filename": name, "file_data": f"data:{kind};base64,{base64.b64encode(data or b'').decode()}"}
        yield {"type": "file", "file": shape} if data else _read_name("file", file)
    for video in [*(message.videos or ()), *filter(None, [message.video_output])]:
        yield _read_name("video", video)


def _read_bytes(media: Any) -> bytes | None:  # noqa: ANN401 - a recording or a file
    if isinstance(media.content, str):
        return media.content.encode()
    if isinstance(media.content, bytes):
        return media.content
    path = Path(media.filepath) if media.filepath else None
    return path.read_bytes() if path is not None and path.is_file() else None


def _read_name(kind: str, media: Any) -> dict[str, Any]:  # noqa: ANN401 - any kind of media
    """Reads what cannot be in a Chat message as a text that says what it is."""
    return {"type": "text", "text": f"[{kind} {media.url or media.filepath or media.id or 'without a name'}]"}


def _build_message(message: Mapping[str, Any]) -> Message:
    content, fields = message.get("content"), dict[str, Any]()
    if isinstance(content, list):
        content, fields = _build_content(content)
    role = message["role"]
    for key in ("tool_calls", "tool_call_id", "reasoning_content"):
        if message.get(key):
            fields[key] = message[key]
    if message.get("name"):
        fields["tool_name" if role == "tool" else "name"] = message["name"]
    return Message(role=role, content=content, **fields)


def _build_content(parts: Sequence[Mapping[str, Any]]) -> tuple[Any, dict[str, list[Any]]]:
    """Builds the text, and what agno has beside it. Parts of other kinds stay as they are, in a list."""
    media: dict[str, list[Any]] = {}
    others: list[Mapping[str, Any]] = []
    for part in parts:
        match part:
            case {"type": "image_url", "image_url": {"url": str(url), **rest}}:
                kind, data = _split_data_url(url)
                source = {"content": data, "mime_type": kind} if data else {"url": url}
                media.setdefault("images", []).append(Image(**source, detail=rest.get("detail")))
            case {"type": "input_audio", "input_audio": {"data": str(text), "format": str(kind)}}:
                media.setdefault("audio", []).append(Audio(content=base64.b64decode(text), format=kind))
            case {"type": "file", "file": {"file_data": str(url), **rest}} if _split_data_url(url)[1]:
                kind, data = _split_data_url(url)
                known = kind if kind in File.valid_mime_types() else None
                media.setdefault("files", []).append(File(content=data, filename=rest.get("filename"), mime_type=known))
            case _:
                others.append(part)
    if all(part.get("type") == "text" for part in others):
        return "\n".join(part["text"] for part in others), media
    return [dict(part) for part in others], media


def _split_data_url(url: str) -> tuple[str, bytes]:
    head, _, data = url.partition(",")
    is_data = head.startswith("data:") and head.endswith(";base64")
    return (head[5:-7], base64.b64decode(data)) if is_data else ("", b"")
