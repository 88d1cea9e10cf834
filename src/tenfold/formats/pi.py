"""pi session files: JSON lines with a header and then a chain (version 1) or a tree (2 and 3) of entries.

docs/formats/pi.md describes the mapping. pi's own compactions become entries without a message: the messages they hid
are still in the file, and Tenfold computes its own view.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tenfold.errors import UnknownRole
from tenfold.formats.base import ExportItem, ParsedSession
from tenfold.formats.file_shape import inspect_shape
from tenfold.formats.json_lines import (
    SKIP_HINT,
    JsonLine,
    add_damaged_line,
    parse_lines,
    sort_and_mark_damaged,
    sort_parents_first,
)
from tenfold.formats.json_spans import parse_arguments
from tenfold.formats.output_pieces import OutputPiece, build_pieces, join_lines, render_pieces
from tenfold.formats.parent_links import LinkFields, link_pieces
from tenfold.formats.session_draft import SessionDraft, build_sessions, parse_micros, parse_token_count
from tenfold.record.entry import Usage
from tenfold.record.message import Image, Message, OpaquePart, Part, Role, Status, Text, Thinking, ToolCall, ToolResult
from tenfold.store.base import SessionInfo

FORMAT = "pi"
_LINK_FIELDS = LinkFields("id", "parentId", 8)
_INJECTED_ROLES = ("custom", "hookMessage", "branchSummary", "compactionSummary")


def _get_ids(line: JsonLine) -> tuple[str, str | None]:
    if line.value.get("type") == "session":
        return "", None
    return str(line.value.get("id") or ""), line.value.get("parentId")


class Pi:
    """Reads and writes pi sessions, header versions 1 to 3."""

    name = FORMAT

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for a first line of type `session` with a working directory."""
        shape = inspect_shape(head)
        return bool(shape.lines) and shape.lines[0].get("type") == "session" and "cwd" in shape.lines[0]

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[ParsedSession]:
        """Parses the one session of the file."""
        before, parsed, after = parse_lines(data, file=file, skip_damaged=skip_damaged)
        header: dict[str, Any] = {}
        if parsed and parsed[0].value.get("type") == "session":
            header = parsed[0].value
            before += parsed[0].raw
            parsed = parsed[1:]
        ordered = (
            sort_and_mark_damaged(parsed, _get_ids, file=file)
            if skip_damaged
            else sort_parents_first(parsed, _get_ids, file=file, can_lack_parents=False)
        )
        draft = SessionDraft()
        for line in ordered:
            draft.line_number = line.number
            if line.problem:
                add_damaged_line(draft, line, FORMAT)
                continue
            try:
                _add_line(draft, line, file)
            except UnknownRole as exc:
                if not skip_damaged:
                    raise
                draft.problems.append(str(exc))
                draft.add_unlinked("damaged", line.to_native(FORMAT), source_id=_get_ids(line)[0])
        info = SessionInfo(
            str(header.get("id") or ""),
            FORMAT,
            file,
            str(header.get("name") or ""),
            str(header.get("modelId") or ""),
            source_id=str(header.get("id") or ""),
            prefix=before,
            suffix=after,
        )
        return build_sessions([draft], [info])

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders the session's lines."""
        output = build_pieces(items, (FORMAT,))
        if any(b'"parentId"' in p.raw for p in output if p.exact):
            output = link_pieces(output, _LINK_FIELDS, _render_line)
        else:
            output = render_pieces(output, lambda piece, _: _render_line(piece, None))
        return join_lines(info.prefix, output, info.suffix)

    def render_file(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders a session file. A session from another format gets a new header."""
        if info.format != FORMAT:
            info = SessionInfo(info.id, prefix=_dump_json({"type": "session", "id": info.id, "cwd": ""}), suffix=b"\n")
        return self.render_body(info, items)


def _add_line(draft: SessionDraft, line: JsonLine, file: str) -> None:
    value = line.value
    own, parent = _get_ids(line)
    at = draft.resolve_parent(parent) if "parentId" in value else draft.last_key
    time = parse_micros(value.get("timestamp"))
    native = line.to_native(FORMAT)
    match value.get("type"):
        case "message" if isinstance(value.get("message"), dict):
            _add_message(draft, line, file, at, time)
        case "custom_message":
            message = Message("user", _parse_content(value.get("content")), "harness", native=native)
            draft.add_messages([message], parent_key=at, source_id=own, time=time)
        case "branch_summary":
            message = Message("user", (Text(str(value.get("summary") or "")),), "harness", native=native)
            draft.add_branch(message, parent_key=at, left=str(value.get("fromId") or ""), source_id=own, time=time)
        case "model_change":
            model = f"{value.get('provider', '')}/{value.get('modelId', '')}"
            draft.add_setting("model", model, native, parent_key=at, source_id=own, time=time)
        case "thinking_level_change":
            draft.add_setting(
                "thinking", str(value.get("thinkingLevel", "")), native, parent_key=at, source_id=own, time=time
            )
        case kind:
            draft.add_custom(str(kind or "unknown"), native, parent_key=at, source_id=own, time=time)


def _add_message(draft: SessionDraft, line: JsonLine, file: str, parent_key: str | None, time: int | None) -> None:
    own = _get_ids(line)[0]
    fields: dict[str, Any] = line.value["message"]
    native = line.to_native(FORMAT)
    usage = None
    match fields.get("role"):
        case "user":
            message = Message("user", _parse_content(fields.get("content")), "human", native=native)
        case "assistant":
            reason = fields.get("stopReason")
            status: Status = "aborted" if reason == "aborted" else "error" if reason == "error" else "ok"
            message = Message("assistant", _parse_content(fields.get("content")), "model", status, native)
            usage = _parse_usage(fields)
        case "toolResult":
            content = tuple(
                p for p in _parse_content(fields.get("content")) if isinstance(p, Text | Image | OpaquePart)
            )
            result = ToolResult(
                str(fields.get("toolCallId", "")),
                str(fields.get("toolName", "")),
                content,
                fields.get("isError") is True,
            )
            message = Message("tool", (result,), "tool", native=native)
        case "bashExecution" if fields.get("excludeFromContext"):
            draft.add_custom("bashExecution", native, parent_key=parent_key, source_id=own, time=time)
            return
        case "bashExecution":
            message = Message("user", (Text(_render_bash(fields)),), "tool", native=native)
        case role if role in _INJECTED_ROLES:
            content_parts = _parse_content(fields.get("content") if "content" in fields else fields.get("summary"))
            message = Message("user", content_parts, "harness", native=native)
        case role:
            raise UnknownRole(f"{file}: line {line.number}: {role!r} is not a role of the pi format; {SKIP_HINT}")
    draft.add_messages([message], parent_key=parent_key, source_id=own, time=time, usage=usage)


def _parse_content(value: object) -> tuple[Part, ...]:
    if isinstance(value, str):
        return (Text(value),) if value else ()
    return tuple(_parse_part(block) for block in value) if isinstance(value, list) else ()


def _parse_part(block: object) -> Part:
    if not isinstance(block, dict):
        return OpaquePart("unknown", _dump_json(block))
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "thinking", "thinking": str(text)}:
            return Thinking(text, str(block.get("thinkingSignature") or ""))
        case {"type": "toolCall", "id": str(call), "name": str(name)}:
            return ToolCall(call, name, _dump_json(block.get("arguments", {})).decode())
        case {"type": "image", "data": str(data)}:
            return Image(str(block.get("mimeType") or ""), data)
        case {"type": kind}:
            return OpaquePart(str(kind), _dump_json(block))
    return OpaquePart("unknown", _dump_json(block))


def _parse_usage(message: dict[str, Any]) -> Usage | None:
    match message.get("usage"):
        case {"input": int(fresh), "output": int(output), **rest}:
            read, written = parse_token_count(rest.get("cacheRead")), parse_token_count(rest.get("cacheWrite"))
            prompt = fresh + read + written
            return Usage(prompt, output, read, written, str(message.get("model") or "")) if prompt > 0 else None
    return None


def _render_bash(execution: dict[str, Any]) -> str:
    output_lines = [f"$ {execution.get('command', '')}", str(execution.get("output") or "")]
    if execution.get("cancelled"):
        output_lines.append("[cancelled]")
    elif execution.get("exitCode") not in (0, None):
        output_lines.append(f"[exit code {execution.get('exitCode')}]")
    return "\n".join(output_lines)


def _dump_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _render_line(piece: OutputPiece, parent: str | None) -> bytes:
    """Renders a pi line for a message that Tenfold wrote or changed. With `parent` None it has no ids (version 1)."""
    line: dict[str, Any] = {"type": "message"}
    if parent is not None:
        line |= {"id": piece.source_id, "parentId": parent or None}
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
    return _dump_json(line)


def _render_blocks(part: Part) -> list[dict[str, Any]]:
    match part:
        case Text():
            return [{"type": "text", "text": part.text}]
        case Thinking():
            signed = {"thinkingSignature": part.signature} if part.signature else {}
            return [{"type": "thinking", "thinking": part.text, **signed}]
        case ToolCall():
            return [
                {"type": "toolCall", "id": part.id, "name": part.name, "arguments": parse_arguments(part.arguments)}
            ]
        case ToolResult():
            return [block for inner in part.content for block in _render_blocks(inner)]
        case Image():
            return [{"type": "image", "data": part.data, "mimeType": part.media_type}]
        case OpaquePart():
            return [json.loads(part.raw)]
    return [{"type": "text", "text": part.text or part.url or part.name}]
