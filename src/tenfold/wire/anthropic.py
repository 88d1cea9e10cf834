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
    Native,
    Opaque,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    text_of,
)
from tenfold.wire import splice
from tenfold.wire.base import START, Before, Encoded, EncodedItem, Ledger, Names
from tenfold.wire.marks import OPENING, Confirm, fold_note, origin_of
from tenfold.wire.media import stand_in
from tenfold.wire.profiles import COMPACTIONS
from tenfold.wire.segments import Batch, Chunk, batches, blocks, envelope, members, split
from tenfold.wire.splice import Fields, arr, obj, quote

NAME = "anthropic"
_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


class Anthropic:
    """The Anthropic Messages wire."""

    name = NAME

    def decode(
        self, items: Sequence[bytes], *, confirm: Confirm | None = None, before: Before = START
    ) -> list[Message]:
        """See `Wire.decode`."""
        out: list[Message] = []
        names = Names(before)
        for index, raw in enumerate(items, before.items):
            out.extend(_decoded(raw, index, Native(NAME, raw, lead=b"," if index else b""), (names, confirm)))
        return out

    def encode(self, messages: Sequence[Message]) -> Encoded:
        """See `Wire.encode`."""
        ledger = Ledger(NAME, messages)
        messages = ledger.paired(messages)
        items: list[EncodedItem] = []
        system: list[str] = []
        for batch in batches(messages, NAME, join_results=True):
            first = messages[batch.indices[0]]
            if batch.exact is not None:
                for index in batch.indices:
                    ledger.saw(messages[index])
                _open(items, first.role, ledger, batch)
                items.append(EncodedItem(batch.exact, batch.indices, exact=True))
            elif first.role == "system" and not items:
                system.extend([text] if (text := text_of(first)).strip() else [])
            else:
                raw = _rendered(messages, batch, ledger)
                if raw is not None:
                    _open(items, first.role, ledger, batch)
                    items.append(EncodedItem(raw, batch.indices, exact=False))
        return ledger.done(items, system)


def _open(items: list[EncodedItem], role: Role, ledger: Ledger, batch: Batch) -> None:
    if items or role != "assistant" or ledger.profile.opens_with_assistant:
        return
    ledger.note("opening_stub", batch.indices[0], "the list would open with an assistant message")
    items.append(EncodedItem(obj(("role", b'"user"'), ("content", quote(OPENING))), (), exact=False))


# -- decoding ----------------------------------------------------------------------------------------------------------


def _decoded(raw: bytes, index: int, native: Native, known: tuple[Names, Confirm | None]) -> list[Message]:
    fields = members(raw, index)
    name = splice.text(fields.get("role")) or ""
    role = _ROLES.get(name)
    if role is None:
        raise UnknownRole(f"message {index} has role {name!r}; an Anthropic message has one of {', '.join(_ROLES)}")
    content = fields.get("content")
    text = splice.text(content)
    if text is not None:
        parts: tuple[Part, ...] = (Text(text),) if text else ()
        return [Message(role, parts, origin_of(role, text, known[1]), native=native)]
    chunks = [_chunk(b, role, known) for b in splice.items(content) or ()]
    return split(raw, "content", native, chunks or [Chunk(role, origin_of(role, ""), ())])


def _chunk(block: Raw, role: Role, known: tuple[Names, Confirm | None]) -> Chunk:
    names, confirm = known
    fields = splice.fields(block)
    kind = splice.text(fields.get("type")) if fields is not None else None
    if fields is None or kind is None:
        return Chunk(role, origin_of(role, ""), (Opaque("", bytes(block)),))
    if kind == "tool_result" and role == "user" and (call := splice.text(fields.get("tool_use_id"))) is not None:
        name = known_name if (known_name := names.of(call)) is not None else splice.text(fields.get("name")) or ""
        result = ToolResult(call, name, _result_content(fields.get("content")), splice.truth(fields.get("is_error")))
        return Chunk("tool", "tool", (result,))
    decode = _READERS.get((role, kind)) or _READERS.get(("", kind))
    part = decode(fields) if decode is not None else None
    if isinstance(part, ToolCall):
        names.add((part,))
    if part is None:
        is_compaction = (
            role == "assistant" and kind in COMPACTIONS[NAME] and splice.text(fields.get("content")) is not None
        )
        part = Opaque(kind, bytes(block), NAME if is_compaction else "")  # null content: it failed and has no effect
    text = part.text if isinstance(part, Text) else ""
    return Chunk(role, origin_of(role, text, confirm), (part,))


def _result_content(raw: Raw | None) -> tuple[Text | Image | Document | Opaque, ...]:
    text = splice.text(raw)
    if text is not None:
        return (Text(text),) if text else ()
    out: list[Text | Image | Document | Opaque] = []
    for block in splice.items(raw) or ():
        fields = splice.fields(block)
        kind = (splice.text(fields.get("type")) if fields is not None else None) or ""
        decode = _READERS.get(("", kind))
        part = decode(fields) if decode is not None and fields is not None else None
        if fields is not None and not kind and (result := splice.text(fields.get("result"))) is not None:
            part = Text(result)  # Cline writes its results as untyped objects
        out.append(part if isinstance(part, Text | Image | Document) else Opaque(kind, bytes(block)))
    return tuple(out)


def _text(found: Fields) -> Part | None:
    text = splice.text(found.get("text"))
    return Text(text) if text is not None else None


def _thinking(found: Fields) -> Part | None:
    text = splice.text(found.get("thinking"))
    return Thinking(text, splice.text(found.get("signature")) or "") if text is not None else None


def _tool_use(found: Fields) -> Part | None:
    call, name = splice.text(found.get("id")), splice.text(found.get("name"))
    if call is None or name is None:
        return None
    return ToolCall(call, name, bytes(found["input"]).decode() if "input" in found else "{}")


def _source(found: Fields) -> tuple[str, str, str]:
    source = splice.fields(found["source"]) if "source" in found else None
    if source is None:
        return "", "", ""
    kind = splice.text(source.get("type")) or ""
    data = splice.text(source.get("url" if kind == "url" else "data"))
    return (kind, splice.text(source.get("media_type")) or "", data) if data is not None else ("", "", "")


def _image(found: Fields) -> Part | None:
    kind, media, data = _source(found)
    if kind == "base64":
        return Image(media=media, data=data)
    return Image(url=data) if kind == "url" else None


def _document(found: Fields) -> Part | None:
    kind, media, data = _source(found)
    name = splice.text(found.get("title")) or ""
    if kind == "base64":
        return Document(name, media, data=data)
    if kind == "text":
        return Document(name, media, text=data)
    return Document(name, url=data) if kind == "url" else None


def _file(found: Fields) -> Part | None:
    path, content = splice.text(found.get("path")), splice.text(found.get("content"))
    return Document(path, "text/plain", text=content) if path is not None and content is not None else None


_READERS: Mapping[tuple[str, str], Callable[[Fields], Part | None]] = {
    ("", "text"): _text,
    ("", "image"): _image,
    ("", "document"): _document,
    ("user", "file"): _file,
    ("assistant", "thinking"): _thinking,
    ("assistant", "tool_use"): _tool_use,
}


# -- encoding ----------------------------------------------------------------------------------------------------------


def _rendered(messages: Sequence[Message], batch: Batch, ledger: Ledger) -> bytes | None:
    order = sorted(batch.indices, key=lambda i: messages[i].role != "tool")
    results = [i for i in order if messages[i].role == "tool"]
    for index in results[1:]:
        ledger.note("results_joined", index, "results of one step are sent in one message")
    content: list[bytes] = []
    natives: list[Native] = []
    for index in order:
        message = messages[index]
        raw_blocks = (
            blocks(message, "content") if message.native is not None and message.native.format == NAME else None
        )
        if raw_blocks is not None and message.native is not None:
            natives.append(message.native)
            ledger.saw(message)
        content.extend(raw_blocks if raw_blocks is not None else _blocks(message, index, ledger))
    first = messages[batch.indices[0]]
    if not content:
        ledger.note("empty_message_dropped", batch.indices[0], f"nothing is left of this {first.role} message")
        return None
    role = "assistant" if first.role == "assistant" else "user"
    before, after, lost = envelope(natives, role, "content")
    if lost:
        ledger.note("envelope_dropped", batch.indices[0], "fields beside role and content of a partly replaced message")
    only_block = splice.fields(content[0]) if not natives and len(content) == 1 else None
    if only_block is not None and set(only_block) == {"type", "text"} and splice.text(only_block["type"]) == "text":
        return obj(("role", quote(role)), ("content", bytes(only_block["text"])))
    return before + b",".join(content) + after


def _blocks(message: Message, index: int, ledger: Ledger) -> list[bytes]:
    if message.role == "system":
        ledger.note("system_folded", index, "a later system message is sent inside a user message")
        text = text_of(message)
        return [_text_block(fold_note(text))] if text.strip() else []
    out: list[bytes] = []
    foreign = ledger.foreign(message)
    for part in message.parts:
        match part:
            case Text(text):
                if text.strip():
                    out.append(_text_block(text))
                else:
                    ledger.note("empty_text_dropped", index, "the provider refuses empty text blocks")
            case Thinking(text, signature):
                if foreign or not signature:
                    ledger.note("thinking_dropped" if text else "signature_dropped", index, "not this provider's")
                else:
                    out.append(obj(("type", b'"thinking"'), ("thinking", quote(text)), ("signature", quote(signature))))
            case ToolCall():
                call = quote(ledger.call_id(part, index))
                out.append(
                    obj(
                        ("type", b'"tool_use"'),
                        ("id", call),
                        ("name", quote(part.name)),
                        ("input", ledger.arguments(part, index)),
                    )
                )
            case ToolResult():
                out.append(_result(part, index, ledger, foreign=foreign))
            case Image() | Document() | Opaque():
                out.extend(_attached(part, index, ledger, foreign=foreign))
            case _:
                assert_never(part)
    return out


def _text_block(text: str) -> bytes:
    return obj(("type", b'"text"'), ("text", quote(text)))


def _result(part: ToolResult, index: int, ledger: Ledger, *, foreign: bool) -> bytes:
    fields = [("type", b'"tool_result"'), ("tool_use_id", quote(ledger.result_id(part.call)))]
    inner: list[bytes] = []
    for piece in part.content:
        if isinstance(piece, Text):
            if piece.text.strip():
                inner.append(_text_block(piece.text))
            elif len(part.content) > 1:
                ledger.note("empty_text_dropped", index, "the provider refuses empty text blocks")
        else:
            inner.extend(_attached(piece, index, ledger, foreign=foreign))
    if len(part.content) == 1 and isinstance(part.content[0], Text):
        fields.append(("content", quote(part.content[0].text)))
    elif inner:
        fields.append(("content", arr(inner)))
    if part.error:
        fields.append(("is_error", b"true"))
    return obj(*fields)


def _attached(part: Image | Document | Opaque, index: int, ledger: Ledger, *, foreign: bool) -> list[bytes]:
    if isinstance(part, Opaque):
        return [] if ledger.drops(part, index, foreign=foreign) else [part.raw]
    if isinstance(part, Image):
        if part.data:
            media = quote(part.media or "image/png")
            source = obj(("type", b'"base64"'), ("media_type", media), ("data", quote(part.data)))
        elif part.url:
            source = obj(("type", b'"url"'), ("url", quote(part.url)))
        else:
            ledger.note("image_dropped", index, "the image has neither data nor address")
            return [_text_block(stand_in(part))]
        return [obj(("type", b'"image"'), ("source", source))]
    return [_document_block(part, index, ledger)]


def _document_block(part: Document, index: int, ledger: Ledger) -> bytes:
    if part.text:
        source = obj(("type", b'"text"'), ("media_type", b'"text/plain"'), ("data", quote(part.text)))
    elif part.data and part.media == "application/pdf":
        source = obj(("type", b'"base64"'), ("media_type", b'"application/pdf"'), ("data", quote(part.data)))
    elif part.url:
        source = obj(("type", b'"url"'), ("url", quote(part.url)))
    else:
        ledger.note("document_dropped", index, f"a document of type {part.media or 'unknown'} cannot be sent")
        return _text_block(stand_in(part))
    title = (("title", quote(part.name)),) if part.name else ()
    return obj(("type", b'"document"'), ("source", source), *title)
