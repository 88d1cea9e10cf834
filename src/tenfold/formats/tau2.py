"""tau2 results: one file of simulations, each a session between a customer and an agent with tools.

docs/formats/tau2.md describes the mapping. The simulated user can call tools on their own device. The agent never saw
those calls, so they become entries without a message.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tenfold.errors import UnknownRole
from tenfold.formats.base import ExportItem, ParsedSession
from tenfold.formats.file_shape import inspect_shape
from tenfold.formats.json_arrays import ArrayElement, find_array, parse_array
from tenfold.formats.json_spans import JsonSpan, parse_arguments, parse_document, parse_elements, parse_members
from tenfold.formats.output_pieces import OutputPiece, build_pieces, join_array, render_pieces
from tenfold.formats.session_draft import SessionDraft, parse_micros
from tenfold.record.entry import Usage
from tenfold.record.message import (
    Message,
    NativeBytes,
    Text,
    ToolCall,
    ToolResult,
    get_text,
    get_tool_calls,
    get_tool_result,
)
from tenfold.store.base import SessionInfo

FORMAT = "tau2"


class Tau2:
    """Reads and writes tau2 result files."""

    name = FORMAT

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for an object with `simulations`, or that begins like one: run information, then tasks."""
        top = inspect_shape(head).members
        info = top.get("info")
        return "simulations" in top or ("tasks" in top and isinstance(info, dict) and "environment_info" in info)

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[ParsedSession]:  # noqa: ARG002 - one JSON value: all or nothing
        """Parses one session for each simulation."""
        text, top = parse_document(data, file)
        array_span = find_array(text, top, "simulations", file)
        simulations = parse_elements(text, array_span.start)
        opening = _render_opening(text, top)
        out: list[ParsedSession] = []
        offset = 0
        for number, span in enumerate(simulations):
            lead = text[offset : span.start].encode()
            offset = span.end
            trail = text[offset:].encode() if number == len(simulations) - 1 else b""
            out.append(
                _parse_session(
                    text, span, file, SessionInfo("", file_prefix=lead, file_suffix=trail, standalone_prefix=opening)
                )
            )
        return out

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders the simulation's object."""
        output = render_pieces(build_pieces(items, (FORMAT,)), lambda piece, _: _render_message(piece))
        return join_array(info.prefix, output, info.suffix)

    def render_file(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders a results file with this one simulation."""
        if info.format != FORMAT:
            start = json.dumps({"id": info.id or "tenfold", "task_id": "", "messages": []}, ensure_ascii=False)
            info = SessionInfo(
                info.id, prefix=start[:-2].encode(), suffix=b"]}", standalone_prefix=b'{"simulations": ['
            )
        return info.standalone_prefix + self.render_body(info, items) + b"]}\n"


def _render_opening(text: str, top: JsonSpan) -> bytes:
    """Renders the beginning of a file with one simulation: all run information, but no tasks."""
    kept = [m for m in parse_members(text, top.start) if m.key not in ("simulations", "tasks")]
    kept_texts = [f"{json.dumps(m.key, ensure_ascii=False)}: {text[m.start : m.end]}, " for m in kept]
    return ("{" + "".join(kept_texts) + '"tasks": [], "simulations": [').encode("utf-8", "replace")


def _parse_session(text: str, span: JsonSpan, file: str, info: SessionInfo) -> ParsedSession:
    simulation = span.value.get("id") if isinstance(span.value, dict) else None
    array_span = find_array(text, span, "messages", f"{file}, simulation {simulation or span.start}")
    messages = parse_array(text, array_span.start, start=span.start, end=span.end)
    draft = SessionDraft()
    for element in messages.elements:
        draft.line_number = element.number
        _add_message(draft, element, file)
    task = str(span.value.get("task_id") or "")
    return draft.build_session(
        SessionInfo(
            str(simulation or ""),
            FORMAT,
            file,
            f"task {task}" if task else "",
            source_id=str(simulation or ""),
            prefix=messages.before,
            suffix=messages.after,
            file_prefix=info.file_prefix,
            file_suffix=info.file_suffix,
            standalone_prefix=info.standalone_prefix,
            standalone_suffix=b"]}\n",
        )
    )


def _add_message(draft: SessionDraft, element: ArrayElement, file: str) -> None:
    value = element.get_object(file)
    native = element.to_native(FORMAT)
    time = parse_micros(value.get("timestamp"))
    text = (Text(str(value["content"])),) if value.get("content") else ()
    calls = [call for call in value.get("tool_calls") or () if isinstance(call, dict)]
    match value.get("role"):
        case "system":
            message = Message("system", text, "harness", native=native)
        case "user" if calls:
            draft.add_custom("user_tool_call", native, parent_key=draft.last_key, time=time)
            return
        case "user":
            message = Message("user", text, "human", native=native)
        case "assistant":
            message = Message("assistant", (*text, *map(_parse_call, calls)), "model", native=native)
        case "tool" if isinstance(value.get("tool_messages"), list):
            _add_results(draft, element, file)
            return
        case "tool" if value.get("requestor") == "user":
            draft.add_custom("user_tool_result", native, parent_key=draft.last_key, time=time)
            return
        case "tool":
            message = Message("tool", (_parse_result(value),), "tool", native=native)
        case role:
            raise UnknownRole(
                f"{file}: element {element.number} of `messages`: {role!r} is not a role of the tau2 format; "
                "correct it, or name another --format"
            )
    draft.add_messages([message], parent_key=draft.last_key, time=time, usage=_parse_usage(value))


def _add_results(draft: SessionDraft, element: ArrayElement, file: str) -> None:
    """Adds a message that wraps several tool results. Each becomes its own message, with its share of the bytes."""
    array_span = next(m for m in parse_members(element.text, 0) if m.key == "tool_messages")
    results = parse_array(element.text, array_span.start)
    group = f"{element.number}"
    out = []
    count = len(results.elements)
    for index, inner in enumerate(results.elements):
        native = NativeBytes(
            FORMAT,
            inner.raw,
            element.lead if index == 0 else b"",
            head=(results.before if index == 0 else b"") + inner.lead,
            tail=results.after if index == count - 1 else b"",
            group=group,
            index=index,
            count=count,
        )
        out.append(Message("tool", (_parse_result(inner.get_object(file)),), "tool", native=native))
    if out and not all(s.get_object(file).get("requestor") == "user" for s in results.elements):
        draft.add_messages(out, parent_key=draft.last_key)
    else:
        draft.add_custom("user_tool_result", element.to_native(FORMAT), parent_key=draft.last_key)


def _parse_call(call: dict[str, Any]) -> ToolCall:
    arguments = json.dumps(call.get("arguments") or {}, ensure_ascii=False)
    return ToolCall(str(call.get("id") or ""), str(call.get("name") or ""), arguments)


def _parse_result(value: dict[str, Any]) -> ToolResult:
    content = value.get("content")
    text = (Text(str(content)),) if content else ()
    return ToolResult(str(value.get("id") or ""), content=text, is_error=value.get("error") is True)


def _parse_usage(value: dict[str, Any]) -> Usage | None:
    match value.get("usage"):
        case {"prompt_tokens": int(prompt), "completion_tokens": int(output)} if prompt > 0:
            return Usage(prompt, output)
    return None


def _render_message(piece: OutputPiece) -> bytes:
    if len(piece.messages) > 1:
        inner = [json.loads(_render_message(OutputPiece(b"", b"", False, messages=(m,)))) for m in piece.messages]
        return json.dumps({"role": "tool", "tool_messages": inner}, ensure_ascii=False).encode("utf-8", "replace")
    message = piece.messages[0]
    line: dict[str, Any] = {"role": message.role, "content": get_text(message)}
    result = get_tool_result(message)
    if result is not None:
        line |= {"id": result.call_id, "requestor": "assistant", "error": result.is_error}
    calls = [
        {"id": c.id, "name": c.name, "arguments": parse_arguments(c.arguments), "requestor": "assistant"}
        for c in get_tool_calls(message)
    ]
    if message.role == "assistant":
        line["tool_calls"] = calls or None
    return json.dumps(line, ensure_ascii=False).encode("utf-8", "replace")
