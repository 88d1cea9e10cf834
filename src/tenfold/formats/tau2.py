"""tau2 results: one file of simulations, each a session between a customer and an agent with tools.

docs/formats/tau2.md describes the mapping. The simulated user can call tools on their own device. The agent never saw
those calls, so they become entries without a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tenfold.core.record.entry import Usage
from tenfold.core.record.message import Message, NativeBytes, ToolResult, get_text, get_tool_calls, get_tool_result
from tenfold.core.wire.splice import iterate_members
from tenfold.errors import UnknownRole
from tenfold.formats.base import ExportItem, ParsedSession, SessionFormat
from tenfold.formats.file_shape import inspect_shape
from tenfold.formats.json_items import JsonItem, list_objects, parse_array, parse_document
from tenfold.formats.message_parts import dump_json, parse_call, parse_texts, render_call
from tenfold.formats.output_pieces import OutputPiece, render_array
from tenfold.formats.session_draft import SessionDraft
from tenfold.store.base import SessionInfo

FORMAT = "tau2"
_CLOSING = b"]}\n"


class Tau2(SessionFormat):
    """Reads and writes tau2 result files."""

    name = FORMAT

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for an object with `simulations`, or that begins like one: run information, then tasks."""
        top = inspect_shape(head).members
        info = top.get("info")
        return "simulations" in top or ("tasks" in top and isinstance(info, dict) and "environment_info" in info)

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[ParsedSession]:  # noqa: ARG002 - one JSON value: all or nothing
        """Parses one session for each simulation."""
        parse_document(data, file)
        simulations = parse_array(data, "simulations", file)
        opening = _render_opening(data)
        gap = simulations.before
        out: list[ParsedSession] = []
        for element in simulations.elements:
            info = SessionInfo(
                "", file_prefix=gap + element.lead, standalone_prefix=opening, standalone_suffix=_CLOSING
            )
            out.append(_parse_session(element, file, info))
            gap = b""
        if out:
            out[-1] = replace(out[-1], info=replace(out[-1].info, file_suffix=simulations.after))
        return out

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders the simulation's object."""
        return render_array(info, items, FORMAT, _render_message)

    def build_info(self, session_id: str) -> SessionInfo:
        """Builds a results file without run information."""
        start = dump_json({"id": session_id or "tenfold", "task_id": "", "messages": []})
        return SessionInfo(
            session_id,
            prefix=start.removesuffix(b"]}"),
            suffix=b"]}",
            standalone_prefix=b'{"simulations": [',
            standalone_suffix=_CLOSING,
        )


def _render_opening(data: bytes) -> bytes:
    """Renders the beginning of a file with one simulation: all run information, but no tasks."""
    kept = [m for m in iterate_members(data) if m.key not in ("simulations", "tasks")]
    texts = [dump_json(m.key) + b": " + data[m.start : m.end] + b", " for m in kept]
    return b"{" + b"".join(texts) + b'"tasks": [], "simulations": ['


def _parse_session(simulation: JsonItem, file: str, info: SessionInfo) -> ParsedSession:
    value = simulation.value if isinstance(simulation.value, dict) else {}
    session_id, task = str(value.get("id") or ""), str(value.get("task_id") or "")
    messages = parse_array(simulation.raw, "messages", f"{file}, simulation {session_id or simulation.number}")
    draft = SessionDraft(file)
    for element in messages.elements:
        _add_message(draft, element, file)
    return draft.build_session(
        replace(
            info,
            id=session_id,
            source_id=session_id,
            format=FORMAT,
            file=file,
            title=f"task {task}" if task else "",
            prefix=messages.before,
            suffix=messages.after,
        )
    )


def _add_message(draft: SessionDraft, element: JsonItem, file: str) -> None:
    value = element.get_object(file)
    draft.start_item(element.number, timestamp=value.get("timestamp"))
    native = element.to_native(FORMAT)
    texts = parse_texts(value.get("content"))
    calls = list_objects(value, "tool_calls")
    match value.get("role"):
        case "system":
            message = Message("system", texts, "harness", native=native)
        case "user" if calls:
            draft.add_custom("user_tool_call", native)
            return
        case "user":
            message = Message("user", texts, "human", native=native)
        case "assistant":
            parsed_calls = [parse_call(c.get("id"), c.get("name"), c.get("arguments")) for c in calls]
            message = Message("assistant", (*texts, *parsed_calls), "model", native=native)
        case "tool" if isinstance(value.get("tool_messages"), list):
            _add_results(draft, element, file)
            return
        case "tool" if value.get("requestor") == "user":
            draft.add_custom("user_tool_result", native)
            return
        case "tool":
            message = Message("tool", (_parse_result(value),), "tool", native=native)
        case role:
            raise UnknownRole(
                f"{file}: element {element.number} of `messages`: {role!r} is not a role of the tau2 format; "
                "correct it, or name another --format"
            )
    draft.add_messages([message], _parse_usage(value))


def _add_results(draft: SessionDraft, element: JsonItem, file: str) -> None:
    """Adds a message that wraps several tool results. Each becomes its own message, with its share of the bytes."""
    results = parse_array(element.raw, "tool_messages", file)
    count = len(results.elements)
    out = []
    for index, inner in enumerate(results.elements):
        native = NativeBytes(
            FORMAT,
            inner.raw,
            element.lead if index == 0 else b"",
            head=(results.before if index == 0 else b"") + inner.lead,
            tail=results.after if index == count - 1 else b"",
            group=f"{element.number}",
            index=index,
            count=count,
        )
        out.append(Message("tool", (_parse_result(inner.get_object(file)),), "tool", native=native))
    if out and not all(result.value.get("requestor") == "user" for result in results.elements):
        draft.add_messages(out)
    else:
        draft.add_custom("user_tool_result", element.to_native(FORMAT))


def _parse_result(value: dict[str, Any]) -> ToolResult:
    return ToolResult(
        str(value.get("id") or ""), content=parse_texts(value.get("content")), is_error=value.get("error") is True
    )


def _parse_usage(value: dict[str, Any]) -> Usage | None:
    match value.get("usage"):
        case {"prompt_tokens": int(prompt), "completion_tokens": int(output)} if prompt > 0:
            return Usage(prompt, output)
    return None


def _render_message(piece: OutputPiece) -> bytes:
    lines = [_build_line(message) for message in piece.messages]
    return dump_json(lines[0] if len(lines) == 1 else {"role": "tool", "tool_messages": lines})


def _build_line(message: Message) -> dict[str, Any]:
    line: dict[str, Any] = {"role": message.role, "content": get_text(message)}
    result = get_tool_result(message)
    if result is not None:
        line |= {"id": result.call_id, "requestor": "assistant", "error": result.is_error}
    if message.role == "assistant":
        calls = [render_call(call) | {"requestor": "assistant"} for call in get_tool_calls(message)]
        line["tool_calls"] = calls or None
    return line
