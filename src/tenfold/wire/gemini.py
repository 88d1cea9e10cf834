"""Gemini contents: `{"role": "user" | "model", "parts": [...]}`. Field names may be in camel case or snake case.

Tool calls need no ids in this format. The decoder makes ids, which pair calls with their responses by name and order.
They are never sent back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
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
    get_text,
    get_tool_calls,
)
from tenfold.wire import splice
from tenfold.wire.base import NO_PREFIX, DecodedPrefix, EncodedItem, EncodedList, Ledger
from tenfold.wire.marks import OPENING_STUB, SummaryConfirmer, find_text_origin, render_system_note
from tenfold.wire.media import render_placeholder
from tenfold.wire.profiles import MADE_ID_PREFIX
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

NAME = "gemini"
_ROLES: Mapping[str, Role] = {"user": "user", "model": "assistant", "function": "user"}
_SNAKE_CASE: Mapping[str, str] = {
    "functionCall": "function_call",
    "functionResponse": "function_response",
    "inlineData": "inline_data",
    "fileData": "file_data",
    "mimeType": "mime_type",
    "fileUri": "file_uri",
    "displayName": "display_name",
    "thoughtSignature": "thought_signature",
}


class Gemini:
    """The Gemini `contents` wire."""

    name = NAME

    def decode(
        self, items: Sequence[bytes], *, confirm: SummaryConfirmer | None = None, prefix: DecodedPrefix = NO_PREFIX
    ) -> list[Message]:
        """See `Wire.decode`."""
        out: list[Message] = []
        pairing = _CallPairing(prefix)
        for index, raw in enumerate(items, prefix.item_count):
            out.extend(
                _decode_message(raw, index, NativeBytes(NAME, raw, lead=b"," if index else b""), (pairing, confirm))
            )
        return out

    def encode(self, messages: Sequence[Message]) -> EncodedList:
        """See `Wire.encode`."""
        ledger = Ledger(NAME, messages)
        messages = ledger.add_missing_calls(messages)
        items: list[EncodedItem] = []
        system: list[str] = []
        for batch in batch_messages(messages, NAME, join_results=True):
            first = messages[batch.indices[0]]
            if batch.exact is None and first.role == "system" and not items:
                system.extend([text] if (text := get_text(first)).strip() else [])
                continue
            raw = _render_message(messages, batch, ledger) if batch.exact is None else batch.exact
            if raw is None:
                continue
            if not items and first.role == "assistant":
                ledger.note("opening_stub", batch.indices[0], "the list would open with an assistant message")
                items.append(
                    EncodedItem(_render_content("user", [build_object(("text", quote(OPENING_STUB)))]), (), exact=False)
                )
            items.append(EncodedItem(raw, batch.indices, exact=batch.exact is not None))
        return ledger.finish(items, system)


# -- decoding ----------------------------------------------------------------------------------------------------------


class _OpenCall(Struct):
    id: str
    name: str
    own_id: str


class _CallPairing:
    """Gives ids to calls and finds the call of each response: by its id, or else by name and order."""

    def __init__(self, prefix: DecodedPrefix = NO_PREFIX) -> None:
        self._prefix = prefix
        self._open_calls: list[_OpenCall] | None = None
        self._is_step_new = True

    def end_step(self) -> None:
        """Ends the step when a user content was read: the next model content starts a new one."""
        self._is_step_new = True

    def assign_id(self, own_id: str, name: str, place: tuple[int, int, bytes]) -> str:
        """Returns the id of a call. `place` is (content index, part index, raw part)."""
        if self._is_step_new or self._open_calls is None:
            self._open_calls, self._is_step_new = [], False
        index, part, raw = place
        call_id = own_id or f"{MADE_ID_PREFIX}{index:x}_{part:x}_{hashlib.sha256(raw).hexdigest()[:8]}"
        self._open_calls.append(_OpenCall(call_id, name, own_id))
        return call_id

    def match_response(self, own_id: str, name: str) -> str:
        """Returns the id of the call that a response answers, or the response's own id if no call waits for it."""
        if self._open_calls is None:
            self._open_calls = _find_open_calls(self._prefix)
        match = next((w for w in self._open_calls if own_id and w.own_id == own_id), None)
        match = match or next((w for w in self._open_calls if w.name == name and not (own_id and w.own_id)), None)
        if match is None:
            return own_id
        self._open_calls.remove(match)
        return match.id


def _find_open_calls(prefix: DecodedPrefix) -> list[_OpenCall]:
    """Returns the calls of the newest step that have no response yet."""
    step: list[_OpenCall] = []
    answered: list[str] = []
    for message in prefix.iterate_backwards():
        if message.role != "assistant":
            if step:
                break
            answered.extend(p.call_id for p in message.parts if isinstance(p, ToolResult))
        calls = [
            _OpenCall(c.id, c.name, "" if c.id.startswith(MADE_ID_PREFIX) else c.id) for c in get_tool_calls(message)
        ]
        step = [*calls, *step]
    for call in reversed(answered):
        match = next((w for w in step if w.id == call), None)
        if match is not None:
            step.remove(match)
    return step


def _get_field(fields: Fields, key: str) -> Raw | None:
    value = fields.get(key)
    return value if value is not None else fields.get(_SNAKE_CASE.get(key, key))


def _decode_message(
    raw: bytes, index: int, native: NativeBytes, context: tuple[_CallPairing, SummaryConfirmer | None]
) -> list[Message]:
    fields = parse_fields(raw, index)
    name = (
        splice.parse_string(fields["role"]) or "" if "role" in fields and bytes(fields["role"]) != b"null" else "user"
    )
    role = _ROLES.get(name)
    if role is None:
        raise UnknownRole(f"content {index} has role {name!r}; a Gemini content has one of {', '.join(_ROLES)}")
    chunks = [
        _decode_chunk(part, role, (index, at), context)
        for at, part in enumerate(splice.parse_array(fields.get("parts")) or ())
    ]
    if role == "user":
        context[0].end_step()
    return split_message(raw, "parts", native, chunks or [Chunk(role, "model" if role == "assistant" else "human", ())])


def _decode_chunk(
    part: Raw, role: Role, place: tuple[int, int], context: tuple[_CallPairing, SummaryConfirmer | None]
) -> Chunk:
    pairing, confirm = context
    origin: Origin = "model" if role == "assistant" else "human"
    fields = splice.parse_object(part)
    if fields is None:
        return Chunk(role, origin, (OpaquePart("", bytes(part)),))
    response = splice.parse_object(value) if (value := _get_field(fields, "functionResponse")) is not None else None
    if response is not None and role == "user":
        return Chunk("tool", "tool", (_decode_response(response, pairing),))
    body = _decode_part(fields, part, role, (*place, pairing))
    if role == "user" and isinstance(body, Text):
        origin = find_text_origin(body.text, confirm)
    signature = splice.parse_string(_get_field(fields, "thoughtSignature")) or ""
    if splice.is_true(fields.get("thought")) and isinstance(body, Text):
        return Chunk(role, origin, (Thinking(body.text, signature),))
    if signature and not isinstance(body, OpaquePart):
        return Chunk(role, origin, (Thinking("", signature), body))
    return Chunk(role, origin, (body,))


def _decode_part(fields: Fields, raw: Raw, role: Role, place: tuple[int, int, _CallPairing]) -> Part:
    text = splice.parse_string(fields.get("text"))
    if text is not None:
        return Text(text)
    call = splice.parse_object(value) if (value := _get_field(fields, "functionCall")) is not None else None
    if call is not None and role == "assistant" and (name := splice.parse_string(call.get("name"))) is not None:
        index, at, pairing = place
        call_id = pairing.assign_id(splice.parse_string(call.get("id")) or "", name, (index, at, bytes(raw)))
        args = bytes(call["args"]).decode("utf-8", "replace") if "args" in call else "{}"
        return ToolCall(call_id, name, args)
    media = _decode_media(fields)
    if media is not None:
        return media
    signature_fields = {"thoughtSignature", "thought_signature", "thought"}
    return OpaquePart(next((k for k in fields if k not in signature_fields), ""), bytes(raw))


def _decode_media(fields: Fields) -> Image | Document | None:
    inline = splice.parse_object(value) if (value := _get_field(fields, "inlineData")) is not None else None
    file = splice.parse_object(value) if (value := _get_field(fields, "fileData")) is not None else None
    blob = inline if inline is not None else file
    if blob is None:
        return None
    kind = splice.parse_string(_get_field(blob, "mimeType")) or ""
    name = splice.parse_string(_get_field(blob, "displayName")) or ""
    data, url = splice.parse_string(blob.get("data")) or "", splice.parse_string(_get_field(blob, "fileUri")) or ""
    if not data and not url:
        return None
    if kind.startswith("image/"):
        return Image(media_type=kind, data=data, url=url)
    return Document(name, kind, data=data, url=url)


def _decode_response(fields: Fields, pairing: _CallPairing) -> ToolResult:
    name = splice.parse_string(fields.get("name")) or ""
    call = pairing.match_response(splice.parse_string(fields.get("id")) or "", name)
    raw = fields.get("response")
    body = splice.parse_object(raw) if raw is not None else None
    content: list[Text | Image | Document | OpaquePart] = []
    error = body is not None and set(body) == {"error"}
    only_text = splice.parse_string(next(iter(body.values()))) if body is not None and len(body) == 1 else None
    if only_text is not None and body is not None and set(body) <= {"output", "error", "result", "content"}:
        content.extend([Text(only_text)] if only_text else [])
    elif raw is not None and bytes(raw) not in (b"null", b"{}"):
        content.append(Text(bytes(raw).decode("utf-8", "replace")))
    for part in splice.parse_array(fields.get("parts")) or ():
        inner = splice.parse_object(part)
        media = _decode_media(inner) if inner is not None else None
        content.append(media if media is not None else OpaquePart("", bytes(part)))
    return ToolResult(call, name, tuple(content), error)


# -- encoding ----------------------------------------------------------------------------------------------------------


def _render_content(role: str, parts: Sequence[bytes]) -> bytes:
    return build_object(("role", quote(role)), ("parts", build_array(parts)))


def _render_message(messages: Sequence[Message], batch: EncodingBatch, ledger: Ledger) -> bytes | None:
    order = sorted(batch.indices, key=lambda i: messages[i].role != "tool")
    for index in [i for i in order if messages[i].role == "tool"][1:]:
        ledger.note("results_joined", index, "responses of one step are sent in one content")
    parts: list[bytes] = []
    natives: list[NativeBytes] = []
    for index in order:
        message = messages[index]
        raw_parts = (
            extract_blocks(message, "parts") if message.native is not None and message.native.format == NAME else None
        )
        if raw_parts is not None and message.native is not None:
            natives.append(message.native)
        parts.extend(raw_parts if raw_parts is not None else _render_parts(message, index, ledger))
    first = messages[batch.indices[0]]
    if not parts:
        ledger.note("empty_message_dropped", batch.indices[0], f"nothing is left of this {first.role} message")
        return None
    before, after, lost = build_envelope(natives, "model" if first.role == "assistant" else "user", "parts")
    if lost:
        ledger.note("envelope_dropped", batch.indices[0], "fields beside role and parts of a partly replaced content")
    return before + b",".join(parts) + after


def _render_parts(message: Message, index: int, ledger: Ledger) -> list[bytes]:
    if message.role == "system":
        ledger.note("system_folded", index, "a later system message is sent inside a user content")
        text = get_text(message)
        return [build_object(("text", quote(render_system_note(text))))] if text.strip() else []
    out: list[bytes] = []
    foreign = ledger.is_foreign(message)
    for part, signature in _pair_signatures(message, index, ledger, foreign=foreign):
        signature_field = (("thoughtSignature", quote(signature)),) if signature else ()
        if isinstance(part, Thinking):
            out.append(build_object(("text", quote(part.text)), ("thought", b"true"), *signature_field))
        elif isinstance(part, OpaquePart):
            if not ledger.should_drop(part, index, foreign=foreign):
                out.append(part.raw)
        elif part == Text("") and not signature:
            ledger.note("empty_text_dropped", index, "an empty text part")
        else:
            out.append(build_object(*_render_part_fields(part, index, ledger, foreign=foreign), *signature_field))
    return out


def _pair_signatures(message: Message, index: int, ledger: Ledger, *, foreign: bool) -> list[tuple[Part, str]]:
    """Returns each part with its signature. The decoder turned a part's signature into a thinking part before it."""
    out: list[tuple[Part, str]] = []
    pending = ""
    for part in message.parts:
        if isinstance(part, Thinking) and foreign:
            ledger.note("thinking_dropped" if part.text else "signature_dropped", index, "not this provider's")
        elif isinstance(part, Thinking) and part.text:
            out.append((part, part.signature))
        elif isinstance(part, Thinking):
            if pending:
                out.append((Text(""), pending))
            pending = part.signature
        elif isinstance(part, OpaquePart):
            out.append((part, ""))
        else:
            out.append((part, pending))
            pending = ""
    return [*out, (Text(""), pending)] if pending else out


def _render_part_fields(part: Part, index: int, ledger: Ledger, *, foreign: bool) -> tuple[tuple[str, bytes], ...]:
    match part:
        case Text(text):
            return (("text", quote(text)),)
        case ToolCall():
            call_id = ledger.assign_call_id(part, index)
            id_field = (("id", quote(call_id)),) if call_id else ()
            return (
                (
                    "functionCall",
                    build_object(*id_field, ("name", quote(part.name)), ("args", ledger.render_arguments(part, index))),
                ),
            )
        case ToolResult():
            return (("functionResponse", _render_result(part, index, ledger, foreign=foreign)),)
        case Image() | Document():
            return _render_blob(part, index, ledger)
        case Thinking() | OpaquePart():
            return ()
        case _:
            assert_never(part)


def _render_blob(part: Image | Document, index: int, ledger: Ledger) -> tuple[tuple[str, bytes], ...]:
    fallback = "image/png" if isinstance(part, Image) else "application/octet-stream"
    media = quote(part.media_type or fallback)
    if part.data:
        return (("inlineData", build_object(("mimeType", media), ("data", quote(part.data)))),)
    if part.url:
        return (("fileData", build_object(("mimeType", media), ("fileUri", quote(part.url)))),)
    if isinstance(part, Document) and part.text:
        ledger.note("document_as_text", index, f"document {part.name or part.media_type or 'without a name'}")
        return (("text", quote(f"[document {part.name}]\n{part.text}" if part.name else part.text)),)
    ledger.note("image_dropped" if isinstance(part, Image) else "document_dropped", index, "neither data nor address")
    return (("text", quote(render_placeholder(part))),)


def _render_result(part: ToolResult, index: int, ledger: Ledger, *, foreign: bool) -> bytes:
    texts: list[str] = []
    media: list[bytes] = []
    for piece in part.content:
        if isinstance(piece, Text):
            texts.append(piece.text)
        elif isinstance(piece, OpaquePart):
            if not ledger.should_drop(piece, index, foreign=foreign):
                media.append(piece.raw)
        elif piece.data or piece.url:
            media.append(build_object(*_render_blob(piece, index, ledger)))
        else:
            has_text = isinstance(piece, Document) and piece.text
            ledger.note("document_as_text" if has_text else "image_dropped", index, "a response carries text and data")
            texts.append(piece.text if isinstance(piece, Document) and piece.text else render_placeholder(piece))
    call_id = ledger.assign_result_id(part.call_id)
    id_field = (("id", quote(call_id)),) if call_id else ()
    body = build_object(("error" if part.is_error else "output", quote("\n".join(texts))))
    media_field = (("parts", build_array(media)),) if media else ()
    return build_object(
        *id_field, ("name", quote(ledger.get_tool_name(part.call_id, part.name))), ("response", body), *media_field
    )
