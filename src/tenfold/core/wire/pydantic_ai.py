"""The message list of pydantic-ai as JSON: requests and responses, each made of parts.

pydantic-ai reads and writes it with `ModelMessagesTypeAdapter`. No provider uses it, so it is not one of `WIRES`. A
request holds what providers spread over several messages: system prompts, user prompts, tool results. This module
does not import pydantic-ai.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import assert_never

from msgspec import Raw

from tenfold.core.record.message import Document, Image, Message, OpaquePart, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.core.wire import splice
from tenfold.core.wire.base import DecodingContext, OutgoingMessage
from tenfold.core.wire.encoding import Wire
from tenfold.core.wire.profiles import Profile
from tenfold.core.wire.segments import (
    Chunk,
    ContentPart,
    ParsedMessage,
    decode_parts,
    extract_blocks,
    split_message,
    strip_container_end,
)
from tenfold.core.wire.splice import build_array, build_object, quote
from tenfold.errors import UnknownRole

NAME = "pydantic-ai"
_UNFINISHED_STATES = ("interrupted", "incomplete")
"""The states of a response that was not finished."""


PROFILE = Profile(
    wire=NAME,
    # a SystemPromptPart may stand in any request
    midlist_system="accepted",
    # it writes each provider's form itself; the results of a step stand in the next request (`_agent_graph.py`: one
    # ModelRequest with all ToolReturnParts)
    results="anywhere",
    id_pattern=r".{1,128}",
    media_kinds={"image-url": "image", "document-url": "document", "audio-url": "audio", "video-url": "video"},
)


# -- decoding ----------------------------------------------------------------------------------------------------------


def _decode(natives: Iterable[ParsedMessage], context: DecodingContext) -> Iterator[Message]:
    for message in natives:
        raw_parts = splice.parse_array(message.fields.get("parts")) or ()
        kind = message.get_text("kind")
        if kind == "response":
            is_unfinished = message.get_text("state") in _UNFINISHED_STATES
            parts = tuple(map(_decode_response_part, raw_parts))
            yield Message("assistant", parts, "model", "aborted" if is_unfinished else "ok", message.native)
        elif kind == "request":
            chunks = [_decode_request_part(part, context) for part in raw_parts]
            yield from split_message(message.native, "parts", chunks or [Chunk("user", "harness", ())])
        else:
            place = f"message {message.index} is of kind {kind!r}"
            raise UnknownRole(f"{place}; one of pydantic-ai is a request or a response")


def _decode_response_part(raw: Raw) -> Part:
    fields = splice.parse_object(raw) or {}
    kind = splice.get_text(fields, "part_kind")
    content = splice.find_text(fields, "content")
    match kind:
        case "text" if content is not None:
            return Text(content)
        case "thinking" if content is not None:
            return Thinking(content, splice.get_text(fields, "signature"))
        case "tool-call":
            name, call = splice.find_text(fields, "tool_name"), splice.find_text(fields, "tool_call_id")
            if name is not None and call is not None:
                return ToolCall(call, name, _decode_arguments(fields.get("args")))
    return OpaquePart(kind, bytes(raw))


def _decode_arguments(raw: Raw | None) -> str:
    text = splice.parse_string(raw)
    if text is not None:
        return text
    return "" if raw is None or bytes(raw) == b"null" else bytes(raw).decode("utf-8", "replace")


def _decode_request_part(raw: Raw, context: DecodingContext) -> Chunk:
    fields = splice.parse_object(raw) or {}
    kind = splice.get_text(fields, "part_kind")
    content = splice.find_text(fields, "content")
    tool = splice.find_text(fields, "tool_name")
    match kind:
        case "system-prompt" if content is not None:
            return Chunk("system", context.find_origin("system", content), (Text(content),) if content else ())
        case "user-prompt" if content is not None:
            texts = (Text(content),) if content else ()
            return Chunk("user", context.find_origin("user", content), texts, separate=True)
        case "user-prompt":
            contents = tuple(_decode_content(item) for item in splice.parse_array(fields.get("content")) or ())
            return Chunk("user", "human", contents, separate=True)
        case "tool-return" | "retry-prompt" if tool:
            call = splice.get_text(fields, "tool_call_id")
            error = kind == "retry-prompt" or splice.find_text(fields, "outcome") not in (None, "success")
            result = ToolResult(call, tool, _decode_output(fields.get("content")), is_error=error)
            return Chunk("tool", "tool", (result,))
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
    kind = splice.get_text(fields, "kind")
    media = splice.get_text(fields, "media_type")
    url, data = splice.get_text(fields, "url"), splice.get_text(fields, "data")
    if kind == "image-url" or (kind == "binary" and media.startswith("image/")):
        return Image(media, data, url)
    if kind == "document-url" or (kind == "binary" and data):
        return Document(media_type=media, data=data, url=url)
    return OpaquePart(kind, bytes(raw))


# -- encoding ----------------------------------------------------------------------------------------------------------


_TEXT_KINDS: Mapping[str, bytes] = {"system": b'"system-prompt"', "user": b'"user-prompt"', "assistant": b'"text"'}


def _render_batch(batch: Sequence[OutgoingMessage]) -> list[bytes]:
    natives = [native for outgoing in batch if (native := outgoing.own_native) is not None]
    if natives:
        head = next((n.head for n in natives if n.index == 0), b'{"parts":[')
        tail = next((strip_container_end(n.tail) for n in natives if n.index == n.count - 1), b'],"kind":"request"}')
        blocks = (block for native in natives for block in extract_blocks(native, "parts") or ())
        return [head + b",".join(blocks) + tail]
    parts = _render_parts(batch[0])
    if not parts:
        return []
    if batch[0].message.role != "assistant":
        return [build_object(parts=build_array(parts), kind=b'"request"')]
    # without a model's name, pydantic-ai would join the answer to the one before it
    return [build_object(parts=build_array(parts), model_name=b'""', kind=b'"response"')]


def _render_parts(outgoing: OutgoingMessage) -> list[bytes]:
    """Renders the parts of a message. All texts and media of a user message become one prompt.

    Prompts in one request count as separate messages, since pydantic-ai joins requests.
    """
    message = outgoing.message
    contents = [p for p in message.parts if isinstance(p, Image | Document) or (isinstance(p, Text) and p.text)]
    if message.role != "user" or len(contents) < 2:
        return [rendered for part in message.parts for rendered in _render_part(part, outgoing)]
    prompt = build_object(
        content=build_array(_render_content(p, outgoing) for p in contents), part_kind=b'"user-prompt"'
    )
    rest = (rendered for part in message.parts if part not in contents for rendered in _render_part(part, outgoing))
    return [prompt, *rest]


def _render_part(part: Part, outgoing: OutgoingMessage) -> list[bytes]:
    match part:
        case Text(""):
            outgoing.note_empty_text()
        case Text(text):
            kind = _TEXT_KINDS.get(outgoing.message.role, b'"user-prompt"')
            return [build_object(content=quote(text), part_kind=kind)]
        case Thinking() if outgoing.is_foreign:
            outgoing.note_lost_thinking(part, "not this provider's")
        case Thinking(text, signature):
            signature_field = {"signature": quote(signature)} if signature else {}
            return [build_object(content=quote(text), **signature_field, part_kind=b'"thinking"')]
        case ToolCall(_, name, arguments):
            call_id = quote(outgoing.assign_call_id(part))
            fields = {"tool_name": quote(name), "args": quote(arguments), "tool_call_id": call_id}
            return [build_object(**fields, part_kind=b'"tool-call"')]
        case ToolResult():
            return [_render_result(part, outgoing)]
        case Image() | Document():
            content = build_array([_render_content(part, outgoing)])
            return [build_object(content=content, part_kind=b'"user-prompt"')]
        case OpaquePart():
            return outgoing.render_opaque(part)
        case _:
            assert_never(part)
    return []


def _render_result(result: ToolResult, outgoing: OutgoingMessage) -> bytes:
    content: list[bytes] = []
    for part in result.content:
        content += outgoing.render_opaque(part) if isinstance(part, OpaquePart) else [_render_content(part, outgoing)]
    several = build_array(content) if content else b'""'
    return build_object(
        tool_name=quote(outgoing.ledger.find_tool_name(result)),
        content=content[0] if len(content) == 1 else several,
        tool_call_id=quote(outgoing.ledger.assign_result_id(result)),
        outcome=b'"failed"' if result.is_error else b'"success"',
        part_kind=b'"tool-return"',
    )


def _render_content(part: Text | Image | Document, outgoing: OutgoingMessage) -> bytes:
    if isinstance(part, Text):
        return quote(part.text)
    if isinstance(part, Document) and part.text:
        return quote(outgoing.replace_by_text(part))
    if part.url:
        return build_object(url=quote(part.url), kind=b'"image-url"' if isinstance(part, Image) else b'"document-url"')
    if part.data:
        return build_object(data=quote(part.data), media_type=quote(part.media_type), kind=b'"binary"')
    return quote(outgoing.replace_by_placeholder(part))


WIRE = Wire(PROFILE, _decode, _render_batch)
"""The wire between a pydantic-ai agent and its models."""
