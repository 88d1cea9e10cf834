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
    Native,
    Opaque,
    Origin,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    result_of,
)
from tenfold.wire import splice
from tenfold.wire.base import START, AdjustmentKind, Before, Encoded, EncodedItem, Ledger, Names
from tenfold.wire.marks import Confirm, origin_of
from tenfold.wire.media import document_of, image_of, inline, stand_in, url_of
from tenfold.wire.profiles import COMPACTIONS
from tenfold.wire.segments import Batch, Chunk, batches, blocks, envelope, members, split
from tenfold.wire.splice import Fields, arr, obj, quote

NAME = "openai-responses"
ERROR_FLAG = "[tool error]\n"
_ROLES: Mapping[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_ORIGINS: Mapping[Role, Origin] = {"system": "harness", "user": "human", "assistant": "model"}
CALLS: Mapping[str, str] = {
    "function_call": "arguments",
    "custom_tool_call": "input",
    "computer_call": "action",
    "local_shell_call": "action",
    "shell_call": "action",
    "apply_patch_call": "operation",
    "program": "code",
}
"""The types of call items, and the field that holds the arguments of each."""
OUTPUTS: Mapping[str, str] = {
    "function_call_output": "output",
    "custom_tool_call_output": "output",
    "computer_call_output": "output",
    "local_shell_call_output": "output",
    "shell_call_output": "output",
    "apply_patch_call_output": "output",
    "program_output": "result",
}
"""The types of output items, and the field that holds the content of each."""
_WHOLE = frozenset({"computer_call_output", "program_output"})
"""Outputs that no text can replace: one is a screenshot, the other is known to the provider."""
_ALONE = frozenset({*COMPACTIONS[NAME], "compaction_trigger", "additional_tools"})
"""Items that are messages of their own and never joined to an answer."""
_DROPPED: Mapping[type, AdjustmentKind] = {Image: "image_dropped", Document: "document_dropped"}
_TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})


class OpenAIResponses:
    """The OpenAI Responses wire."""

    name = NAME

    def decode(
        self, items: Sequence[bytes], *, confirm: Confirm | None = None, before: Before = START
    ) -> list[Message]:
        """See `Wire.decode`."""
        out: list[Message] = []
        names = Names(before)
        answer = _Answer()
        for index, raw in enumerate(items, before.items):
            native = Native(NAME, raw, lead=b"," if index else b"")
            fields = members(raw, index)
            role, parts = _model_item(fields, raw, index)
            if role == "assistant" and parts is not None:
                names.add(parts)
                is_standalone = (splice.text(fields.get("type")) or "") in _ALONE
                if is_standalone:
                    out.extend(answer.taken())
                answer.add(native, parts)
                if is_standalone:
                    out.extend(answer.taken())
                continue
            out.extend(answer.taken())
            out.extend(_other(fields, role, native, names, confirm))
        return [*out, *answer.taken()]

    def encode(self, messages: Sequence[Message]) -> Encoded:
        """See `Wire.encode`."""
        ledger = Ledger(NAME, messages)
        kinds: dict[str, str] = {}
        items: list[EncodedItem] = []
        for batch in batches(messages, NAME, join_results=False):
            message = messages[batch.indices[0]]
            if message.role == "assistant" and message.native is not None and message.native.format == NAME:
                kinds.update(_kinds(message))
            if batch.exact is None:
                raws: Sequence[bytes] = _rendered(messages, batch, ledger, kinds)
            else:
                raws = _items(message, batch.exact)
                for index in batch.indices:
                    ledger.saw(messages[index])
            items.extend(EncodedItem(raw, batch.indices, exact=batch.exact is not None) for raw in raws)
        return ledger.done(items)


def takes_text(message: Message, calls: Collection[str]) -> bool:
    """Whether a tool result can be replaced by text. `call_ids` are the ids of the calls in its step.

    The output item must have the type that its call needs. If the list only refers to the call, that type is unknown,
    so only the most common one can be replaced.
    """
    result, native = result_of(message), message.native
    if result is None or native is None or native.format != NAME:
        return True
    kind = splice.text((splice.fields(native.body) or {}).get("type")) or ""
    return kind not in _WHOLE and (kind == "function_call_output" or result.call in calls)


class _Answer(Struct):
    """Collects the items of one answer."""

    natives: list[Native] = []
    parts: list[Part] = []

    def add(self, native: Native, parts: tuple[Part, ...]) -> None:
        self.natives.append(native)
        self.parts.extend(parts)

    def taken(self) -> list[Message]:
        """Returns the answer so far, as a list of at most one message, and starts a new one."""
        if not self.natives:
            return []
        first = self.natives[0]
        body = first.body + b"".join(n.lead + n.body for n in self.natives[1:])
        message = Message("assistant", tuple(self.parts), "model", native=Native(NAME, body, lead=first.lead))
        self.natives, self.parts = [], []
        return [message]


def _items(message: Message, exact: bytes) -> tuple[bytes, ...]:
    return splice.array(b"[" + exact + b"]").items if message.role == "assistant" else (exact,)


def _kinds(message: Message) -> dict[str, str]:
    native = message.native
    assert native is not None
    out: dict[str, str] = {}
    for raw in splice.items(b"[" + native.body + b"]") or ():
        fields = splice.fields(raw) or {}
        kind = splice.text(fields.get("type")) or ""
        if kind in CALLS:
            out[_call_id(fields)] = kind
    return out


# -- decoding ----------------------------------------------------------------------------------------------------------


def _call_id(found: Fields) -> str:
    return splice.text(found.get("call_id")) or splice.text(found.get("id")) or ""


def _model_item(found: Fields, raw: bytes, index: int) -> tuple[Role, tuple[Part, ...] | None]:
    """Returns the role of an item, and its parts if the model wrote it, else None."""
    kind = splice.text(found.get("type")) or ("message" if "role" in found else "")
    if kind == "message":
        name = splice.text(found.get("role")) or ""
        role = _ROLES.get(name)
        if role is None:
            raise UnknownRole(f"item {index} has role {name!r}; a Responses message has one of {', '.join(_ROLES)}")
        return role, _message_parts(found) if role == "assistant" else None
    if kind in OUTPUTS:
        return "tool", None
    if kind == "mcp_approval_response":
        return "user", None
    if kind == "reasoning":
        return "assistant", (_reasoning(found),)
    if kind in CALLS and (call := _call_id(found)):
        value = found.get(CALLS[kind])
        text = splice.text(value)
        arguments = text if text is not None else bytes(value).decode("utf-8", "replace") if value is not None else ""
        return "assistant", (ToolCall(call, splice.text(found.get("name")) or kind.removesuffix("_call"), arguments),)
    return "assistant", (Opaque(kind, raw, NAME if kind in COMPACTIONS[NAME] else ""),)


def _reasoning(found: Fields) -> Thinking:
    texts: list[str] = []
    for key in ("summary", "content"):
        for raw in splice.items(found.get(key)) or ():
            text = splice.text((splice.fields(raw) or {}).get("text"))
            if text:
                texts.append(text)
    return Thinking("\n".join(texts), splice.text(found.get("encrypted_content")) or splice.text(found.get("id")) or "")


def _message_parts(found: Fields) -> tuple[Part, ...]:
    text = splice.text(found.get("content"))
    if text is not None:
        return (Text(text),) if text else ()
    parts = [_content(raw) for raw in splice.items(found.get("content")) or ()]
    return tuple(Opaque(f"content.{p.kind}", p.raw) if isinstance(p, Opaque) else p for p in parts)


def _content(raw: Raw) -> Text | Image | Document | Opaque:
    fields = splice.fields(raw) or {}
    kind = splice.text(fields.get("type")) or ""
    text = splice.text(fields.get("refusal" if kind == "refusal" else "text"))
    if text is not None and (kind in _TEXTS or kind == "refusal"):
        return Text(text)
    if kind in ("input_image", "computer_screenshot") and (url := splice.text(fields.get("image_url"))) is not None:
        return image_of(url)
    if kind == "input_file":
        url = splice.text(fields.get("file_data")) or splice.text(fields.get("file_url"))
        if url is not None:
            return document_of(url, splice.text(fields.get("filename")) or "")
    out, err = splice.text(fields.get("stdout")), splice.text(fields.get("stderr"))
    if not kind and out is not None:
        return Text(out + (err or ""))
    return Opaque(kind, bytes(raw))


def _other(found: Fields, role: Role, native: Native, names: Names, confirm: Confirm | None) -> list[Message]:
    if role == "tool":
        call = _call_id(found)
        output = found.get(OUTPUTS[splice.text(found.get("type")) or ""])
        return [Message("tool", (ToolResult(call, names.of(call) or "", _output(output)),), "tool", native=native)]
    origin = _ORIGINS[role]
    kind = splice.text(found.get("type")) or "message"
    if kind != "message":
        return [Message(role, (Opaque(kind, native.body),), origin, native=native)]
    blocks_raw = splice.items(found.get("content"))
    if blocks_raw is None:
        text = splice.text(found.get("content")) or ""
        origin = origin_of(role, text, confirm)
        return [Message(role, (Text(text),) if text else (), origin, native=native)]
    chunks: list[Chunk] = []
    for raw in blocks_raw:
        part = _content(raw)
        part_origin = origin_of(role, part.text, confirm) if isinstance(part, Text) else origin
        chunks.append(Chunk(role, part_origin, (part,)))
    return split(native.body, "content", native, chunks or [Chunk(role, origin, ())])


def _output(raw: Raw | None) -> tuple[Text | Image | Document | Opaque, ...]:
    text = splice.text(raw)
    if text is not None:
        return (Text(text),) if text else ()
    items = splice.items(raw)
    if items is not None:
        return tuple(_content(part) for part in items)
    return (_content(raw),) if raw is not None and bytes(raw) != b"null" else ()


# -- encoding ----------------------------------------------------------------------------------------------------------


def _rendered(messages: Sequence[Message], batch: Batch, ledger: Ledger, kinds: Mapping[str, str]) -> list[bytes]:
    index = batch.indices[0]
    first = messages[index]
    natives = [n for i in batch.indices if (n := messages[i].native) is not None and n.format == NAME and n.group]
    if len(natives) == len(batch.indices):
        before, after, lost = envelope(natives, first.role, "content")
        if lost:
            ledger.note("envelope_dropped", index, "fields beside role and content of a partly replaced message")
        return [before + b",".join(b for i in batch.indices for b in blocks(messages[i], "content") or ()) + after]
    if first.role == "tool":
        return [_tool(first, index, ledger, kinds)]
    if first.role == "assistant":
        out = _assistant(first, index, ledger)
    else:
        content = _parts(first, index, ledger)
        out = [obj(("role", quote(first.role)), ("content", _shortest(content)))] if content else []
    if not out:
        ledger.note("empty_message_dropped", index, f"nothing is left of this {first.role} message")
    return out


def _shortest(content: Sequence[Text | bytes]) -> bytes:
    if len(content) == 1 and isinstance(content[0], Text):
        return quote(content[0].text)
    return arr(_text_part("input_text", c.text) if isinstance(c, Text) else c for c in content)


def _text_part(kind: str, text: str) -> bytes:
    return obj(("type", quote(kind)), ("text", quote(text)))


def _parts(message: Message, index: int, ledger: Ledger) -> list[Text | bytes]:
    out: list[Text | bytes] = []
    foreign = ledger.foreign(message)
    for part in message.parts:
        if isinstance(part, Text) and not part.text:
            ledger.note("empty_text_dropped", index, "an empty text part")
        elif isinstance(part, Text | Image | Document | Opaque):
            out.extend(_piece(part, index, ledger, foreign=foreign))
        elif isinstance(part, Thinking):
            ledger.note("thinking_dropped", index, f"reasoning in a {message.role} message")
    return out


def _piece(part: Text | Image | Document | Opaque, index: int, ledger: Ledger, *, foreign: bool) -> list[Text | bytes]:
    match part:
        case Text():
            return [part]
        case Image():
            if part.data or part.url:
                return [obj(("type", b'"input_image"'), ("image_url", quote(url_of(part))))]
            ledger.note("image_dropped", index, "the image has neither data nor address")
            return [Text(stand_in(part))]
        case Document(text=""):
            if part.data:
                name = ("filename", quote(part.name or "document"))
                return [obj(("type", b'"input_file"'), name, ("file_data", quote(url_of(part))))]
            if part.url:
                return [obj(("type", b'"input_file"'), ("file_url", quote(part.url)))]
            ledger.note("document_dropped", index, f"a document of type {part.media or 'unknown'} cannot be sent")
            return [Text(stand_in(part))]
        case Document():
            ledger.note("document_as_text", index, f"document {part.name or part.media or 'without a name'}")
            return [Text(inline(part))]
        case Opaque():
            return [] if ledger.drops(part, index, foreign=foreign) else [part.raw]
        case _:
            assert_never(part)


def _assistant(message: Message, index: int, ledger: Ledger) -> list[bytes]:
    out: list[bytes] = []
    foreign = ledger.foreign(message)
    kept_reasoning = _kept_reasoning(message, index, ledger, foreign=foreign)
    for at, part in enumerate(message.parts):
        if isinstance(part, Text):
            if part.text:
                out.append(_said(_text_part("output_text", part.text)))
            else:
                ledger.note("empty_text_dropped", index, "an empty text part")
        elif isinstance(part, Image | Document):
            ledger.note(_DROPPED[type(part)], index, "an answer of this wire carries text only")
            out.append(_said(_text_part("output_text", stand_in(part))))
        elif isinstance(part, Opaque) and part.kind.startswith("content.") and not foreign:
            out.append(_said(part.raw))
        elif at in kept_reasoning or not isinstance(part, Thinking):
            rendered = _item(part, index, ledger, foreign=foreign)
            out.extend([rendered] if rendered is not None else [])
    return out


def _said(part: bytes) -> bytes:
    return obj(("type", b'"message"'), ("role", b'"assistant"'), ("content", arr([part])))


def _kept_reasoning(message: Message, index: int, ledger: Ledger, *, foreign: bool) -> frozenset[int]:
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


def _item(part: Part, index: int, ledger: Ledger, *, foreign: bool) -> bytes | None:
    match part:
        case Thinking(text, signature):
            summary = arr([_text_part("summary_text", text)] if text else [])
            if signature.startswith("rs_"):
                return obj(("type", b'"reasoning"'), ("id", quote(signature)), ("summary", summary))
            secret = ("encrypted_content", quote(signature))
            return obj(("type", b'"reasoning"'), ("summary", summary), secret)
        case ToolCall():
            call = ("call_id", quote(ledger.call_id(part, index)))
            return obj(
                ("type", b'"function_call"'), call, ("name", quote(part.name)), ("arguments", quote(part.arguments))
            )
        case Opaque():
            return None if ledger.drops(part, index, foreign=foreign) else part.raw
        case _:
            return None


def _tool(message: Message, index: int, ledger: Ledger, kinds: Mapping[str, str]) -> bytes:
    result = next(p for p in message.parts if isinstance(p, ToolResult))
    kind = kinds.get(result.call, "function_call")
    content: list[Text | bytes] = []
    for part in result.content:
        content.extend(_piece(part, index, ledger, foreign=ledger.foreign(message)))
    if result.error:
        ledger.note("error_flag_in_text", index, "this wire has no error flag; the text says it")
        first = content[0] if content and isinstance(content[0], Text) else None
        content = [Text(ERROR_FLAG + first.text), *content[1:]] if first is not None else [Text(ERROR_FLAG), *content]
    call = quote(ledger.result_id(result.call))
    output = _shortest(content) if content else b'""'
    texts = quote("\n".join(c.text for c in content if isinstance(c, Text)))
    match kind:
        case "custom_tool_call":
            return obj(("type", b'"custom_tool_call_output"'), ("call_id", call), ("output", output))
        case "local_shell_call":
            return obj(("type", b'"local_shell_call_output"'), ("id", call), ("output", texts))
        case "shell_call":
            end = obj(("type", b'"exit"'), ("exit_code", b"0"))
            piece = obj(("stdout", texts), ("stderr", b'""'), ("outcome", end))
            return obj(("type", b'"shell_call_output"'), ("call_id", call), ("output", arr([piece])))
        case "apply_patch_call":
            state = b'"failed"' if result.error else b'"completed"'
            return obj(("type", b'"apply_patch_call_output"'), ("call_id", call), ("status", state), ("output", texts))
        case _:
            return obj(("type", b'"function_call_output"'), ("call_id", call), ("output", output))
