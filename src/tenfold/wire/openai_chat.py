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
    NativeBytes,
    OpaquePart,
    Origin,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tenfold.wire import splice
from tenfold.wire.base import NO_PREFIX, DecodedPrefix, EncodedItem, EncodedList, Ledger, ToolNames
from tenfold.wire.marks import SummaryConfirmer, find_origin
from tenfold.wire.media import inline_document, render_placeholder, to_document, to_image, to_url
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
_SIBLING_FIELDS = frozenset({"function_call", "audio"})
"""Fields of a message beside `content` that are kept as opaque parts."""


class OpenAIChat:
    """The OpenAI Chat Completions wire."""

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
        for batch in batch_messages(messages, NAME, join_results=False):
            if batch.exact is not None:
                for index in batch.indices:
                    ledger.register_message(messages[index])
            raw = _render_message(messages, batch, ledger) if batch.exact is None else batch.exact
            if raw is not None:
                items.append(EncodedItem(raw, batch.indices, exact=batch.exact is not None))
        return ledger.finish(items)


# -- decoding ----------------------------------------------------------------------------------------------------------


def _decode_message(
    raw: bytes, index: int, native: NativeBytes, context: tuple[ToolNames, SummaryConfirmer | None]
) -> list[Message]:
    names, confirm = context
    fields = parse_fields(raw, index)
    name = splice.parse_string(fields.get("role")) or ""
    role = _ROLES.get(name)
    if role is None:
        raise UnknownRole(f"message {index} has role {name!r}; an OpenAI Chat message has one of {', '.join(_ROLES)}")
    origin = _ORIGINS[name]
    if role == "tool":
        call = splice.parse_string(fields.get("tool_call_id")) or ""
        tool = splice.parse_string(fields.get("name")) or names.get_name(call) or ""
        result = ToolResult(call, tool, _decode_output(fields.get("content")))
        return [Message("tool", (result,), "tool", native=native)]
    if role == "assistant":
        parts = _decode_answer(fields)
        names.add_calls(parts)
        return [Message("assistant", parts, "model", native=native)]
    text = splice.parse_string(fields.get("content"))
    if text is not None or splice.parse_array(fields.get("content")) is None:
        origin = origin if name == "function" else find_origin(role, text or "", confirm)
        return [Message(role, (Text(text),) if text else (), origin, native=native)]
    chunks = [_decode_chunk(b, role, origin, confirm) for b in splice.parse_array(fields.get("content")) or ()]
    return split_message(raw, "content", native, chunks or [Chunk(role, origin, ())])


def _decode_chunk(block: Raw, role: Role, origin: Origin, confirm: SummaryConfirmer | None) -> Chunk:
    part = _decode_content(block)
    if origin in ("human", "harness") and isinstance(part, Text):
        origin = find_origin(role, part.text, confirm)
    return Chunk(role, origin, (part,))


def _decode_content(block: Raw) -> Text | Image | Document | OpaquePart:
    fields = splice.parse_object(block)
    kind = (splice.parse_string(fields.get("type")) if fields is not None else None) or ""
    if (
        fields is not None
        and kind in ("text", "refusal")
        and (text := splice.parse_string(fields.get(kind))) is not None
    ):
        return Text(text)
    inner = splice.parse_object(fields[kind]) if fields is not None and kind in fields else None
    if kind == "image_url" and inner is not None and (url := splice.parse_string(inner.get("url"))) is not None:
        return to_image(url)
    if kind == "file" and inner is not None and (data := splice.parse_string(inner.get("file_data"))) is not None:
        return to_document(data, splice.parse_string(inner.get("filename")) or "")
    return OpaquePart(kind, bytes(block))


def _decode_output(raw: Raw | None) -> tuple[Text | Image | Document | OpaquePart, ...]:
    text = splice.parse_string(raw)
    if text is not None:
        return (Text(text),) if text else ()
    return tuple(_decode_content(b) for b in splice.parse_array(raw) or ())


def _decode_answer(fields: Fields) -> tuple[Part, ...]:
    parts: list[Part] = []
    for key in ("reasoning_content", "reasoning"):
        if thought := splice.parse_string(fields.get(key)):
            parts.append(Thinking(thought))
            break
    parts.extend(_decode_output(fields.get("content")))
    if refusal := splice.parse_string(fields.get("refusal")):
        parts.append(Text(refusal))
    siblings = sorted(key for key in _SIBLING_FIELDS & set(fields) if bytes(fields[key]) != b"null")
    parts.extend(OpaquePart(key, bytes(fields[key])) for key in siblings)
    parts.extend(_decode_call(raw) for raw in splice.parse_array(fields.get("tool_calls")) or ())
    return tuple(parts)


def _decode_call(raw: Raw) -> ToolCall | OpaquePart:
    fields = splice.parse_object(raw) or {}
    kind = splice.parse_string(fields.get("type")) or "function"
    inner = splice.parse_object(fields[kind]) if kind in fields else None
    call, name = (
        splice.parse_string(fields.get("id")),
        splice.parse_string(inner.get("name")) if inner is not None else None,
    )
    if call is None or name is None or inner is None:
        return OpaquePart(f"tool_calls.{kind}", bytes(raw))
    return ToolCall(call, name, splice.parse_string(inner.get("input" if kind == "custom" else "arguments")) or "")


# -- encoding ----------------------------------------------------------------------------------------------------------


def _render_message(messages: Sequence[Message], batch: EncodingBatch, ledger: Ledger) -> bytes | None:
    index = batch.indices[0]
    first = messages[index]
    natives = [n for i in batch.indices if (n := messages[i].native) is not None and n.format == NAME and n.group]
    if len(natives) == len(batch.indices):
        before, after, lost = build_envelope(natives, first.role, "content")
        if lost:
            ledger.note("envelope_dropped", index, "fields beside role and content of a partly replaced message")
        return (
            before + b",".join(b for i in batch.indices for b in extract_blocks(messages[i], "content") or ()) + after
        )
    if first.role == "assistant":
        return _render_assistant(first, index, ledger)
    if first.role == "tool":
        return _render_tool(first, index, ledger)
    content = _render_parts(first, index, ledger)
    if not content:
        ledger.note("empty_message_dropped", index, f"nothing is left of this {first.role} message")
        return None
    return build_object(("role", quote(first.role)), ("content", _render_content(content)))


def _render_content(content: Sequence[Text | bytes]) -> bytes:
    if len(content) == 1 and isinstance(content[0], Text):
        return quote(content[0].text)
    return build_array(_render_text_part(c.text) if isinstance(c, Text) else c for c in content)


def _render_text_part(text: str) -> bytes:
    return build_object(("type", b'"text"'), ("text", quote(text)))


def _render_parts(message: Message, index: int, ledger: Ledger) -> list[Text | bytes]:
    out: list[Text | bytes] = []
    foreign = ledger.is_foreign(message)
    for part in message.parts:
        match part:
            case Text(text):
                if text:
                    out.append(part)
                else:
                    ledger.note("empty_text_dropped", index, "an empty text part")
            case Image():
                out.extend(_render_image(part, index, ledger, is_user_message=message.role == "user"))
            case Document():
                out.append(_render_document(part, index, ledger, is_user_message=message.role == "user"))
            case Thinking(text):
                ledger.note("thinking_dropped" if text else "signature_dropped", index, "this wire has no place for it")
            case OpaquePart(kind, raw):
                if ledger.should_drop(part, index, foreign=foreign):
                    continue
                if kind not in _SIBLING_FIELDS and not kind.startswith("tool_calls."):
                    out.append(raw)
            case ToolCall() | ToolResult():
                continue
            case _:
                assert_never(part)
    return out


def _render_image(part: Image, index: int, ledger: Ledger, *, is_user_message: bool) -> list[Text | bytes]:
    if is_user_message and (part.data or part.url):
        url = build_object(("url", quote(to_url(part))))
        return [build_object(("type", b'"image_url"'), ("image_url", url))]
    ledger.note("image_dropped", index, "only user messages of this wire carry images")
    return [Text(render_placeholder(part))]


def _render_document(part: Document, index: int, ledger: Ledger, *, is_user_message: bool) -> Text | bytes:
    if part.text:
        ledger.note("document_as_text", index, f"document {part.name or part.media_type or 'without a name'}")
        return Text(inline_document(part))
    if is_user_message and part.data:
        file = build_object(("filename", quote(part.name or "document")), ("file_data", quote(to_url(part))))
        return build_object(("type", b'"file"'), ("file", file))
    ledger.note("document_dropped", index, f"a document of type {part.media_type or 'unknown'} cannot be sent")
    return Text(render_placeholder(part))


def _render_assistant(message: Message, index: int, ledger: Ledger) -> bytes | None:
    content = _render_parts(message, index, ledger)
    calls: list[bytes] = []
    siblings: list[tuple[str, bytes]] = []
    foreign = ledger.is_foreign(message)
    for part in message.parts:
        if isinstance(part, ToolCall):
            function = build_object(("name", quote(part.name)), ("arguments", quote(part.arguments)))
            call = quote(ledger.assign_call_id(part, index))
            calls.append(build_object(("id", call), ("type", b'"function"'), ("function", function)))
        elif isinstance(part, OpaquePart) and not foreign:
            if part.kind in _SIBLING_FIELDS:
                siblings.append((part.kind, part.raw))
            elif part.kind.startswith("tool_calls."):
                calls.append(part.raw)
    if not content and not calls and not siblings:
        ledger.note("empty_message_dropped", index, "nothing is left of this assistant message")
        return None
    if calls:
        siblings.append(("tool_calls", build_array(calls)))
    return build_object(
        ("role", b'"assistant"'), ("content", _render_content(content) if content else b"null"), *siblings
    )


def _render_tool(message: Message, index: int, ledger: Ledger) -> bytes | None:
    result = next(p for p in message.parts if isinstance(p, ToolResult))
    foreign = ledger.is_foreign(message)
    content: list[Text | bytes] = []
    for part in result.content:
        if isinstance(part, Text):
            content.append(part)
        elif isinstance(part, Image):
            content.extend(_render_image(part, index, ledger, is_user_message=False))
        elif isinstance(part, Document):
            content.append(_render_document(part, index, ledger, is_user_message=False))
        elif not ledger.should_drop(part, index, foreign=foreign):
            content.append(part.raw)
    if result.is_error:
        ledger.note("error_flag_in_text", index, "this wire has no error flag; the text says it")
        first = content[0] if content and isinstance(content[0], Text) else None
        content = [Text(ERROR_FLAG + first.text), *content[1:]] if first is not None else [Text(ERROR_FLAG), *content]
    return build_object(
        ("role", b'"tool"'),
        ("tool_call_id", quote(ledger.assign_result_id(result.call_id))),
        ("content", _render_content(content) if content else b'""'),
    )
