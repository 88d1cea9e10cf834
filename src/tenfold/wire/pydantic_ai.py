"""The message list of pydantic-ai as JSON: requests and responses, each made of parts.

pydantic-ai reads and writes it with `ModelMessagesTypeAdapter`. No provider uses it, so it is not one of `WIRES`. A
request holds what providers spread over several messages: system prompts, user prompts, tool results. This module
does not import pydantic-ai.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from msgspec import Raw
from msgspec.structs import replace

from tenfold.errors import UnknownRole
from tenfold.record.message import Document, Image, Message, Native, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.wire import splice
from tenfold.wire.base import Encoded, EncodedItem, Ledger
from tenfold.wire.marks import Confirm, origin_of
from tenfold.wire.media import inline, stand_in
from tenfold.wire.segments import Batch, Chunk, batches, blocks, members, split, whole_tail
from tenfold.wire.splice import Fields, arr, obj, quote

NAME = "pydantic-ai"
_KEY = "parts"
_BROKEN = ("interrupted", "incomplete")
"""The states of a response that was not finished."""


class PydanticAI:
    """The wire between a pydantic-ai agent and its models."""

    name = NAME

    def decode(self, items: Sequence[bytes], *, confirm: Confirm | None = None) -> list[Message]:
        """See `Wire.decode`."""
        out: list[Message] = []
        for index, raw in enumerate(items):
            fields = members(raw, index)
            native = Native(NAME, raw, lead=b"," if index else b"")
            match splice.text(fields.get("kind")):
                case "response":
                    out.append(_response(fields, native))
                case "request":
                    chunks = [_asked(part, confirm) for part in splice.items(fields.get(_KEY)) or ()]
                    out.extend(split(raw, _KEY, native, chunks or [Chunk("user", "harness", ())]))
                case other:
                    raise UnknownRole(
                        f"message {index} is of kind {other!r}; one of pydantic-ai is a request or a response"
                    )
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


def _response(found: Fields, native: Native) -> Message:
    parts = tuple(_said(part) for part in splice.items(found.get(_KEY)) or ())
    return Message("assistant", parts, "model", "aborted" if _broken(found) else "ok", native)


def _broken(found: Fields) -> bool:
    return splice.text(found.get("state")) in _BROKEN


def _said(raw: Raw) -> Part:
    fields = splice.fields(raw) or {}
    kind = splice.text(fields.get("part_kind")) or ""
    content = splice.text(fields.get("content"))
    match kind:
        case "text" if content is not None:
            return Text(content)
        case "thinking" if content is not None:
            return Thinking(content, splice.text(fields.get("signature")) or "")
        case "tool-call":
            name, call = splice.text(fields.get("tool_name")), splice.text(fields.get("tool_call_id"))
            if name is not None and call is not None:
                return ToolCall(call, name, _arguments(fields.get("args")))
    return Opaque(kind, bytes(raw))


def _arguments(raw: Raw | None) -> str:
    text = splice.text(raw)
    if text is not None:
        return text
    return "" if raw is None or bytes(raw) == b"null" else bytes(raw).decode("utf-8", "replace")


def _asked(raw: Raw, confirm: Confirm | None) -> Chunk:
    fields = splice.fields(raw) or {}
    kind = splice.text(fields.get("part_kind")) or ""
    content = splice.text(fields.get("content"))
    tool = splice.text(fields.get("tool_name"))
    match kind:
        case "system-prompt" if content is not None:
            return Chunk("system", origin_of("system", content, confirm), (Text(content),) if content else ())
        case "user-prompt" if content is not None:
            texts = (Text(content),) if content else ()
            return Chunk("user", origin_of("user", content, confirm), texts, whole=True)
        case "user-prompt":
            contents = tuple(_content(item) for item in splice.items(fields.get("content")) or ())
            return Chunk("user", "human", contents, whole=True)
        case "tool-return" | "retry-prompt" if tool:
            call = splice.text(fields.get("tool_call_id")) or ""
            error = kind == "retry-prompt" or splice.text(fields.get("outcome")) not in (None, "success")
            return Chunk("tool", "tool", (ToolResult(call, tool, _output(fields.get("content")), error=error),))
        case "retry-prompt" | "retry-feedback" if content is not None:
            return Chunk("user", "harness", (Text(content),))
    return Chunk("user", "harness", (Opaque(kind, bytes(raw)),))


def _output(raw: Raw | None) -> tuple[Text | Image | Document | Opaque, ...]:
    text = splice.text(raw)
    if text is not None:
        return (Text(text),) if text else ()
    if raw is None or bytes(raw) == b"null":
        return ()
    items = splice.items(raw)
    if items is not None and any(isinstance(_content(item), Image | Document) for item in items):
        return tuple(_content(item) for item in items)
    if items is None and isinstance(only := _content(raw), Image | Document):
        return (only,)
    return (Text(bytes(raw).decode("utf-8", "replace")),)


def _content(raw: Raw) -> Text | Image | Document | Opaque:
    text = splice.text(raw)
    if text is not None:
        return Text(text)
    fields = splice.fields(raw) or {}
    kind = splice.text(fields.get("kind")) or ""
    media = splice.text(fields.get("media_type")) or ""
    url, data = splice.text(fields.get("url")) or "", splice.text(fields.get("data")) or ""
    if kind == "image-url" or (kind == "binary" and media.startswith("image/")):
        return Image(media, data, url)
    if kind == "document-url" or (kind == "binary" and data):
        return Document(media=media, data=data, url=url)
    return Opaque(kind, bytes(raw))


# -- encoding ----------------------------------------------------------------------------------------------------------


def _rendered(messages: Sequence[Message], batch: Batch, ledger: Ledger) -> bytes | None:
    index = batch.indices[0]
    first = messages[index]
    natives = [n for i in batch.indices if (n := messages[i].native) is not None and n.format == NAME and n.group]
    if len(natives) == len(batch.indices):
        head = next((n.head for n in natives if n.index == 0), b'{"parts":[')
        tail = next((whole_tail(n.tail) for n in natives if n.index == n.count - 1), b'],"kind":"request"}')
        return head + b",".join(b for i in batch.indices for b in blocks(messages[i], _KEY) or ()) + tail
    parts = _prompted(first, index, ledger)
    if not parts:
        ledger.note("empty_message_dropped", index, f"nothing is left of this {first.role} message")
        return None
    if first.role != "assistant":
        return obj((_KEY, arr(parts)), ("kind", b'"request"'))
    return obj((_KEY, arr(parts)), ("model_name", b'""'), ("kind", b'"response"'))  # it joins answers without one


def _prompted(message: Message, index: int, ledger: Ledger) -> list[bytes]:
    """Renders the parts of a message. All texts and media of a user message become one prompt.

    Prompts in one request count as separate messages, since pydantic-ai joins requests.
    """
    contents = tuple(p for p in message.parts if isinstance(p, Image | Document) or (isinstance(p, Text) and p.text))
    if message.role != "user" or len(contents) < 2:
        return _parts(message, index, ledger)
    content = [quote(p.text) if isinstance(p, Text) else _media(p, index, ledger) for p in contents]
    rest = replace(message, parts=tuple(p for p in message.parts if p not in contents))
    prompt = obj(("content", arr(content)), ("part_kind", b'"user-prompt"'))
    return [prompt, *_parts(rest, index, ledger)]


_PROMPTS: Mapping[str, bytes] = {"system": b'"system-prompt"', "user": b'"user-prompt"', "assistant": b'"text"'}


def _parts(message: Message, index: int, ledger: Ledger) -> list[bytes]:
    out: list[bytes] = []
    foreign = ledger.foreign(message)
    for part in message.parts:
        match part:
            case Text(text):
                if not text:
                    ledger.note("empty_text_dropped", index, "an empty text part")
                    continue
                kind = _PROMPTS.get(message.role, b'"user-prompt"')
                out.append(obj(("content", quote(text)), ("part_kind", kind)))
            case Thinking(text, signature):
                if foreign:
                    ledger.note("thinking_dropped" if text else "signature_dropped", index, "another provider's")
                    continue
                signature_field = (("signature", quote(signature)),) if signature else ()
                out.append(obj(("content", quote(text)), *signature_field, ("part_kind", b'"thinking"')))
            case ToolCall(_, name, _):
                call_fields = (("tool_name", quote(name)), ("args", quote(part.arguments)))
                call = ("tool_call_id", quote(ledger.call_id(part, index)))
                out.append(obj(*call_fields, call, ("part_kind", b'"tool-call"')))
            case ToolResult():
                out.append(_returned(part, index, ledger, foreign=foreign))
            case Image() | Document():
                out.append(obj(("content", arr([_media(part, index, ledger)])), ("part_kind", b'"user-prompt"')))
            case Opaque(_, raw):
                if not ledger.drops(part, index, foreign=foreign):
                    out.append(raw)
            case _:
                assert_never(part)
    return out


def _returned(result: ToolResult, index: int, ledger: Ledger, *, foreign: bool) -> bytes:
    content: list[bytes] = []
    for part in result.content:
        if isinstance(part, Text):
            content.append(quote(part.text))
        elif isinstance(part, Opaque):
            content.extend([] if ledger.drops(part, index, foreign=foreign) else [part.raw])
        else:
            content.append(_media(part, index, ledger))
    return obj(
        ("tool_name", quote(ledger.named(result.call, result.name))),
        ("content", content[0] if len(content) == 1 else arr(content) if content else b'""'),
        ("tool_call_id", quote(ledger.result_id(result.call))),
        ("outcome", b'"failed"' if result.error else b'"success"'),
        ("part_kind", b'"tool-return"'),
    )


def _media(part: Image | Document, index: int, ledger: Ledger) -> bytes:
    if isinstance(part, Document) and part.text:
        ledger.note("document_as_text", index, f"document {part.name or part.media or 'without a name'}")
        return quote(inline(part))
    is_image = isinstance(part, Image)
    if part.url:
        return obj(("url", quote(part.url)), ("kind", b'"image-url"' if is_image else b'"document-url"'))
    if part.data:
        return obj(("data", quote(part.data)), ("media_type", quote(part.media)), ("kind", b'"binary"'))
    ledger.note("image_dropped" if is_image else "document_dropped", index, "nothing of it is there to be sent")
    return quote(stand_in(part))
