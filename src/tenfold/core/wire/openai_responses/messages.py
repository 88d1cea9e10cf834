"""OpenAI Responses: messages, reasoning, tool calls and their outputs are separate items.

Consecutive items of the model (reasoning, text, calls) become one assistant message, since the provider refuses one
of them without the others. The `NativeBytes.body` of that message holds all the items with their separators.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import assert_never

from msgspec import Raw, Struct

from tenfold.core.record.message import (
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
from tenfold.core.wire import splice
from tenfold.core.wire.base import DecodingContext, Ledger, OutgoingMessage
from tenfold.core.wire.media import to_document, to_image, to_url
from tenfold.core.wire.openai_content import (
    RenderedPart,
    rejoin_message,
    render_content,
    render_detail,
    render_file_fields,
    render_prompt,
    render_result_parts,
    render_text_part,
)
from tenfold.core.wire.openai_responses.profile import CALL_FIELDS, NAME, OUTPUT_FIELDS, PROFILE
from tenfold.core.wire.segments import ContentPart, ParsedMessage, decode_parts, split_content
from tenfold.core.wire.splice import Fields, build_array, build_object, quote

_ROLES: Mapping[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_TEXT_TYPES = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text", "refusal"})


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


# -- decoding ----------------------------------------------------------------------------------------------------------


def _read_call_id(fields: Fields) -> str:
    return splice.find_text(fields, "call_id") or splice.get_text(fields, "id")


def decode(natives: Iterable[ParsedMessage], context: DecodingContext) -> Iterator[Message]:
    """Decodes the native messages of a list: see `ListDecoder`."""
    answer = _AnswerItems()
    for item in natives:
        role, parts = _decode_model_item(item)
        if parts is None:
            yield from answer.take_messages()
            yield from _decode_other_item(item, role, context)
            continue
        context.add_calls(parts)
        is_standalone = item.get_text("type") in PROFILE.standalone_kinds
        if is_standalone:
            yield from answer.take_messages()
        answer.add(item.native, parts)
        if is_standalone:
            yield from answer.take_messages()
    yield from answer.take_messages()


def _decode_model_item(item: ParsedMessage) -> tuple[Role, tuple[Part, ...] | None]:
    """Returns the role of an item, and its parts if the model wrote it, else None."""
    fields = item.fields
    kind = item.get_text("type") or ("message" if "role" in fields else "")
    if kind == "message":
        role = item.get_role(_ROLES, "a Responses item")
        return role, decode_parts(fields.get("content"), _decode_answer_block) if role == "assistant" else None
    if kind in OUTPUT_FIELDS:
        return "tool", None
    if kind == "mcp_approval_response":
        return "user", None
    if kind == "reasoning":
        return "assistant", (_decode_reasoning(fields),)
    if kind in CALL_FIELDS and (call := _read_call_id(fields)):
        value = fields.get(CALL_FIELDS[kind])
        arguments = splice.parse_string(value)
        if arguments is None:
            arguments = bytes(value).decode("utf-8", "replace") if value is not None else ""
        return "assistant", (ToolCall(call, item.get_text("name") or kind.removesuffix("_call"), arguments),)
    return "assistant", (OpaquePart(kind, item.raw, NAME if kind in PROFILE.compaction_types else ""),)


def _decode_reasoning(fields: Fields) -> Thinking:
    texts: list[str] = []
    for key in ("summary", "content"):
        for raw in splice.parse_array(fields.get(key)) or ():
            text = splice.parse_string((splice.parse_object(raw) or {}).get("text"))
            if text:
                texts.append(text)
    return Thinking("\n".join(texts), splice.find_text(fields, "encrypted_content") or splice.get_text(fields, "id"))


def _decode_answer_block(raw: Raw) -> ContentPart:
    part = _decode_block(raw)
    return OpaquePart(f"content.{part.kind}", part.raw) if isinstance(part, OpaquePart) else part


def _decode_block(raw: Raw) -> ContentPart:
    fields = splice.parse_object(raw) or {}
    kind = splice.get_text(fields, "type")
    text = splice.parse_string(fields.get("refusal" if kind == "refusal" else "text"))
    if text is not None and kind in _TEXT_TYPES:
        return Text(text)
    if kind in ("input_image", "computer_screenshot"):
        url = splice.find_text(fields, "image_url")
        if url is not None:
            return to_image(url, splice.get_text(fields, "detail"))
    if kind == "input_file":
        url = splice.find_text(fields, "file_data") or splice.find_text(fields, "file_url")
        if url is not None:
            return to_document(url, splice.get_text(fields, "filename"))
    out, err = splice.find_text(fields, "stdout"), splice.find_text(fields, "stderr")
    if not kind and out is not None:
        return Text(out + (err or ""))
    return OpaquePart(kind, bytes(raw))


def _decode_other_item(item: ParsedMessage, role: Role, context: DecodingContext) -> list[Message]:
    kind = item.get_text("type") or "message"
    if role == "tool":
        call_id = _read_call_id(item.fields)
        content = _decode_output(item.fields.get(OUTPUT_FIELDS[kind]))
        result = ToolResult(call_id, context.find_tool_name(call_id) or "", content)
        return [Message("tool", (result,), "tool", native=item.native)]
    if kind != "message":
        return [Message(role, (OpaquePart(kind, item.raw),), context.find_origin(role), native=item.native)]
    return split_content(item, role, _decode_block, partial(context.find_origin, role))


def _decode_output(raw: Raw | None) -> tuple[ContentPart, ...]:
    if raw is None or not splice.is_object(bytes(raw)):
        return decode_parts(raw, _decode_block)
    fields = splice.parse_object(raw) or {}
    text = splice.find_text(fields, "content") if fields.keys() <= {"content", "success"} else None
    return (Text(text),) if text is not None else (_decode_block(raw),)  # Codex writes some of its own like this


# -- encoding ----------------------------------------------------------------------------------------------------------


def render_batch(batch: Sequence[OutgoingMessage]) -> list[bytes]:
    """Renders messages that make one native message: see `BatchRenderer`."""
    first = batch[0]
    result = get_tool_result(first.message)
    if result is not None:
        return [_render_result(result, first)]
    if first.message.role == "assistant":
        parts = first.message.parts
        return [item for at, part in enumerate(parts) for item in _render_answer_part(part, parts[at + 1 :], first)]
    return rejoin_message(batch) or render_prompt(first, _render_part, "input_text")


def _render_part(part: Part, outgoing: OutgoingMessage) -> list[RenderedPart]:
    match part:
        case Text():
            return [part]
        case Image():
            if part.data or part.url:
                return [build_object(type=b'"input_image"', image_url=quote(to_url(part)), **render_detail(part))]
            return [Text(outgoing.replace_by_placeholder(part))]
        case Document(text=""):
            if part.data:
                return [build_object(type=b'"input_file"', **render_file_fields(part))]
            if part.url:
                return [build_object(type=b'"input_file"', file_url=quote(part.url))]
            return [Text(outgoing.replace_by_placeholder(part))]
        case Document():
            return [Text(outgoing.replace_by_text(part))]
        case OpaquePart():
            return [*outgoing.render_opaque(part)]
        case Thinking():
            outgoing.note_lost_thinking(part, "only answers have reasoning")
        case ToolCall() | ToolResult():
            pass
        case _:
            assert_never(part)
    return []


def _render_answer_part(part: Part, later: Sequence[Part], outgoing: OutgoingMessage) -> list[bytes]:
    """Renders a part of an answer as an item of its own. `later` are the parts after it."""
    match part:
        case Text(""):
            outgoing.note_empty_text()
        case Text(text):
            return [_wrap_answer_part(render_text_part(text, "output_text"))]
        case Image() | Document():
            text = outgoing.replace_by_placeholder(part, "an answer of this wire carries text only")
            return [_wrap_answer_part(render_text_part(text, "output_text"))]
        case Thinking(text, signature):
            if outgoing.is_foreign or not signature:
                outgoing.note_lost_thinking(part, "not this provider's")
            elif not any(isinstance(p, ToolCall | Text) and p != Text("") for p in later):
                outgoing.note_lost_thinking(part, "it would stand without the item it belongs to")
            else:
                return [_render_reasoning(text, signature)]
        case ToolCall(_, name, arguments):
            fields = {"call_id": quote(outgoing.assign_call_id(part)), "name": quote(name)}
            return [build_object(type=b'"function_call"', **fields, arguments=quote(arguments))]
        case OpaquePart(kind):
            raws = outgoing.render_opaque(part)
            return [_wrap_answer_part(raw) for raw in raws] if kind.startswith("content.") else raws
        case ToolResult():
            pass
        case _:
            assert_never(part)
    return []


def _render_reasoning(text: str, signature: str) -> bytes:
    summary = build_array([render_text_part(text, "summary_text")] if text else [])
    if signature.startswith("rs_"):
        return build_object(type=b'"reasoning"', id=quote(signature), summary=summary)
    return build_object(type=b'"reasoning"', summary=summary, encrypted_content=quote(signature))


def _wrap_answer_part(part: bytes) -> bytes:
    return build_object(type=b'"message"', role=b'"assistant"', content=build_array([part]))


def _render_result(result: ToolResult, outgoing: OutgoingMessage) -> bytes:
    parts = render_result_parts(result, outgoing, _render_part)
    call = quote(outgoing.ledger.assign_result_id(result))
    output = render_content(parts, "input_text")
    texts = quote("\n".join(part.text for part in parts if isinstance(part, Text)))
    match _find_call_kind(result.call_id, outgoing.ledger):
        case "custom_tool_call":
            return build_object(type=b'"custom_tool_call_output"', call_id=call, output=output)
        case "local_shell_call":
            return build_object(type=b'"local_shell_call_output"', id=call, output=texts)
        case "shell_call":
            end = build_object(type=b'"exit"', exit_code=b"0")
            piece = build_object(stdout=texts, stderr=b'""', outcome=end)
            return build_object(type=b'"shell_call_output"', call_id=call, output=build_array([piece]))
        case "apply_patch_call":
            state = b'"failed"' if result.is_error else b'"completed"'
            return build_object(type=b'"apply_patch_call_output"', call_id=call, status=state, output=texts)
        case _:
            return build_object(type=b'"function_call_output"', call_id=call, output=output)


def _find_call_kind(call_id: str, ledger: Ledger) -> str:
    """Finds the item type of a call. "" if no untouched answer of this wire holds it."""
    message = ledger.find_call(call_id)
    if message is None or message.native is None or message.native.format != NAME:
        return ""
    items = (splice.parse_object(raw) or {} for raw in splice.parse_array(b"[" + message.native.body + b"]") or ())
    kinds = (splice.get_text(item, "type") for item in items if _read_call_id(item) == call_id)
    return next((kind for kind in kinds if kind in CALL_FIELDS), "")
