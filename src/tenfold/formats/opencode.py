"""opencode sessions: the document of `opencode export`, with tool results inside the parts of an answer.

docs/formats/opencode.md describes the mapping. opencode keeps sessions in a database; whoever reads it makes this
document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from tenfold.core.record.message import (
    Message,
    OpaquePart,
    Part,
    Text,
    Thinking,
    ToolResult,
    get_text,
    get_tool_calls,
    get_tool_result,
)
from tenfold.formats.content_blocks import dump_json, parse_call, render_arguments
from tenfold.formats.file_shape import inspect_shape
from tenfold.formats.item_lists import Record, RecordFormat
from tenfold.formats.json_items import get_object, list_objects
from tenfold.formats.output_pieces import OutputPiece
from tenfold.formats.session_draft import APPLIED_KIND, build_usage
from tenfold.store.base import SessionInfo

FORMAT = "opencode"
APPLIED_ID = "tenfold"
"""What the ids of messages that `tenfold apply` added hold: opencode writes a message's other fields again."""
RESULT_NOT_KEPT = "the result is not kept"
"""What stands for the result of a call that has none: opencode runs no call anew."""
_SILENT_PARTS = ("step-start", "step-finish", "snapshot", "patch", "agent", "retry")


class Opencode(RecordFormat):
    """Reads and writes the documents of opencode sessions."""

    name = FORMAT
    opaque_kinds = ("file", "subtask", "compaction")
    has_results = True

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for an object with `info` and `messages`, whose elements have `info` and `parts`."""
        members = inspect_shape(head).members
        messages = members.get("messages")
        if not isinstance(members.get("info"), dict) or not isinstance(messages, list | type(None)):
            return False
        return (
            all(isinstance(m, dict) and "info" in m and "parts" in m for m in messages or ()) and "messages" in members
        )

    def get_about(self, value: dict[str, Any]) -> Mapping[str, Any]:
        """Returns the `info` of a message, with its time."""
        return get_object(value, "info") | {"created": get_object(get_object(value, "info"), "time").get("created")}

    def read_info(self, top: Mapping[str, Any], file: str) -> SessionInfo:
        """Reads the session's `info`. The model is that of the newest message."""
        models = [get_object(message, "info").get("modelID") for message in list_objects(top, "messages")]
        model = next(filter(None, reversed(models)), "")
        return replace(super().read_info(get_object(top, "info"), file), model=str(model))

    def parse(self, value: dict[str, Any]) -> Record:
        """Parses a message. That of an answer holds the results of its calls."""
        info, parts = get_object(value, "info"), list_objects(value, "parts")
        if APPLIED_ID in str(info.get("id")):
            return Record(kind=APPLIED_KIND)
        if info.get("summary") is True or any(part.get("type") == "compaction" for part in parts):
            return Record(kind="compaction")
        if info.get("role") == "user":
            texts = [part for part in parts if part.get("type") == "text"]
            has_own = any(part.get("synthetic") is not True for part in texts)
            return Record([Message("user", _parse_parts(parts), "human" if has_own or not texts else "harness")])
        if info.get("role") != "assistant":
            return Record(kind=str(info.get("role") or "unknown"))
        results = [result for part in parts if (result := _parse_result(part)) is not None]
        answer = Message("assistant", _parse_parts(parts), "model", "error" if info.get("error") else "ok")
        tokens = get_object(info, "tokens")
        keys = ("input", "output", "read", "write")
        usage = build_usage(get_object(tokens, "cache") | tokens, keys, info.get("modelID"), is_fresh=True)
        return Record([answer, *(Message("tool", (result,), "tool") for result in results)], usage)

    def render(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Renders messages, each result inside the part of its call."""
        out: list[dict[str, Any]] = []
        for message in messages:
            result = get_tool_result(message)
            if result is not None:
                _attach_result(out, result, get_text(message))
                continue
            role = "assistant" if message.role == "assistant" else "user"
            parts: list[dict[str, Any]] = [p for each in message.parts if (p := _render_part(each)) is not None]
            calls = get_tool_calls(message)
            parts += [_render_call(call.id, call.name, render_arguments(call)) for call in calls]
            out.append({"info": {"role": role}, "parts": parts})
        return out

    def render_items(self, piece: OutputPiece) -> list[bytes]:
        """Renders the messages of a piece, the first with its id."""
        return list(map(dump_json, render_messages(piece)))

    def build_info(self, session_id: str) -> SessionInfo:
        """Builds a document without messages."""
        head = b'{"info": ' + dump_json({"id": session_id}) + b', "messages": ['
        return SessionInfo(session_id, FORMAT, prefix=head, suffix=b"]}\n")


def _parse_parts(parts: Sequence[dict[str, Any]]) -> tuple[Part, ...]:
    out: list[Part] = []
    for part in parts:
        match part:
            case {"type": "text", "text": str(text)} if not part.get("ignored"):
                out.append(Text(text))
            case {"type": "reasoning", "text": str(text)}:
                out.append(Thinking(text))
            case {"type": "tool", "state": dict(state)}:
                out.append(parse_call(part.get("callID"), part.get("tool"), state.get("input")))
            case {"type": kind} if kind not in (*_SILENT_PARTS, "text", "tool"):
                out.append(OpaquePart(str(kind), dump_json(part, compact=True)))
    return tuple(out)


def _parse_result(part: dict[str, Any]) -> ToolResult | None:
    state = get_object(part, "state")
    if part.get("type") != "tool" or state.get("status") not in ("completed", "error"):
        return None
    is_error = state["status"] == "error"
    text = state.get("error") if is_error else state.get("output")
    content = (Text(text),) if isinstance(text, str) and text else ()
    return ToolResult(str(part.get("callID") or ""), str(part.get("tool") or ""), content, is_error)


def render_messages(piece: OutputPiece) -> list[dict[str, Any]]:
    """Renders the messages of a piece. If it has an id, the first message that is no result gets it."""
    out = Opencode().render(piece.messages)
    if piece.source_id and get_tool_result(piece.messages[0]) is None:
        out[0]["info"]["id"] = piece.source_id
    return out


def _render_part(part: Part) -> dict[str, Any] | None:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Thinking():
            return {"type": "reasoning", "text": part.text, "time": {"start": 0, "end": 0}}
    return None


def _render_call(call_id: str, tool: str, arguments: object) -> dict[str, Any]:
    state = {"status": "error", "input": arguments, "error": RESULT_NOT_KEPT, "time": {"start": 0, "end": 0}}
    return {"type": "tool", "callID": call_id, "tool": tool, "state": state}


def _attach_result(out: list[dict[str, Any]], result: ToolResult, text: str) -> None:
    parts = [part for each in out for part in each["parts"] if part.get("callID") == result.call_id]
    if not parts:
        parts = [_render_call(result.call_id, result.name, {})]
        out.append({"info": {"role": "assistant"}, "parts": parts})
    state = {"input": parts[0]["state"]["input"], "time": {"start": 0, "end": 0}}
    if result.is_error:
        parts[0]["state"] = state | {"status": "error", "error": text}
    else:
        parts[0]["state"] = state | {"status": "completed", "output": text, "title": "", "metadata": {}}
