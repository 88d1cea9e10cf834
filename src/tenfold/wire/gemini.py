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
    Native,
    Opaque,
    Origin,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    calls_of,
    text_of,
)
from tenfold.wire import splice
from tenfold.wire.base import START, Before, Encoded, EncodedItem, Ledger
from tenfold.wire.marks import OPENING, Confirm, fold_note, text_origin
from tenfold.wire.media import stand_in
from tenfold.wire.profiles import MADE
from tenfold.wire.segments import Batch, Chunk, batches, blocks, envelope, members, split
from tenfold.wire.splice import Fields, arr, obj, quote

NAME = "gemini"
_ROLES: Mapping[str, Role] = {"user": "user", "model": "assistant", "function": "user"}
_SNAKE: Mapping[str, str] = {
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
        self, items: Sequence[bytes], *, confirm: Confirm | None = None, before: Before = START
    ) -> list[Message]:
        """See `Wire.decode`."""
        out: list[Message] = []
        pairing = _Pairing(before)
        for index, raw in enumerate(items, before.items):
            out.extend(_decoded(raw, index, Native(NAME, raw, lead=b"," if index else b""), (pairing, confirm)))
        return out

    def encode(self, messages: Sequence[Message]) -> Encoded:
        """See `Wire.encode`."""
        ledger = Ledger(NAME, messages)
        messages = ledger.paired(messages)
        items: list[EncodedItem] = []
        system: list[str] = []
        for batch in batches(messages, NAME, join_results=True):
            first = messages[batch.indices[0]]
            if batch.exact is None and first.role == "system" and not items:
                system.extend([text] if (text := text_of(first)).strip() else [])
                continue
            raw = _rendered(messages, batch, ledger) if batch.exact is None else batch.exact
            if raw is None:
                continue
            if not items and first.role == "assistant":
                ledger.note("opening_stub", batch.indices[0], "the list would open with an assistant message")
                items.append(EncodedItem(_content("user", [obj(("text", quote(OPENING)))]), (), exact=False))
            items.append(EncodedItem(raw, batch.indices, exact=batch.exact is not None))
        return ledger.done(items, system)


# -- decoding ----------------------------------------------------------------------------------------------------------


class _Waiting(Struct):
    id: str
    name: str
    own: str


class _Pairing:
    """Gives ids to calls and finds the call of each response: by its id, or else by name and order."""

    def __init__(self, before: Before = START) -> None:
        self._before = before
        self._waiting: list[_Waiting] | None = None
        self._fresh = True

    def answered(self) -> None:
        """Ends the step when a user content was read: the next model content starts a new one."""
        self._fresh = True

    def call(self, own: str, name: str, place: tuple[int, int, bytes]) -> str:
        """Returns the id of a call. `place` is (content index, part index, raw part)."""
        if self._fresh or self._waiting is None:
            self._waiting, self._fresh = [], False
        index, part, raw = place
        call_id = own or f"{MADE}{index:x}_{part:x}_{hashlib.sha256(raw).hexdigest()[:8]}"
        self._waiting.append(_Waiting(call_id, name, own))
        return call_id

    def response(self, own: str, name: str) -> str:
        """Returns the id of the call that a response answers, or the response's own id if no call waits for it."""
        if self._waiting is None:
            self._waiting = _left_open(self._before)
        match = next((w for w in self._waiting if own and w.own == own), None)
        match = match or next((w for w in self._waiting if w.name == name and not (own and w.own)), None)
        if match is None:
            return own
        self._waiting.remove(match)
        return match.id


def _left_open(before: Before) -> list[_Waiting]:
    """Returns the calls of the newest step that have no response yet."""
    step: list[_Waiting] = []
    answered: list[str] = []
    for message in before.backwards():
        if message.role != "assistant":
            if step:
                break
            answered.extend(p.call for p in message.parts if isinstance(p, ToolResult))
        calls = [_Waiting(c.id, c.name, "" if c.id.startswith(MADE) else c.id) for c in calls_of(message)]
        step = [*calls, *step]
    for call in reversed(answered):
        match = next((w for w in step if w.id == call), None)
        if match is not None:
            step.remove(match)
    return step


def _get(found: Fields, key: str) -> Raw | None:
    value = found.get(key)
    return value if value is not None else found.get(_SNAKE.get(key, key))


def _decoded(raw: bytes, index: int, native: Native, known: tuple[_Pairing, Confirm | None]) -> list[Message]:
    fields = members(raw, index)
    name = splice.text(fields["role"]) or "" if "role" in fields and bytes(fields["role"]) != b"null" else "user"
    role = _ROLES.get(name)
    if role is None:
        raise UnknownRole(f"content {index} has role {name!r}; a Gemini content has one of {', '.join(_ROLES)}")
    chunks = [_chunk(part, role, (index, at), known) for at, part in enumerate(splice.items(fields.get("parts")) or ())]
    if role == "user":
        known[0].answered()
    return split(raw, "parts", native, chunks or [Chunk(role, "model" if role == "assistant" else "human", ())])


def _chunk(part: Raw, role: Role, place: tuple[int, int], known: tuple[_Pairing, Confirm | None]) -> Chunk:
    pairing, confirm = known
    origin: Origin = "model" if role == "assistant" else "human"
    fields = splice.fields(part)
    if fields is None:
        return Chunk(role, origin, (Opaque("", bytes(part)),))
    response = splice.fields(value) if (value := _get(fields, "functionResponse")) is not None else None
    if response is not None and role == "user":
        return Chunk("tool", "tool", (_response(response, pairing),))
    body = _part(fields, part, role, (*place, pairing))
    if role == "user" and isinstance(body, Text):
        origin = text_origin(body.text, confirm)
    signature = splice.text(_get(fields, "thoughtSignature")) or ""
    if splice.truth(fields.get("thought")) and isinstance(body, Text):
        return Chunk(role, origin, (Thinking(body.text, signature),))
    if signature and not isinstance(body, Opaque):
        return Chunk(role, origin, (Thinking("", signature), body))
    return Chunk(role, origin, (body,))


def _part(found: Fields, raw: Raw, role: Role, place: tuple[int, int, _Pairing]) -> Part:
    text = splice.text(found.get("text"))
    if text is not None:
        return Text(text)
    call = splice.fields(value) if (value := _get(found, "functionCall")) is not None else None
    if call is not None and role == "assistant" and (name := splice.text(call.get("name"))) is not None:
        index, at, pairing = place
        call_id = pairing.call(splice.text(call.get("id")) or "", name, (index, at, bytes(raw)))
        args = bytes(call["args"]).decode("utf-8", "replace") if "args" in call else "{}"
        return ToolCall(call_id, name, args)
    media = _media(found)
    if media is not None:
        return media
    signature_fields = {"thoughtSignature", "thought_signature", "thought"}
    return Opaque(next((k for k in found if k not in signature_fields), ""), bytes(raw))


def _media(found: Fields) -> Image | Document | None:
    inline = splice.fields(value) if (value := _get(found, "inlineData")) is not None else None
    file = splice.fields(value) if (value := _get(found, "fileData")) is not None else None
    blob = inline if inline is not None else file
    if blob is None:
        return None
    kind = splice.text(_get(blob, "mimeType")) or ""
    name = splice.text(_get(blob, "displayName")) or ""
    data, url = splice.text(blob.get("data")) or "", splice.text(_get(blob, "fileUri")) or ""
    if not data and not url:
        return None
    if kind.startswith("image/"):
        return Image(media=kind, data=data, url=url)
    return Document(name, kind, data=data, url=url)


def _response(found: Fields, pairing: _Pairing) -> ToolResult:
    name = splice.text(found.get("name")) or ""
    call = pairing.response(splice.text(found.get("id")) or "", name)
    raw = found.get("response")
    body = splice.fields(raw) if raw is not None else None
    content: list[Text | Image | Document | Opaque] = []
    error = body is not None and set(body) == {"error"}
    only_text = splice.text(next(iter(body.values()))) if body is not None and len(body) == 1 else None
    if only_text is not None and body is not None and set(body) <= {"output", "error", "result", "content"}:
        content.extend([Text(only_text)] if only_text else [])
    elif raw is not None and bytes(raw) not in (b"null", b"{}"):
        content.append(Text(bytes(raw).decode("utf-8", "replace")))
    for part in splice.items(found.get("parts")) or ():
        inner = splice.fields(part)
        media = _media(inner) if inner is not None else None
        content.append(media if media is not None else Opaque("", bytes(part)))
    return ToolResult(call, name, tuple(content), error)


# -- encoding ----------------------------------------------------------------------------------------------------------


def _content(role: str, parts: Sequence[bytes]) -> bytes:
    return obj(("role", quote(role)), ("parts", arr(parts)))


def _rendered(messages: Sequence[Message], batch: Batch, ledger: Ledger) -> bytes | None:
    order = sorted(batch.indices, key=lambda i: messages[i].role != "tool")
    for index in [i for i in order if messages[i].role == "tool"][1:]:
        ledger.note("results_joined", index, "responses of one step are sent in one content")
    parts: list[bytes] = []
    natives: list[Native] = []
    for index in order:
        message = messages[index]
        raw_parts = blocks(message, "parts") if message.native is not None and message.native.format == NAME else None
        if raw_parts is not None and message.native is not None:
            natives.append(message.native)
        parts.extend(raw_parts if raw_parts is not None else _parts(message, index, ledger))
    first = messages[batch.indices[0]]
    if not parts:
        ledger.note("empty_message_dropped", batch.indices[0], f"nothing is left of this {first.role} message")
        return None
    before, after, lost = envelope(natives, "model" if first.role == "assistant" else "user", "parts")
    if lost:
        ledger.note("envelope_dropped", batch.indices[0], "fields beside role and parts of a partly replaced content")
    return before + b",".join(parts) + after


def _parts(message: Message, index: int, ledger: Ledger) -> list[bytes]:
    if message.role == "system":
        ledger.note("system_folded", index, "a later system message is sent inside a user content")
        text = text_of(message)
        return [obj(("text", quote(fold_note(text))))] if text.strip() else []
    out: list[bytes] = []
    foreign = ledger.foreign(message)
    for part, signature in _signed(message, index, ledger, foreign=foreign):
        signature_field = (("thoughtSignature", quote(signature)),) if signature else ()
        if isinstance(part, Thinking):
            out.append(obj(("text", quote(part.text)), ("thought", b"true"), *signature_field))
        elif isinstance(part, Opaque):
            if not ledger.drops(part, index, foreign=foreign):
                out.append(part.raw)
        elif part == Text("") and not signature:
            ledger.note("empty_text_dropped", index, "an empty text part")
        else:
            out.append(obj(*_part_fields(part, index, ledger, foreign=foreign), *signature_field))
    return out


def _signed(message: Message, index: int, ledger: Ledger, *, foreign: bool) -> list[tuple[Part, str]]:
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
        elif isinstance(part, Opaque):
            out.append((part, ""))
        else:
            out.append((part, pending))
            pending = ""
    return [*out, (Text(""), pending)] if pending else out


def _part_fields(part: Part, index: int, ledger: Ledger, *, foreign: bool) -> tuple[tuple[str, bytes], ...]:
    match part:
        case Text(text):
            return (("text", quote(text)),)
        case ToolCall():
            call_id = ledger.call_id(part, index)
            id_field = (("id", quote(call_id)),) if call_id else ()
            return (
                ("functionCall", obj(*id_field, ("name", quote(part.name)), ("args", ledger.arguments(part, index)))),
            )
        case ToolResult():
            return (("functionResponse", _result(part, index, ledger, foreign=foreign)),)
        case Image() | Document():
            return _blob(part, index, ledger)
        case Thinking() | Opaque():
            return ()
        case _:
            assert_never(part)


def _blob(part: Image | Document, index: int, ledger: Ledger) -> tuple[tuple[str, bytes], ...]:
    fallback = "image/png" if isinstance(part, Image) else "application/octet-stream"
    media = quote(part.media or fallback)
    if part.data:
        return (("inlineData", obj(("mimeType", media), ("data", quote(part.data)))),)
    if part.url:
        return (("fileData", obj(("mimeType", media), ("fileUri", quote(part.url)))),)
    if isinstance(part, Document) and part.text:
        ledger.note("document_as_text", index, f"document {part.name or part.media or 'without a name'}")
        return (("text", quote(f"[document {part.name}]\n{part.text}" if part.name else part.text)),)
    ledger.note("image_dropped" if isinstance(part, Image) else "document_dropped", index, "neither data nor address")
    return (("text", quote(stand_in(part))),)


def _result(part: ToolResult, index: int, ledger: Ledger, *, foreign: bool) -> bytes:
    texts: list[str] = []
    media: list[bytes] = []
    for piece in part.content:
        if isinstance(piece, Text):
            texts.append(piece.text)
        elif isinstance(piece, Opaque):
            if not ledger.drops(piece, index, foreign=foreign):
                media.append(piece.raw)
        elif piece.data or piece.url:
            media.append(obj(*_blob(piece, index, ledger)))
        else:
            has_text = isinstance(piece, Document) and piece.text
            ledger.note("document_as_text" if has_text else "image_dropped", index, "a response carries text and data")
            texts.append(piece.text if isinstance(piece, Document) and piece.text else stand_in(piece))
    call_id = ledger.result_id(part.call)
    id_field = (("id", quote(call_id)),) if call_id else ()
    body = obj(("error" if part.error else "output", quote("\n".join(texts))))
    media_field = (("parts", arr(media)),) if media else ()
    return obj(*id_field, ("name", quote(ledger.named(part.call, part.name))), ("response", body), *media_field)
