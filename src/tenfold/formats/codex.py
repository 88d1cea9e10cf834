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

from tenfold.core.record.entry import Usage
from tenfold.core.record.message import Message, NativeBytes, Text, get_text, get_tool_result
from tenfold.core.wire.splice import find_span
from tenfold.errors import UnknownRole
from tenfold.formats.base import ExportItem, ParsedSession, SessionFormat
from tenfold.formats.content_blocks import dump_json
from tenfold.formats.envelopes import decode_messages, encode_messages, wrap_messages
from tenfold.formats.file_shape import inspect_shape
from tenfold.formats.json_items import JsonItem, get_object, list_objects, parse_json
from tenfold.formats.json_lines import LineFile
from tenfold.formats.output_pieces import (
    OutputPiece,
    build_pieces,
    drop_compactions,
    has_replacements,
    join_lines,
    render_pieces,
    share_bytes,
    unfold_restated,
)
from tenfold.formats.session_draft import (
    APPLIED_KIND,
    SessionDraft,
    build_sessions,
    build_usage,
    is_applied,
    parse_token_count,
)
from tenfold.store.base import SessionInfo

FORMAT = "codex"
_WIRE = "openai-responses"
_TIMESTAMP = re.compile(rb'"timestamp" *: *"([^"\\]+)"')
_NO_TIME = b"1970-01-01T00:00:00.000Z"
"""Codex skips a line without a time. A line that Tenfold writes gets that of the header, this one if it has none."""
COMPACTING = re.compile(rb'[^\\]{0,300}"type" *: *"compacted"')
"""What a line begins with by which Codex put other messages in place of all before."""
_SUMMARY_OPENING = "Another language model started to solve this problem"
"""What Codex puts before a summary that it had written."""
_KEPT_BYTES = 80_000
"""The size of the user's words that Codex kept beside a summary, before it wrote what it kept: 20,000 tokens."""
_LINE_TYPES = ("session_meta", "response_item", "event_msg", "turn_context", "compacted")
_USUAL_ITEMS = ("message", "reasoning", "function_call", "function_call_output", "local_shell_call")
_SILENT_ITEMS = ("ghost_snapshot", "other")
"""Items that Codex never sends: a state of the files, and what it did not know itself."""


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
                or any(v.get("type") in _USUAL_ITEMS or "record_type" in v for v in objects[1:])
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

        pieces = build_pieces(drop_compactions(items, ("compacted",)), FORMAT)
        unfolded = _unfold_compacted(pieces, is_changed=has_replacements(items))
        return join_lines(info, render_pieces(unfolded, render_lines))

    def build_info(self, session_id: str) -> SessionInfo:
        """Builds a new header."""
        header = dump_json({"type": "session_meta", "payload": {"id": session_id}})
        return SessionInfo(session_id, FORMAT, prefix=header, suffix=b"\n")


def _unfold_compacted(pieces: Sequence[OutputPiece], *, is_changed: bool) -> list[OutputPiece]:
    """Turns the lines of Codex's own compactions into items where they do not say what is shown.

    That is so if a summary or stub is shown, or if the line has but a summary, and the words that were kept beside it
    are not before it.
    """
    out: list[OutputPiece] = []
    said: set[str] = set()
    for piece in pieces:
        words = {get_text(message) for message in piece.messages if message.origin == "human"}
        is_whole = b'"replacement_history"' in piece.raw or words <= said
        out.append(piece if is_whole and not is_changed else unfold_restated(piece, COMPACTING))
        said |= words
    return out


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
        self._words: list[Message] = []
        self._turns: list[str | None] = []

    def add_line(self, line: JsonItem) -> None:
        """Adds the next line."""
        value = line.value
        kind = str(value.get("type") or value.get("record_type") or ("message" if "role" in value else "unknown"))
        payload = value.get("payload")
        if line.problem:
            self.flush()
            self.draft.start_item(line.number, place=line.place)
            self.draft.add_damaged(line.problem, line.to_native(FORMAT))
        elif kind == "event_msg" and isinstance(payload, dict) and payload.get("type") == "thread_rolled_back":
            self.flush()
            self._rewind(line, parse_token_count(payload.get("num_turns")))
        elif kind == "event_msg":
            self._pending.append(_PendingLine(line))
        elif kind == "compacted" and isinstance(payload, dict):
            self.flush()
            self._add_compacted(line, payload)
        elif kind == "response_item" and isinstance(payload, dict):
            item_type = payload.get("type", "message")
            span = find_span(line.raw, "payload")
            if item_type not in _SILENT_ITEMS and span is not None:
                self._add_item(_PendingLine(line, *span), payload)
            else:
                self.flush()
                self._add_custom(line, f"response_item:{item_type}")
        elif "payload" not in value and ("type" in value or "role" in value) and kind not in _SILENT_ITEMS:
            self._add_item(_PendingLine(line, 0, len(line.raw)), value)
        else:
            self.flush()
            self._add_custom(line, kind)

    def _add_compacted(self, line: JsonItem, payload: dict[str, Any]) -> None:
        """Adds the messages that Codex put in place of all before: a new beginning, which the originals are no part of.

        Codex wrote only its summary at first, and kept the newest words of the user.
        """
        self.draft.start_item(line.number, timestamp=line.value.get("timestamp"), place=line.place)
        native, summary = line.to_native(FORMAT), str(payload.get("message") or "")
        if is_applied(payload):
            self.draft.add_custom(APPLIED_KIND, native)
            return
        if isinstance(payload.get("replacement_history"), list):
            raws = [dump_json(item) for item in list_objects(payload, "replacement_history")]
            decoded = [message for each in decode_messages(_WIRE, raws) for message in each.messages]
            messages = [_with_summary_origin(_unpack_output(message), summary) for message in decoded]
        else:
            kept = list(_keep_newest(self._words))
            messages = [*kept, Message("user", (Text(summary),), "harness")] if summary else []
        if not messages:
            self.draft.add_custom("compacted", native)
            return
        if self.draft.has_messages:
            self.draft.set_parent_key(None)
        self._words, self._turns = [], []
        self._note_turns(messages, self.draft.add_messages(share_bytes(messages, native, f"line{line.number}")))

    def _note_turns(self, messages: Sequence[Message], keys: Sequence[str]) -> None:
        """Notes the words of the user, and the entry before each of his turns."""
        for place, message in enumerate(messages):
            if message.origin == "human":
                self._words.append(message)
                self._turns.append(keys[place - 1] if place else self.draft.get_parent(keys[0]))

    def _rewind(self, line: JsonItem, count: int) -> None:
        """Goes back to before the newest turns of the user, as Codex did."""
        self.draft.start_item(line.number, timestamp=line.value.get("timestamp"), place=line.place)
        if count and self._turns:
            place = max(0, len(self._turns) - count)
            self.draft.set_parent_key(self._turns[place])
            self._words, self._turns = self._words[:place], self._turns[:place]
        self.draft.add_custom("event_msg:thread_rolled_back", line.to_native(FORMAT))

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
        prefix, suffix = line.raw[: first.start], line.raw[first.end :]
        wrapped = wrap_messages([_unpack_output(m) for m in messages], native, prefix, suffix)
        self._note_turns(wrapped, self.draft.add_messages(wrapped, usages[-1] if usages else None))

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


def _with_summary_origin(message: Message, summary: str) -> Message:
    """Returns a message of a replaced history, with Codex's own summary as not the user's words."""
    text = get_text(message)
    is_summary = text.startswith(_SUMMARY_OPENING) or (summary.strip() != "" and summary.strip() in text)
    return replace(message, origin="harness") if is_summary and message.role == "user" else message


def _keep_newest(words: Sequence[Message]) -> list[Message]:
    """Keeps the newest words of the user, about as many as Codex did."""
    kept: list[Message] = []
    size = 0
    for message in reversed(words):
        if size >= _KEPT_BYTES:
            break
        size += len(get_text(message).encode())
        kept.insert(0, Message("user", (Text(get_text(message)),), "human"))
    return kept


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
    payload = get_object(value, "payload")
    report = get_object(get_object(payload, "info"), "last_token_usage")
    keys = ("input_tokens", "output_tokens", "cached_input_tokens", "")
    return build_usage(report, keys, model) if payload.get("type") == "token_count" else None
