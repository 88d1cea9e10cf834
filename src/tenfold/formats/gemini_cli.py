"""Gemini CLI files: checkpoints and scenarios are plain contents; session files hold records with tool results inside.

docs/formats/gemini-cli.md describes the mapping.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.entry import Usage
from tenfold.core.record.message import (
    Message,
    NativeBytes,
    Part,
    Text,
    Thinking,
    ToolResult,
    get_text,
    get_tool_calls,
    get_tool_result,
)
from tenfold.core.wire import find_text_origin
from tenfold.core.wire.fingerprint import fingerprint_message
from tenfold.core.wire.foreign_shapes import find_shape_of_any
from tenfold.errors import UnknownRole
from tenfold.formats.base import ExportItem, ParsedSession, SessionFormat
from tenfold.formats.content_blocks import dump_json, parse_call, parse_texts, render_call
from tenfold.formats.envelopes import decode_messages
from tenfold.formats.file_shape import FileShape, inspect_shape
from tenfold.formats.json_items import JsonItem, get_list, list_objects, parse_array, parse_document
from tenfold.formats.json_lines import LineFile
from tenfold.formats.message_list import MessageListFormat
from tenfold.formats.output_pieces import (
    OutputPiece,
    build_pieces,
    drop_compactions,
    has_replacements,
    join_elements,
    join_lines,
    join_results,
    render_pieces,
    share_bytes,
    unfold_restated,
)
from tenfold.formats.session_draft import APPLIED_KIND, SessionDraft, build_sessions, build_usage, is_applied
from tenfold.store.base import SessionInfo

FORMAT = "gemini-cli"
RESTATING = re.compile(rb'\{ *"\$set" *:')
"""What a line begins with that states the whole conversation, of which its entries may be a part."""
_NOTE_TYPES = ("info", "error", "warning")


def _has_contents(shape: FileShape) -> bool:
    """Returns whether the file is a contents array, or an object with a `history` of contents."""
    contents = shape.items or shape.members.get("history")
    if not contents or not isinstance(contents, list | tuple):
        return False
    is_content = all(isinstance(c, dict) and isinstance(c.get("parts"), list) for c in contents)
    return is_content and find_shape_of_any(contents) is None


def _has_records(shape: FileShape) -> bool:
    return "sessionId" in shape.members and "messages" in shape.members and "projectHash" in shape.members


def _has_lines(shape: FileShape) -> bool:
    """Returns whether the file begins with the header of a session, and has a record or a change on each line."""
    head = shape.lines[0] if shape.lines and not shape.items else {}
    return "sessionId" in head and "projectHash" in head and "messages" not in head


_CONTENTS_FORMAT = MessageListFormat(FORMAT, "gemini", _has_contents)


class GeminiCli(SessionFormat):
    """Reads and writes Gemini CLI checkpoints, scenarios and session files."""

    name = FORMAT

    def can_read(self, head: bytes, name: str) -> bool:  # noqa: ARG002 - the content tells
        """Looks for contents, or for an object with the records of a session."""
        shape = inspect_shape(head)
        return _has_records(shape) or _has_lines(shape) or (len(shape.lines) < 2 and _has_contents(shape))

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[ParsedSession]:
        """Parses the one session of the file."""
        if _has_lines(inspect_shape(data)):
            source = LineFile(data, file=file, skip_damaged=skip_damaged)
            return _GeminiLines(source, file).read()
        if not _has_records(inspect_shape(data)):
            return _CONTENTS_FORMAT.read(data, file=file, skip_damaged=skip_damaged)
        top = parse_document(data, file)
        records = parse_array(data, "messages", file)
        draft = SessionDraft(file, "record")
        for element in records.elements:
            _add_record(draft, element, file)
        session = str(top.get("sessionId") or "")
        title = str(top.get("summary") or "")
        return build_sessions(
            [draft],
            [SessionInfo(session, FORMAT, file, title, source_id=session, prefix=records.before, suffix=records.after)],
        )

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders the session's document, or its lines."""
        if b'"projectHash"' in info.prefix and b'"messages"' not in info.prefix:
            pieces = build_pieces(drop_compactions(items, RESTATED_KINDS), FORMAT)
            if has_replacements(items):
                pieces = [unfold_restated(piece, RESTATING) for piece in pieces]
            return join_lines(info, render_pieces(join_results(pieces), _join_lines))
        if b'"projectHash"' not in info.prefix + info.suffix:
            return _CONTENTS_FORMAT.render_body(info, items)
        return join_elements(info, render_pieces(join_results(build_pieces(items, FORMAT)), _join_records))

    def build_info(self, session_id: str) -> SessionInfo:
        """Builds a contents array."""
        return _CONTENTS_FORMAT.build_info(session_id)


def _add_record(draft: SessionDraft, record: JsonItem, file: str) -> None:
    value = record.get_object(file)
    source_id = str(value.get("id") or "")
    draft.start_item(record.number, source_id=source_id, timestamp=value.get("timestamp"), place=record.place)
    messages = _parse_record(record, file)
    if messages is None:
        draft.add_custom(str(value.get("type") or "unknown"), record.to_native(FORMAT))
        return
    draft.add_messages(messages)
    draft.set_usage(_parse_usage(value) if value.get("type") == "gemini" else None)


def _parse_record(record: JsonItem, file: str) -> list[Message] | None:
    """Parses a record to its messages. Returns None if it is none."""
    value = record.get_object(file)
    content = list_objects(value, "content")
    role = {"user": "user", "gemini": "model"}.get(str(value.get("type")))
    if role and any("functionResponse" in p or ("functionCall" in p and not value.get("toolCalls")) for p in content):
        turn = dump_json({"role": role, "parts": content})
        messages = [message for decoded in decode_messages("gemini", [turn]) for message in decoded.messages]
        return share_bytes(messages, record.to_native(FORMAT), f"line{record.number}")
    match value.get("type"):
        case "user":
            texts = parse_texts(value.get("content"))
            origin = find_text_origin(texts[0].text if texts else "")
            return [Message("user", texts, origin, native=record.to_native(FORMAT))]
        case "gemini":
            return _parse_answer(record, value, str(value.get("id") or record.number))
        case kind if ("content" in value or "parts" in value) and kind not in _NOTE_TYPES:
            raise UnknownRole(f"{file}: record {record.number}: {kind!r} is not a type of the gemini-cli format")
    return None


def _parse_answer(record: JsonItem, value: dict[str, Any], group: str) -> list[Message]:
    """Parses an answer record to the answer and the tool results that the record holds inside its tool calls."""
    thoughts = list_objects(value, "thoughts")
    thinking = tuple(Thinking(f"{t.get('subject', '')}: {t.get('description', '')}") for t in thoughts)
    calls = list_objects(value, "toolCalls")
    parsed_calls = [parse_call(c.get("id"), c.get("name"), c.get("args")) for c in calls]
    content = value.get("content")
    if isinstance(content, list):
        content = [part for part in content if not (isinstance(part, dict) and part.get("thought"))]
    parts: tuple[Part, ...] = (*thinking, *parse_texts(content), *parsed_calls)
    if all(_parse_result(call) is None for call in calls):
        return [Message("assistant", parts, "model", native=record.to_native(FORMAT))]
    inner = parse_array(record.raw, "toolCalls", "")
    results = [(each, _parse_result(each.value)) for each in inner.elements]
    count = 1 + sum(result is not None for _, result in results)
    answer = NativeBytes(FORMAT, inner.before, record.lead, group=group, index=0, count=count)
    out = [Message("assistant", parts, "model", native=answer)]
    gap = b""
    for each, result in results:
        gap += each.lead
        if result is None:
            gap += each.raw
            continue
        native = NativeBytes(FORMAT, each.raw, head=gap, group=group, index=len(out), count=count)
        out.append(Message("tool", (result,), "tool", native=native))
        gap = b""
    last = out[-1].native
    assert last is not None
    out[-1] = replace(out[-1], native=replace(last, tail=gap + inner.after))
    return out


def _parse_result(call: object) -> ToolResult | None:
    result = call.get("result") if isinstance(call, dict) else None
    if result is None or not isinstance(call, dict):
        return None
    texts = [_get_response_text(part) for part in (result if isinstance(result, list) else [result])]
    content = tuple(Text(t) for t in texts if t)
    return ToolResult(str(call.get("id") or ""), str(call.get("name") or ""), content, call.get("status") == "error")


def _get_response_text(part: object) -> str:
    match part:
        case {"functionResponse": {"response": {"output": str(text)}}} | {"text": str(text)} | str(text):
            return text
        case {"functionResponse": {"response": response}}:
            return json.dumps(response, ensure_ascii=False)
    return json.dumps(part, ensure_ascii=False)


def _join_lines(piece: OutputPiece) -> bytes:
    """Renders records as lines. gemini-cli reads no record without an id."""
    records = render_records(piece)
    text = repr(piece.messages).encode()
    ids = (str(UUID(bytes=sha256(text + bytes([at])).digest()[:16])) for at in range(len(records)))
    return b"\n".join(dump_json({"id": id_} | record, compact=True) for id_, record in zip(ids, records, strict=True))


def _join_records(piece: OutputPiece) -> bytes:
    return b",\n".join(map(dump_json, render_records(piece)))


def render_records(piece: OutputPiece) -> list[dict[str, Any]]:
    """Renders messages as records, each result inside the record of the answer that made the call."""
    out: list[dict[str, Any]] = []
    for message in piece.messages:
        result = get_tool_result(message)
        if result is not None and out and out[-1]["type"] == "gemini":
            _attach_result(out[-1], result, get_text(message))
            continue
        record: dict[str, Any] = {"id": piece.source_id} if piece.source_id and not out else {}
        if message.role == "assistant":
            record |= {
                "type": "gemini",
                "content": get_text(message),
                "toolCalls": [render_call(call, "args") for call in get_tool_calls(message)],
            }
        elif result is not None:
            record |= {"type": "gemini", "content": "", "toolCalls": []}
            _attach_result(record, result, get_text(message))
        else:
            record |= {"type": "user", "content": get_text(message)}
        out.append(record)
    return out


def _attach_result(record: dict[str, Any], result: ToolResult, text: str) -> None:
    if all(call["id"] != result.call_id for call in record["toolCalls"]):
        record["toolCalls"].append({"id": result.call_id, "name": result.name})
    for call in record["toolCalls"]:
        if call["id"] == result.call_id:
            response = {"id": result.call_id, "name": result.name, "response": {"output": text}}
            call |= {"result": [{"functionResponse": response}], "status": "error" if result.is_error else "success"}


RESTATED_KINDS = ("restated", "$rewindTo")
"""The kinds of lines that change the conversation. They say nothing of a view, which is the conversation itself."""
_UNSENT = ("/", "?", "<session_context>", "<hook_context>")


def is_unsent(record: dict[str, Any], messages: Sequence[Message]) -> bool:
    """Returns whether gemini-cli leaves a record out of what it sends when it resumes a session."""
    if record.get("type") != "user" or any(message.role == "tool" for message in messages):
        return False
    text = get_text(messages[0]).strip() if messages else ""
    return not text or text.startswith(_UNSENT)


class _Shown(Struct, frozen=True):
    """A record of the conversation as it stands: its id, its words, the results in it, and the entry it ends with."""

    id: str
    words: tuple[bytes, ...]
    results: frozenset[tuple[str, bytes]]
    key: str | None
    is_unsent: bool = False

    def has_words_of(self, other: _Shown) -> bool:
        """Returns whether this record says what another does, which may have its results elsewhere."""
        return (self.id, self.words) == (other.id, other.words) and self.results >= other.results


class _GeminiLines:
    """Reads a file of lines in order, as gemini-cli does when it resumes the session."""

    def __init__(self, source: LineFile, file: str) -> None:
        self.draft = SessionDraft(file)
        self._source = source
        self._file = file
        self._shown: list[_Shown] = []
        self._ids: set[str] = set()
        self._earlier = _find_earlier_forms(source.lines)
        self._answered = _find_answered(line.value for line in source.lines)

    def read(self) -> list[ParsedSession]:
        """Parses the one session of the file."""
        source = self._source
        header = source.take_header(lambda value: "sessionId" in value and "projectHash" in value)
        for line in source.lines:
            self.draft.start_item(
                line.number,
                source_id="" if self._is_known(line) else str(line.value.get("id") or ""),
                timestamp=line.value.get("timestamp"),
                place=line.place,
            )
            self._add_line(line)
        session = str(header.get("sessionId") or "")
        info = SessionInfo(session, FORMAT, self._file, source_id=session, prefix=source.before, suffix=source.after)
        return build_sessions([self.draft], [info], source.problems)

    def _is_known(self, line: JsonItem) -> bool:
        own = str(line.value.get("id") or "")
        return (line.number, line.place) in self._earlier or self.draft.has_source(own)

    def _add_line(self, line: JsonItem) -> None:
        value, native = line.value, line.to_native(FORMAT)
        if line.problem:
            self.draft.add_damaged(line.problem, native)
        elif is_applied(value):
            self.draft.add_custom(APPLIED_KIND, native)
            key = self.draft.newest_entry.id if self.draft.newest_entry else None
            self._shown = []
            for each, messages in self._parse_set_records(line):
                self._show(_describe_shown(each, messages, key))
        elif (line.number, line.place) in self._earlier:
            self.draft.add_custom("earlier_form", native)
        elif value.get("id"):
            self._add_record(line)
        elif isinstance(value.get("$rewindTo"), str):
            ids = [shown.id for shown in self._shown]
            self._rewind(ids.index(value["$rewindTo"]) if value["$rewindTo"] in ids else 0)
            self.draft.add_custom("$rewindTo", native)
        elif isinstance(value.get("$set"), dict) and isinstance(value["$set"].get("messages"), list):
            self._set_messages(line)
        else:
            self.draft.add_custom(next(iter(value), "unknown"), native)

    def _show(self, record: _Shown) -> None:
        self._shown.append(record)
        self._ids.add(record.id)

    def _rewind(self, count: int) -> None:
        """Goes back to where the conversation had `count` records: the current line hangs there."""
        self._shown = self._shown[:count]
        self.draft.set_parent_key(self._shown[-1].key if self._shown else None)

    def _add_record(self, line: JsonItem) -> None:
        native, own = line.to_native(FORMAT), str(line.value["id"])
        messages = None if _is_answered(line.value, self._answered) else _parse_record(line, self._file)
        if messages is None:
            is_result = _is_answered(line.value, self._answered)
            self.draft.add_custom("function_response" if is_result else str(line.value.get("type")), native)
            return
        ids = [shown.id for shown in self._shown] if own in self._ids else []
        if own in ids[:-1]:  # it changes in the middle, which the client hardly does: the newest form is not shown
            self.draft.add_custom("earlier_form", native)
            return
        if ids and own == ids[-1]:
            self._rewind(len(ids) - 1)
        keys = self.draft.add_messages(messages)
        self.draft.set_usage(_parse_usage(line.value))
        self._show(_describe_shown(line, messages, keys[-1]))

    def _set_messages(self, line: JsonItem) -> None:
        """Adds what a line that sets the whole conversation says anew, behind what it has in common with the present.

        What is common stays, also what the client leaves out when it resumes, such as the environment.
        """
        records = self._parse_set_records(line)
        native = line.to_native(FORMAT)
        is_rest_to_come = all(is_unsent(each.value, messages) for each, messages in records)
        if is_rest_to_come and self._shown:
            self.draft.add_custom("restated", native)
            return
        present = [shown for shown in self._shown if not shown.is_unsent]
        count, added = _find_common(present, records) if present else (0, records)
        if count < len(present):
            self._rewind(self._shown.index(present[count - 1]) + 1 if count else 0)
        known = {shown.id for shown in self._shown}
        added = [(each, messages) for each, messages in added if str(each.value["id"]) not in known]
        if not added:
            self.draft.add_custom("restated", native)
            return
        said = [message for _, messages in added for message in messages]
        keys = iter(self.draft.add_messages(share_bytes(said, native, f"line{line.number}")))
        for each, messages in added:
            *_, key = [next(keys) for _ in messages]
            self._show(_describe_shown(each, messages, key))

    def _parse_set_records(self, line: JsonItem) -> list[tuple[JsonItem, list[Message]]]:
        """Parses the records that a `$set` line holds, without those that are no messages of their own."""
        changed = line.value.get("$set")
        records = list_objects(changed, "messages") if isinstance(changed, dict) else []
        items = [JsonItem(line.number, b"", dump_json(r), r) for r in records if isinstance(r.get("id"), str)]
        answered = _find_answered(records)
        out: list[tuple[JsonItem, list[Message]]] = []
        for item in items:
            if _is_answered(item.value, answered):
                continue
            answered.update(_list_response_ids(item.value))
            if messages := _parse_record(item, self._file):
                out.append((item, messages))
        return out


def _find_common(
    present: Sequence[_Shown], records: Sequence[tuple[JsonItem, list[Message]]]
) -> tuple[int, list[tuple[JsonItem, list[Message]]]]:
    """Finds how many records of the present conversation come first among others, and which of those come behind."""
    count = 0
    answered: set[str] = set()
    for place, record in enumerate(records):
        new = _describe_shown(*record, None)
        if new.is_unsent or (not new.words and answered.issuperset(call for call, _ in new.results)):
            continue
        if count == len(present) or not present[count].has_words_of(new):
            return count, list(records[place:])
        answered.update(call for call, _ in present[count].results)
        count += 1
    return count, []


def _describe_shown(record: JsonItem, messages: Sequence[Message], key: str | None) -> _Shown:
    results = [(each.call_id, m) for m in messages if (each := get_tool_result(m)) is not None]
    return _Shown(
        str(record.value["id"]),
        tuple(fingerprint_message(message) for message in messages if message.role != "tool"),
        frozenset((call, fingerprint_message(message)) for call, message in results),
        key,
        is_unsent(record.value, messages),
    )


def _find_answered(records: Iterable[dict[str, Any]]) -> set[str]:
    """Finds the ids of the calls whose records hold their results."""
    return {
        str(call.get("id")) for record in records for call in list_objects(record, "toolCalls") if call.get("result")
    }


def _list_response_ids(record: dict[str, Any]) -> list[str]:
    """Lists the ids of the calls that a record answers if it says nothing else."""
    responses = [part.get("functionResponse") for part in list_objects(record, "content")]
    ids = [str(response.get("id")) for response in responses if isinstance(response, dict)]
    return ids if len(ids) == len(responses) else []


def _is_answered(record: dict[str, Any], answered: set[str]) -> bool:
    """Returns whether a record holds only results that other records hold as well."""
    ids = _list_response_ids(record)
    return bool(ids) and answered.issuperset(ids)


def _find_earlier_forms(lines: Sequence[JsonItem]) -> set[tuple[int, int]]:
    """Finds the lines with a record that comes again before anything else changes the conversation."""
    out: set[tuple[int, int]] = set()
    coming: set[str] = set()
    for line in reversed(lines):
        changed = line.value.get("$set")
        if "$rewindTo" in line.value or (isinstance(changed, dict) and get_list(changed, "messages")):
            coming.clear()
        own = str(line.value.get("id") or "")
        if own and own in coming:
            out.add((line.number, line.place))
        coming |= {own} if own else set()
    return out


def _parse_usage(value: dict[str, Any]) -> Usage | None:
    """Parses the usage of a record with an answer. Its input includes what was cached."""
    return build_usage(value.get("tokens"), ("input", "output", "cached", ""), value.get("model"))
