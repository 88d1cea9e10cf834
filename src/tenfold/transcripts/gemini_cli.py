"""Gemini CLI files: checkpoints and scenarios are plain contents; session files hold records with tool results inside.

docs/formats/gemini-cli.md describes the mapping.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tenfold.errors import BadInput, UnknownRole
from tenfold.log.base import SessionInfo
from tenfold.record.entry import Usage
from tenfold.record.message import (
    Message,
    Native,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    calls_of,
    result_of,
    text_of,
)
from tenfold.transcripts.arrays import Slot, array, array_of
from tenfold.transcripts.base import Item, Recorded
from tenfold.transcripts.draft import Draft, micros, tokens, woven
from tenfold.transcripts.messages import Messages
from tenfold.transcripts.peek import Peek, peek
from tenfold.transcripts.pieces import Piece, joined_array, pieces, rendered
from tenfold.transcripts.spans import document, loose, member
from tenfold.wire import text_origin

FORMAT = "gemini-cli"
_NOTES = ("info", "error", "warning")


def _contents(seen: Peek) -> bool:
    """Returns whether the file is a contents array, or an object with a `history` of contents."""
    contents = seen.items or seen.top.get("history") or ()
    return bool(contents) and all(isinstance(c, dict) and isinstance(c.get("parts"), list) for c in contents)


def _records(seen: Peek) -> bool:
    return "sessionId" in seen.top and "messages" in seen.top and "projectHash" in seen.top


_PLAIN = Messages(FORMAT, "gemini", _contents)


class GeminiCli:
    """Reads and writes Gemini CLI checkpoints, scenarios and session files."""

    name = FORMAT

    def sniff(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for contents, or for an object with the records of a session."""
        shape = peek(head)
        return _records(shape) or (len(shape.lines) < 2 and _contents(shape))

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[Recorded]:
        """Parses the one session of the file."""
        if not _records(peek(data)):
            return _PLAIN.read(data, file=file, skip_damaged=skip_damaged)
        text, top = document(data, file)
        records = array(text, array_of(text, top, "messages", file).start)
        draft = Draft()
        for element in records.slots:
            draft.line = element.number
            _add(draft, element, file)
        session = str(top.value.get("sessionId") or "")
        title = str(top.value.get("summary") or "")
        return woven(
            [draft],
            [SessionInfo(session, FORMAT, file, title, source=session, before=records.before, after=records.after)],
        )

    def body(self, info: SessionInfo, items: Sequence[Item]) -> bytes:
        """Renders the session's document."""
        if b'"projectHash"' not in info.before + info.after:
            return _PLAIN.body(info, items)
        output = rendered(pieces(items, (FORMAT,)), lambda piece, _: _render(piece))
        return joined_array(info.before, output, info.after)

    def write(self, info: SessionInfo, items: Sequence[Item]) -> bytes:
        """Renders a session file, or a contents array if the session came from another format."""
        return self.body(info, items) if info.format == FORMAT else _PLAIN.write(info, items)


def _add(draft: Draft, slot: Slot, file: str) -> None:
    value = slot.fields(file)
    source, time = str(value.get("id") or ""), micros(value.get("timestamp"))
    if source and draft.knows(source):
        raise BadInput(f"{file}: record {slot.number}: the id {source!r} was already used; remove one of the two")
    native = slot.native(FORMAT)
    match value.get("type"):
        case "user":
            parts = _parts(value.get("content"))
            text = parts[0].text if parts and isinstance(parts[0], Text) else ""
            draft.said(
                [Message("user", parts, text_origin(text), native=native)], at=draft.last, source=source, time=time
            )
        case "gemini":
            draft.said(_answer(slot, value, source), at=draft.last, source=source, time=time)
            _note(draft, value)
        case kind if kind in _NOTES:
            draft.custom(str(kind), native, at=draft.last, source=source, time=time)
        case role if "content" in value:
            raise UnknownRole(f"{file}: record {slot.number}: {role!r} is not a type of the gemini-cli format")
        case kind:
            draft.custom(str(kind or "unknown"), native, at=draft.last, source=source, time=time)


def _parts(content: object) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    parts = content if isinstance(content, list) else [content]
    texts = [p if isinstance(p, str) else p.get("text") for p in parts if isinstance(p, str | dict)]
    return tuple(Text(t) for t in texts if isinstance(t, str) and t)


def _answer(slot: Slot, value: dict[str, Any], own: str) -> list[Message]:
    """Parses an answer record to the answer and the tool results that the record holds inside its tool calls."""
    thoughts = [t for t in value.get("thoughts") or () if isinstance(t, dict)]
    thinking = tuple(Thinking(f"{t.get('subject', '')}: {t.get('description', '')}") for t in thoughts)
    calls = [c for c in value.get("toolCalls") or () if isinstance(c, dict)]
    parts = (*thinking, *_parts(value.get("content")), *map(_call, calls))
    span = member(slot.text, 0, "toolCalls")
    if span is None or all(_result(call) is None for call in calls):
        return [Message("assistant", parts, "model", native=slot.native(FORMAT))]
    inner = array(slot.text, span.start)
    results = [(each, _result(each.value) if isinstance(each.value, dict) else None) for each in inner.slots]
    group, count = own or f"{slot.number}", 1 + sum(result is not None for _, result in results)
    answer = Native(FORMAT, inner.before, slot.lead, group=group, index=0, count=count)
    out = [Message("assistant", parts, "model", native=answer)]
    gap = b""
    for each, result in results:
        gap += each.lead
        if result is None:
            gap += each.raw
            continue
        native = Native(FORMAT, each.raw, head=gap, group=group, index=len(out), count=count)
        out.append(Message("tool", (result,), "tool", native=native))
        gap = b""
    last = out[-1].native
    assert last is not None
    out[-1] = replace(out[-1], native=replace(last, tail=gap + inner.after))
    return out


def _call(call: dict[str, Any]) -> ToolCall:
    arguments = json.dumps(call.get("args") or {}, ensure_ascii=False)
    return ToolCall(str(call.get("id") or ""), str(call.get("name") or ""), arguments)


def _result(call: dict[str, Any]) -> ToolResult | None:
    result = call.get("result")
    if result is None:
        return None
    parts = result if isinstance(result, list) else [result]
    texts = [_response(part) for part in parts]
    content = tuple(Text(t) for t in texts if t)
    return ToolResult(str(call.get("id") or ""), str(call.get("name") or ""), content, call.get("status") == "error")


def _response(part: object) -> str:
    match part:
        case {"functionResponse": {"response": {"output": str(text)}}} | {"text": str(text)}:
            return text
        case {"functionResponse": {"response": response}}:
            return json.dumps(response, ensure_ascii=False)
    return part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)


def _note(draft: Draft, value: dict[str, Any]) -> None:
    """Sets the record's usage on the answer, not on the tool results that follow it."""
    match value.get("tokens"):
        case {"input": int(prompt), "output": int(output), **rest} if prompt > 0:
            usage = Usage(prompt, output, tokens(rest.get("cached")), 0, str(value.get("model") or ""))
            draft.used(usage)


def _render(piece: Piece) -> bytes:
    out: list[dict[str, Any]] = []
    for message in piece.messages:
        result = result_of(message)
        if result is not None and out and out[-1]["type"] == "gemini":
            _answered(out[-1], result, text_of(message))
            continue
        record: dict[str, Any] = {"id": piece.source} if piece.source and not out else {}
        if message.role == "assistant":
            record |= {
                "type": "gemini",
                "content": text_of(message),
                "toolCalls": [{"id": c.id, "name": c.name, "args": loose(c.arguments)} for c in calls_of(message)],
            }
        elif result is not None:
            record |= {"type": "gemini", "content": "", "toolCalls": []}
            _answered(record, result, text_of(message))
        else:
            record |= {"type": "user", "content": text_of(message)}
        out.append(record)
    return b",\n".join(json.dumps(r, ensure_ascii=False).encode("utf-8", "replace") for r in out)


def _answered(record: dict[str, Any], result: ToolResult, text: str) -> None:
    if all(call["id"] != result.call for call in record["toolCalls"]):
        record["toolCalls"].append({"id": result.call, "name": result.name})
    for call in record["toolCalls"]:
        if call["id"] == result.call:
            response = {"id": result.call, "name": result.name, "response": {"output": text}}
            call |= {"result": [{"functionResponse": response}], "status": "error" if result.error else "success"}
