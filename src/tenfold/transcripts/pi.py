"""pi session files: JSON lines with a header and then a chain (version 1) or a tree (2 and 3) of entries.

docs/formats/pi.md describes the mapping. pi's own compactions become entries without a message: the messages they hid
are still in the file, and Tenfold computes its own view.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tenfold.errors import UnknownRole
from tenfold.log.base import SessionInfo
from tenfold.record.entry import Usage
from tenfold.record.message import Image, Message, Opaque, Part, Role, Status, Text, Thinking, ToolCall, ToolResult
from tenfold.transcripts.base import Item, Recorded
from tenfold.transcripts.draft import Draft, micros, tokens, woven
from tenfold.transcripts.lines import SKIP, Line, arranged, damaged, lines, skipped
from tenfold.transcripts.peek import peek
from tenfold.transcripts.pieces import Piece, joined_lines, pieces, rendered
from tenfold.transcripts.spans import loose
from tenfold.transcripts.trees import Pointers, linked

FORMAT = "pi"
_POINTERS = Pointers("id", "parentId", 8)
_INJECTED = ("custom", "hookMessage", "branchSummary", "compactionSummary")


def _names(line: Line) -> tuple[str, str | None]:
    if line.value.get("type") == "session":
        return "", None
    return str(line.value.get("id") or ""), line.value.get("parentId")


class Pi:
    """Reads and writes pi sessions, header versions 1 to 3."""

    name = FORMAT

    def sniff(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for a first line of type `session` with a working directory."""
        shape = peek(head)
        return bool(shape.lines) and shape.lines[0].get("type") == "session" and "cwd" in shape.lines[0]

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[Recorded]:
        """Parses the one session of the file."""
        before, parsed, after = lines(data, file=file, skip_damaged=skip_damaged)
        header: dict[str, Any] = {}
        if parsed and parsed[0].value.get("type") == "session":
            header = parsed[0].value
            before += parsed[0].raw
            parsed = parsed[1:]
        ordered = (
            skipped(parsed, _names, file=file) if skip_damaged else arranged(parsed, _names, file=file, rootless=False)
        )
        draft = Draft()
        for line in ordered:
            draft.line = line.number
            if line.problem:
                damaged(draft, line, FORMAT)
                continue
            try:
                _add(draft, line, file)
            except UnknownRole as exc:
                if not skip_damaged:
                    raise
                draft.problems.append(str(exc))
                draft.hang("damaged", line.native(FORMAT), source=_names(line)[0])
        info = SessionInfo(
            str(header.get("id") or ""),
            FORMAT,
            file,
            str(header.get("name") or ""),
            str(header.get("modelId") or ""),
            source=str(header.get("id") or ""),
            before=before,
            after=after,
        )
        return woven([draft], [info])

    def body(self, info: SessionInfo, items: Sequence[Item]) -> bytes:
        """Renders the session's lines."""
        output = pieces(items, (FORMAT,))
        if any(b'"parentId"' in p.raw for p in output if p.exact):
            output = linked(output, _POINTERS, _render)
        else:
            output = rendered(output, lambda piece, _: _render(piece, None))
        return joined_lines(info.before, output, info.after)

    def write(self, info: SessionInfo, items: Sequence[Item]) -> bytes:
        """Renders a session file. A session from another format gets a new header."""
        if info.format != FORMAT:
            info = SessionInfo(info.id, before=_dump({"type": "session", "id": info.id, "cwd": ""}), after=b"\n")
        return self.body(info, items)


def _add(draft: Draft, line: Line, file: str) -> None:
    value = line.value
    own, parent = _names(line)
    at = draft.under(parent) if "parentId" in value else draft.last
    time = micros(value.get("timestamp"))
    native = line.native(FORMAT)
    match value.get("type"):
        case "message" if isinstance(value.get("message"), dict):
            _add_message(draft, line, file, at, time)
        case "custom_message":
            message = Message("user", _content(value.get("content")), "harness", native=native)
            draft.said([message], at=at, source=own, time=time)
        case "branch_summary":
            message = Message("user", (Text(str(value.get("summary") or "")),), "harness", native=native)
            draft.branch(message, at=at, left=str(value.get("fromId") or ""), source=own, time=time)
        case "model_change":
            model = f"{value.get('provider', '')}/{value.get('modelId', '')}"
            draft.setting("model", model, native, at=at, source=own, time=time)
        case "thinking_level_change":
            draft.setting("thinking", str(value.get("thinkingLevel", "")), native, at=at, source=own, time=time)
        case kind:
            draft.custom(str(kind or "unknown"), native, at=at, source=own, time=time)


def _add_message(draft: Draft, line: Line, file: str, at: str | None, time: int | None) -> None:
    own = _names(line)[0]
    fields: dict[str, Any] = line.value["message"]
    native = line.native(FORMAT)
    usage = None
    match fields.get("role"):
        case "user":
            message = Message("user", _content(fields.get("content")), "human", native=native)
        case "assistant":
            reason = fields.get("stopReason")
            status: Status = "aborted" if reason == "aborted" else "error" if reason == "error" else "ok"
            message = Message("assistant", _content(fields.get("content")), "model", status, native)
            usage = _usage(fields)
        case "toolResult":
            content = tuple(p for p in _content(fields.get("content")) if isinstance(p, Text | Image | Opaque))
            result = ToolResult(
                str(fields.get("toolCallId", "")),
                str(fields.get("toolName", "")),
                content,
                fields.get("isError") is True,
            )
            message = Message("tool", (result,), "tool", native=native)
        case "bashExecution" if fields.get("excludeFromContext"):
            draft.custom("bashExecution", native, at=at, source=own, time=time)
            return
        case "bashExecution":
            message = Message("user", (Text(_bash(fields)),), "tool", native=native)
        case role if role in _INJECTED:
            content_parts = _content(fields.get("content") if "content" in fields else fields.get("summary"))
            message = Message("user", content_parts, "harness", native=native)
        case role:
            raise UnknownRole(f"{file}: line {line.number}: {role!r} is not a role of the pi format; {SKIP}")
    draft.said([message], at=at, source=own, time=time, usage=usage)


def _content(value: object) -> tuple[Part, ...]:
    if isinstance(value, str):
        return (Text(value),) if value else ()
    return tuple(_part(block) for block in value) if isinstance(value, list) else ()


def _part(block: object) -> Part:
    if not isinstance(block, dict):
        return Opaque("unknown", _dump(block))
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text)
        case {"type": "thinking", "thinking": str(text)}:
            return Thinking(text, str(block.get("thinkingSignature") or ""))
        case {"type": "toolCall", "id": str(call), "name": str(name)}:
            return ToolCall(call, name, _dump(block.get("arguments", {})).decode())
        case {"type": "image", "data": str(data)}:
            return Image(str(block.get("mimeType") or ""), data)
        case {"type": kind}:
            return Opaque(str(kind), _dump(block))
    return Opaque("unknown", _dump(block))


def _usage(said: dict[str, Any]) -> Usage | None:
    match said.get("usage"):
        case {"input": int(fresh), "output": int(output), **rest}:
            read, written = tokens(rest.get("cacheRead")), tokens(rest.get("cacheWrite"))
            prompt = fresh + read + written
            return Usage(prompt, output, read, written, str(said.get("model") or "")) if prompt > 0 else None
    return None


def _bash(said: dict[str, Any]) -> str:
    output_lines = [f"$ {said.get('command', '')}", str(said.get("output") or "")]
    if said.get("cancelled"):
        output_lines.append("[cancelled]")
    elif said.get("exitCode") not in (0, None):
        output_lines.append(f"[exit code {said.get('exitCode')}]")
    return "\n".join(output_lines)


def _dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _render(piece: Piece, parent: str | None) -> bytes:
    """Renders a pi line for a message that Tenfold wrote or changed. With `parent` None it has no ids (version 1)."""
    line: dict[str, Any] = {"type": "message"}
    if parent is not None:
        line |= {"id": piece.source, "parentId": parent or None}
    message = piece.messages[0]
    blocks = [block for part in message.parts for block in _blocks(part)]
    roles: dict[Role, str] = {"system": "user", "user": "user", "assistant": "assistant", "tool": "toolResult"}
    fields: dict[str, Any] = {"role": roles[message.role], "content": blocks}
    result = next((p for p in message.parts if isinstance(p, ToolResult)), None)
    if message.role == "tool" and result is not None:
        fields |= {"toolCallId": result.call, "toolName": result.name, "isError": result.error}
    elif message.role == "assistant":
        calls = any(isinstance(p, ToolCall) for p in message.parts)
        fields["stopReason"] = message.status if message.status != "ok" else "toolUse" if calls else "stop"
    line["message"] = fields
    return _dump(line)


def _blocks(part: Part) -> list[dict[str, Any]]:
    match part:
        case Text():
            return [{"type": "text", "text": part.text}]
        case Thinking():
            signed = {"thinkingSignature": part.signature} if part.signature else {}
            return [{"type": "thinking", "thinking": part.text, **signed}]
        case ToolCall():
            return [{"type": "toolCall", "id": part.id, "name": part.name, "arguments": loose(part.arguments)}]
        case ToolResult():
            return [block for inner in part.content for block in _blocks(inner)]
        case Image():
            return [{"type": "image", "data": part.data, "mimeType": part.media}]
        case Opaque():
            return [json.loads(part.raw)]
    return [{"type": "text", "text": part.text or part.url or part.name}]
