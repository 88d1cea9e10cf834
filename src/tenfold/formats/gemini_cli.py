"""Gemini CLI files: checkpoints and scenarios are plain contents; session files hold records with tool results inside.

docs/formats/gemini-cli.md describes the mapping.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Any
from uuid import UUID

from msgspec.structs import replace

from tenfold.core.record.message import (
    Message,
    NativeBytes,
    Part,
    Text,
    Thinking,
    ToolResult,
    get_text,
    get_tool_calls,
    get_tool_result,
)
from tenfold.core.wire import find_text_origin
from tenfold.core.wire.foreign_shapes import find_shape_of_any
from tenfold.errors import UnknownRole
from tenfold.formats.base import ExportItem, ParsedSession, SessionFormat
from tenfold.formats.envelopes import decode_messages
from tenfold.formats.file_shape import FileShape, inspect_shape
from tenfold.formats.gemini_lines import RESTATED_KINDS, GeminiLines, parse_usage
from tenfold.formats.json_items import JsonItem, list_objects, parse_array, parse_document
from tenfold.formats.json_lines import LineFile
from tenfold.formats.message_list import MessageListFormat
from tenfold.formats.message_parts import dump_json, parse_call, parse_texts, render_call
from tenfold.formats.output_pieces import (
    OutputPiece,
    build_pieces,
    drop_compactions,
    has_replacements,
    join_lines,
    join_results,
    render_array,
    render_pieces,
    share_bytes,
    unfold_restated,
)
from tenfold.formats.session_draft import SessionDraft, build_sessions
from tenfold.store.base import SessionInfo

FORMAT = "gemini-cli"
RESTATING = re.compile(rb'\{ *"\$set" *:')
"""What a line begins with that states the whole conversation, of which its entries may be a part."""
_NOTE_TYPES = ("info", "error", "warning")


def _has_contents(shape: FileShape) -> bool:
    """Returns whether the file is a contents array, or an object with a `history` of contents."""
    contents = shape.items or shape.members.get("history")
    if not contents or not isinstance(contents, list | tuple):
        return False
    is_content = all(isinstance(c, dict) and isinstance(c.get("parts"), list) for c in contents)
    return is_content and find_shape_of_any(contents) is None


def _has_records(shape: FileShape) -> bool:
    return "sessionId" in shape.members and "messages" in shape.members and "projectHash" in shape.members


def _has_lines(shape: FileShape) -> bool:
    """Returns whether the file begins with the header of a session, and has a record or a change on each line."""
    head = shape.lines[0] if shape.lines and not shape.items else {}
    return "sessionId" in head and "projectHash" in head and "messages" not in head


_CONTENTS_FORMAT = MessageListFormat(FORMAT, "gemini", _has_contents)


class GeminiCli(SessionFormat):
    """Reads and writes Gemini CLI checkpoints, scenarios and session files."""

    name = FORMAT

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for contents, or for an object with the records of a session."""
        shape = inspect_shape(head)
        return _has_records(shape) or _has_lines(shape) or (len(shape.lines) < 2 and _has_contents(shape))

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[ParsedSession]:
        """Parses the one session of the file."""
        if _has_lines(inspect_shape(data)):
            source = LineFile(data, file=file, skip_damaged=skip_damaged)
            return GeminiLines(source, file, FORMAT, _parse_record).read()
        if not _has_records(inspect_shape(data)):
            return _CONTENTS_FORMAT.read(data, file=file, skip_damaged=skip_damaged)
        top = parse_document(data, file)
        records = parse_array(data, "messages", file)
        draft = SessionDraft(file, "record")
        for element in records.elements:
            _add_record(draft, element, file)
        session = str(top.get("sessionId") or "")
        title = str(top.get("summary") or "")
        return build_sessions(
            [draft],
            [SessionInfo(session, FORMAT, file, title, source_id=session, prefix=records.before, suffix=records.after)],
        )

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders the session's document, or its lines."""
        if b'"projectHash"' in info.prefix and b'"messages"' not in info.prefix:
            pieces = build_pieces(drop_compactions(items, RESTATED_KINDS), FORMAT)
            if has_replacements(items):
                pieces = [unfold_restated(piece, RESTATING) for piece in pieces]
            return join_lines(info, render_pieces(join_results(pieces), _join_lines))
        if b'"projectHash"' not in info.prefix + info.suffix:
            return _CONTENTS_FORMAT.render_body(info, items)
        return render_array(info, items, FORMAT, _join_records, has_results=True)

    def build_info(self, session_id: str) -> SessionInfo:
        """Builds a contents array."""
        return _CONTENTS_FORMAT.build_info(session_id)


def _add_record(draft: SessionDraft, record: JsonItem, file: str) -> None:
    value = record.get_object(file)
    source_id = str(value.get("id") or "")
    draft.start_item(record.number, source_id=source_id, timestamp=value.get("timestamp"), place=record.place)
    messages = _parse_record(record, file)
    if messages is None:
        draft.add_custom(str(value.get("type") or "unknown"), record.to_native(FORMAT))
        return
    draft.add_messages(messages)
    draft.set_usage(parse_usage(value) if value.get("type") == "gemini" else None)


def _parse_record(record: JsonItem, file: str) -> list[Message] | None:
    """Parses a record to its messages. Returns None if it is none."""
    value = record.get_object(file)
    content = list_objects(value, "content")
    role = {"user": "user", "gemini": "model"}.get(str(value.get("type")))
    if role and any("functionResponse" in p or ("functionCall" in p and not value.get("toolCalls")) for p in content):
        turn = dump_json({"role": role, "parts": content})
        messages = [message for decoded in decode_messages("gemini", [turn]) for message in decoded.messages]
        return share_bytes(messages, record.to_native(FORMAT), f"line{record.number}")
    match value.get("type"):
        case "user":
            texts = parse_texts(value.get("content"))
            origin = find_text_origin(texts[0].text if texts else "")
            return [Message("user", texts, origin, native=record.to_native(FORMAT))]
        case "gemini":
            return _parse_answer(record, value, str(value.get("id") or record.number))
        case kind if "content" in value and kind not in _NOTE_TYPES:
            raise UnknownRole(f"{file}: record {record.number}: {kind!r} is not a type of the gemini-cli format")
    return None


def _parse_answer(record: JsonItem, value: dict[str, Any], group: str) -> list[Message]:
    """Parses an answer record to the answer and the tool results that the record holds inside its tool calls."""
    thoughts = list_objects(value, "thoughts")
    thinking = tuple(Thinking(f"{t.get('subject', '')}: {t.get('description', '')}") for t in thoughts)
    calls = list_objects(value, "toolCalls")
    parsed_calls = [parse_call(c.get("id"), c.get("name"), c.get("args")) for c in calls]
    content = value.get("content")
    if isinstance(content, list):
        content = [part for part in content if not (isinstance(part, dict) and part.get("thought"))]
    parts: tuple[Part, ...] = (*thinking, *parse_texts(content), *parsed_calls)
    if all(_parse_result(call) is None for call in calls):
        return [Message("assistant", parts, "model", native=record.to_native(FORMAT))]
    inner = parse_array(record.raw, "toolCalls", "")
    results = [(each, _parse_result(each.value)) for each in inner.elements]
    count = 1 + sum(result is not None for _, result in results)
    answer = NativeBytes(FORMAT, inner.before, record.lead, group=group, index=0, count=count)
    out = [Message("assistant", parts, "model", native=answer)]
    gap = b""
    for each, result in results:
        gap += each.lead
        if result is None:
            gap += each.raw
            continue
        native = NativeBytes(FORMAT, each.raw, head=gap, group=group, index=len(out), count=count)
        out.append(Message("tool", (result,), "tool", native=native))
        gap = b""
    last = out[-1].native
    assert last is not None
    out[-1] = replace(out[-1], native=replace(last, tail=gap + inner.after))
    return out


def _parse_result(call: object) -> ToolResult | None:
    result = call.get("result") if isinstance(call, dict) else None
    if result is None or not isinstance(call, dict):
        return None
    texts = [_get_response_text(part) for part in (result if isinstance(result, list) else [result])]
    content = tuple(Text(t) for t in texts if t)
    return ToolResult(str(call.get("id") or ""), str(call.get("name") or ""), content, call.get("status") == "error")


def _get_response_text(part: object) -> str:
    match part:
        case {"functionResponse": {"response": {"output": str(text)}}} | {"text": str(text)} | str(text):
            return text
        case {"functionResponse": {"response": response}}:
            return json.dumps(response, ensure_ascii=False)
    return json.dumps(part, ensure_ascii=False)


def _join_lines(piece: OutputPiece) -> bytes:
    """Renders records as lines. gemini-cli reads no record without an id."""
    records = render_records(piece)
    text = repr(piece.messages).encode()
    ids = (str(UUID(bytes=sha256(text + bytes([at])).digest()[:16])) for at in range(len(records)))
    return b"\n".join(dump_json({"id": id_} | record, compact=True) for id_, record in zip(ids, records, strict=True))


def _join_records(piece: OutputPiece) -> bytes:
    return b",\n".join(map(dump_json, render_records(piece)))


def render_records(piece: OutputPiece) -> list[dict[str, Any]]:
    """Renders messages as records, each result inside the record of the answer that made the call."""
    out: list[dict[str, Any]] = []
    for message in piece.messages:
        result = get_tool_result(message)
        if result is not None and out and out[-1]["type"] == "gemini":
            _attach_result(out[-1], result, get_text(message))
            continue
        record: dict[str, Any] = {"id": piece.source_id} if piece.source_id and not out else {}
        if message.role == "assistant":
            record |= {
                "type": "gemini",
                "content": get_text(message),
                "toolCalls": [render_call(call, "args") for call in get_tool_calls(message)],
            }
        elif result is not None:
            record |= {"type": "gemini", "content": "", "toolCalls": []}
            _attach_result(record, result, get_text(message))
        else:
            record |= {"type": "user", "content": get_text(message)}
        out.append(record)
    return out


def _attach_result(record: dict[str, Any], result: ToolResult, text: str) -> None:
    if all(call["id"] != result.call_id for call in record["toolCalls"]):
        record["toolCalls"].append({"id": result.call_id, "name": result.name})
    for call in record["toolCalls"]:
        if call["id"] == result.call_id:
            response = {"id": result.call_id, "name": result.name, "response": {"output": text}}
            call |= {"result": [{"functionResponse": response}], "status": "error" if result.is_error else "success"}
