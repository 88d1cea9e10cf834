"""OpenAI Chat Completions: `{"role", "content": text | [parts] | null, "tool_calls", ...}`.

Each tool result is a separate message that holds only text, so images and error flags in it are turned into text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from msgspec import Raw

from tenfold.errors import UnknownRole
from tenfold.record.message import (
    Document,
    Image,
    Message,
    Native,
    Opaque,
    Origin,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tenfold.wire import splice
from tenfold.wire.base import START, Before, Encoded, EncodedItem, Ledger, Names
from tenfold.wire.marks import Confirm, origin_of
from tenfold.wire.media import document_of, image_of, inline, stand_in, url_of
from tenfold.wire.segments import Batch, Chunk, batches, blocks, envelope, members, split
from tenfold.wire.splice import Fields, arr, obj, quote

NAME = "openai-chat"
ERROR_FLAG = "[tool error]\n"
_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "user",
}
_ORIGINS: Mapping[str, Origin] = {
    "system": "harness",
    "developer": "harness",
    "user": "human",
    "assistant": "model",
    "tool": "tool",
    "function": "tool",
}
_MEMBERS = frozenset({"function_call", "audio"})
"""Fields of a message beside `content` that are kept as opaque parts."""


class OpenAIChat:
    """The OpenAI Chat Completions wire."""

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
        for batch in batches(messages, NAME, join_results=False):
            if batch.exact is not None:
                for index in batch.indices:
                    ledger.saw(messages[index])
            raw = _rendered(messages, batch, ledger) if batch.exact is None else batch.exact
            if raw is not None:
                items.append(EncodedItem(raw, batch.indices, exact=batch.exact is not None))
        return ledger.done(items)


# -- decoding ----------------------------------------------------------------------------------------------------------


def _decoded(raw: bytes, index: int, native: Native, known: tuple[Names, Confirm | None]) -> list[Message]:
    names, confirm = known
    fields = members(raw, index)
    name = splice.text(fields.get("role")) or ""
    role = _ROLES.get(name)
    if role is None:
        raise UnknownRole(f"message {index} has role {name!r}; an OpenAI Chat message has one of {', '.join(_ROLES)}")
    origin = _ORIGINS[name]
    if role == "tool":
        call = splice.text(fields.get("tool_call_id")) or ""
        tool = splice.text(fields.get("name")) or names.of(call) or ""
        result = ToolResult(call, tool, _output(fields.get("content")))
        return [Message("tool", (result,), "tool", native=native)]
    if role == "assistant":
        parts = _answer(fields)
        names.add(parts)
        return [Message("assistant", parts, "model", native=native)]
    text = splice.text(fields.get("content"))
    if text is not None or splice.items(fields.get("content")) is None:
        origin = origin if name == "function" else origin_of(role, text or "", confirm)
        return [Message(role, (Text(text),) if text else (), origin, native=native)]
    chunks = [_chunk(b, role, origin, confirm) for b in splice.items(fields.get("content")) or ()]
    return split(raw, "content", native, chunks or [Chunk(role, origin, ())])


def _chunk(block: Raw, role: Role, origin: Origin, confirm: Confirm | None) -> Chunk:
    part = _content(block)
    if origin in ("human", "harness") and isinstance(part, Text):
        origin = origin_of(role, part.text, confirm)
    return Chunk(role, origin, (part,))


def _content(block: Raw) -> Text | Image | Document | Opaque:
    fields = splice.fields(block)
    kind = (splice.text(fields.get("type")) if fields is not None else None) or ""
    if fields is not None and kind in ("text", "refusal") and (text := splice.text(fields.get(kind))) is not None:
        return Text(text)
    inner = splice.fields(fields[kind]) if fields is not None and kind in fields else None
    if kind == "image_url" and inner is not None and (url := splice.text(inner.get("url"))) is not None:
        return image_of(url)
    if kind == "file" and inner is not None and (data := splice.text(inner.get("file_data"))) is not None:
        return document_of(data, splice.text(inner.get("filename")) or "")
    return Opaque(kind, bytes(block))


def _output(raw: Raw | None) -> tuple[Text | Image | Document | Opaque, ...]:
    text = splice.text(raw)
    if text is not None:
        return (Text(text),) if text else ()
    return tuple(_content(b) for b in splice.items(raw) or ())


def _answer(found: Fields) -> tuple[Part, ...]:
    parts: list[Part] = []
    for key in ("reasoning_content", "reasoning"):
        if thought := splice.text(found.get(key)):
            parts.append(Thinking(thought))
            break
    parts.extend(_output(found.get("content")))
    if refusal := splice.text(found.get("refusal")):
        parts.append(Text(refusal))
    siblings = sorted(key for key in _MEMBERS & set(found) if bytes(found[key]) != b"null")
    parts.extend(Opaque(key, bytes(found[key])) for key in siblings)
    parts.extend(_call(raw) for raw in splice.items(found.get("tool_calls")) or ())
    return tuple(parts)


def _call(raw: Raw) -> ToolCall | Opaque:
    fields = splice.fields(raw) or {}
    kind = splice.text(fields.get("type")) or "function"
    inner = splice.fields(fields[kind]) if kind in fields else None
    call, name = splice.text(fields.get("id")), splice.text(inner.get("name")) if inner is not None else None
    if call is None or name is None or inner is None:
        return Opaque(f"tool_calls.{kind}", bytes(raw))
    return ToolCall(call, name, splice.text(inner.get("input" if kind == "custom" else "arguments")) or "")


# -- encoding ----------------------------------------------------------------------------------------------------------


def _rendered(messages: Sequence[Message], batch: Batch, ledger: Ledger) -> bytes | None:
    index = batch.indices[0]
    first = messages[index]
    natives = [n for i in batch.indices if (n := messages[i].native) is not None and n.format == NAME and n.group]
    if len(natives) == len(batch.indices):
        before, after, lost = envelope(natives, first.role, "content")
        if lost:
            ledger.note("envelope_dropped", index, "fields beside role and content of a partly replaced message")
        return before + b",".join(b for i in batch.indices for b in blocks(messages[i], "content") or ()) + after
    if first.role == "assistant":
        return _assistant(first, index, ledger)
    if first.role == "tool":
        return _tool(first, index, ledger)
    content = _parts(first, index, ledger)
    if not content:
        ledger.note("empty_message_dropped", index, f"nothing is left of this {first.role} message")
        return None
    return obj(("role", quote(first.role)), ("content", _shortest(content)))


def _shortest(content: Sequence[Text | bytes]) -> bytes:
    if len(content) == 1 and isinstance(content[0], Text):
        return quote(content[0].text)
    return arr(_text_part(c.text) if isinstance(c, Text) else c for c in content)


def _text_part(text: str) -> bytes:
    return obj(("type", b'"text"'), ("text", quote(text)))


def _parts(message: Message, index: int, ledger: Ledger) -> list[Text | bytes]:
    out: list[Text | bytes] = []
    foreign = ledger.foreign(message)
    for part in message.parts:
        match part:
            case Text(text):
                if text:
                    out.append(part)
                else:
                    ledger.note("empty_text_dropped", index, "an empty text part")
            case Image():
                out.extend(_image(part, index, ledger, inside=message.role == "user"))
            case Document():
                out.append(_document(part, index, ledger, inside=message.role == "user"))
            case Thinking(text):
                ledger.note("thinking_dropped" if text else "signature_dropped", index, "this wire has no place for it")
            case Opaque(kind, raw):
                if ledger.drops(part, index, foreign=foreign):
                    continue
                if kind not in _MEMBERS and not kind.startswith("tool_calls."):
                    out.append(raw)
            case ToolCall() | ToolResult():
                continue
            case _:
                assert_never(part)
    return out


def _image(part: Image, index: int, ledger: Ledger, *, inside: bool) -> list[Text | bytes]:
    if inside and (part.data or part.url):
        url = obj(("url", quote(url_of(part))))
        return [obj(("type", b'"image_url"'), ("image_url", url))]
    ledger.note("image_dropped", index, "only user messages of this wire carry images")
    return [Text(stand_in(part))]


def _document(part: Document, index: int, ledger: Ledger, *, inside: bool) -> Text | bytes:
    if part.text:
        ledger.note("document_as_text", index, f"document {part.name or part.media or 'without a name'}")
        return Text(inline(part))
    if inside and part.data:
        file = obj(("filename", quote(part.name or "document")), ("file_data", quote(url_of(part))))
        return obj(("type", b'"file"'), ("file", file))
    ledger.note("document_dropped", index, f"a document of type {part.media or 'unknown'} cannot be sent")
    return Text(stand_in(part))


def _assistant(message: Message, index: int, ledger: Ledger) -> bytes | None:
    content = _parts(message, index, ledger)
    calls: list[bytes] = []
    siblings: list[tuple[str, bytes]] = []
    foreign = ledger.foreign(message)
    for part in message.parts:
        if isinstance(part, ToolCall):
            function = obj(("name", quote(part.name)), ("arguments", quote(part.arguments)))
            call = quote(ledger.call_id(part, index))
            calls.append(obj(("id", call), ("type", b'"function"'), ("function", function)))
        elif isinstance(part, Opaque) and not foreign:
            if part.kind in _MEMBERS:
                siblings.append((part.kind, part.raw))
            elif part.kind.startswith("tool_calls."):
                calls.append(part.raw)
    if not content and not calls and not siblings:
        ledger.note("empty_message_dropped", index, "nothing is left of this assistant message")
        return None
    if calls:
        siblings.append(("tool_calls", arr(calls)))
    return obj(("role", b'"assistant"'), ("content", _shortest(content) if content else b"null"), *siblings)


def _tool(message: Message, index: int, ledger: Ledger) -> bytes | None:
    result = next(p for p in message.parts if isinstance(p, ToolResult))
    foreign = ledger.foreign(message)
    content: list[Text | bytes] = []
    for part in result.content:
        if isinstance(part, Text):
            content.append(part)
        elif isinstance(part, Image):
            content.extend(_image(part, index, ledger, inside=False))
        elif isinstance(part, Document):
            content.append(_document(part, index, ledger, inside=False))
        elif not ledger.drops(part, index, foreign=foreign):
            content.append(part.raw)
    if result.error:
        ledger.note("error_flag_in_text", index, "this wire has no error flag; the text says it")
        first = content[0] if content and isinstance(content[0], Text) else None
        content = [Text(ERROR_FLAG + first.text), *content[1:]] if first is not None else [Text(ERROR_FLAG), *content]
    return obj(
        ("role", b'"tool"'),
        ("tool_call_id", quote(ledger.result_id(result.call))),
        ("content", _shortest(content) if content else b'""'),
    )
