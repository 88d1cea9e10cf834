"""OpenAI Chat Completions: `{"role", "content": text | [parts] | null, "tool_calls", ...}`.

Each tool result is a separate message that holds only text, so images and error flags in it are turned into text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    get_tool_result,
)
from tenfold.core.wire import splice
from tenfold.core.wire.base import DecodingContext, OutgoingMessage
from tenfold.core.wire.media import to_document, to_image, to_url
from tenfold.core.wire.openai_content import (
    RenderedPart,
    rejoin_message,
    render_content,
    render_detail,
    render_file_fields,
    render_parts,
    render_prompt,
    render_result_parts,
)
from tenfold.core.wire.segments import ContentPart, ParsedMessage, decode_parts, split_content
from tenfold.core.wire.splice import Fields, build_array, build_object, quote

_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "user",
}
_SIBLING_FIELDS = frozenset({"function_call", "audio"})
"""Fields of a message beside `content` that are kept as opaque parts."""
_THINKING_TEXTS = ("reasoning_content", "reasoning")
_THINKING_BLOCKS = ("reasoning_details", "thinking_blocks")
"""The fields in which OpenRouter and LiteLLM keep the blocks of a model's thinking."""
_BLOCK_TEXTS = ("text", "summary", "thinking")


# -- decoding ----------------------------------------------------------------------------------------------------------


def decode(natives: Iterable[ParsedMessage], context: DecodingContext) -> Iterator[Message]:
    """Decodes the native messages of a list: see `ListDecoder`."""
    for message in natives:
        fields, native = message.fields, message.native
        role = message.get_role(_ROLES, "an OpenAI Chat message")
        if role == "tool":
            call_id = message.get_text("tool_call_id")
            name = message.get_text("name") or context.find_tool_name(call_id) or ""
            result = ToolResult(call_id, name, decode_parts(fields.get("content"), _decode_block))
            yield Message("tool", (result,), "tool", native=native)
        elif role == "assistant":
            parts = _decode_answer(fields)
            context.add_calls(parts)
            yield Message("assistant", parts, "model", native=native)
        else:
            text_role: Role = "tool" if message.get_text("role") == "function" else role
            yield from split_content(message, role, _decode_block, partial(context.find_origin, text_role))


def _decode_block(block: Raw) -> ContentPart:
    fields = splice.parse_object(block) or {}
    kind = splice.get_text(fields, "type")
    text = splice.find_text(fields, kind)
    if kind in ("text", "refusal") and text is not None:
        return Text(text)
    inner = (splice.parse_object(fields[kind]) if kind in fields else None) or {}
    url, data = splice.find_text(inner, "url"), splice.find_text(inner, "file_data")
    if kind == "image_url" and url is not None:
        return to_image(url, splice.get_text(inner, "detail"))
    if kind == "file" and data is not None:
        return to_document(data, splice.get_text(inner, "filename"))
    return OpaquePart(kind, bytes(block))


def _decode_answer(fields: Fields) -> tuple[Part, ...]:
    parts: list[Part] = [*_decode_thinking(fields)]
    parts.extend(decode_parts(fields.get("content"), _decode_block))
    if refusal := splice.find_text(fields, "refusal"):
        parts.append(Text(refusal))
    siblings = sorted(key for key in _SIBLING_FIELDS & set(fields) if bytes(fields[key]) != b"null")
    parts.extend(OpaquePart(key, bytes(fields[key])) for key in siblings)
    parts.extend(part for raw in splice.parse_array(fields.get("tool_calls")) or () for part in _decode_call(raw))
    return tuple(parts)


def _decode_thinking(fields: Fields) -> Iterator[Thinking]:
    """Decodes what the model thought: a text, and what of it only the provider can read, in blocks of a router."""
    text = next((thought for key in _THINKING_TEXTS if (thought := splice.find_text(fields, key))), "")
    raws = [raw for key in _THINKING_BLOCKS for raw in splice.parse_array(fields.get(key)) or ()]
    blocks = [splice.parse_object(raw) or {} for raw in raws]
    texts = [each for block in blocks for key in _BLOCK_TEXTS if (each := splice.find_text(block, key))]
    sealed = [each for block in blocks for key in ("signature", "data") if (each := splice.find_text(block, key))]
    first, *others = dict.fromkeys([*sealed, *_list_signatures(fields)]) or [""]
    text = text or "\n".join(dict.fromkeys(texts))
    if text or first:
        yield Thinking(text, first)
    yield from (Thinking("", signature) for signature in others)


def _list_signatures(fields: Fields) -> list[str]:
    """Lists the signature that Google gives a message or a call of this wire, if there is one."""
    extra = splice.parse_object(fields["extra_content"]) if "extra_content" in fields else None
    google = splice.parse_object(extra["google"]) if extra is not None and "google" in extra else None
    signature = splice.find_text(google, "thought_signature") if google is not None else None
    return [signature] if signature else []


def _decode_call(raw: Raw) -> Iterator[ToolCall | OpaquePart | Thinking]:
    """Decodes a call, behind the signature of the thinking that led to it."""
    fields = splice.parse_object(raw) or {}
    yield from (Thinking("", signature) for signature in _list_signatures(fields))
    kind = splice.find_text(fields, "type") or "function"
    inner = splice.parse_object(fields[kind]) if kind in fields else None
    call, name = (splice.find_text(fields, "id"), splice.find_text(inner, "name") if inner is not None else None)
    if call is None or name is None or inner is None:
        yield OpaquePart(f"tool_calls.{kind}", bytes(raw))
        return
    yield ToolCall(call, name, splice.parse_string(inner.get("input" if kind == "custom" else "arguments")) or "")


# -- encoding ----------------------------------------------------------------------------------------------------------


def render_batch(batch: Sequence[OutgoingMessage]) -> list[bytes]:
    """Renders messages that make one native message: see `BatchRenderer`."""
    first = batch[0]
    if first.message.role == "assistant":
        return _render_assistant(first)
    result = get_tool_result(first.message)
    if result is not None:
        return [_render_result(result, first)]
    return rejoin_message(batch) or render_prompt(first, _render_part, "text")


def _render_part(part: Part, outgoing: OutgoingMessage) -> list[RenderedPart]:
    match part:
        case Text():
            return [part]
        case Image():
            return [_render_image(part, outgoing)]
        case Document():
            return [_render_document(part, outgoing)]
        case Thinking():
            outgoing.note_lost_thinking(part, "this wire has no place for it")
        case OpaquePart(kind):
            is_sibling = kind in _SIBLING_FIELDS or kind.startswith("tool_calls.")
            raws = outgoing.render_opaque(part)
            return [] if is_sibling and outgoing.message.role != "tool" else [*raws]
        case ToolCall() | ToolResult():
            pass
        case _:
            assert_never(part)
    return []


def _render_image(part: Image, outgoing: OutgoingMessage) -> RenderedPart:
    if outgoing.message.role == "user" and (part.data or part.url):
        image_url = build_object(url=quote(to_url(part)), **render_detail(part))
        return build_object(type=b'"image_url"', image_url=image_url)
    return Text(outgoing.replace_by_placeholder(part, "only user messages of this wire carry images"))


def _render_document(part: Document, outgoing: OutgoingMessage) -> RenderedPart:
    if part.text:
        return Text(outgoing.replace_by_text(part))
    if outgoing.message.role == "user" and part.data:
        return build_object(type=b'"file"', file=build_object(**render_file_fields(part)))
    return Text(outgoing.replace_by_placeholder(part))


def _render_assistant(outgoing: OutgoingMessage) -> list[bytes]:
    parts = render_parts(outgoing, _render_part)
    calls: list[bytes] = []
    siblings: dict[str, bytes] = {}
    for part in outgoing.message.parts:
        if isinstance(part, ToolCall):
            function = build_object(name=quote(part.name), arguments=quote(part.arguments))
            call_id = quote(outgoing.assign_call_id(part))
            calls.append(build_object(id=call_id, type=b'"function"', function=function))
        elif isinstance(part, OpaquePart) and not outgoing.is_foreign:
            if part.kind in _SIBLING_FIELDS:
                siblings[part.kind] = part.raw
            elif part.kind.startswith("tool_calls."):
                calls.append(part.raw)
    if calls:
        siblings["tool_calls"] = build_array(calls)
    if not parts and not siblings:
        return []
    content = render_content(parts, "text") if parts else b"null"
    return [build_object(role=b'"assistant"', content=content, **siblings)]


def _render_result(result: ToolResult, outgoing: OutgoingMessage) -> bytes:
    parts = render_result_parts(result, outgoing, _render_part)
    call_id = quote(outgoing.ledger.assign_result_id(result))
    return build_object(role=b'"tool"', tool_call_id=call_id, content=render_content(parts, "text"))
