"""Codex rollout files: JSON lines of Responses items, bare (older) or as `{timestamp, type, payload}`.

docs/formats/codex.md describes the mapping. The items of one answer become one message, together with the event lines
between them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tenfold.errors import UnknownRole
from tenfold.formats.base import ExportItem, ParsedSession, SessionFormat
from tenfold.formats.envelopes import decode_messages, encode_messages, wrap_messages
from tenfold.formats.file_shape import inspect_shape
from tenfold.formats.json_items import JsonItem, parse_json
from tenfold.formats.json_lines import LineFile
from tenfold.formats.message_parts import dump_json
from tenfold.formats.output_pieces import OutputPiece, build_pieces, drop_compactions, join_lines, render_pieces
from tenfold.formats.session_draft import SessionDraft, build_sessions, parse_token_count
from tenfold.record.entry import Usage
from tenfold.record.message import Message, NativeBytes, Text, get_tool_result
from tenfold.store.base import SessionInfo
from tenfold.wire.splice import find_span

FORMAT = "codex"
_WIRE = "openai-responses"
_TIMESTAMP = re.compile(rb'"timestamp" *: *"([^"\\]+)"')
_NO_TIME = b"1970-01-01T00:00:00.000Z"
"""Codex skips a line without a time. A line that Tenfold writes gets that of the header, this one if it has none."""
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


class Codex(SessionFormat):
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
        source = LineFile(data, file=file, skip_damaged=skip_damaged)
        header = source.take_header(lambda value: value.get("type") == "session_meta" or _is_old_header(value))
        payload = header.get("payload")
        parser = _CodexParser(source)
        for line in source.lines:
            parser.add_line(line)
        parser.flush()
        session_id = str((payload if isinstance(payload, dict) else header).get("id") or "")
        info = SessionInfo(
            session_id, FORMAT, file, "", parser.model, source_id=session_id, prefix=source.before, suffix=source.after
        )
        return build_sessions([parser.draft], [info], source.problems)

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders the session's lines."""
        is_old_layout = b'"session_meta"' not in info.prefix
        time = _TIMESTAMP.search(info.prefix)
        head = b'{"timestamp":"%b","type":"response_item","payload":' % (time[1] if time else _NO_TIME)

        def render_lines(piece: OutputPiece) -> bytes:
            raws = [dump_json(item, compact=True) for item in render_items(piece.messages)]
            return b"\n".join(raw if is_old_layout else head + raw + b"}" for raw in raws)

        return join_lines(
            info, render_pieces(build_pieces(drop_compactions(items, ("compacted",)), FORMAT), render_lines)
        )

    def build_info(self, session_id: str) -> SessionInfo:
        """Builds a new header."""
        header = dump_json({"type": "session_meta", "payload": {"id": session_id}})
        return SessionInfo(session_id, FORMAT, prefix=header, suffix=b"\n")


def render_items(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Renders messages as the items that Codex reads: a message names its type, and its content is a list."""
    return [_complete_item(json.loads(raw)) for raw in encode_messages(_WIRE, messages)]


def _complete_item(item: dict[str, Any]) -> dict[str, Any]:
    if item.get("type", "message") != "message":
        return item
    kind = "output_text" if item.get("role") == "assistant" else "input_text"
    content = item.get("content")
    parts = [{"type": kind, "text": content}] if isinstance(content, str) else content
    return {"type": "message"} | item | {"content": parts}


def _is_old_header(value: dict[str, Any]) -> bool:
    return "type" not in value and "role" not in value and "id" in value and "timestamp" in value


class _PendingLine(Struct, frozen=True):
    """A line that waits: `line.raw[start:end]` is its Responses item. An event line has none."""

    line: JsonItem
    start: int = 0
    end: int = 0

    @property
    def item(self) -> bytes:
        return self.line.raw[self.start : self.end]


class _CodexParser:
    """Parses one file. Items and the event lines between them wait until it is clear which of them are one answer."""

    def __init__(self, source: LineFile) -> None:
        self.draft = SessionDraft()
        self.model = ""
        self._source = source
        self._pending: list[_PendingLine] = []

    def add_line(self, line: JsonItem) -> None:
        """Adds the next line."""
        value = line.value
        kind = str(value.get("type") or value.get("record_type") or ("message" if "role" in value else "unknown"))
        payload = value.get("payload")
        if line.problem:
            self.flush()
            self.draft.start_item(line.number, place=line.place)
            self.draft.add_damaged(line.problem, line.to_native(FORMAT))
        elif kind == "event_msg":
            self._pending.append(_PendingLine(line))
        elif kind == "response_item" and isinstance(payload, dict):
            item_type = payload.get("type", "message")
            span = find_span(line.raw, "payload")
            if item_type in _ITEM_TYPES and span is not None:
                self._add_item(_PendingLine(line, *span), payload)
            else:
                self.flush()
                self._add_custom(line, f"response_item:{item_type}")
        elif kind in _ITEM_TYPES:
            self._add_item(_PendingLine(line, 0, len(line.raw)), value)
        else:
            self.flush()
            self._add_custom(line, kind)

    def _add_item(self, pending: _PendingLine, item: dict[str, Any]) -> None:
        try:
            if item.get("type", "message") == "message":
                list(decode_messages(_WIRE, [pending.item]))
        except UnknownRole:
            self.add_line(self._source.reject_role(pending.line, item.get("role"), FORMAT))
        else:
            self._pending.append(pending)

    def flush(self) -> None:
        """Adds the waiting lines: each message with the event lines inside it, and the other event lines."""
        pending, self._pending = self._pending, []
        places = [place for place, each in enumerate(pending) if each.end]
        done = 0
        for decoded in decode_messages(_WIRE, [pending[place].item for place in places]):
            own, places = places[: decoded.item_count], places[decoded.item_count :]
            self._add_events(pending[done : own[0]])
            done = own[-1] + 1
            self._add_messages(decoded.messages, pending[own[0] : done])
        self._add_events(pending[done:])

    def _add_events(self, events: Sequence[_PendingLine]) -> None:
        for event in events:
            self._add_custom(event.line, "event_msg")

    def _add_messages(self, messages: Sequence[Message], pending: Sequence[_PendingLine]) -> None:
        first = pending[0]
        line = first.line
        body = line.raw + b"".join(each.line.lead + each.line.raw for each in pending[1:])
        native = NativeBytes(FORMAT, body, line.lead, group=f"line{line.number}")
        usages = [usage for each in pending if (usage := _parse_usage(each.line.value, self.model)) is not None]
        self.draft.start_item(line.number, timestamp=line.value.get("timestamp"), place=line.place)
        self.draft.add_messages(
            wrap_messages(
                [_unpack_output(m) for m in messages], native, line.raw[: first.start], line.raw[first.end :]
            ),
            usages[-1] if usages else None,
        )

    def _add_custom(self, line: JsonItem, kind: str) -> None:
        self.draft.start_item(line.number, timestamp=line.value.get("timestamp"), place=line.place)
        match line.value.get("payload"):
            case {"model": str(model)} if kind == "turn_context":
                self.model = model
                self.draft.add_setting("model", model, line.to_native(FORMAT))
                return
            case {"type": event_type} if kind == "event_msg":
                kind = f"{kind}:{event_type}"
        self.draft.add_custom(kind, line.to_native(FORMAT))
        self.draft.set_usage(_parse_usage(line.value, self.model))


def _unpack_output(message: Message) -> Message:
    """Unpacks a tool's text from Codex's JSON with metadata. An exit code other than 0 marks the result as an error."""
    result = get_tool_result(message)
    if result is None or len(result.content) != 1 or not isinstance(result.content[0], Text):
        return message
    packed = result.content[0].text
    try:
        value: Any = parse_json(packed.encode()) if packed.startswith("{") else None
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
