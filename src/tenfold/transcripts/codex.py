"""Codex rollout files: JSON lines of Responses items, bare (older) or as `{timestamp, type, payload}`.

docs/formats/codex.md describes the mapping. The items of one answer become one message, together with the event lines
between them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tenfold.errors import UnknownRole
from tenfold.log.base import SessionInfo
from tenfold.record.entry import Usage
from tenfold.record.message import Message, Native, Text, result_of
from tenfold.transcripts.base import Item, Recorded
from tenfold.transcripts.draft import Draft, micros, tokens, woven
from tenfold.transcripts.embed import RESPONSES, decoded, encoded, joins, wrapped
from tenfold.transcripts.lines import SKIP, Line, damaged, lines
from tenfold.transcripts.peek import peek
from tenfold.transcripts.pieces import Piece, joined_lines, pieces, rendered
from tenfold.transcripts.spans import member

FORMAT = "codex"
_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_ITEMS = (
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "custom_tool_call_output",
    "local_shell_call",
    "local_shell_call_output",
    "web_search_call",
)


class Codex:
    """Reads and writes Codex rollout files of both layouts."""

    name = FORMAT

    def sniff(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for lines with a type and a payload, or for an old header line before bare items."""
        objects = peek(head).lines
        if any(v.get("type") in _TYPES and isinstance(v.get("payload"), dict) for v in objects):
            return True
        return (
            bool(objects)
            and _is_old_header(objects[0])
            and (
                "instructions" in objects[0] or any(v.get("type") in _ITEMS or "record_type" in v for v in objects[1:])
            )
        )

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[Recorded]:
        """Parses the one session of the file."""
        before, parsed, after = lines(data, file=file, skip_damaged=skip_damaged)
        header: dict[str, Any] = {}
        if parsed and (parsed[0].value.get("type") == "session_meta" or _is_old_header(parsed[0].value)):
            payload = parsed[0].value.get("payload")
            header = payload if isinstance(payload, dict) else parsed[0].value
            before += parsed[0].raw
            parsed = parsed[1:]
        parser = _Reading(file, skip_damaged=skip_damaged)
        for line in parsed:
            parser.take(line)
        parser.flush()
        session_id = str(header.get("id") or "")
        info = SessionInfo(session_id, FORMAT, file, "", parser.model, source=session_id, before=before, after=after)
        return woven([parser.draft], [info])

    def body(self, info: SessionInfo, items: Sequence[Item]) -> bytes:
        """Renders the session's lines."""
        old = b'"session_meta"' not in info.before
        output = rendered(pieces(items, (FORMAT,)), lambda piece, _: _render(piece, old=old))
        return joined_lines(info.before, output, info.after)

    def write(self, info: SessionInfo, items: Sequence[Item]) -> bytes:
        """Renders a rollout file. A session from another format gets a new header."""
        if info.format != FORMAT:
            meta = {"type": "session_meta", "payload": {"id": info.id}}
            info = SessionInfo(info.id, FORMAT, before=json.dumps(meta, ensure_ascii=False).encode(), after=b"\n")
        return self.body(info, items)


def _is_old_header(value: dict[str, Any]) -> bool:
    return "type" not in value and "role" not in value and "id" in value and "timestamp" in value


class _Reading:
    """Parses one file. Event lines wait until it is clear whether the answer before them continues after them."""

    def __init__(self, file: str, *, skip_damaged: bool) -> None:
        self.file = file
        self.skip_damaged = skip_damaged
        self.draft = Draft()
        self.model = ""
        self._waiting: list[Line] = []

    def take(self, line: Line) -> None:
        """Adds the next line."""
        value = line.value
        kind = str(value.get("type") or value.get("record_type") or ("message" if "role" in value else "unknown"))
        if line.problem:
            self.flush()
            self.draft.line = line.number
            damaged(self.draft, line, FORMAT)
        elif kind == "event_msg":
            self._waiting.append(line)
        elif kind == "response_item" and isinstance(value.get("payload"), dict):
            self._item(line, value["payload"], "payload")
        elif kind in _ITEMS:
            self._item(line, value, "")
        else:
            self.flush()
            self._silent(line, kind)

    def flush(self) -> None:
        """Adds the waiting event lines as entries of their own, because no answer continues after them."""
        for line in self._waiting:
            self._silent(line, "event_msg")
        self._waiting = []

    def _item(self, line: Line, payload: dict[str, Any], key: str) -> None:
        if payload.get("type", "message") not in _ITEMS:
            self.flush()
            self._silent(line, f"response_item:{payload.get('type')}")
            return
        span = member(line.text, 0, key) if key else None
        raw = line.text[span.start : span.end].encode() if span is not None else line.raw
        try:
            messages = [_unpacked(m) for m in decoded(RESPONSES, [raw])[0]]
        except UnknownRole as exc:
            problem = f"line {line.number}: {payload.get('role')!r} is not a role of the codex format"
            if not self.skip_damaged:
                raise UnknownRole(f"{self.file}: {problem}; {SKIP}") from exc
            self.take(replace(line, value={}, problem=problem))
            return
        prefix = line.text[: span.start].encode() if span is not None else b""
        suffix = line.text[span.end :].encode() if span is not None else b""
        native = Native(FORMAT, line.raw, line.lead, group=f"line{line.number}")
        wrapped_messages = wrapped(messages, native, prefix, suffix)
        if joins(self.draft, wrapped_messages):
            lead = b"".join(w.lead + w.raw for w in self._waiting) + line.lead
            joined = replace(wrapped_messages[0], native=replace(native, lead=lead, group=""))
            usage = next((u for w in reversed(self._waiting) if (u := _usage(w.value, self.model))), None)
            self._waiting = []
            self.draft.join(joined, usage=usage)
            return
        self.flush()
        self.draft.line = line.number
        self.draft.said(wrapped_messages, at=self.draft.last, time=micros(line.value.get("timestamp")))

    def _silent(self, line: Line, kind: str) -> None:
        value, draft = line.value, self.draft
        draft.line = line.number
        time = micros(value.get("timestamp"))
        native = line.native(FORMAT)
        payload = value.get("payload")
        payload = payload if isinstance(payload, dict) else {}
        if kind == "turn_context" and isinstance(payload.get("model"), str):
            self.model = payload["model"]
            draft.setting("model", self.model, native, at=draft.last, source="", time=time)
            return
        name = f"{kind}:{payload['type']}" if kind == "event_msg" and "type" in payload else kind
        draft.custom(name, native, at=draft.last, time=time)
        usage = _usage(value, self.model)
        if usage is not None:
            draft.used(usage)


def _unpacked(message: Message) -> Message:
    """Unpacks a tool's text from Codex's JSON with metadata. An exit code other than 0 marks the result as an error."""
    result = result_of(message)
    if result is None or len(result.content) != 1 or not isinstance(result.content[0], Text):
        return message
    packed = result.content[0].text
    try:
        value: Any = json.loads(packed) if packed.startswith("{") else None
    except ValueError:
        return message
    match value:
        case {"output": str(text), "metadata": dict(metadata), **rest} if not rest:
            code = metadata.get("exit_code")
            failed = result.error or (isinstance(code, int) and code != 0)
            return replace(message, parts=(replace(result, content=(Text(text),), error=failed),))
    return message


def _usage(value: dict[str, Any], model: str) -> Usage | None:
    """Parses the usage of the last request from a `token_count` event. Its input tokens include the cached ones."""
    match value.get("payload"):
        case {"type": "token_count", "info": {"last_token_usage": {"input_tokens": int(prompt), **rest}}}:
            cached = tokens(rest.get("cached_input_tokens"))
            return Usage(prompt, tokens(rest.get("output_tokens")), cached, 0, model) if prompt > 0 else None
    return None


def _render(piece: Piece, *, old: bool) -> bytes:
    raw_items = encoded(RESPONSES, piece.messages)
    return b"\n".join(raw if old else b'{"type":"response_item","payload":' + raw + b"}" for raw in raw_items)
