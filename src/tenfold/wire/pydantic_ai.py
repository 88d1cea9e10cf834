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
from tenfold.record.message import (
    Document,
    Image,
    Message,
    NativeBytes,
    OpaquePart,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tenfold.wire import splice
from tenfold.wire.base import EncodedItem, EncodedList, Ledger
from tenfold.wire.marks import SummaryConfirmer, find_origin
from tenfold.wire.media import inline_document, render_placeholder
from tenfold.wire.segments import (
    Chunk,
    EncodingBatch,
    batch_messages,
    extract_blocks,
    parse_fields,
    split_message,
    strip_container_end,
)
from tenfold.wire.splice import Fields, build_array, build_object, quote

NAME = "pydantic-ai"
_PARTS_KEY = "parts"
_UNFINISHED_STATES = ("interrupted", "incomplete")
"""The states of a response that was not finished."""


class PydanticAI:
    """The wire between a pydantic-ai agent and its models."""

    name = NAME

    def decode(self, items: Sequence[bytes], *, confirm: SummaryConfirmer | None = None) -> list[Message]:
        """See `Wire.decode`."""
        out: list[Message] = []
        for index, raw in enumerate(items):
            fields = parse_fields(raw, index)
            native = NativeBytes(NAME, raw, lead=b"," if index else b"")
            match splice.parse_string(fields.get("kind")):
                case "response":
                    out.append(_decode_response(fields, native))
                case "request":
                    chunks = [
                        _decode_request_part(part, confirm) for part in splice.parse_array(fields.get(_PARTS_KEY)) or ()
                    ]
                    out.extend(split_message(raw, _PARTS_KEY, native, chunks or [Chunk("user", "harness", ())]))
                case other:
                    raise UnknownRole(
                        f"message {index} is of kind {other!r}; one of pydantic-ai is a request or a response"
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


def _decode_response(fields: Fields, native: NativeBytes) -> Message:
    parts = tuple(_decode_response_part(part) for part in splice.parse_array(fields.get(_PARTS_KEY)) or ())
    return Message("assistant", parts, "model", "aborted" if _is_unfinished(fields) else "ok", native)


def _is_unfinished(fields: Fields) -> bool:
    return splice.parse_string(fields.get("state")) in _UNFINISHED_STATES


def _decode_response_part(raw: Raw) -> Part:
    fields = splice.parse_object(raw) or {}
    kind = splice.parse_string(fields.get("part_kind")) or ""
    content = splice.parse_string(fields.get("content"))
    match kind:
        case "text" if content is not None:
            return Text(content)
        case "thinking" if content is not None:
            return Thinking(content, splice.parse_string(fields.get("signature")) or "")
        case "tool-call":
            name, call = splice.parse_string(fields.get("tool_name")), splice.parse_string(fields.get("tool_call_id"))
            if name is not None and call is not None:
                return ToolCall(call, name, _decode_arguments(fields.get("args")))
    return OpaquePart(kind, bytes(raw))


def _decode_arguments(raw: Raw | None) -> str:
    text = splice.parse_string(raw)
    if text is not None:
        return text
    return "" if raw is None or bytes(raw) == b"null" else bytes(raw).decode("utf-8", "replace")


def _decode_request_part(raw: Raw, confirm: SummaryConfirmer | None) -> Chunk:
    fields = splice.parse_object(raw) or {}
    kind = splice.parse_string(fields.get("part_kind")) or ""
    content = splice.parse_string(fields.get("content"))
    tool = splice.parse_string(fields.get("tool_name"))
    match kind:
        case "system-prompt" if content is not None:
            return Chunk("system", find_origin("system", content, confirm), (Text(content),) if content else ())
        case "user-prompt" if content is not None:
            texts = (Text(content),) if content else ()
            return Chunk("user", find_origin("user", content, confirm), texts, separate=True)
        case "user-prompt":
            contents = tuple(_decode_content(item) for item in splice.parse_array(fields.get("content")) or ())
            return Chunk("user", "human", contents, separate=True)
        case "tool-return" | "retry-prompt" if tool:
            call = splice.parse_string(fields.get("tool_call_id")) or ""
            error = kind == "retry-prompt" or splice.parse_string(fields.get("outcome")) not in (None, "success")
            return Chunk(
                "tool", "tool", (ToolResult(call, tool, _decode_output(fields.get("content")), is_error=error),)
            )
        case "retry-prompt" | "retry-feedback" if content is not None:
            return Chunk("user", "harness", (Text(content),))
    return Chunk("user", "harness", (OpaquePart(kind, bytes(raw)),))


def _decode_output(raw: Raw | None) -> tuple[Text | Image | Document | OpaquePart, ...]:
    text = splice.parse_string(raw)
    if text is not None:
        return (Text(text),) if text else ()
    if raw is None or bytes(raw) == b"null":
        return ()
    items = splice.parse_array(raw)
    if items is not None and any(isinstance(_decode_content(item), Image | Document) for item in items):
        return tuple(_decode_content(item) for item in items)
    if items is None and isinstance(only := _decode_content(raw), Image | Document):
        return (only,)
    return (Text(bytes(raw).decode("utf-8", "replace")),)


def _decode_content(raw: Raw) -> Text | Image | Document | OpaquePart:
    text = splice.parse_string(raw)
    if text is not None:
        return Text(text)
    fields = splice.parse_object(raw) or {}
    kind = splice.parse_string(fields.get("kind")) or ""
    media = splice.parse_string(fields.get("media_type")) or ""
    url, data = splice.parse_string(fields.get("url")) or "", splice.parse_string(fields.get("data")) or ""
    if kind == "image-url" or (kind == "binary" and media.startswith("image/")):
        return Image(media, data, url)
    if kind == "document-url" or (kind == "binary" and data):
        return Document(media_type=media, data=data, url=url)
    return OpaquePart(kind, bytes(raw))


# -- encoding ----------------------------------------------------------------------------------------------------------


def _render_message(messages: Sequence[Message], batch: EncodingBatch, ledger: Ledger) -> bytes | None:
    index = batch.indices[0]
    first = messages[index]
    natives = [n for i in batch.indices if (n := messages[i].native) is not None and n.format == NAME and n.group]
    if len(natives) == len(batch.indices):
        head = next((n.head for n in natives if n.index == 0), b'{"parts":[')
        tail = next((strip_container_end(n.tail) for n in natives if n.index == n.count - 1), b'],"kind":"request"}')
        return head + b",".join(b for i in batch.indices for b in extract_blocks(messages[i], _PARTS_KEY) or ()) + tail
    parts = _render_prompt(first, index, ledger)
    if not parts:
        ledger.note("empty_message_dropped", index, f"nothing is left of this {first.role} message")
        return None
    if first.role != "assistant":
        return build_object((_PARTS_KEY, build_array(parts)), ("kind", b'"request"'))
    return build_object(
        (_PARTS_KEY, build_array(parts)), ("model_name", b'""'), ("kind", b'"response"')
    )  # it joins answers without one


def _render_prompt(message: Message, index: int, ledger: Ledger) -> list[bytes]:
    """Renders the parts of a message. All texts and media of a user message become one prompt.

    Prompts in one request count as separate messages, since pydantic-ai joins requests.
    """
    contents = tuple(p for p in message.parts if isinstance(p, Image | Document) or (isinstance(p, Text) and p.text))
    if message.role != "user" or len(contents) < 2:
        return _render_parts(message, index, ledger)
    content = [quote(p.text) if isinstance(p, Text) else _render_media(p, index, ledger) for p in contents]
    rest = replace(message, parts=tuple(p for p in message.parts if p not in contents))
    prompt = build_object(("content", build_array(content)), ("part_kind", b'"user-prompt"'))
    return [prompt, *_render_parts(rest, index, ledger)]


_TEXT_KINDS: Mapping[str, bytes] = {"system": b'"system-prompt"', "user": b'"user-prompt"', "assistant": b'"text"'}


def _render_parts(message: Message, index: int, ledger: Ledger) -> list[bytes]:
    out: list[bytes] = []
    foreign = ledger.is_foreign(message)
    for part in message.parts:
        match part:
            case Text(text):
                if not text:
                    ledger.note("empty_text_dropped", index, "an empty text part")
                    continue
                kind = _TEXT_KINDS.get(message.role, b'"user-prompt"')
                out.append(build_object(("content", quote(text)), ("part_kind", kind)))
            case Thinking(text, signature):
                if foreign:
                    ledger.note("thinking_dropped" if text else "signature_dropped", index, "another provider's")
                    continue
                signature_field = (("signature", quote(signature)),) if signature else ()
                out.append(build_object(("content", quote(text)), *signature_field, ("part_kind", b'"thinking"')))
            case ToolCall(_, name, _):
                call_fields = (("tool_name", quote(name)), ("args", quote(part.arguments)))
                call = ("tool_call_id", quote(ledger.assign_call_id(part, index)))
                out.append(build_object(*call_fields, call, ("part_kind", b'"tool-call"')))
            case ToolResult():
                out.append(_render_result(part, index, ledger, foreign=foreign))
            case Image() | Document():
                out.append(
                    build_object(
                        ("content", build_array([_render_media(part, index, ledger)])), ("part_kind", b'"user-prompt"')
                    )
                )
            case OpaquePart(_, raw):
                if not ledger.should_drop(part, index, foreign=foreign):
                    out.append(raw)
            case _:
                assert_never(part)
    return out


def _render_result(result: ToolResult, index: int, ledger: Ledger, *, foreign: bool) -> bytes:
    content: list[bytes] = []
    for part in result.content:
        if isinstance(part, Text):
            content.append(quote(part.text))
        elif isinstance(part, OpaquePart):
            content.extend([] if ledger.should_drop(part, index, foreign=foreign) else [part.raw])
        else:
            content.append(_render_media(part, index, ledger))
    return build_object(
        ("tool_name", quote(ledger.get_tool_name(result.call_id, result.name))),
        ("content", content[0] if len(content) == 1 else build_array(content) if content else b'""'),
        ("tool_call_id", quote(ledger.assign_result_id(result.call_id))),
        ("outcome", b'"failed"' if result.is_error else b'"success"'),
        ("part_kind", b'"tool-return"'),
    )


def _render_media(part: Image | Document, index: int, ledger: Ledger) -> bytes:
    if isinstance(part, Document) and part.text:
        ledger.note("document_as_text", index, f"document {part.name or part.media_type or 'without a name'}")
        return quote(inline_document(part))
    is_image = isinstance(part, Image)
    if part.url:
        return build_object(("url", quote(part.url)), ("kind", b'"image-url"' if is_image else b'"document-url"'))
    if part.data:
        return build_object(("data", quote(part.data)), ("media_type", quote(part.media_type)), ("kind", b'"binary"'))
    ledger.note("image_dropped" if is_image else "document_dropped", index, "nothing of it is there to be sent")
    return quote(render_placeholder(part))
