"""The messages of Strands, which are dicts in the form of Bedrock's Converse, as Anthropic's messages.

Blocks that Anthropic has under another name get that name. Others become its texts and documents, with what it takes
to build the same block again. Ids and metadata of messages are not read: Strands sends them to no provider.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from strands.types.session import decode_bytes_values, encode_bytes_values

from tenfold.core.wire.given_values import name_type
from tenfold.errors import BadInput

Block = dict[str, Any]
_OFFICE = "application/vnd.openxmlformats-officedocument"
_MEDIA_TYPES = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": f"{_OFFICE}.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
}
"""Of the formats of documents. An image of the format png is image/png, and so with videos and recordings."""
_FORMATS = {media: form for form, media in _MEDIA_TYPES.items()}
_OTHER = "application/vnd.strands+json"
"""The media type of a document that stands for a block of which nothing is known."""


class StrandsConverter:
    """Converts the messages of Strands. See `Converter`."""

    wire = "anthropic"

    def read(self, message: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - whatever stands in a list
        """See `Converter.read`."""
        match message:
            case {"role": "user" | "assistant" as role, "content": list(content)}:
                return [{"role": role, "content": read_blocks(content)}]
            case Mapping():
                shown = f"a dict with {', '.join(map(repr, message)) or 'nothing'}"
            case _:
                shown = name_type(message)
        raise BadInput(f'{shown} is no message of Strands: pass {{"role": "user", "content": [{{"text": "..."}}]}}')

    def build(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """See `Converter.build`."""
        return [{"role": message["role"], "content": build_blocks(message["content"])} for message in messages]


def read_blocks(content: Sequence[Any]) -> list[Block]:
    """Reads blocks of Converse: those of a message, a tool's result, or a system prompt. Raises `BadInput`."""
    blocks: list[Block] = []
    for block in content:
        if not isinstance(block, Mapping) or not block:
            raise BadInput(f'{name_type(block)} is no block of Strands: pass a dict such as {{"text": "..."}}')
        if "cachePoint" in block and blocks and "cache_control" not in blocks[-1]:
            blocks[-1]["cache_control"] = {**block["cachePoint"], "type": "ephemeral"}
        else:
            blocks.append(_read_block(block) or _read_other(block))
    return blocks


def _read_block(block: Mapping[str, Any]) -> Block | None:
    match block:
        case {"text": str(text)}:
            return {"type": "text", "text": text}
        case {"toolUse": {"toolUseId": call, "name": name, "input": arguments, **more}}:
            return {"type": "tool_use", "id": call, "name": name, "input": arguments, **_keep(more)}
        case {"toolResult": {"toolUseId": call, "content": list(content), **more}}:
            failed = {"is_error": True} if more.pop("status", "") == "error" else {}
            result = {"type": "tool_result", "tool_use_id": call, "content": read_blocks(content)}
            return {**result, **failed, **_keep(more)}
        case {"reasoningContent": {"reasoningText": {"text": str(text), **more}}}:
            return _add({"type": "thinking", "thinking": text}, more)
        case {"reasoningContent": {"redactedContent": bytes(data)}}:
            return {"type": "redacted_thinking", "data": b64encode(data).decode()}
        case {"json": value}:
            return {"type": "text", "text": json.dumps(value, ensure_ascii=False, default=str), **_keep("json")}
        case {"guardContent": {"text": {"text": str(text), **more}}}:
            return {"type": "text", "text": text, **_keep({"guard": more})}
        case {"citationsContent": {"content": list(said)} as cited}:
            return {"type": "text", "text": "".join(each["text"] for each in said), "citations": cited}
    kind = next(iter(block))
    return _read_media(kind, block[kind]) if kind in ("image", "document", "video", "audio") else None


def _keep(value: object) -> Block:
    """Returns the field for what Anthropic's blocks have no field for."""
    return {"extra_content": value} if value else {}


def _add(block: Block, more: Mapping[Any, Any]) -> Block:
    return {**block, **more}


def _read_media(kind: str, media: Mapping[str, Any]) -> Block | None:
    """Reads an image, or any other medium as a document. None if it says neither its bytes nor its address."""
    form = media.get("format", "")
    media_type = _MEDIA_TYPES.get(form, form) if kind == "document" else f"{kind}/{form}"
    match media.get("source"):
        case {"bytes": bytes(data)}:
            source = _read_bytes(data, media_type)
        case {"location": {"type": "s3", "uri": str(address), **place}}:
            source = _add({"type": "url", "url": address, "media_type": media_type}, place)
        case _:
            return None
    title = {"title": media["name"]} if "name" in media else {}
    more = {key: value for key, value in media.items() if key not in ("format", "source", "name")}
    return {"type": "image" if kind == "image" else "document", **title, "source": source, **_keep(more)}


def _read_bytes(data: bytes, media_type: str) -> Block:
    """Reads a text as what it says, so that it can be searched."""
    if media_type.startswith("text/"):
        try:
            return {"type": "text", "media_type": media_type, "data": data.decode("utf-8")}
        except UnicodeDecodeError:
            pass
    return {"type": "base64", "media_type": media_type, "data": b64encode(data).decode()}


def _read_other(block: Mapping[str, Any]) -> Block:
    text = json.dumps(encode_bytes_values(dict(block)), ensure_ascii=False, default=str)
    source = {"type": "text", "media_type": _OTHER, "data": text}
    return {"type": "document", "title": next(iter(block)), "source": source}


def build_blocks(content: str | Sequence[Mapping[str, Any]]) -> list[Block]:
    """Builds blocks of Converse from those that `read_blocks` gave, and others."""
    if isinstance(content, str):
        return [{"text": content}]
    blocks: list[Block] = []
    for block in content:
        blocks.append(_build_block(block))
        if "cache_control" in block:
            blocks.append({"cachePoint": {**block["cache_control"], "type": "default"}})
    return blocks


def _build_block(block: Mapping[str, Any]) -> Block:
    match block:
        case {"citations": Mapping() as cited}:
            return {"citationsContent": cited}
        case {"type": "text", "text": text, "extra_content": "json"}:
            return {"json": json.loads(text)}
        case {"type": "text", "text": text, "extra_content": {"guard": more}}:
            return {"guardContent": {"text": {"text": text, **more}}}
        case {"type": "text", "text": text}:
            return {"text": text}
        case {"type": "tool_use"}:
            use = {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}
            return {"toolUse": {**use, **block.get("extra_content", {})}}
        case {"type": "tool_result"}:
            status = "error" if block.get("is_error") else "success"
            result = {"toolUseId": block["tool_use_id"], "status": status}
            more = block.get("extra_content", {})
            return {"toolResult": {**result, "content": build_blocks(block.get("content", "")), **more}}
        case {"type": "thinking"}:
            more = {key: value for key, value in block.items() if key not in ("type", "thinking", "cache_control")}
            return {"reasoningContent": {"reasoningText": {"text": block["thinking"], **more}}}
        case {"type": "redacted_thinking"}:
            return {"reasoningContent": {"redactedContent": b64decode(block["data"])}}
        case {"source": {"media_type": media_type, "data": data}} if media_type == _OTHER:
            return dict(decode_bytes_values(json.loads(data)))
        case {"type": "image" | "document" as kind, "source": Mapping() as source}:
            return _build_media(kind, block, source)
    return {"text": json.dumps(block, ensure_ascii=False)}


def _build_media(kind: str, block: Mapping[str, Any], source: Mapping[str, Any]) -> Block:
    media_type = source.get("media_type", "")
    family, _, form = media_type.partition("/")
    kind = family if family in ("image", "video", "audio") else kind
    if kind == "document":
        form = _FORMATS.get(media_type, media_type or "txt")
    title = {"name": block.get("title", "document")} if kind == "document" else {}
    match source:
        case {"type": "url", "url": address, **place}:
            place.pop("media_type", None)
            built: Block = {"location": {"type": "s3", "uri": address, **place}}
        case {"type": "base64", "data": data}:
            built = {"bytes": b64decode(data)}
        case _:
            built = {"bytes": str(source.get("data", "")).encode()}
    return {kind: {"format": form, **title, "source": built, **block.get("extra_content", {})}}


CONVERTER = StrandsConverter()
