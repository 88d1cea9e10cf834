"""OpenAI Chat Completions: `{"role", "content": text | [parts] | null, "tool_calls", ...}`.

Each tool result is a separate message that holds only text, so images and error flags in it are turned into text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import assert_never

from msgspec import Raw

from tenfold.errors import UnknownRole
from tenfold.record.message import (
    Document,
    Image,
    Message,
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
from tenfold.wire.base import NO_PREFIX, DecodedPrefix, EncodedList, Ledger, ToolNames
from tenfold.wire.encoding import encode_list
from tenfold.wire.marks import SummaryConfirmer, find_origin
from tenfold.wire.media import to_document, to_image, to_url
from tenfold.wire.openai_content import (
    RESPONSES_PARTS,
    RenderedPart,
    add_error_flag,
    rejoin_message,
    render_content,
    render_file_fields,
)
from tenfold.wire.profiles import NativeShape, Profile, RequestFields, UsageFields, build_plain_tool
from tenfold.wire.segments import (
    Chunk,
    ContentPart,
    EncodingBatch,
    NativeMessage,
    decode_parts,
    parse_list,
    split_content,
)
from tenfold.wire.splice import Fields, build_array, build_object, quote

NAME = "openai-chat"
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


_OWN_PARTS = frozenset({"image_url", "input_audio", "file", "refusal"})
"""The content parts that no other wire has."""


# -- profile -----------------------------------------------------------------------------------------------------------


def _recognize_message(shape: NativeShape) -> bool:
    is_tool_output = shape.role in ("tool", "function") and shape.kind != "message"
    is_chat = "tool_calls" in shape.fields or is_tool_output or not _OWN_PARTS.isdisjoint(shape.block_kinds)
    return is_chat and RESPONSES_PARTS.isdisjoint(shape.block_kinds)


def _build_tool(name: str, description: str, parameters: Mapping[str, object]) -> dict[str, object]:
    return {"type": "function", "function": build_plain_tool(name, description, parameters)}


PROFILE = Profile(
    wire=NAME,
    opens_with_assistant=True,
    consecutive_roles=True,
    midlist_system="accepted",
    results="adjacent",
    reasoning_needs_successor=False,
    empty_text=True,
    empty_message=True,
    ids_optional=False,
    id_pattern=r".{1,64}",
    evidence={
        "opens_with_assistant": "accepted: the API puts no order on roles other than tool",
        "midlist_system": "accepted anywhere in the list",
        "results": "`messages with role 'tool' must be a response to a preceding message with 'tool_calls'` "
        "(simonw/llm#937); unanswered `tool_call_ids` are refused (spacedriveapp/spacebot#136)",
        "empty_text": "an empty string is accepted as content",
        "id_pattern": "any text; a length limit is enforced by the service",
    },
    request=RequestFields(output_fields=("max_tokens", "max_completion_tokens")),
    usage=(
        UsageFields(
            prompt=("prompt_tokens",),
            output="completion_tokens",
            cache_read="cache_read_input_tokens",  # routers to Anthropic's models report these two as well
            cache_write="cache_creation_input_tokens",
            details="prompt_tokens_details",
        ),
    ),
    recognize_message=_recognize_message,
    build_tool=_build_tool,
    session_formats=frozenset({"openhands-requests", "tau2", "swe-agent"}),
)


class OpenAIChat:
    """The OpenAI Chat Completions wire."""

    name = NAME
    profile = PROFILE

    def decode(
        self, items: Sequence[bytes], *, confirm: SummaryConfirmer | None = None, prefix: DecodedPrefix = NO_PREFIX
    ) -> list[Message]:
        """See `Wire.decode`."""
        names = ToolNames(prefix)
        return [m for each in parse_list(items, NAME, prefix) for m in _decode_message(each, names, confirm)]

    def encode(self, messages: Sequence[Message]) -> EncodedList:
        """See `Wire.encode`."""
        return encode_list(messages, PROFILE, _render_message)


# -- decoding ----------------------------------------------------------------------------------------------------------


def _decode_message(message: NativeMessage, names: ToolNames, confirm: SummaryConfirmer | None) -> list[Message]:
    fields, native = message.fields, message.native
    name = message.get_text("role")
    role = _ROLES.get(name)
    if role is None:
        raise UnknownRole(
            f"message {message.index} has role {name!r}; an OpenAI Chat message has one of {', '.join(_ROLES)}"
        )
    if role == "tool":
        call_id = message.get_text("tool_call_id")
        tool = message.get_text("name") or names.get_name(call_id) or ""
        result = ToolResult(call_id, tool, decode_parts(fields.get("content"), _decode_block))
        return [Message("tool", (result,), "tool", native=native)]
    if role == "assistant":
        parts = _decode_answer(fields)
        names.add_calls(parts)
        return [Message("assistant", parts, "model", native=native)]

    def get_origin(text: str) -> Origin:
        return "tool" if name == "function" else find_origin(role, text, confirm)

    return split_content(message, role, partial(_decode_chunk, role, get_origin), get_origin)


def _decode_chunk(role: Role, get_origin: Callable[[str], Origin], block: Raw) -> Chunk:
    part = _decode_block(block)
    return Chunk(role, get_origin(part.text if isinstance(part, Text) else ""), (part,))


def _decode_block(block: Raw) -> ContentPart:
    fields = splice.parse_object(block) or {}
    kind = splice.parse_string(fields.get("type")) or ""
    text = splice.parse_string(fields.get(kind))
    if kind in ("text", "refusal") and text is not None:
        return Text(text)
    inner = (splice.parse_object(fields[kind]) if kind in fields else None) or {}
    url, data = splice.parse_string(inner.get("url")), splice.parse_string(inner.get("file_data"))
    if kind == "image_url" and url is not None:
        return to_image(url)
    if kind == "file" and data is not None:
        return to_document(data, splice.parse_string(inner.get("filename")) or "")
    return OpaquePart(kind, bytes(block))


def _decode_answer(fields: Fields) -> tuple[Part, ...]:
    parts: list[Part] = []
    for key in ("reasoning_content", "reasoning"):
        if thought := splice.parse_string(fields.get(key)):
            parts.append(Thinking(thought))
            break
    parts.extend(decode_parts(fields.get("content"), _decode_block))
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


def _render_message(messages: Sequence[Message], batch: EncodingBatch, ledger: Ledger) -> list[bytes]:
    rejoined = rejoin_message(messages, batch, ledger)
    if rejoined is not None:
        return rejoined
    index = batch.indices[0]
    message = messages[index]
    if message.role == "assistant":
        return _render_assistant(message, index, ledger)
    if message.role == "tool":
        return [_render_tool(message, index, ledger)]
    parts = _render_parts(message, index, ledger)
    return [build_object(("role", quote(message.role)), ("content", render_content(parts, "text")))] if parts else []


def _render_parts(message: Message, index: int, ledger: Ledger) -> list[RenderedPart]:
    out: list[RenderedPart] = []
    foreign = ledger.is_foreign(message)
    for part in message.parts:
        match part:
            case Text(text):
                if text:
                    out.append(part)
                else:
                    ledger.note_empty_text(index)
            case Image():
                out.append(_render_image(part, index, ledger, is_user_message=message.role == "user"))
            case Document():
                out.append(_render_document(part, index, ledger, is_user_message=message.role == "user"))
            case Thinking():
                ledger.note_lost_thinking(part, index, "this wire has no place for it")
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


def _render_image(part: Image, index: int, ledger: Ledger, *, is_user_message: bool) -> RenderedPart:
    if is_user_message and (part.data or part.url):
        url = build_object(("url", quote(to_url(part))))
        return build_object(("type", b'"image_url"'), ("image_url", url))
    return Text(ledger.replace_by_placeholder(part, index, "only user messages of this wire carry images"))


def _render_document(part: Document, index: int, ledger: Ledger, *, is_user_message: bool) -> RenderedPart:
    if part.text:
        return Text(ledger.replace_by_text(part, index))
    if is_user_message and part.data:
        return build_object(("type", b'"file"'), ("file", build_object(*render_file_fields(part))))
    return Text(ledger.replace_by_placeholder(part, index))


def _render_assistant(message: Message, index: int, ledger: Ledger) -> list[bytes]:
    parts = _render_parts(message, index, ledger)
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
    if calls:
        siblings.append(("tool_calls", build_array(calls)))
    if not parts and not siblings:
        return []
    content = render_content(parts, "text") if parts else b"null"
    return [build_object(("role", b'"assistant"'), ("content", content), *siblings)]


def _render_tool(message: Message, index: int, ledger: Ledger) -> bytes:
    result = next(p for p in message.parts if isinstance(p, ToolResult))
    foreign = ledger.is_foreign(message)
    parts: list[RenderedPart] = []
    for part in result.content:
        if isinstance(part, Text):
            parts.append(part)
        elif isinstance(part, Image):
            parts.append(_render_image(part, index, ledger, is_user_message=False))
        elif isinstance(part, Document):
            parts.append(_render_document(part, index, ledger, is_user_message=False))
        elif not ledger.should_drop(part, index, foreign=foreign):
            parts.append(part.raw)
    return build_object(
        ("role", b'"tool"'),
        ("tool_call_id", quote(ledger.assign_result_id(result.call_id))),
        ("content", render_content(add_error_flag(parts, result, index, ledger), "text")),
    )
