"""SWE-agent trajectories: the `history` of a run, as text (0.x) or with native tool calls (1.x).

docs/formats/swe-agent.md describes the mapping. The `trajectory`, which repeats the same content, is kept as bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenfold.core.record.message import Message, Origin, ToolCall, ToolResult, get_text, get_tool_calls, get_tool_result
from tenfold.errors import UnknownRole
from tenfold.formats.base import ExportItem, ParsedSession, SessionFormat
from tenfold.formats.file_shape import inspect_shape
from tenfold.formats.json_items import JsonItem, get_list, list_objects, parse_array, parse_document
from tenfold.formats.message_parts import dump_json, parse_call, parse_texts
from tenfold.formats.output_pieces import OutputPiece, render_array
from tenfold.formats.session_draft import SessionDraft, build_sessions
from tenfold.store.base import SessionInfo

FORMAT = "swe-agent"


class SweAgent(SessionFormat):
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
        top = parse_document(data, file)
        history = parse_array(data, "history", file)
        draft = SessionDraft(file)
        is_task_pending = True
        for element in history.elements:
            draft.start_item(element.number)
            message = _parse_message(element, file, is_task_pending=is_task_pending)
            is_task_pending = is_task_pending and message.origin != "human"
            draft.add_messages([message])
        title = str(top.get("environment") or "")
        return build_sessions(
            [draft], [SessionInfo("", FORMAT, file, title, prefix=history.before, suffix=history.after)]
        )

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders the run's document."""
        return render_array(info, items, FORMAT, _render_message)

    def build_info(self, session_id: str) -> SessionInfo:
        """Builds a document whose other members are empty."""
        return SessionInfo(session_id, prefix=b'{"trajectory": [], "history": [', suffix=b"]}\n")


def _parse_message(element: JsonItem, file: str, *, is_task_pending: bool) -> Message:
    """Parses one element. `is_task_pending` says that the user line with the task has not come yet.

    The task is the first user line outside a demonstration. User lines after it are tool output.
    """
    value = element.get_object(file)
    native = element.to_native(FORMAT)
    demo = value.get("is_demo") is True or value.get("message_type") == "demonstration"
    text = parse_texts(value.get("content"))
    match value.get("role"):
        case "system":
            return Message("system", text, "harness", native=native)
        case "user":
            origin: Origin = "harness" if demo else "human" if is_task_pending else "tool"
            return Message("user", text, origin, native=native)
        case "assistant":
            calls = tuple(map(_parse_call, list_objects(value, "tool_calls")))
            return Message("assistant", (*text, *calls), "harness" if demo else "model", native=native)
        case "tool":
            ids = get_list(value, "tool_call_ids") or [value.get("tool_call_id") or ""]
            result = ToolResult(str(ids[0]), content=text)
            return Message("tool", (result,), "harness" if demo else "tool", native=native)
        case role:
            raise UnknownRole(
                f"{file}: element {element.number} of `history`: {role!r} is not a role of the swe-agent format; "
                "correct it, or name another --format"
            )


def _parse_call(call: dict[str, Any]) -> ToolCall:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    return parse_call(call.get("id"), function.get("name"), function.get("arguments"))


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
    return dump_json(line)
