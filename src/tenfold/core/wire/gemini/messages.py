"""Gemini contents: `{"role": "user" | "model", "parts": [...]}`. Field names may be in camel case or snake case.

Tool calls need no ids in this format. The decoder makes ids, which pair calls with their responses by name and order.
They are never sent back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import assert_never

from msgspec import Raw, Struct
from msgspec.structs import replace

from tenfold.core.record.message import (
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
    get_tool_calls,
)
from tenfold.core.wire import splice
from tenfold.core.wire.base import DecodedPrefix, DecodingContext, OutgoingMessage
from tenfold.core.wire.encoding import collect_blocks, fold_system, wrap_blocks
from tenfold.core.wire.fingerprint import canonicalize_json
from tenfold.core.wire.gemini.profile import NAME, to_snake_case
from tenfold.core.wire.profiles import MADE_ID_PREFIX
from tenfold.core.wire.segments import Chunk, ContentPart, ParsedMessage, is_same_native, split_message
from tenfold.core.wire.splice import Fields, build_array, build_object, quote

_ROLES: Mapping[str, Role] = {"user": "user", "model": "assistant", "function": "user"}
_RESOLUTION_PREFIX = "media_resolution_"
_DETAILS = ("low", "medium", "high", "ultra_high")
_SIGNATURE_FIELDS = frozenset({"thoughtSignature", "thought_signature", "thought"})
"""Fields of a part that do not say what it is."""


# -- decoding ----------------------------------------------------------------------------------------------------------


class _OpenCall(Struct):
    id: str
    name: str
    own_id: str


class _CallPairing:
    """Gives ids to calls and finds the call of each response: by its id, or else by name and order."""

    def __init__(self, prefix: DecodedPrefix) -> None:
        self._prefix = prefix
        self._open_calls: list[_OpenCall] | None = None
        self._is_step_new = True

    def end_step(self) -> None:
        """Ends the step when a user content was read: the next model content starts a new one."""
        self._is_step_new = True

    def assign_id(self, own_id: str, call: ToolCall, place: str) -> str:
        """Returns the id of a call: its own, or one made of its place in the list and its content."""
        if self._is_step_new or self._open_calls is None:
            self._open_calls, self._is_step_new = [], False
        content = call.name.encode() + b"\0" + canonicalize_json(call.arguments)
        call_id = own_id or f"{MADE_ID_PREFIX}{place}_{hashlib.sha256(content).hexdigest()[:8]}"
        self._open_calls.append(_OpenCall(call_id, call.name, own_id))
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
    return value if value is not None else fields.get(to_snake_case(key))


def _get_object(fields: Fields, key: str) -> Fields | None:
    value = _get_field(fields, key)
    return splice.parse_object(value) if value is not None else None


def decode(natives: Iterable[ParsedMessage], context: DecodingContext) -> Iterator[Message]:
    """Decodes the native messages of a list: see `ListDecoder`."""
    pairing = _CallPairing(context.prefix)
    for message in natives:
        has_role = bytes(message.fields.get("role", b"null")) != b"null"
        role = message.get_role(_ROLES, "a Gemini content") if has_role else "user"
        parts = splice.parse_array(message.fields.get("parts")) or ()
        find_origin = partial(context.find_origin, role, is_whole=len(parts) == 1)
        chunks = [
            _decode_chunk(part, role, f"{message.index:x}_{at:x}", pairing, find_origin)
            for at, part in enumerate(parts)
        ]
        if role == "user":
            pairing.end_step()
        yield from split_message(message.native, "parts", chunks or [Chunk(role, context.find_origin(role), ())])


def _decode_chunk(
    part: Raw, role: Role, place: str, pairing: _CallPairing, find_origin: Callable[[str], Origin]
) -> Chunk:
    fields = splice.parse_object(part) or {}
    response = _get_object(fields, "functionResponse")
    if response is not None and role == "user":
        return Chunk("tool", "tool", (_decode_response(response, pairing),))
    call = _get_object(fields, "functionCall")
    name = splice.find_text(call, "name") if call is not None and role == "assistant" else None
    text = splice.find_text(fields, "text")
    body: Part
    if text is not None:
        body = Text(text)
    elif call is not None and name is not None:
        body = ToolCall("", name, bytes(call["args"]).decode("utf-8", "replace") if "args" in call else "{}")
        body = replace(body, id=pairing.assign_id(splice.get_text(call, "id"), body, place))
    else:
        body = _decode_media(fields) or OpaquePart(
            next((k for k in fields if k not in _SIGNATURE_FIELDS), ""), bytes(part)
        )
    origin = find_origin(text or "")
    signature = splice.parse_string(_get_field(fields, "thoughtSignature")) or ""
    if splice.is_true(fields.get("thought")) and isinstance(body, Text):
        return Chunk(role, origin, (Thinking(body.text, signature),))
    if signature and not isinstance(body, OpaquePart):
        return Chunk(role, origin, (Thinking("", signature), body))
    return Chunk(role, origin, (body,))


def _decode_media(fields: Fields) -> Image | Document | None:
    blob = _get_object(fields, "inlineData")
    blob = blob if blob is not None else _get_object(fields, "fileData")
    if blob is None:
        return None
    kind = splice.parse_string(_get_field(blob, "mimeType")) or ""
    name = splice.parse_string(_get_field(blob, "displayName")) or ""
    data, url = splice.get_text(blob, "data"), splice.parse_string(_get_field(blob, "fileUri")) or ""
    if not data and not url:
        return None
    if kind.startswith("image/"):
        return Image(media_type=kind, data=data, url=url, detail=_read_detail(fields))
    return Document(name, kind, data=data, url=url)


def _read_detail(fields: Fields) -> str:
    """Reads how closely the model should look at an image: `high` for MEDIA_RESOLUTION_HIGH, "" if it is not said."""
    resolution = _get_object(fields, "mediaResolution")
    level = splice.get_text(resolution, "level") if resolution is not None else ""
    return level.lower().removeprefix(_RESOLUTION_PREFIX) if level.lower().startswith(_RESOLUTION_PREFIX) else ""


def _decode_response(fields: Fields, pairing: _CallPairing) -> ToolResult:
    name = splice.get_text(fields, "name")
    call = pairing.match_response(splice.get_text(fields, "id"), name)
    raw = fields.get("response")
    body = splice.parse_object(raw) if raw is not None else None
    content: list[ContentPart] = []
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


def render_batch(batch: Sequence[OutgoingMessage]) -> list[bytes]:
    """Renders messages that make one native message: see `BatchRenderer`."""
    for before, outgoing in pairwise(batch):
        if outgoing.message.role == "assistant" and not is_same_native(before.message, outgoing.message.native, NAME):
            outgoing.note("answers_joined", "a call and the answer before it are sent in one message")
    collected = collect_blocks(batch, "parts", _render_parts)
    role = "model" if batch[0].message.role == "assistant" else "user"
    return [wrap_blocks(collected, role, "parts", batch[0])] if collected.blocks else []


def _render_parts(outgoing: OutgoingMessage) -> list[bytes]:
    if outgoing.message.role == "system":
        text = fold_system(outgoing)
        return [build_object(text=quote(text))] if text else []
    out: list[bytes] = []
    for part, signature in _pair_signatures(outgoing):
        signature_field = {"thoughtSignature": quote(signature)} if signature else {}
        if isinstance(part, Thinking):
            out.append(build_object(text=quote(part.text), thought=b"true", **signature_field))
        elif isinstance(part, OpaquePart):
            out.extend(outgoing.render_opaque(part))
        elif part == Text("") and not signature:
            outgoing.note_empty_text()
        else:
            out.append(build_object(**_render_part_fields(part, outgoing), **signature_field))
    return out


def _pair_signatures(outgoing: OutgoingMessage) -> list[tuple[Part, str]]:
    """Returns each part with its signature. The decoder turned a part's signature into a thinking part before it."""
    out: list[tuple[Part, str]] = []
    pending = ""
    for part in outgoing.message.parts:
        if isinstance(part, Thinking) and outgoing.is_foreign:
            outgoing.note_lost_thinking(part, "not this provider's")
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


def _render_part_fields(part: Part, outgoing: OutgoingMessage) -> dict[str, bytes]:
    match part:
        case Text(text):
            return {"text": quote(text)}
        case ToolCall(_, name):
            call_id = outgoing.assign_call_id(part)
            id_field = {"id": quote(call_id)} if call_id else {}
            return {"functionCall": build_object(**id_field, name=quote(name), args=outgoing.render_arguments(part))}
        case ToolResult():
            return {"functionResponse": _render_result(part, outgoing)}
        case Image() | Document():
            return _render_blob(part, outgoing)
        case Thinking() | OpaquePart():
            return {}
        case _:
            assert_never(part)


def _render_blob(part: Image | Document, outgoing: OutgoingMessage) -> dict[str, bytes]:
    media = quote(part.media_type or ("image/png" if isinstance(part, Image) else "application/octet-stream"))
    detail: dict[str, bytes] = {}
    if isinstance(part, Image) and part.detail in _DETAILS:
        detail = {"mediaResolution": build_object(level=quote(f"{_RESOLUTION_PREFIX}{part.detail}".upper()))}
    if part.data:
        return {"inlineData": build_object(mimeType=media, data=quote(part.data)), **detail}
    if part.url:
        return {"fileData": build_object(mimeType=media, fileUri=quote(part.url)), **detail}
    if isinstance(part, Document) and part.text:
        return {"text": quote(outgoing.replace_by_text(part))}
    return {"text": quote(outgoing.replace_by_placeholder(part))}


def _render_result(result: ToolResult, outgoing: OutgoingMessage) -> bytes:
    texts: list[str] = []
    media: list[bytes] = []
    for part in result.content:
        if isinstance(part, Text):
            texts.append(part.text)
        elif isinstance(part, OpaquePart):
            media.extend(outgoing.render_opaque(part))
        elif part.data or part.url:
            media.append(build_object(**_render_blob(part, outgoing)))
        elif isinstance(part, Document) and part.text:
            outgoing.note("document_as_text", "a response carries text and data")
            texts.append(part.text)
        else:
            texts.append(outgoing.replace_by_placeholder(part))
    call_id = outgoing.ledger.assign_result_id(result)
    id_field = {"id": quote(call_id)} if call_id else {}
    name = quote(outgoing.ledger.find_tool_name(result))
    body = build_object(**{"error" if result.is_error else "output": quote("\n".join(texts))})
    media_field = {"parts": build_array(media)} if media else {}
    return build_object(**id_field, name=name, response=body, **media_field)
