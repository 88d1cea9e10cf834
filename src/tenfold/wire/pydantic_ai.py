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
from tenfold.record.message import Document, Image, Message, OpaquePart, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.wire import splice
from tenfold.wire.base import NO_PREFIX, DecodedPrefix, EncodedList, Ledger
from tenfold.wire.encoding import encode_list
from tenfold.wire.marks import SummaryConfirmer, find_origin
from tenfold.wire.profiles import Profile
from tenfold.wire.segments import (
    Chunk,
    ContentPart,
    EncodingBatch,
    NativeMessage,
    decode_parts,
    extract_blocks,
    parse_list,
    split_message,
    strip_container_end,
)
from tenfold.wire.splice import build_array, build_object, quote

NAME = "pydantic-ai"
_PARTS_KEY = "parts"
_UNFINISHED_STATES = ("interrupted", "incomplete")
"""The states of a response that was not finished."""


PROFILE = Profile(
    wire=NAME,
    opens_with_assistant=True,
    consecutive_roles=True,
    midlist_system="accepted",
    results="anywhere",
    reasoning_needs_successor=False,
    empty_text=True,
    empty_message=True,
    ids_optional=False,
    id_pattern=r".{1,128}",
    evidence={
        "results": "it writes each provider's form itself; the results of a step stand in the next request "
        "(`_agent_graph.py`: one ModelRequest with all ToolReturnParts)",
        "midlist_system": "a SystemPromptPart may stand in any request",
    },
)


class PydanticAI:
    """The wire between a pydantic-ai agent and its models."""

    name = NAME
    profile = PROFILE

    def decode(
        self, items: Sequence[bytes], *, confirm: SummaryConfirmer | None = None, prefix: DecodedPrefix = NO_PREFIX
    ) -> list[Message]:
        """See `Wire.decode`."""
        return [m for each in parse_list(items, NAME, prefix) for m in _decode_message(each, confirm)]

    def encode(self, messages: Sequence[Message]) -> EncodedList:
        """See `Wire.encode`."""
        return encode_list(messages, PROFILE, _render_message)


# -- decoding ----------------------------------------------------------------------------------------------------------


def _decode_message(message: NativeMessage, confirm: SummaryConfirmer | None) -> list[Message]:
    native, raw_parts = message.native, splice.parse_array(message.fields.get(_PARTS_KEY)) or ()
    match splice.parse_string(message.fields.get("kind")):
        case "response":
            is_unfinished = message.get_text("state") in _UNFINISHED_STATES
            parts = tuple(map(_decode_response_part, raw_parts))
            return [Message("assistant", parts, "model", "aborted" if is_unfinished else "ok", native)]
        case "request":
            chunks = [_decode_request_part(part, confirm) for part in raw_parts]
            return split_message(native, _PARTS_KEY, chunks or [Chunk("user", "harness", ())])
        case other:
            raise UnknownRole(
                f"message {message.index} is of kind {other!r}; one of pydantic-ai is a request or a response"
            )


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


def _decode_output(raw: Raw | None) -> tuple[ContentPart, ...]:
    if raw is None or bytes(raw) == b"null":
        return ()
    content = (_decode_content(raw),) if splice.is_object(bytes(raw)) else decode_parts(raw, _decode_content)
    is_text = splice.parse_string(raw) is not None
    if is_text or any(isinstance(part, Image | Document) for part in content):
        return content
    return (Text(bytes(raw).decode("utf-8", "replace")),)


def _decode_content(raw: Raw) -> ContentPart:
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


def _render_message(messages: Sequence[Message], batch: EncodingBatch, ledger: Ledger) -> list[bytes]:
    index = batch.indices[0]
    message = messages[index]
    natives = [n for i in batch.indices if (n := messages[i].native) is not None and n.format == NAME]
    if natives:
        head = next((n.head for n in natives if n.index == 0), b'{"parts":[')
        tail = next((strip_container_end(n.tail) for n in natives if n.index == n.count - 1), b'],"kind":"request"}')
        blocks = [block for i in batch.indices for block in extract_blocks(messages[i], _PARTS_KEY) or ()]
        return [head + b",".join(blocks) + tail]
    parts = _render_prompt(message, index, ledger)
    if not parts:
        return []
    if message.role != "assistant":
        return [build_object((_PARTS_KEY, build_array(parts)), ("kind", b'"request"'))]
    # without a model's name, pydantic-ai would join the answer to the one before it
    return [build_object((_PARTS_KEY, build_array(parts)), ("model_name", b'""'), ("kind", b'"response"'))]


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
                    ledger.note_empty_text(index)
                    continue
                kind = _TEXT_KINDS.get(message.role, b'"user-prompt"')
                out.append(build_object(("content", quote(text)), ("part_kind", kind)))
            case Thinking(text, signature):
                if foreign:
                    ledger.note_lost_thinking(part, index, "not this provider's")
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
        return quote(ledger.replace_by_text(part, index))
    if part.url:
        return build_object(
            ("url", quote(part.url)), ("kind", b'"image-url"' if isinstance(part, Image) else b'"document-url"')
        )
    if part.data:
        return build_object(("data", quote(part.data)), ("media_type", quote(part.media_type)), ("kind", b'"binary"'))
    return quote(ledger.replace_by_placeholder(part, index))
