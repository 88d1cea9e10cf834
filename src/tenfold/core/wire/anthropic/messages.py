"""Anthropic Messages: `{"role", "content": text | [blocks]}`.

A user message that mixes tool results, text of the harness and text of a person is split into several messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import assert_never

from msgspec import Raw

from tenfold.core.record.message import (
    Document,
    Image,
    Message,
    OpaquePart,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tenfold.core.wire import splice
from tenfold.core.wire.anthropic.profile import NAME, PROFILE
from tenfold.core.wire.base import DecodingContext, OutgoingMessage
from tenfold.core.wire.encoding import collect_blocks, fold_system, wrap_blocks
from tenfold.core.wire.segments import Chunk, ContentPart, ParsedMessage, decode_parts, split_content
from tenfold.core.wire.splice import Fields, build_array, build_object, quote

_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


# -- decoding ----------------------------------------------------------------------------------------------------------


def decode(natives: Iterable[ParsedMessage], context: DecodingContext) -> Iterator[Message]:
    """Decodes the native messages of a list: see `ListDecoder`."""
    for message in natives:
        role = message.get_role(_ROLES, "an Anthropic message")
        decode_block = partial(_decode_block, role, context)
        yield from split_content(message, role, decode_block, partial(context.find_origin, role))


def _decode_block(role: Role, context: DecodingContext, block: Raw) -> Part | Chunk:
    fields = splice.parse_object(block) or {}
    kind = splice.find_text(fields, "type")
    if kind is None:
        return OpaquePart("", bytes(block))
    call_id = splice.find_text(fields, "tool_use_id") if kind == "tool_result" and role == "user" else None
    if call_id is not None:
        name = context.find_tool_name(call_id)
        name = name if name is not None else splice.get_text(fields, "name")
        content = decode_parts(fields.get("content"), _decode_result_block)
        return Chunk("tool", "tool", (ToolResult(call_id, name, content, splice.is_true(fields.get("is_error"))),))
    decode = _READERS.get((role, kind)) or _READERS.get(("", kind))
    part = decode(fields) if decode is not None else None
    if part is None:
        is_compaction = role == "assistant" and kind in PROFILE.compaction_types
        has_effect = splice.find_text(fields, "content") is not None  # null content: it failed
        return OpaquePart(kind, bytes(block), NAME if is_compaction and has_effect else "")
    if isinstance(part, ToolCall):
        context.add_calls((part,))
    return part


def _decode_result_block(block: Raw) -> ContentPart:
    fields = splice.parse_object(block) or {}
    kind = splice.get_text(fields, "type")
    result = splice.find_text(fields, "result") if not kind else None
    if result is not None:
        return Text(result)  # Cline writes its results as untyped objects
    decode = _READERS.get(("", kind))
    part = decode(fields) if decode is not None else None
    return part if isinstance(part, Text | Image | Document) else OpaquePart(kind, bytes(block))


def _decode_text(fields: Fields) -> Part | None:
    text = splice.find_text(fields, "text")
    return Text(text) if text is not None else None


def _decode_thinking(fields: Fields) -> Part | None:
    text = splice.find_text(fields, "thinking")
    return Thinking(text, splice.get_text(fields, "signature")) if text is not None else None


def _decode_tool_use(fields: Fields) -> Part | None:
    call, name = splice.find_text(fields, "id"), splice.find_text(fields, "name")
    if call is None or name is None:
        return None
    return ToolCall(call, name, bytes(fields["input"]).decode() if "input" in fields else "{}")


def _read_source(fields: Fields) -> tuple[str, str, str]:
    source = splice.parse_object(fields["source"]) if "source" in fields else None
    if source is None:
        return "", "", ""
    kind = splice.get_text(source, "type")
    data = splice.parse_string(source.get("url" if kind == "url" else "data"))
    return (kind, splice.get_text(source, "media_type"), data) if data is not None else ("", "", "")


def _decode_image(fields: Fields) -> Part | None:
    kind, media, data = _read_source(fields)
    if kind == "base64":
        return Image(media_type=media, data=data)
    return Image(url=data) if kind == "url" else None


def _decode_document(fields: Fields) -> Part | None:
    kind, media, data = _read_source(fields)
    name = splice.get_text(fields, "title")
    if kind == "base64":
        return Document(name, media, data=data)
    if kind == "text":
        return Document(name, media, text=data)
    return Document(name, url=data) if kind == "url" else None


def _decode_file(fields: Fields) -> Part | None:
    path, content = splice.find_text(fields, "path"), splice.find_text(fields, "content")
    return Document(path, "text/plain", text=content) if path is not None and content is not None else None


_READERS: Mapping[tuple[str, str], Callable[[Fields], Part | None]] = {
    ("", "text"): _decode_text,
    ("", "image"): _decode_image,
    ("", "document"): _decode_document,
    ("user", "file"): _decode_file,
    ("assistant", "thinking"): _decode_thinking,
    ("assistant", "tool_use"): _decode_tool_use,
}


# -- encoding ----------------------------------------------------------------------------------------------------------


def render_batch(batch: Sequence[OutgoingMessage]) -> list[bytes]:
    """Renders messages that make one native message: see `BatchRenderer`."""
    collected = collect_blocks(batch, "content", _render_blocks)
    if not collected.blocks:
        return []
    role = "assistant" if batch[0].message.role == "assistant" else "user"
    if all(each.message.role == "system" and each.own_native is not None for each in batch):
        role = "system"
    if len(collected.blocks) == 1 and not collected.natives:
        only_block = splice.parse_object(collected.blocks[0]) or {}
        if set(only_block) == {"type", "text"} and splice.parse_string(only_block["type"]) == "text":
            return [build_object(role=quote(role), content=bytes(only_block["text"]))]
    return [wrap_blocks(collected, role, "content", batch[0])]


def _render_blocks(outgoing: OutgoingMessage) -> list[bytes]:
    if outgoing.message.role == "system":
        text = fold_system(outgoing)
        return [_render_text(text)] if text else []
    return [block for part in outgoing.message.parts for block in _render_part(part, outgoing)]


def _render_part(part: Part, outgoing: OutgoingMessage) -> list[bytes]:
    match part:
        case Text(text):
            if text.strip():
                return [_render_text(text)]
            outgoing.note_empty_text()
        case Thinking(text, signature):
            if signature and not outgoing.is_foreign:
                return [build_object(type=b'"thinking"', thinking=quote(text), signature=quote(signature))]
            outgoing.note_lost_thinking(part, "not this provider's")
        case ToolCall(_, name):
            call_id, arguments = quote(outgoing.assign_call_id(part)), outgoing.render_arguments(part)
            return [build_object(type=b'"tool_use"', id=call_id, name=quote(name), input=arguments)]
        case ToolResult():
            return [_render_result(part, outgoing)]
        case Image():
            return [_render_image(part, outgoing)]
        case Document():
            return [_render_document(part, outgoing)]
        case OpaquePart():
            return outgoing.render_opaque(part)
        case _:
            assert_never(part)
    return []


def _render_text(text: str) -> bytes:
    return build_object(type=b'"text"', text=quote(text))


def _render_result(result: ToolResult, outgoing: OutgoingMessage) -> bytes:
    fields = {"type": b'"tool_result"', "tool_use_id": quote(outgoing.ledger.assign_result_id(result))}
    if len(result.content) == 1 and isinstance(result.content[0], Text):
        fields["content"] = quote(result.content[0].text)
    elif blocks := [block for part in result.content for block in _render_part(part, outgoing)]:
        fields["content"] = build_array(blocks)
    if result.is_error:
        fields["is_error"] = b"true"
    return build_object(**fields)


def _render_image(part: Image, outgoing: OutgoingMessage) -> bytes:
    if part.data:
        media = quote(part.media_type or "image/png")
        source = build_object(type=b'"base64"', media_type=media, data=quote(part.data))
    elif part.url:
        source = build_object(type=b'"url"', url=quote(part.url))
    else:
        return _render_text(outgoing.replace_by_placeholder(part))
    return build_object(type=b'"image"', source=source)


def _render_document(part: Document, outgoing: OutgoingMessage) -> bytes:
    if part.text:
        source = build_object(type=b'"text"', media_type=b'"text/plain"', data=quote(part.text))
    elif part.data and part.media_type == "application/pdf":
        source = build_object(type=b'"base64"', media_type=b'"application/pdf"', data=quote(part.data))
    elif part.url:
        source = build_object(type=b'"url"', url=quote(part.url))
    else:
        return _render_text(outgoing.replace_by_placeholder(part))
    title = {"title": quote(part.name)} if part.name else {}
    return build_object(type=b'"document"', source=source, **title)
