"""tau2 results: one file of simulations, each a session between a customer and an agent with tools.

docs/formats/tau2.md describes the mapping. The simulated user can call tools on their own device. The agent never saw
those calls, so they become entries without a message.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tenfold.errors import UnknownRole
from tenfold.log.base import SessionInfo
from tenfold.record.entry import Usage
from tenfold.record.message import Message, Native, Text, ToolCall, ToolResult, calls_of, result_of, text_of
from tenfold.transcripts.arrays import Slot, array, array_of
from tenfold.transcripts.base import Item, Recorded
from tenfold.transcripts.draft import Draft, micros
from tenfold.transcripts.peek import peek
from tenfold.transcripts.pieces import Piece, joined_array, pieces, rendered
from tenfold.transcripts.spans import Span, document, elements, loose, members

FORMAT = "tau2"


class Tau2:
    """Reads and writes tau2 result files."""

    name = FORMAT

    def sniff(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for an object with `simulations`, or that begins like one: run information, then tasks."""
        top = peek(head).top
        info = top.get("info")
        return "simulations" in top or ("tasks" in top and isinstance(info, dict) and "environment_info" in info)

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[Recorded]:  # noqa: ARG002 - one JSON value: all or nothing
        """Parses one session for each simulation."""
        text, top = document(data, file)
        array_span = array_of(text, top, "simulations", file)
        simulations = elements(text, array_span.start)
        opening = _opening(text, top)
        out: list[Recorded] = []
        offset = 0
        for number, span in enumerate(simulations):
            lead = text[offset : span.start].encode()
            offset = span.end
            trail = text[offset:].encode() if number == len(simulations) - 1 else b""
            out.append(_session(text, span, file, SessionInfo("", lead=lead, trail=trail, opening=opening)))
        return out

    def body(self, info: SessionInfo, items: Sequence[Item]) -> bytes:
        """Renders the simulation's object."""
        output = rendered(pieces(items, (FORMAT,)), lambda piece, _: _render(piece))
        return joined_array(info.before, output, info.after)

    def write(self, info: SessionInfo, items: Sequence[Item]) -> bytes:
        """Renders a results file with this one simulation."""
        if info.format != FORMAT:
            start = json.dumps({"id": info.id or "tenfold", "task_id": "", "messages": []}, ensure_ascii=False)
            info = SessionInfo(info.id, before=start[:-2].encode(), after=b"]}", opening=b'{"simulations": [')
        return info.opening + self.body(info, items) + b"]}\n"


def _opening(text: str, top: Span) -> bytes:
    """Renders the beginning of a file with one simulation: all run information, but no tasks."""
    kept = [m for m in members(text, top.start) if m.key not in ("simulations", "tasks")]
    kept_texts = [f"{json.dumps(m.key, ensure_ascii=False)}: {text[m.start : m.end]}, " for m in kept]
    return ("{" + "".join(kept_texts) + '"tasks": [], "simulations": [').encode("utf-8", "replace")


def _session(text: str, span: Span, file: str, info: SessionInfo) -> Recorded:
    simulation = span.value.get("id") if isinstance(span.value, dict) else None
    array_span = array_of(text, span, "messages", f"{file}, simulation {simulation or span.start}")
    messages = array(text, array_span.start, start=span.start, end=span.end)
    draft = Draft()
    for element in messages.slots:
        draft.line = element.number
        _add(draft, element, file)
    task = str(span.value.get("task_id") or "")
    return draft.recorded(
        SessionInfo(
            str(simulation or ""),
            FORMAT,
            file,
            f"task {task}" if task else "",
            source=str(simulation or ""),
            before=messages.before,
            after=messages.after,
            lead=info.lead,
            trail=info.trail,
            opening=info.opening,
            closing=b"]}\n",
        )
    )


def _add(draft: Draft, slot: Slot, file: str) -> None:
    value = slot.fields(file)
    native = slot.native(FORMAT)
    time = micros(value.get("timestamp"))
    text = (Text(str(value["content"])),) if value.get("content") else ()
    calls = [call for call in value.get("tool_calls") or () if isinstance(call, dict)]
    match value.get("role"):
        case "system":
            message = Message("system", text, "harness", native=native)
        case "user" if calls:
            draft.custom("user_tool_call", native, at=draft.last, time=time)
            return
        case "user":
            message = Message("user", text, "human", native=native)
        case "assistant":
            message = Message("assistant", (*text, *map(_call, calls)), "model", native=native)
        case "tool" if isinstance(value.get("tool_messages"), list):
            _add_results(draft, slot, file)
            return
        case "tool" if value.get("requestor") == "user":
            draft.custom("user_tool_result", native, at=draft.last, time=time)
            return
        case "tool":
            message = Message("tool", (_result(value),), "tool", native=native)
        case role:
            raise UnknownRole(
                f"{file}: element {slot.number} of `messages`: {role!r} is not a role of the tau2 format; "
                "correct it, or name another --format"
            )
    draft.said([message], at=draft.last, time=time, usage=_usage(value))


def _add_results(draft: Draft, slot: Slot, file: str) -> None:
    """Adds a message that wraps several tool results. Each becomes its own message, with its share of the bytes."""
    array_span = next(m for m in members(slot.text, 0) if m.key == "tool_messages")
    results = array(slot.text, array_span.start)
    group = f"{slot.number}"
    out = []
    count = len(results.slots)
    for index, inner in enumerate(results.slots):
        native = Native(
            FORMAT,
            inner.raw,
            slot.lead if index == 0 else b"",
            head=(results.before if index == 0 else b"") + inner.lead,
            tail=results.after if index == count - 1 else b"",
            group=group,
            index=index,
            count=count,
        )
        out.append(Message("tool", (_result(inner.fields(file)),), "tool", native=native))
    if out and not all(s.fields(file).get("requestor") == "user" for s in results.slots):
        draft.said(out, at=draft.last)
    else:
        draft.custom("user_tool_result", slot.native(FORMAT), at=draft.last)


def _call(call: dict[str, Any]) -> ToolCall:
    arguments = json.dumps(call.get("arguments") or {}, ensure_ascii=False)
    return ToolCall(str(call.get("id") or ""), str(call.get("name") or ""), arguments)


def _result(value: dict[str, Any]) -> ToolResult:
    content = value.get("content")
    text = (Text(str(content)),) if content else ()
    return ToolResult(str(value.get("id") or ""), content=text, error=value.get("error") is True)


def _usage(value: dict[str, Any]) -> Usage | None:
    match value.get("usage"):
        case {"prompt_tokens": int(prompt), "completion_tokens": int(output)} if prompt > 0:
            return Usage(prompt, output)
    return None


def _render(piece: Piece) -> bytes:
    if len(piece.messages) > 1:
        inner = [json.loads(_render(Piece(b"", b"", False, messages=(m,)))) for m in piece.messages]
        return json.dumps({"role": "tool", "tool_messages": inner}, ensure_ascii=False).encode("utf-8", "replace")
    message = piece.messages[0]
    line: dict[str, Any] = {"role": message.role, "content": text_of(message)}
    result = result_of(message)
    if result is not None:
        line |= {"id": result.call, "requestor": "assistant", "error": result.error}
    calls = [
        {"id": c.id, "name": c.name, "arguments": loose(c.arguments), "requestor": "assistant"}
        for c in calls_of(message)
    ]
    if message.role == "assistant":
        line["tool_calls"] = calls or None
    return json.dumps(line, ensure_ascii=False).encode("utf-8", "replace")
