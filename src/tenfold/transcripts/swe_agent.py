"""SWE-agent trajectories: the `history` of a run, as text (0.x) or with native tool calls (1.x).

docs/formats/swe-agent.md describes the mapping. The `trajectory`, which repeats the same content, is kept as bytes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tenfold.errors import UnknownRole
from tenfold.log.base import SessionInfo
from tenfold.record.message import Message, Origin, Part, Text, ToolCall, ToolResult, calls_of, result_of, text_of
from tenfold.transcripts.arrays import Slot, array, array_of
from tenfold.transcripts.base import Item, Recorded
from tenfold.transcripts.draft import Draft, woven
from tenfold.transcripts.peek import peek
from tenfold.transcripts.pieces import Piece, joined_array, pieces, rendered
from tenfold.transcripts.spans import document

FORMAT = "swe-agent"


class SweAgent:
    """Reads and writes `.traj` files."""

    name = FORMAT

    def sniff(self, head: bytes, name: str) -> bool:
        """Looks for an object with a `trajectory` of actions. The `history` may come later than `head` reaches."""
        top = peek(head).top
        if "trajectory" not in top:
            return False
        return isinstance(top.get("history"), list) or (name.endswith(".traj") and top["trajectory"] is None)

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[Recorded]:  # noqa: ARG002 - one JSON value: all or nothing
        """Parses the one run of the file."""
        text, top = document(data, file)
        history = array(text, array_of(text, top, "history", file).start)
        draft = Draft()
        is_task_pending = True
        for element in history.slots:
            draft.line = element.number
            message = _message(element, file, issue=is_task_pending)
            is_task_pending = is_task_pending and message.origin != "human"
            draft.said([message], at=draft.last)
        value = top.value
        title = str(value.get("environment") or "")
        info = SessionInfo("", FORMAT, file, title, before=history.before, after=history.after)
        return woven([draft], [info])

    def body(self, info: SessionInfo, items: Sequence[Item]) -> bytes:
        """Renders the run's document."""
        output = rendered(pieces(items, (FORMAT,)), lambda piece, _: _render(piece))
        return joined_array(info.before, output, info.after)

    def write(self, info: SessionInfo, items: Sequence[Item]) -> bytes:
        """Renders a trajectory file. For a session from another format its other members are empty."""
        if info.format != FORMAT:
            info = SessionInfo(info.id, before=b'{"trajectory": [], "history": [', after=b"]}\n")
        return self.body(info, items)


def _message(slot: Slot, file: str, *, issue: bool) -> Message:
    """Parses one element. `is_task_pending` says that the user line with the task has not come yet.

    The task is the first user line outside a demonstration. User lines after it are tool output.
    """
    value = slot.fields(file)
    native = slot.native(FORMAT)
    demo = value.get("is_demo") is True or value.get("message_type") == "demonstration"
    text = _text(value.get("content"))
    match value.get("role"):
        case "system":
            return Message("system", text, "harness", native=native)
        case "user":
            origin: Origin = "harness" if demo else "human" if issue else "tool"
            return Message("user", text, origin, native=native)
        case "assistant":
            calls = tuple(_call(call) for call in value.get("tool_calls") or () if isinstance(call, dict))
            return Message("assistant", (*text, *calls), "harness" if demo else "model", native=native)
        case "tool":
            ids = value.get("tool_call_ids") or [value.get("tool_call_id") or ""]
            content = tuple(p for p in text if isinstance(p, Text))
            result = ToolResult(str(ids[0]), content=content)
            return Message("tool", (result,), "harness" if demo else "tool", native=native)
        case role:
            raise UnknownRole(
                f"{file}: element {slot.number} of `history`: {role!r} is not a role of the swe-agent format; "
                "correct it, or name another --format"
            )


def _text(content: object) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    if not isinstance(content, list):
        return ()
    texts = [str(b.get("text") or "") for b in content if isinstance(b, dict) and b.get("type") == "text"]
    return tuple(Text(t) for t in texts if t)


def _call(call: dict[str, Any]) -> ToolCall:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    arguments = function.get("arguments", "{}")
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(str(call.get("id") or ""), str(function.get("name") or ""), raw)


def _render(piece: Piece) -> bytes:
    message = piece.messages[0]
    line: dict[str, Any] = {"role": message.role, "content": text_of(message), "agent": "main"}
    calls = calls_of(message)
    result = result_of(message)
    if calls:
        line["tool_calls"] = [
            {"function": {"arguments": c.arguments, "name": c.name}, "id": c.id, "type": "function"} for c in calls
        ]
    if result is not None:
        line["tool_call_ids"] = [result.call]
    if message.origin == "harness" and message.role != "system":
        line["is_demo"] = True
    return json.dumps(line, ensure_ascii=False).encode("utf-8", "replace")
