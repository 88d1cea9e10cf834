"""pi session files: JSON lines with a header and then a chain (version 1) or a tree (2 and 3) of entries.

docs/formats/pi.md describes the mapping. pi's own compactions become entries without a message: the messages they hid
are still in the file, and Tenfold computes its own view.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tenfold.core.record.message import (
    Image,
    Message,
    NativeBytes,
    OpaquePart,
    Part,
    Role,
    Status,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from tenfold.formats.base import ExportItem, ParsedSession, SessionFormat
from tenfold.formats.content_blocks import dump_json, render_call
from tenfold.formats.file_shape import inspect_shape
from tenfold.formats.json_items import JsonItem, list_objects
from tenfold.formats.json_lines import LineFile, get_parent_id
from tenfold.formats.line_tree import REPEATED, LineFacts
from tenfold.formats.output_pieces import (
    LinkFields,
    OutputPiece,
    build_pieces,
    drop_compactions,
    join_lines,
    link_pieces,
    render_pieces,
)
from tenfold.formats.session_draft import APPLIED_KIND, SessionDraft, build_sessions, build_usage, is_applied
from tenfold.store.base import SessionInfo

FORMAT = "pi"
_LINK_FIELDS = LinkFields("id", "parentId", 8)
_MESSAGE_TYPES = ("message", "message_end")
"""The types of the lines that hold a message: in a session file, and in what `pi --mode json` prints."""
_INJECTED_ROLES = ("custom", "hookMessage", "branchSummary", "compactionSummary")
_ROLES = ("user", "assistant", "toolResult", "bashExecution", *_INJECTED_ROLES)


def _describe(line: JsonItem) -> LineFacts:
    value = line.value
    if value.get("type") == "session" or not value.get("id"):
        return LineFacts()
    own, message = str(value["id"]), value.get("message")
    fields = message if isinstance(message, dict) else {}
    is_result = fields.get("role") == "toolResult"
    calls = [b for b in list_objects(fields, "content") if b.get("type") == "toolCall"] if not is_result else []
    return LineFacts(
        own,
        get_parent_id(value, "parentId"),
        answer=own if calls else "",
        calls=tuple(str(call.get("id")) for call in calls),
        results=(str(fields.get("toolCallId")),) if is_result else (),
        is_message=value.get("type") in (*_MESSAGE_TYPES, "custom_message"),
    )


class Pi(SessionFormat):
    """Reads and writes pi sessions, header versions 1 to 3."""

    name = FORMAT

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for a first line of type `session` with a working directory, or with a version and an id."""
        shape = inspect_shape(head)
        first = shape.lines[0] if shape.lines else {}
        return first.get("type") == "session" and ("cwd" in first or {"version", "id"} <= first.keys())

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[ParsedSession]:
        """Parses the one session of the file."""
        source = LineFile(data, file=file, skip_damaged=skip_damaged)
        header = source.take_header(lambda value: value.get("type") == "session")
        source.link_lines(_describe, can_lack_parents=False)
        draft = SessionDraft(file)
        for line in source.lines:
            draft.start_item(line.number, source_id=line.own, timestamp=line.value.get("timestamp"), place=line.place)
            problem = line.problem or _find_unknown_role(line, source)
            if problem:
                draft.add_damaged(problem, line.to_native(FORMAT))
                continue
            if is_applied(line.value):  # behind the line before: the first of them has no parent of its own
                draft.add_custom(APPLIED_KIND, line.to_native(FORMAT))
                continue
            if line.value == {"type": REPEATED}:
                draft.add_unlinked(REPEATED, line.to_native(FORMAT))
                continue
            if "parentId" in line.value:
                draft.set_parent(line.parent)
            _add_line(draft, line)
        session_id = str(header.get("id") or "")
        info = SessionInfo(
            session_id,
            FORMAT,
            file,
            str(header.get("name") or ""),
            str(header.get("modelId") or ""),
            source_id=session_id,
            prefix=source.before,
            suffix=source.after,
        )
        return build_sessions([draft], [info], source.problems)

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders the session's lines."""
        pieces = build_pieces(drop_compactions(items, ("compaction",)), FORMAT)
        if any(b'"parentId"' in piece.raw for piece in pieces):
            return join_lines(info, link_pieces(pieces, _LINK_FIELDS, render_line))
        return join_lines(info, render_pieces(pieces, render_line))

    def build_info(self, session_id: str) -> SessionInfo:
        """Builds a new header."""
        header = dump_json({"type": "session", "id": session_id, "cwd": ""}, compact=True)
        return SessionInfo(session_id, prefix=header, suffix=b"\n")


def _find_unknown_role(line: JsonItem, source: LineFile) -> str:
    """Returns the problem of a line whose message has an unknown role, else "". Raises it unless lines are skipped."""
    match line.value:
        case {"type": kind, "message": {"role": str(role)}} if kind in _MESSAGE_TYPES and role in _ROLES:
            return ""
        case {"type": kind, "message": dict(message)} if kind in _MESSAGE_TYPES:
            return source.reject_role(line, message.get("role"), FORMAT).problem
    return ""


def _add_line(draft: SessionDraft, line: JsonItem) -> None:
    value = line.value
    native = line.to_native(FORMAT)
    match value.get("type"):
        case kind if kind in _MESSAGE_TYPES and isinstance(value.get("message"), dict):
            _add_message(draft, value["message"], native)
        case "custom_message":
            draft.add_messages([Message("user", _parse_content(value.get("content")), "harness", native=native)])
        case "branch_summary":
            summary = Message("user", (Text(_render_summary("branchSummary", value)),), "harness", native=native)
            draft.add_branch(summary, str(value.get("fromId") or ""))
        case "model_change":
            draft.add_setting("model", f"{value.get('provider', '')}/{value.get('modelId', '')}", native)
        case "thinking_level_change":
            draft.add_setting("thinking", str(value.get("thinkingLevel", "")), native)
        case kind:
            draft.add_custom(str(kind or "unknown"), native)


def _add_message(draft: SessionDraft, fields: dict[str, Any], native: NativeBytes) -> None:
    parts = _parse_content(fields.get("content"))
    usage = None
    match fields["role"]:
        case "user":
            message = Message("user", parts, "human", native=native)
        case "assistant":
            reason = fields.get("stopReason")
            status: Status = reason if reason in ("aborted", "error") else "ok"
            message = Message("assistant", parts, "model", status, native)
            keys = ("input", "output", "cacheRead", "cacheWrite")
            usage = build_usage(fields.get("usage"), keys, fields.get("model"), is_fresh=True)
        case "toolResult":
            content = tuple(p for p in parts if isinstance(p, Text | Image | OpaquePart))
            call_id, name = str(fields.get("toolCallId", "")), str(fields.get("toolName", ""))
            result = ToolResult(call_id, name, content, fields.get("isError") is True)
            message = Message("tool", (result,), "tool", native=native)
        case "bashExecution" if fields.get("excludeFromContext"):
            draft.add_custom("bashExecution", native)
            return
        case "bashExecution":
            message = Message("user", (Text(_render_bash(fields)),), "tool", native=native)
        case "branchSummary" | "compactionSummary" as role if "content" not in fields:
            message = Message("user", (Text(_render_summary(role, fields)),), "harness", native=native)
        case _:
            injected = parts if "content" in fields else _parse_content(fields.get("summary"))
            message = Message("user", injected, "harness", native=native)
    draft.add_messages([message], usage)


_SUMMARY_OPENINGS = {
    "branchSummary": "The following is a summary of a branch that this conversation came back from",
    "compactionSummary": "The conversation history before this point was compacted into the following summary",
}
"""What pi puts before a summary that it sends to a model."""


def _render_summary(role: str, fields: dict[str, Any]) -> str:
    return f"{_SUMMARY_OPENINGS[role]}:\n\n<summary>\n{fields.get('summary') or ''}\n</summary>"


def _parse_content(value: object) -> tuple[Part, ...]:
    if isinstance(value, str):
        return (Text(value),) if value else ()
    return tuple(_parse_part(block) for block in value) if isinstance(value, list) else ()


def _parse_part(block: object) -> Part:
    if not isinstance(block, dict):
        return OpaquePart("unknown", dump_json(block, compact=True))
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "thinking", "thinking": str(text)}:
            return Thinking(text, str(block.get("thinkingSignature") or ""))
        case {"type": "toolCall", "id": str(call), "name": str(name)}:
            return ToolCall(call, name, dump_json(block.get("arguments", {}), compact=True).decode())
        case {"type": "image", "data": str(data)}:
            return Image(str(block.get("mimeType") or ""), data)
        case {"type": kind}:
            return OpaquePart(str(kind), dump_json(block, compact=True))
    return OpaquePart("unknown", dump_json(block, compact=True))


def _render_bash(execution: dict[str, Any]) -> str:
    output_lines = [f"$ {execution.get('command', '')}", str(execution.get("output") or "")]
    if execution.get("cancelled"):
        output_lines.append("[cancelled]")
    elif execution.get("exitCode") not in (0, None):
        output_lines.append(f"[exit code {execution.get('exitCode')}]")
    return "\n".join(output_lines)


def render_line(piece: OutputPiece) -> bytes:
    """Renders a pi line for a message that Tenfold wrote or changed. In version 1 it has no ids."""
    line: dict[str, Any] = {"type": "message"}
    if piece.parent_id is not None:
        line |= {"id": piece.source_id, "parentId": piece.parent_id or None}
    message = piece.messages[0]
    blocks = [block for part in message.parts for block in _render_blocks(part)]
    roles: dict[Role, str] = {"system": "user", "user": "user", "assistant": "assistant", "tool": "toolResult"}
    fields: dict[str, Any] = {"role": roles[message.role], "content": blocks}
    result = next((p for p in message.parts if isinstance(p, ToolResult)), None)
    if message.role == "tool" and result is not None:
        fields |= {"toolCallId": result.call_id, "toolName": result.name, "isError": result.is_error}
    elif message.role == "assistant":
        calls = any(isinstance(p, ToolCall) for p in message.parts)
        fields["stopReason"] = message.status if message.status != "ok" else "toolUse" if calls else "stop"
    line["message"] = fields
    return dump_json(line, compact=True)


def _render_blocks(part: Part) -> list[dict[str, Any]]:
    match part:
        case Text():
            return [{"type": "text", "text": part.text}]
        case Thinking():
            signed = {"thinkingSignature": part.signature} if part.signature else {}
            return [{"type": "thinking", "thinking": part.text, **signed}]
        case ToolCall():
            return [{"type": "toolCall"} | render_call(part)]
        case ToolResult():
            return [block for inner in part.content for block in _render_blocks(inner)]
        case Image():
            return [{"type": "image", "data": part.data, "mimeType": part.media_type}]
        case OpaquePart():
            return [json.loads(part.raw)]
    return [{"type": "text", "text": part.text or part.url or part.name}]
