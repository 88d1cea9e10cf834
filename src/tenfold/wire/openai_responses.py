"""OpenAI Responses: messages, reasoning, tool calls and their outputs are separate items.

Consecutive items of the model (reasoning, text, calls) become one assistant message, since the provider refuses one
of them without the others. The `NativeBytes.body` of that message holds all the items with their separators.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import assert_never

from msgspec import Raw, Struct

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
    get_tool_result,
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
    render_text_part,
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

NAME = "openai-responses"
_ROLES: Mapping[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_CALL_FIELDS: Mapping[str, str] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "computer_call": "action",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
    "program": "code",
}
"""The types of call items, and the field that holds the arguments of each."""
_OUTPUT_FIELDS: Mapping[str, str] = {
    "function_call_output": "output",
    "custom_tool_call_output": "output",
    "computer_call_output": "output",
    "local_shell_call_output": "output",
    "shell_call_output": "output",
    "apply_patch_call_output": "output",
    "program_output": "result",
}
"""The types of output items, and the field that holds the content of each."""
_IRREPLACEABLE_OUTPUTS = frozenset({"computer_call_output", "program_output"})
"""Outputs that no text can replace: one is a screenshot, the other is known to the provider."""
_TEXT_TYPES = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text", "refusal"})


# -- profile -----------------------------------------------------------------------------------------------------------

_COMPACTION_TYPES = frozenset({"compaction", "compaction_summary"})
_ITEM_TYPES = frozenset({*_CALL_FIELDS, *_OUTPUT_FIELDS, "reasoning", "compaction", "item_reference"})
"""The types of items without a role that no other wire has."""


def _recognize_message(shape: NativeShape) -> bool:
    if not RESPONSES_PARTS.isdisjoint(shape.block_kinds):
        return True
    if not shape.role:
        return shape.kind in _ITEM_TYPES
    return shape.kind == "message" and "stop_reason" not in shape.fields


def _build_tool(name: str, description: str, parameters: Mapping[str, object]) -> dict[str, object]:
    return {"type": "function", **build_plain_tool(name, description, parameters)}


PROFILE = Profile(
    wire=NAME,
    opens_with_assistant=True,
    consecutive_roles=True,
    midlist_system="accepted",
    results="anywhere",
    reasoning_needs_successor=True,
    empty_text=True,
    empty_message=True,
    ids_optional=False,
    id_pattern=r".{1,64}",
    native_compaction="alone",
    compaction_types=_COMPACTION_TYPES,
    evidence={
        "opens_with_assistant": "output items of /responses/compact may stand first",
        "results": "`No tool output found for function call`: an output must exist, its place is free",
        "reasoning_needs_successor": "`Item of type 'reasoning' was provided without its required following item` "
        "(openai/openai-node#1567, vercel/ai#7099, openclaw/openclaw#19582)",
        "id_pattern": "call_id is at most 64 characters",
        "native_compaction": "items before the most recent compaction item may be dropped, it carries what is needed; "
        "/responses/compact gives all user messages followed by one such item "
        "(developers.openai.com/api/docs/guides/compaction; openai SDK, CompactedResponse)",
    },
    request=RequestFields(
        list_field="input",
        overhead_fields=("instructions", "tools"),
        output_fields=("max_output_tokens",),
        partial_fields=("previous_response_id", "conversation"),
    ),
    usage=(UsageFields(prompt=("input_tokens",), output="output_tokens", details="input_tokens_details"),),
    unfinished={
        "status": ("failed", "cancelled", "in_progress"),
        "object": ("response.compaction",),  # the cost of compacting, not of a request with this view
    },
    recognize_message=_recognize_message,
    build_tool=_build_tool,
    splits_answers=True,
    standalone_kinds=_COMPACTION_TYPES | {"compaction_trigger", "additional_tools"},
    session_formats=frozenset({"codex"}),
)


class OpenAIResponses:
    """The OpenAI Responses wire."""

    name = NAME
    profile = PROFILE

    def decode(
        self, items: Sequence[bytes], *, confirm: SummaryConfirmer | None = None, prefix: DecodedPrefix = NO_PREFIX
    ) -> list[Message]:
        """See `Wire.decode`."""
        out: list[Message] = []
        names = ToolNames(prefix)
        answer = _AnswerItems()
        for item in parse_list(items, NAME, prefix):
            role, parts = _decode_model_item(item)
            if parts is None:
                out.extend(answer.take_messages())
                out.extend(_decode_other_item(item, role, names, confirm))
                continue
            names.add_calls(parts)
            is_standalone = item.get_text("type") in PROFILE.standalone_kinds
            if is_standalone:
                out.extend(answer.take_messages())
            answer.add(item.native, parts)
            if is_standalone:
                out.extend(answer.take_messages())
        return [*out, *answer.take_messages()]

    def encode(self, messages: Sequence[Message]) -> EncodedList:
        """See `Wire.encode`."""
        call_kinds = {call_id: kind for m in messages for call_id, kind in _list_call_kinds(m)}
        return encode_list(messages, PROFILE, partial(_render_items, call_kinds))


def can_take_text(message: Message, call_ids: Collection[str]) -> bool:
    """Whether a tool result can be replaced by text. `call_ids` are the ids of the calls in its step.

    The output item must have the type that its call needs. If the list only refers to the call, that type is unknown,
    so only the most common one can be replaced.
    """
    result, native = get_tool_result(message), message.native
    if result is None or native is None or native.format != NAME:
        return True
    kind = splice.parse_string((splice.parse_object(native.body) or {}).get("type")) or ""
    return kind not in _IRREPLACEABLE_OUTPUTS and (kind == "function_call_output" or result.call_id in call_ids)


class _AnswerItems(Struct):
    """Collects the items of one answer."""

    natives: list[NativeBytes] = []
    parts: list[Part] = []

    def add(self, native: NativeBytes, parts: tuple[Part, ...]) -> None:
        self.natives.append(native)
        self.parts.extend(parts)

    def take_messages(self) -> list[Message]:
        """Returns the answer so far, as a list of at most one message, and starts a new one."""
        if not self.natives:
            return []
        first = self.natives[0]
        body = first.body + b"".join(n.lead + n.body for n in self.natives[1:])
        message = Message("assistant", tuple(self.parts), "model", native=NativeBytes(NAME, body, lead=first.lead))
        self.natives, self.parts = [], []
        return [message]


def _list_call_kinds(message: Message) -> Iterator[tuple[str, str]]:
    """Yields the id and the item type of each call in an untouched answer."""
    native = message.native
    if message.role != "assistant" or native is None or native.format != NAME:
        return
    for raw in splice.parse_array(b"[" + native.body + b"]") or ():
        fields = splice.parse_object(raw) or {}
        kind = splice.parse_string(fields.get("type")) or ""
        if kind in _CALL_FIELDS:
            yield _read_call_id(fields), kind


# -- decoding ----------------------------------------------------------------------------------------------------------


def _read_call_id(fields: Fields) -> str:
    return splice.parse_string(fields.get("call_id")) or splice.parse_string(fields.get("id")) or ""


def _decode_model_item(item: NativeMessage) -> tuple[Role, tuple[Part, ...] | None]:
    """Returns the role of an item, and its parts if the model wrote it, else None."""
    fields = item.fields
    kind = item.get_text("type") or ("message" if "role" in fields else "")
    if kind == "message":
        name = item.get_text("role")
        role = _ROLES.get(name)
        if role is None:
            raise UnknownRole(
                f"item {item.index} has role {name!r}; a Responses message has one of {', '.join(_ROLES)}"
            )
        return role, decode_parts(fields.get("content"), _decode_answer_block) if role == "assistant" else None
    if kind in _OUTPUT_FIELDS:
        return "tool", None
    if kind == "mcp_approval_response":
        return "user", None
    if kind == "reasoning":
        return "assistant", (_decode_reasoning(fields),)
    if kind in _CALL_FIELDS and (call := _read_call_id(fields)):
        value = fields.get(_CALL_FIELDS[kind])
        arguments = splice.parse_string(value)
        if arguments is None:
            arguments = bytes(value).decode("utf-8", "replace") if value is not None else ""
        return "assistant", (ToolCall(call, item.get_text("name") or kind.removesuffix("_call"), arguments),)
    return "assistant", (OpaquePart(kind, item.raw, NAME if kind in _COMPACTION_TYPES else ""),)


def _decode_reasoning(fields: Fields) -> Thinking:
    texts: list[str] = []
    for key in ("summary", "content"):
        for raw in splice.parse_array(fields.get(key)) or ():
            text = splice.parse_string((splice.parse_object(raw) or {}).get("text"))
            if text:
                texts.append(text)
    return Thinking(
        "\n".join(texts),
        splice.parse_string(fields.get("encrypted_content")) or splice.parse_string(fields.get("id")) or "",
    )


def _decode_answer_block(raw: Raw) -> ContentPart:
    part = _decode_block(raw)
    return OpaquePart(f"content.{part.kind}", part.raw) if isinstance(part, OpaquePart) else part


def _decode_block(raw: Raw) -> ContentPart:
    fields = splice.parse_object(raw) or {}
    kind = splice.parse_string(fields.get("type")) or ""
    text = splice.parse_string(fields.get("refusal" if kind == "refusal" else "text"))
    if text is not None and kind in _TEXT_TYPES:
        return Text(text)
    if kind in ("input_image", "computer_screenshot"):
        url = splice.parse_string(fields.get("image_url"))
        if url is not None:
            return to_image(url)
    if kind == "input_file":
        url = splice.parse_string(fields.get("file_data")) or splice.parse_string(fields.get("file_url"))
        if url is not None:
            return to_document(url, splice.parse_string(fields.get("filename")) or "")
    out, err = splice.parse_string(fields.get("stdout")), splice.parse_string(fields.get("stderr"))
    if not kind and out is not None:
        return Text(out + (err or ""))
    return OpaquePart(kind, bytes(raw))


def _decode_other_item(
    item: NativeMessage, role: Role, names: ToolNames, confirm: SummaryConfirmer | None
) -> list[Message]:
    kind = item.get_text("type") or "message"
    if role == "tool":
        call_id = _read_call_id(item.fields)
        content = _decode_output(item.fields.get(_OUTPUT_FIELDS[kind]))
        result = ToolResult(call_id, names.get_name(call_id) or "", content)
        return [Message("tool", (result,), "tool", native=item.native)]
    if kind != "message":
        return [Message(role, (OpaquePart(kind, item.raw),), find_origin(role, ""), native=item.native)]

    def decode_chunk(raw: Raw) -> Chunk:
        part = _decode_block(raw)
        return Chunk(role, find_origin(role, part.text if isinstance(part, Text) else "", confirm), (part,))

    return split_content(item, role, decode_chunk, partial(find_origin, role, confirm=confirm))


def _decode_output(raw: Raw | None) -> tuple[ContentPart, ...]:
    if raw is None or bytes(raw) == b"null":
        return ()
    return (_decode_block(raw),) if splice.is_object(bytes(raw)) else decode_parts(raw, _decode_block)


# -- encoding ----------------------------------------------------------------------------------------------------------


def _render_items(
    call_kinds: Mapping[str, str], messages: Sequence[Message], batch: EncodingBatch, ledger: Ledger
) -> list[bytes]:
    rejoined = rejoin_message(messages, batch, ledger)
    if rejoined is not None:
        return rejoined
    index = batch.indices[0]
    message = messages[index]
    if message.role == "tool":
        return [_render_tool(message, index, ledger, call_kinds)]
    if message.role == "assistant":
        return _render_assistant(message, index, ledger)
    parts = _render_parts(message, index, ledger)
    content = render_content(parts, "input_text")
    return [build_object(("role", quote(message.role)), ("content", content))] if parts else []


def _render_parts(message: Message, index: int, ledger: Ledger) -> list[RenderedPart]:
    out: list[RenderedPart] = []
    foreign = ledger.is_foreign(message)
    for part in message.parts:
        if isinstance(part, Text) and not part.text:
            ledger.note_empty_text(index)
        elif isinstance(part, Text | Image | Document | OpaquePart):
            out.extend(_render_part(part, index, ledger, foreign=foreign))
        elif isinstance(part, Thinking):
            ledger.note("thinking_dropped", index, f"reasoning in a {message.role} message")
    return out


def _render_part(part: ContentPart, index: int, ledger: Ledger, *, foreign: bool) -> list[RenderedPart]:
    match part:
        case Text():
            return [part]
        case Image():
            if part.data or part.url:
                return [build_object(("type", b'"input_image"'), ("image_url", quote(to_url(part))))]
            return [Text(ledger.replace_by_placeholder(part, index))]
        case Document(text=""):
            if part.data:
                return [build_object(("type", b'"input_file"'), *render_file_fields(part))]
            if part.url:
                return [build_object(("type", b'"input_file"'), ("file_url", quote(part.url)))]
            return [Text(ledger.replace_by_placeholder(part, index))]
        case Document():
            return [Text(ledger.replace_by_text(part, index))]
        case OpaquePart():
            return [] if ledger.should_drop(part, index, foreign=foreign) else [part.raw]
        case _:
            assert_never(part)


def _render_assistant(message: Message, index: int, ledger: Ledger) -> list[bytes]:
    out: list[bytes] = []
    foreign = ledger.is_foreign(message)
    kept_reasoning = _find_kept_reasoning(message, index, ledger, foreign=foreign)
    for at, part in enumerate(message.parts):
        if isinstance(part, Text):
            if part.text:
                out.append(_wrap_answer_part(render_text_part(part.text, "output_text")))
            else:
                ledger.note_empty_text(index)
        elif isinstance(part, Image | Document):
            text = ledger.replace_by_placeholder(part, index, "an answer of this wire carries text only")
            out.append(_wrap_answer_part(render_text_part(text, "output_text")))
        elif isinstance(part, OpaquePart) and part.kind.startswith("content.") and not foreign:
            out.append(_wrap_answer_part(part.raw))
        elif at in kept_reasoning or not isinstance(part, Thinking):
            rendered = _render_item(part, index, ledger, foreign=foreign)
            out.extend([rendered] if rendered is not None else [])
    return out


def _wrap_answer_part(part: bytes) -> bytes:
    return build_object(("type", b'"message"'), ("role", b'"assistant"'), ("content", build_array([part])))


def _find_kept_reasoning(message: Message, index: int, ledger: Ledger, *, foreign: bool) -> frozenset[int]:
    kept: set[int] = set()
    for at, part in enumerate(message.parts):
        if not isinstance(part, Thinking):
            continue
        has_successor = any(isinstance(p, ToolCall | Text) and p != Text("") for p in message.parts[at + 1 :])
        if foreign or not part.signature:
            ledger.note_lost_thinking(part, index, "not this provider's")
        elif has_successor:
            kept.add(at)
        else:
            ledger.note_lost_thinking(part, index, "it would stand without the item it belongs to")
    return frozenset(kept)


def _render_item(part: Part, index: int, ledger: Ledger, *, foreign: bool) -> bytes | None:
    match part:
        case Thinking(text, signature):
            summary = build_array([render_text_part(text, "summary_text")] if text else [])
            if signature.startswith("rs_"):
                return build_object(("type", b'"reasoning"'), ("id", quote(signature)), ("summary", summary))
            secret = ("encrypted_content", quote(signature))
            return build_object(("type", b'"reasoning"'), ("summary", summary), secret)
        case ToolCall():
            call = ("call_id", quote(ledger.assign_call_id(part, index)))
            return build_object(
                ("type", b'"function_call"'), call, ("name", quote(part.name)), ("arguments", quote(part.arguments))
            )
        case OpaquePart():
            return None if ledger.should_drop(part, index, foreign=foreign) else part.raw
        case _:
            return None


def _render_tool(message: Message, index: int, ledger: Ledger, call_kinds: Mapping[str, str]) -> bytes:
    result = next(p for p in message.parts if isinstance(p, ToolResult))
    foreign = ledger.is_foreign(message)
    parts = [r for part in result.content for r in _render_part(part, index, ledger, foreign=foreign)]
    parts = add_error_flag(parts, result, index, ledger)
    call = quote(ledger.assign_result_id(result.call_id))
    output = render_content(parts, "input_text")
    texts = quote("\n".join(part.text for part in parts if isinstance(part, Text)))
    match call_kinds.get(result.call_id):
        case "custom_tool_call":
            return build_object(("type", b'"custom_tool_call_output"'), ("call_id", call), ("output", output))
        case "local_shell_call":
            return build_object(("type", b'"local_shell_call_output"'), ("id", call), ("output", texts))
        case "shell_call":
            end = build_object(("type", b'"exit"'), ("exit_code", b"0"))
            piece = build_object(("stdout", texts), ("stderr", b'""'), ("outcome", end))
            return build_object(("type", b'"shell_call_output"'), ("call_id", call), ("output", build_array([piece])))
        case "apply_patch_call":
            state = b'"failed"' if result.is_error else b'"completed"'
            return build_object(
                ("type", b'"apply_patch_call_output"'), ("call_id", call), ("status", state), ("output", texts)
            )
        case _:
            return build_object(("type", b'"function_call_output"'), ("call_id", call), ("output", output))
