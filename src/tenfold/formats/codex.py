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
from tenfold.formats.base import ExportItem, ParsedSession
from tenfold.formats.envelopes import decode_messages, encode_messages, is_continuation, wrap_messages
from tenfold.formats.file_shape import inspect_shape
from tenfold.formats.json_lines import SKIP_HINT, JsonLine, add_damaged_line, parse_lines
from tenfold.formats.json_spans import find_member
from tenfold.formats.output_pieces import OutputPiece, build_pieces, join_lines, render_pieces
from tenfold.formats.session_draft import SessionDraft, build_sessions, parse_micros, parse_token_count
from tenfold.record.entry import Usage
from tenfold.record.message import Message, NativeBytes, Text, get_tool_result
from tenfold.store.base import SessionInfo

FORMAT = "codex"
_WIRE = "openai-responses"
_LINE_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_ITEM_TYPES = (
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

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for lines with a type and a payload, or for an old header line before bare items."""
        objects = inspect_shape(head).lines
        if any(v.get("type") in _LINE_TYPES and isinstance(v.get("payload"), dict) for v in objects):
            return True
        return (
            bool(objects)
            and _is_old_header(objects[0])
            and (
                "instructions" in objects[0]
                or any(v.get("type") in _ITEM_TYPES or "record_type" in v for v in objects[1:])
            )
        )

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[ParsedSession]:
        """Parses the one session of the file."""
        before, parsed, after = parse_lines(data, file=file, skip_damaged=skip_damaged)
        header: dict[str, Any] = {}
        if parsed and (parsed[0].value.get("type") == "session_meta" or _is_old_header(parsed[0].value)):
            payload = parsed[0].value.get("payload")
            header = payload if isinstance(payload, dict) else parsed[0].value
            before += parsed[0].raw
            parsed = parsed[1:]
        parser = _CodexParser(file, skip_damaged=skip_damaged)
        for line in parsed:
            parser.add_line(line)
        parser.flush_events()
        session_id = str(header.get("id") or "")
        info = SessionInfo(
            session_id, FORMAT, file, "", parser.model, source_id=session_id, prefix=before, suffix=after
        )
        return build_sessions([parser.draft], [info])

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders the session's lines."""
        old = b'"session_meta"' not in info.prefix
        output = render_pieces(build_pieces(items, (FORMAT,)), lambda piece, _: _render_lines(piece, is_old_layout=old))
        return join_lines(info.prefix, output, info.suffix)

    def render_file(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders a rollout file. A session from another format gets a new header."""
        if info.format != FORMAT:
            meta = {"type": "session_meta", "payload": {"id": info.id}}
            info = SessionInfo(info.id, FORMAT, prefix=json.dumps(meta, ensure_ascii=False).encode(), suffix=b"\n")
        return self.render_body(info, items)


def _is_old_header(value: dict[str, Any]) -> bool:
    return "type" not in value and "role" not in value and "id" in value and "timestamp" in value


class _CodexParser:
    """Parses one file. Event lines wait until it is clear whether the answer before them continues after them."""

    def __init__(self, file: str, *, skip_damaged: bool) -> None:
        self.file = file
        self.skip_damaged = skip_damaged
        self.draft = SessionDraft()
        self.model = ""
        self._waiting_events: list[JsonLine] = []

    def add_line(self, line: JsonLine) -> None:
        """Adds the next line."""
        value = line.value
        kind = str(value.get("type") or value.get("record_type") or ("message" if "role" in value else "unknown"))
        if line.problem:
            self.flush_events()
            self.draft.line_number = line.number
            add_damaged_line(self.draft, line, FORMAT)
        elif kind == "event_msg":
            self._waiting_events.append(line)
        elif kind == "response_item" and isinstance(value.get("payload"), dict):
            self._add_item(line, value["payload"], "payload")
        elif kind in _ITEM_TYPES:
            self._add_item(line, value, "")
        else:
            self.flush_events()
            self._add_custom(line, kind)

    def flush_events(self) -> None:
        """Adds the waiting event lines as entries of their own, because no answer continues after them."""
        for line in self._waiting_events:
            self._add_custom(line, "event_msg")
        self._waiting_events = []

    def _add_item(self, line: JsonLine, payload: dict[str, Any], key: str) -> None:
        if payload.get("type", "message") not in _ITEM_TYPES:
            self.flush_events()
            self._add_custom(line, f"response_item:{payload.get('type')}")
            return
        span = find_member(line.text, 0, key) if key else None
        raw = line.text[span.start : span.end].encode() if span is not None else line.raw
        try:
            messages = [_unpack_output(m) for m in decode_messages(_WIRE, [raw])[0]]
        except UnknownRole as exc:
            problem = f"line {line.number}: {payload.get('role')!r} is not a role of the codex format"
            if not self.skip_damaged:
                raise UnknownRole(f"{self.file}: {problem}; {SKIP_HINT}") from exc
            self.add_line(replace(line, value={}, problem=problem))
            return
        prefix = line.text[: span.start].encode() if span is not None else b""
        suffix = line.text[span.end :].encode() if span is not None else b""
        native = NativeBytes(FORMAT, line.raw, line.lead, group=f"line{line.number}")
        wrapped_messages = wrap_messages(messages, native, prefix, suffix)
        if is_continuation(_WIRE, self.draft, wrapped_messages):
            lead = b"".join(w.lead + w.raw for w in self._waiting_events) + line.lead
            joined = replace(wrapped_messages[0], native=replace(native, lead=lead, group=""))
            usage = next((u for w in reversed(self._waiting_events) if (u := _parse_usage(w.value, self.model))), None)
            self._waiting_events = []
            self.draft.extend_last(joined, usage=usage)
            return
        self.flush_events()
        self.draft.line_number = line.number
        self.draft.add_messages(
            wrapped_messages, parent_key=self.draft.last_key, time=parse_micros(line.value.get("timestamp"))
        )

    def _add_custom(self, line: JsonLine, kind: str) -> None:
        value, draft = line.value, self.draft
        draft.line_number = line.number
        time = parse_micros(value.get("timestamp"))
        native = line.to_native(FORMAT)
        payload = value.get("payload")
        payload = payload if isinstance(payload, dict) else {}
        if kind == "turn_context" and isinstance(payload.get("model"), str):
            self.model = payload["model"]
            draft.add_setting("model", self.model, native, parent_key=draft.last_key, source_id="", time=time)
            return
        name = f"{kind}:{payload['type']}" if kind == "event_msg" and "type" in payload else kind
        draft.add_custom(name, native, parent_key=draft.last_key, time=time)
        usage = _parse_usage(value, self.model)
        if usage is not None:
            draft.set_usage(usage)


def _unpack_output(message: Message) -> Message:
    """Unpacks a tool's text from Codex's JSON with metadata. An exit code other than 0 marks the result as an error."""
    result = get_tool_result(message)
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
            failed = result.is_error or (isinstance(code, int) and code != 0)
            return replace(message, parts=(replace(result, content=(Text(text),), is_error=failed),))
    return message


def _parse_usage(value: dict[str, Any], model: str) -> Usage | None:
    """Parses the usage of the last request from a `token_count` event. Its input tokens include the cached ones."""
    match value.get("payload"):
        case {"type": "token_count", "info": {"last_token_usage": {"input_tokens": int(prompt), **rest}}}:
            cached = parse_token_count(rest.get("cached_input_tokens"))
            return Usage(prompt, parse_token_count(rest.get("output_tokens")), cached, 0, model) if prompt > 0 else None
    return None


def _render_lines(piece: OutputPiece, *, is_old_layout: bool) -> bytes:
    raw_items = encode_messages(_WIRE, piece.messages)
    return b"\n".join(raw if is_old_layout else b'{"type":"response_item","payload":' + raw + b"}" for raw in raw_items)
