"""Anthropic Messages: `{"role", "content": text | [blocks]}`.

A user message that mixes tool results, text of the harness and text of a person is split into several messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import assert_never

from msgspec import Raw

from tenfold.errors import UnknownRole
from tenfold.record.message import (
    Document,
    Image,
    Message,
    NativeBytes,
    OpaquePart,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    get_text,
)
from tenfold.wire import splice
from tenfold.wire.base import NO_PREFIX, DecodedPrefix, EncodedItem, EncodedList, Ledger, ToolNames
from tenfold.wire.marks import OPENING_STUB, SummaryConfirmer, find_origin, render_system_note
from tenfold.wire.media import render_placeholder
from tenfold.wire.profiles import COMPACTION_TYPES
from tenfold.wire.segments import (
    Chunk,
    EncodingBatch,
    batch_messages,
    build_envelope,
    extract_blocks,
    parse_fields,
    split_message,
)
from tenfold.wire.splice import Fields, build_array, build_object, quote

NAME = "anthropic"
_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


class Anthropic:
    """The Anthropic Messages wire."""

    name = NAME

    def decode(
        self, items: Sequence[bytes], *, confirm: SummaryConfirmer | None = None, prefix: DecodedPrefix = NO_PREFIX
    ) -> list[Message]:
        """See `Wire.decode`."""
        out: list[Message] = []
        names = ToolNames(prefix)
        for index, raw in enumerate(items, prefix.item_count):
            out.extend(
                _decode_message(raw, index, NativeBytes(NAME, raw, lead=b"," if index else b""), (names, confirm))
            )
        return out

    def encode(self, messages: Sequence[Message]) -> EncodedList:
        """See `Wire.encode`."""
        ledger = Ledger(NAME, messages)
        messages = ledger.add_missing_calls(messages)
        items: list[EncodedItem] = []
        system: list[str] = []
        for batch in batch_messages(messages, NAME, join_results=True):
            first = messages[batch.indices[0]]
            if batch.exact is not None:
                for index in batch.indices:
                    ledger.register_message(messages[index])
                _add_opening_stub(items, first.role, ledger, batch)
                items.append(EncodedItem(batch.exact, batch.indices, exact=True))
            elif first.role == "system" and not items:
                system.extend([text] if (text := get_text(first)).strip() else [])
            else:
                raw = _render_message(messages, batch, ledger)
                if raw is not None:
                    _add_opening_stub(items, first.role, ledger, batch)
                    items.append(EncodedItem(raw, batch.indices, exact=False))
        return ledger.finish(items, system)


def _add_opening_stub(items: list[EncodedItem], role: Role, ledger: Ledger, batch: EncodingBatch) -> None:
    if items or role != "assistant" or ledger.profile.opens_with_assistant:
        return
    ledger.note("opening_stub", batch.indices[0], "the list would open with an assistant message")
    items.append(EncodedItem(build_object(("role", b'"user"'), ("content", quote(OPENING_STUB))), (), exact=False))


# -- decoding ----------------------------------------------------------------------------------------------------------


def _decode_message(
    raw: bytes, index: int, native: NativeBytes, context: tuple[ToolNames, SummaryConfirmer | None]
) -> list[Message]:
    fields = parse_fields(raw, index)
    name = splice.parse_string(fields.get("role")) or ""
    role = _ROLES.get(name)
    if role is None:
        raise UnknownRole(f"message {index} has role {name!r}; an Anthropic message has one of {', '.join(_ROLES)}")
    content = fields.get("content")
    text = splice.parse_string(content)
    if text is not None:
        parts: tuple[Part, ...] = (Text(text),) if text else ()
        return [Message(role, parts, find_origin(role, text, context[1]), native=native)]
    chunks = [_decode_chunk(b, role, context) for b in splice.parse_array(content) or ()]
    return split_message(raw, "content", native, chunks or [Chunk(role, find_origin(role, ""), ())])


def _decode_chunk(block: Raw, role: Role, context: tuple[ToolNames, SummaryConfirmer | None]) -> Chunk:
    names, confirm = context
    fields = splice.parse_object(block)
    kind = splice.parse_string(fields.get("type")) if fields is not None else None
    if fields is None or kind is None:
        return Chunk(role, find_origin(role, ""), (OpaquePart("", bytes(block)),))
    if (
        kind == "tool_result"
        and role == "user"
        and (call := splice.parse_string(fields.get("tool_use_id"))) is not None
    ):
        name = (
            known_name
            if (known_name := names.get_name(call)) is not None
            else splice.parse_string(fields.get("name")) or ""
        )
        result = ToolResult(
            call, name, _decode_result_content(fields.get("content")), splice.is_true(fields.get("is_error"))
        )
        return Chunk("tool", "tool", (result,))
    decode = _READERS.get((role, kind)) or _READERS.get(("", kind))
    part = decode(fields) if decode is not None else None
    if isinstance(part, ToolCall):
        names.add_calls((part,))
    if part is None:
        is_compaction = (
            role == "assistant"
            and kind in COMPACTION_TYPES[NAME]
            and splice.parse_string(fields.get("content")) is not None
        )
        part = OpaquePart(
            kind, bytes(block), NAME if is_compaction else ""
        )  # null content: it failed and has no effect
    text = part.text if isinstance(part, Text) else ""
    return Chunk(role, find_origin(role, text, confirm), (part,))


def _decode_result_content(raw: Raw | None) -> tuple[Text | Image | Document | OpaquePart, ...]:
    text = splice.parse_string(raw)
    if text is not None:
        return (Text(text),) if text else ()
    out: list[Text | Image | Document | OpaquePart] = []
    for block in splice.parse_array(raw) or ():
        fields = splice.parse_object(block)
        kind = (splice.parse_string(fields.get("type")) if fields is not None else None) or ""
        decode = _READERS.get(("", kind))
        part = decode(fields) if decode is not None and fields is not None else None
        if fields is not None and not kind and (result := splice.parse_string(fields.get("result"))) is not None:
            part = Text(result)  # Cline writes its results as untyped objects
        out.append(part if isinstance(part, Text | Image | Document) else OpaquePart(kind, bytes(block)))
    return tuple(out)


def _decode_text(fields: Fields) -> Part | None:
    text = splice.parse_string(fields.get("text"))
    return Text(text) if text is not None else None


def _decode_thinking(fields: Fields) -> Part | None:
    text = splice.parse_string(fields.get("thinking"))
    return Thinking(text, splice.parse_string(fields.get("signature")) or "") if text is not None else None


def _decode_tool_use(fields: Fields) -> Part | None:
    call, name = splice.parse_string(fields.get("id")), splice.parse_string(fields.get("name"))
    if call is None or name is None:
        return None
    return ToolCall(call, name, bytes(fields["input"]).decode() if "input" in fields else "{}")


def _read_source(fields: Fields) -> tuple[str, str, str]:
    source = splice.parse_object(fields["source"]) if "source" in fields else None
    if source is None:
        return "", "", ""
    kind = splice.parse_string(source.get("type")) or ""
    data = splice.parse_string(source.get("url" if kind == "url" else "data"))
    return (kind, splice.parse_string(source.get("media_type")) or "", data) if data is not None else ("", "", "")


def _decode_image(fields: Fields) -> Part | None:
    kind, media, data = _read_source(fields)
    if kind == "base64":
        return Image(media_type=media, data=data)
    return Image(url=data) if kind == "url" else None


def _decode_document(fields: Fields) -> Part | None:
    kind, media, data = _read_source(fields)
    name = splice.parse_string(fields.get("title")) or ""
    if kind == "base64":
        return Document(name, media, data=data)
    if kind == "text":
        return Document(name, media, text=data)
    return Document(name, url=data) if kind == "url" else None


def _decode_file(fields: Fields) -> Part | None:
    path, content = splice.parse_string(fields.get("path")), splice.parse_string(fields.get("content"))
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


def _render_message(messages: Sequence[Message], batch: EncodingBatch, ledger: Ledger) -> bytes | None:
    order = sorted(batch.indices, key=lambda i: messages[i].role != "tool")
    results = [i for i in order if messages[i].role == "tool"]
    for index in results[1:]:
        ledger.note("results_joined", index, "results of one step are sent in one message")
    content: list[bytes] = []
    natives: list[NativeBytes] = []
    for index in order:
        message = messages[index]
        raw_blocks = (
            extract_blocks(message, "content") if message.native is not None and message.native.format == NAME else None
        )
        if raw_blocks is not None and message.native is not None:
            natives.append(message.native)
            ledger.register_message(message)
        content.extend(raw_blocks if raw_blocks is not None else _render_blocks(message, index, ledger))
    first = messages[batch.indices[0]]
    if not content:
        ledger.note("empty_message_dropped", batch.indices[0], f"nothing is left of this {first.role} message")
        return None
    role = "assistant" if first.role == "assistant" else "user"
    before, after, lost = build_envelope(natives, role, "content")
    if lost:
        ledger.note("envelope_dropped", batch.indices[0], "fields beside role and content of a partly replaced message")
    only_block = splice.parse_object(content[0]) if not natives and len(content) == 1 else None
    if (
        only_block is not None
        and set(only_block) == {"type", "text"}
        and splice.parse_string(only_block["type"]) == "text"
    ):
        return build_object(("role", quote(role)), ("content", bytes(only_block["text"])))
    return before + b",".join(content) + after


def _render_blocks(message: Message, index: int, ledger: Ledger) -> list[bytes]:
    if message.role == "system":
        ledger.note("system_folded", index, "a later system message is sent inside a user message")
        text = get_text(message)
        return [_render_text(render_system_note(text))] if text.strip() else []
    out: list[bytes] = []
    foreign = ledger.is_foreign(message)
    for part in message.parts:
        match part:
            case Text(text):
                if text.strip():
                    out.append(_render_text(text))
                else:
                    ledger.note("empty_text_dropped", index, "the provider refuses empty text blocks")
            case Thinking(text, signature):
                if foreign or not signature:
                    ledger.note("thinking_dropped" if text else "signature_dropped", index, "not this provider's")
                else:
                    out.append(
                        build_object(
                            ("type", b'"thinking"'), ("thinking", quote(text)), ("signature", quote(signature))
                        )
                    )
            case ToolCall():
                call = quote(ledger.assign_call_id(part, index))
                out.append(
                    build_object(
                        ("type", b'"tool_use"'),
                        ("id", call),
                        ("name", quote(part.name)),
                        ("input", ledger.render_arguments(part, index)),
                    )
                )
            case ToolResult():
                out.append(_render_result(part, index, ledger, foreign=foreign))
            case Image() | Document() | OpaquePart():
                out.extend(_render_attachment(part, index, ledger, foreign=foreign))
            case _:
                assert_never(part)
    return out


def _render_text(text: str) -> bytes:
    return build_object(("type", b'"text"'), ("text", quote(text)))


def _render_result(part: ToolResult, index: int, ledger: Ledger, *, foreign: bool) -> bytes:
    fields = [("type", b'"tool_result"'), ("tool_use_id", quote(ledger.assign_result_id(part.call_id)))]
    inner: list[bytes] = []
    for piece in part.content:
        if isinstance(piece, Text):
            if piece.text.strip():
                inner.append(_render_text(piece.text))
            elif len(part.content) > 1:
                ledger.note("empty_text_dropped", index, "the provider refuses empty text blocks")
        else:
            inner.extend(_render_attachment(piece, index, ledger, foreign=foreign))
    if len(part.content) == 1 and isinstance(part.content[0], Text):
        fields.append(("content", quote(part.content[0].text)))
    elif inner:
        fields.append(("content", build_array(inner)))
    if part.is_error:
        fields.append(("is_error", b"true"))
    return build_object(*fields)


def _render_attachment(
    part: Image | Document | OpaquePart, index: int, ledger: Ledger, *, foreign: bool
) -> list[bytes]:
    if isinstance(part, OpaquePart):
        return [] if ledger.should_drop(part, index, foreign=foreign) else [part.raw]
    if isinstance(part, Image):
        if part.data:
            media = quote(part.media_type or "image/png")
            source = build_object(("type", b'"base64"'), ("media_type", media), ("data", quote(part.data)))
        elif part.url:
            source = build_object(("type", b'"url"'), ("url", quote(part.url)))
        else:
            ledger.note("image_dropped", index, "the image has neither data nor address")
            return [_render_text(render_placeholder(part))]
        return [build_object(("type", b'"image"'), ("source", source))]
    return [_render_document(part, index, ledger)]


def _render_document(part: Document, index: int, ledger: Ledger) -> bytes:
    if part.text:
        source = build_object(("type", b'"text"'), ("media_type", b'"text/plain"'), ("data", quote(part.text)))
    elif part.data and part.media_type == "application/pdf":
        source = build_object(("type", b'"base64"'), ("media_type", b'"application/pdf"'), ("data", quote(part.data)))
    elif part.url:
        source = build_object(("type", b'"url"'), ("url", quote(part.url)))
    else:
        ledger.note("document_dropped", index, f"a document of type {part.media_type or 'unknown'} cannot be sent")
        return _render_text(render_placeholder(part))
    title = (("title", quote(part.name)),) if part.name else ()
    return build_object(("type", b'"document"'), ("source", source), *title)
