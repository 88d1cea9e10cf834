"""OpenAI Responses: messages, reasoning, tool calls and their outputs are separate items.

Consecutive items of the model (reasoning, text, calls) become one assistant message, since the provider refuses one
of them without the others. The `NativeBytes.body` of that message holds all the items with their separators.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import assert_never

from msgspec import Raw, Struct

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
    get_tool_result,
)
from tenfold.wire import splice
from tenfold.wire.base import NO_PREFIX, AdjustmentKind, DecodedPrefix, EncodedItem, EncodedList, Ledger, ToolNames
from tenfold.wire.marks import SummaryConfirmer, find_origin
from tenfold.wire.media import inline_document, render_placeholder, to_document, to_image, to_url
from tenfold.wire.profiles import COMPACTION_TYPES
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

NAME = "openai-responses"
ERROR_FLAG = "[tool error]\n"
_ROLES: Mapping[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_ORIGINS: Mapping[Role, Origin] = {"system": "harness", "user": "human", "assistant": "model"}
CALL_FIELDS: Mapping[str, str] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "computer_call": "action",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
    "program": "code",
}
"""The types of call items, and the field that holds the arguments of each."""
OUTPUT_FIELDS: Mapping[str, str] = {
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
_STANDALONE_ITEMS = frozenset({*COMPACTION_TYPES[NAME], "compaction_trigger", "additional_tools"})
"""Items that are messages of their own and never joined to an answer."""
_DROP_KINDS: Mapping[type, AdjustmentKind] = {Image: "image_dropped", Document: "document_dropped"}
_TEXT_TYPES = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})


class OpenAIResponses:
    """The OpenAI Responses wire."""

    name = NAME

    def decode(
        self, items: Sequence[bytes], *, confirm: SummaryConfirmer | None = None, prefix: DecodedPrefix = NO_PREFIX
    ) -> list[Message]:
        """See `Wire.decode`."""
        out: list[Message] = []
        names = ToolNames(prefix)
        answer = _AnswerItems()
        for index, raw in enumerate(items, prefix.item_count):
            native = NativeBytes(NAME, raw, lead=b"," if index else b"")
            fields = parse_fields(raw, index)
            role, parts = _decode_model_item(fields, raw, index)
            if role == "assistant" and parts is not None:
                names.add_calls(parts)
                is_standalone = (splice.parse_string(fields.get("type")) or "") in _STANDALONE_ITEMS
                if is_standalone:
                    out.extend(answer.take_messages())
                answer.add(native, parts)
                if is_standalone:
                    out.extend(answer.take_messages())
                continue
            out.extend(answer.take_messages())
            out.extend(_decode_other_item(fields, role, native, names, confirm))
        return [*out, *answer.take_messages()]

    def encode(self, messages: Sequence[Message]) -> EncodedList:
        """See `Wire.encode`."""
        ledger = Ledger(NAME, messages)
        kinds: dict[str, str] = {}
        items: list[EncodedItem] = []
        for batch in batch_messages(messages, NAME, join_results=False):
            message = messages[batch.indices[0]]
            if message.role == "assistant" and message.native is not None and message.native.format == NAME:
                kinds.update(_collect_call_kinds(message))
            if batch.exact is None:
                raws: Sequence[bytes] = _render_items(messages, batch, ledger, kinds)
            else:
                raws = _split_items(message, batch.exact)
                for index in batch.indices:
                    ledger.register_message(messages[index])
            items.extend(EncodedItem(raw, batch.indices, exact=batch.exact is not None) for raw in raws)
        return ledger.finish(items)


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


def _split_items(message: Message, exact: bytes) -> tuple[bytes, ...]:
    return splice.slice_array(b"[" + exact + b"]").items if message.role == "assistant" else (exact,)


def _collect_call_kinds(message: Message) -> dict[str, str]:
    native = message.native
    assert native is not None
    out: dict[str, str] = {}
    for raw in splice.parse_array(b"[" + native.body + b"]") or ():
        fields = splice.parse_object(raw) or {}
        kind = splice.parse_string(fields.get("type")) or ""
        if kind in CALL_FIELDS:
            out[_read_call_id(fields)] = kind
    return out


# -- decoding ----------------------------------------------------------------------------------------------------------


def _read_call_id(fields: Fields) -> str:
    return splice.parse_string(fields.get("call_id")) or splice.parse_string(fields.get("id")) or ""


def _decode_model_item(fields: Fields, raw: bytes, index: int) -> tuple[Role, tuple[Part, ...] | None]:
    """Returns the role of an item, and its parts if the model wrote it, else None."""
    kind = splice.parse_string(fields.get("type")) or ("message" if "role" in fields else "")
    if kind == "message":
        name = splice.parse_string(fields.get("role")) or ""
        role = _ROLES.get(name)
        if role is None:
            raise UnknownRole(f"item {index} has role {name!r}; a Responses message has one of {', '.join(_ROLES)}")
        return role, _decode_message_parts(fields) if role == "assistant" else None
    if kind in OUTPUT_FIELDS:
        return "tool", None
    if kind == "mcp_approval_response":
        return "user", None
    if kind == "reasoning":
        return "assistant", (_decode_reasoning(fields),)
    if kind in CALL_FIELDS and (call := _read_call_id(fields)):
        value = fields.get(CALL_FIELDS[kind])
        text = splice.parse_string(value)
        arguments = text if text is not None else bytes(value).decode("utf-8", "replace") if value is not None else ""
        return "assistant", (
            ToolCall(call, splice.parse_string(fields.get("name")) or kind.removesuffix("_call"), arguments),
        )
    return "assistant", (OpaquePart(kind, raw, NAME if kind in COMPACTION_TYPES[NAME] else ""),)


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


def _decode_message_parts(fields: Fields) -> tuple[Part, ...]:
    text = splice.parse_string(fields.get("content"))
    if text is not None:
        return (Text(text),) if text else ()
    parts = [_decode_content(raw) for raw in splice.parse_array(fields.get("content")) or ()]
    return tuple(OpaquePart(f"content.{p.kind}", p.raw) if isinstance(p, OpaquePart) else p for p in parts)


def _decode_content(raw: Raw) -> Text | Image | Document | OpaquePart:
    fields = splice.parse_object(raw) or {}
    kind = splice.parse_string(fields.get("type")) or ""
    text = splice.parse_string(fields.get("refusal" if kind == "refusal" else "text"))
    if text is not None and (kind in _TEXT_TYPES or kind == "refusal"):
        return Text(text)
    if (
        kind in ("input_image", "computer_screenshot")
        and (url := splice.parse_string(fields.get("image_url"))) is not None
    ):
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
    fields: Fields, role: Role, native: NativeBytes, names: ToolNames, confirm: SummaryConfirmer | None
) -> list[Message]:
    if role == "tool":
        call = _read_call_id(fields)
        output = fields.get(OUTPUT_FIELDS[splice.parse_string(fields.get("type")) or ""])
        return [
            Message(
                "tool", (ToolResult(call, names.get_name(call) or "", _decode_output(output)),), "tool", native=native
            )
        ]
    origin = _ORIGINS[role]
    kind = splice.parse_string(fields.get("type")) or "message"
    if kind != "message":
        return [Message(role, (OpaquePart(kind, native.body),), origin, native=native)]
    blocks_raw = splice.parse_array(fields.get("content"))
    if blocks_raw is None:
        text = splice.parse_string(fields.get("content")) or ""
        origin = find_origin(role, text, confirm)
        return [Message(role, (Text(text),) if text else (), origin, native=native)]
    chunks: list[Chunk] = []
    for raw in blocks_raw:
        part = _decode_content(raw)
        part_origin = find_origin(role, part.text, confirm) if isinstance(part, Text) else origin
        chunks.append(Chunk(role, part_origin, (part,)))
    return split_message(native.body, "content", native, chunks or [Chunk(role, origin, ())])


def _decode_output(raw: Raw | None) -> tuple[Text | Image | Document | OpaquePart, ...]:
    text = splice.parse_string(raw)
    if text is not None:
        return (Text(text),) if text else ()
    items = splice.parse_array(raw)
    if items is not None:
        return tuple(_decode_content(part) for part in items)
    return (_decode_content(raw),) if raw is not None and bytes(raw) != b"null" else ()


# -- encoding ----------------------------------------------------------------------------------------------------------


def _render_items(
    messages: Sequence[Message], batch: EncodingBatch, ledger: Ledger, kinds: Mapping[str, str]
) -> list[bytes]:
    index = batch.indices[0]
    first = messages[index]
    natives = [n for i in batch.indices if (n := messages[i].native) is not None and n.format == NAME and n.group]
    if len(natives) == len(batch.indices):
        before, after, lost = build_envelope(natives, first.role, "content")
        if lost:
            ledger.note("envelope_dropped", index, "fields beside role and content of a partly replaced message")
        return [
            before + b",".join(b for i in batch.indices for b in extract_blocks(messages[i], "content") or ()) + after
        ]
    if first.role == "tool":
        return [_render_tool(first, index, ledger, kinds)]
    if first.role == "assistant":
        out = _render_assistant(first, index, ledger)
    else:
        content = _render_parts(first, index, ledger)
        out = [build_object(("role", quote(first.role)), ("content", _render_content(content)))] if content else []
    if not out:
        ledger.note("empty_message_dropped", index, f"nothing is left of this {first.role} message")
    return out


def _render_content(content: Sequence[Text | bytes]) -> bytes:
    if len(content) == 1 and isinstance(content[0], Text):
        return quote(content[0].text)
    return build_array(_render_text_part("input_text", c.text) if isinstance(c, Text) else c for c in content)


def _render_text_part(kind: str, text: str) -> bytes:
    return build_object(("type", quote(kind)), ("text", quote(text)))


def _render_parts(message: Message, index: int, ledger: Ledger) -> list[Text | bytes]:
    out: list[Text | bytes] = []
    foreign = ledger.is_foreign(message)
    for part in message.parts:
        if isinstance(part, Text) and not part.text:
            ledger.note("empty_text_dropped", index, "an empty text part")
        elif isinstance(part, Text | Image | Document | OpaquePart):
            out.extend(_render_part(part, index, ledger, foreign=foreign))
        elif isinstance(part, Thinking):
            ledger.note("thinking_dropped", index, f"reasoning in a {message.role} message")
    return out


def _render_part(
    part: Text | Image | Document | OpaquePart, index: int, ledger: Ledger, *, foreign: bool
) -> list[Text | bytes]:
    match part:
        case Text():
            return [part]
        case Image():
            if part.data or part.url:
                return [build_object(("type", b'"input_image"'), ("image_url", quote(to_url(part))))]
            ledger.note("image_dropped", index, "the image has neither data nor address")
            return [Text(render_placeholder(part))]
        case Document(text=""):
            if part.data:
                name = ("filename", quote(part.name or "document"))
                return [build_object(("type", b'"input_file"'), name, ("file_data", quote(to_url(part))))]
            if part.url:
                return [build_object(("type", b'"input_file"'), ("file_url", quote(part.url)))]
            ledger.note("document_dropped", index, f"a document of type {part.media_type or 'unknown'} cannot be sent")
            return [Text(render_placeholder(part))]
        case Document():
            ledger.note("document_as_text", index, f"document {part.name or part.media_type or 'without a name'}")
            return [Text(inline_document(part))]
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
                out.append(_wrap_answer_part(_render_text_part("output_text", part.text)))
            else:
                ledger.note("empty_text_dropped", index, "an empty text part")
        elif isinstance(part, Image | Document):
            ledger.note(_DROP_KINDS[type(part)], index, "an answer of this wire carries text only")
            out.append(_wrap_answer_part(_render_text_part("output_text", render_placeholder(part))))
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
        if part.signature and not foreign and has_successor:
            kept.add(at)
        else:
            note = (
                "it would stand without the item it belongs to" if part.signature and not foreign else "not from here"
            )
            ledger.note("thinking_dropped" if part.text else "signature_dropped", index, note)
    return frozenset(kept)


def _render_item(part: Part, index: int, ledger: Ledger, *, foreign: bool) -> bytes | None:
    match part:
        case Thinking(text, signature):
            summary = build_array([_render_text_part("summary_text", text)] if text else [])
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


def _render_tool(message: Message, index: int, ledger: Ledger, kinds: Mapping[str, str]) -> bytes:
    result = next(p for p in message.parts if isinstance(p, ToolResult))
    kind = kinds.get(result.call_id, "function_call")
    content: list[Text | bytes] = []
    for part in result.content:
        content.extend(_render_part(part, index, ledger, foreign=ledger.is_foreign(message)))
    if result.is_error:
        ledger.note("error_flag_in_text", index, "this wire has no error flag; the text says it")
        first = content[0] if content and isinstance(content[0], Text) else None
        content = [Text(ERROR_FLAG + first.text), *content[1:]] if first is not None else [Text(ERROR_FLAG), *content]
    call = quote(ledger.assign_result_id(result.call_id))
    output = _render_content(content) if content else b'""'
    texts = quote("\n".join(c.text for c in content if isinstance(c, Text)))
    match kind:
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
