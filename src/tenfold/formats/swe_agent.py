"""SWE-agent trajectories: the `history` of a run, as text (0.x) or with native tool calls (1.x).

docs/formats/swe-agent.md describes the mapping. The `trajectory`, which repeats the same content, is kept as bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tenfold.errors import UnknownRole
from tenfold.formats.base import ExportItem, ParsedSession
from tenfold.formats.file_shape import inspect_shape
from tenfold.formats.json_arrays import ArrayElement, find_array, parse_array
from tenfold.formats.json_spans import parse_document
from tenfold.formats.output_pieces import OutputPiece, build_pieces, join_array, render_pieces
from tenfold.formats.session_draft import SessionDraft, build_sessions
from tenfold.record.message import (
    Message,
    Origin,
    Part,
    Text,
    ToolCall,
    ToolResult,
    get_text,
    get_tool_calls,
    get_tool_result,
)
from tenfold.store.base import SessionInfo

FORMAT = "swe-agent"


class SweAgent:
    """Reads and writes `.traj` files."""

    name = FORMAT

    def can_read(self, head: bytes, name: str) -> bool:
        """Looks for an object with a `trajectory` of actions. The `history` may come later than `head` reaches."""
        top = inspect_shape(head).members
        if "trajectory" not in top:
            return False
        return isinstance(top.get("history"), list) or (name.endswith(".traj") and top["trajectory"] is None)

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[ParsedSession]:  # noqa: ARG002 - one JSON value: all or nothing
        """Parses the one run of the file."""
        text, top = parse_document(data, file)
        history = parse_array(text, find_array(text, top, "history", file).start)
        draft = SessionDraft()
        is_task_pending = True
        for element in history.elements:
            draft.line_number = element.number
            message = _parse_message(element, file, is_task_pending=is_task_pending)
            is_task_pending = is_task_pending and message.origin != "human"
            draft.add_messages([message], parent_key=draft.last_key)
        value = top.value
        title = str(value.get("environment") or "")
        info = SessionInfo("", FORMAT, file, title, prefix=history.before, suffix=history.after)
        return build_sessions([draft], [info])

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders the run's document."""
        output = render_pieces(build_pieces(items, (FORMAT,)), lambda piece, _: _render_message(piece))
        return join_array(info.prefix, output, info.suffix)

    def render_file(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders a trajectory file. For a session from another format its other members are empty."""
        if info.format != FORMAT:
            info = SessionInfo(info.id, prefix=b'{"trajectory": [], "history": [', suffix=b"]}\n")
        return self.render_body(info, items)


def _parse_message(element: ArrayElement, file: str, *, is_task_pending: bool) -> Message:
    """Parses one element. `is_task_pending` says that the user line with the task has not come yet.

    The task is the first user line outside a demonstration. User lines after it are tool output.
    """
    value = element.get_object(file)
    native = element.to_native(FORMAT)
    demo = value.get("is_demo") is True or value.get("message_type") == "demonstration"
    text = _parse_text(value.get("content"))
    match value.get("role"):
        case "system":
            return Message("system", text, "harness", native=native)
        case "user":
            origin: Origin = "harness" if demo else "human" if is_task_pending else "tool"
            return Message("user", text, origin, native=native)
        case "assistant":
            calls = tuple(_parse_call(call) for call in value.get("tool_calls") or () if isinstance(call, dict))
            return Message("assistant", (*text, *calls), "harness" if demo else "model", native=native)
        case "tool":
            ids = value.get("tool_call_ids") or [value.get("tool_call_id") or ""]
            content = tuple(p for p in text if isinstance(p, Text))
            result = ToolResult(str(ids[0]), content=content)
            return Message("tool", (result,), "harness" if demo else "tool", native=native)
        case role:
            raise UnknownRole(
                f"{file}: element {element.number} of `history`: {role!r} is not a role of the swe-agent format; "
                "correct it, or name another --format"
            )


def _parse_text(content: object) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if not isinstance(content, list):
        return ()
    texts = [str(b.get("text") or "") for b in content if isinstance(b, dict) and b.get("type") == "text"]
    return tuple(Text(t) for t in texts if t)


def _parse_call(call: dict[str, Any]) -> ToolCall:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    arguments = function.get("arguments", "{}")
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(str(call.get("id") or ""), str(function.get("name") or ""), raw)


def _render_message(piece: OutputPiece) -> bytes:
    message = piece.messages[0]
    line: dict[str, Any] = {"role": message.role, "content": get_text(message), "agent": "main"}
    calls = get_tool_calls(message)
    result = get_tool_result(message)
    if calls:
        line["tool_calls"] = [
            {"function": {"arguments": c.arguments, "name": c.name}, "id": c.id, "type": "function"} for c in calls
        ]
    if result is not None:
        line["tool_call_ids"] = [result.call_id]
    if message.origin == "harness" and message.role != "system":
        line["is_demo"] = True
    return json.dumps(line, ensure_ascii=False).encode("utf-8", "replace")
