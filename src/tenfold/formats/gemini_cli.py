"""Gemini CLI files: checkpoints and scenarios are plain contents; session files hold records with tool results inside.

docs/formats/gemini-cli.md describes the mapping.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tenfold.errors import BadInput, UnknownRole
from tenfold.formats.base import ExportItem, ParsedSession
from tenfold.formats.file_shape import FileShape, inspect_shape
from tenfold.formats.json_arrays import ArrayElement, find_array, parse_array
from tenfold.formats.json_spans import find_member, parse_arguments, parse_document
from tenfold.formats.message_list import MessageListFormat
from tenfold.formats.output_pieces import OutputPiece, build_pieces, join_array, render_pieces
from tenfold.formats.session_draft import SessionDraft, build_sessions, parse_micros, parse_token_count
from tenfold.record.entry import Usage
from tenfold.record.message import (
    Message,
    NativeBytes,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    get_text,
    get_tool_calls,
    get_tool_result,
)
from tenfold.store.base import SessionInfo
from tenfold.wire import find_text_origin

FORMAT = "gemini-cli"
_NOTE_TYPES = ("info", "error", "warning")


def _has_contents(shape: FileShape) -> bool:
    """Returns whether the file is a contents array, or an object with a `history` of contents."""
    contents = shape.items or shape.members.get("history") or ()
    return bool(contents) and all(isinstance(c, dict) and isinstance(c.get("parts"), list) for c in contents)


def _has_records(shape: FileShape) -> bool:
    return "sessionId" in shape.members and "messages" in shape.members and "projectHash" in shape.members


_CONTENTS_FORMAT = MessageListFormat(FORMAT, "gemini", _has_contents)


class GeminiCli:
    """Reads and writes Gemini CLI checkpoints, scenarios and session files."""

    name = FORMAT

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for contents, or for an object with the records of a session."""
        shape = inspect_shape(head)
        return _has_records(shape) or (len(shape.lines) < 2 and _has_contents(shape))

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[ParsedSession]:
        """Parses the one session of the file."""
        if not _has_records(inspect_shape(data)):
            return _CONTENTS_FORMAT.read(data, file=file, skip_damaged=skip_damaged)
        text, top = parse_document(data, file)
        records = parse_array(text, find_array(text, top, "messages", file).start)
        draft = SessionDraft()
        for element in records.elements:
            draft.line_number = element.number
            _add_record(draft, element, file)
        session = str(top.value.get("sessionId") or "")
        title = str(top.value.get("summary") or "")
        return build_sessions(
            [draft],
            [SessionInfo(session, FORMAT, file, title, source_id=session, prefix=records.before, suffix=records.after)],
        )

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders the session's document."""
        if b'"projectHash"' not in info.prefix + info.suffix:
            return _CONTENTS_FORMAT.render_body(info, items)
        output = render_pieces(build_pieces(items, (FORMAT,)), lambda piece, _: _render_records(piece))
        return join_array(info.prefix, output, info.suffix)

    def render_file(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders a session file, or a contents array if the session came from another format."""
        return self.render_body(info, items) if info.format == FORMAT else _CONTENTS_FORMAT.render_file(info, items)


def _add_record(draft: SessionDraft, element: ArrayElement, file: str) -> None:
    value = element.get_object(file)
    source, time = str(value.get("id") or ""), parse_micros(value.get("timestamp"))
    if source and draft.has_source(source):
        raise BadInput(f"{file}: record {element.number}: the id {source!r} was already used; remove one of the two")
    native = element.to_native(FORMAT)
    match value.get("type"):
        case "user":
            parts = _parse_parts(value.get("content"))
            text = parts[0].text if parts and isinstance(parts[0], Text) else ""
            draft.add_messages(
                [Message("user", parts, find_text_origin(text), native=native)],
                parent_key=draft.last_key,
                source_id=source,
                time=time,
            )
        case "gemini":
            draft.add_messages(
                _parse_answer(element, value, source), parent_key=draft.last_key, source_id=source, time=time
            )
            _set_usage(draft, value)
        case kind if kind in _NOTE_TYPES:
            draft.add_custom(str(kind), native, parent_key=draft.last_key, source_id=source, time=time)
        case role if "content" in value:
            raise UnknownRole(f"{file}: record {element.number}: {role!r} is not a type of the gemini-cli format")
        case kind:
            draft.add_custom(str(kind or "unknown"), native, parent_key=draft.last_key, source_id=source, time=time)


def _parse_parts(content: object) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    parts = content if isinstance(content, list) else [content]
    texts = [p if isinstance(p, str) else p.get("text") for p in parts if isinstance(p, str | dict)]
    return tuple(Text(t) for t in texts if isinstance(t, str) and t)


def _parse_answer(element: ArrayElement, value: dict[str, Any], source_id: str) -> list[Message]:
    """Parses an answer record to the answer and the tool results that the record holds inside its tool calls."""
    thoughts = [t for t in value.get("thoughts") or () if isinstance(t, dict)]
    thinking = tuple(Thinking(f"{t.get('subject', '')}: {t.get('description', '')}") for t in thoughts)
    calls = [c for c in value.get("toolCalls") or () if isinstance(c, dict)]
    parts = (*thinking, *_parse_parts(value.get("content")), *map(_parse_call, calls))
    span = find_member(element.text, 0, "toolCalls")
    if span is None or all(_parse_result(call) is None for call in calls):
        return [Message("assistant", parts, "model", native=element.to_native(FORMAT))]
    inner = parse_array(element.text, span.start)
    results = [(each, _parse_result(each.value) if isinstance(each.value, dict) else None) for each in inner.elements]
    group, count = source_id or f"{element.number}", 1 + sum(result is not None for _, result in results)
    answer = NativeBytes(FORMAT, inner.before, element.lead, group=group, index=0, count=count)
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


def _parse_call(call: dict[str, Any]) -> ToolCall:
    arguments = json.dumps(call.get("args") or {}, ensure_ascii=False)
    return ToolCall(str(call.get("id") or ""), str(call.get("name") or ""), arguments)


def _parse_result(call: dict[str, Any]) -> ToolResult | None:
    result = call.get("result")
    if result is None:
        return None
    parts = result if isinstance(result, list) else [result]
    texts = [_get_response_text(part) for part in parts]
    content = tuple(Text(t) for t in texts if t)
    return ToolResult(str(call.get("id") or ""), str(call.get("name") or ""), content, call.get("status") == "error")


def _get_response_text(part: object) -> str:
    match part:
        case {"functionResponse": {"response": {"output": str(text)}}} | {"text": str(text)}:
            return text
        case {"functionResponse": {"response": response}}:
            return json.dumps(response, ensure_ascii=False)
    return part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)


def _set_usage(draft: SessionDraft, value: dict[str, Any]) -> None:
    """Sets the record's usage on the answer, not on the tool results that follow it."""
    match value.get("tokens"):
        case {"input": int(prompt), "output": int(output), **rest} if prompt > 0:
            usage = Usage(prompt, output, parse_token_count(rest.get("cached")), 0, str(value.get("model") or ""))
            draft.set_usage(usage)


def _render_records(piece: OutputPiece) -> bytes:
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
                "toolCalls": [
                    {"id": c.id, "name": c.name, "args": parse_arguments(c.arguments)} for c in get_tool_calls(message)
                ],
            }
        elif result is not None:
            record |= {"type": "gemini", "content": "", "toolCalls": []}
            _attach_result(record, result, get_text(message))
        else:
            record |= {"type": "user", "content": get_text(message)}
        out.append(record)
    return b",\n".join(json.dumps(r, ensure_ascii=False).encode("utf-8", "replace") for r in out)


def _attach_result(record: dict[str, Any], result: ToolResult, text: str) -> None:
    if all(call["id"] != result.call_id for call in record["toolCalls"]):
        record["toolCalls"].append({"id": result.call_id, "name": result.name})
    for call in record["toolCalls"]:
        if call["id"] == result.call_id:
            response = {"id": result.call_id, "name": result.name, "response": {"output": text}}
            call |= {"result": [{"functionResponse": response}], "status": "error" if result.is_error else "success"}
