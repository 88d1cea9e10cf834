"""The lines in which gemini-cli keeps a session since it no longer writes one document: records and changes to them.

A record that comes again with the same id takes the place of the earlier one. `$set` changes what is known of the
session: where it sets `messages`, these are the conversation from then on. `$rewindTo` goes back to before a record.
What the client leaves in this way stays in the log as a branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct

from tenfold.core.record.entry import Usage
from tenfold.core.record.message import Message, get_text, get_tool_result
from tenfold.core.wire.fingerprint import fingerprint_message
from tenfold.formats.applied_lines import APPLIED_KIND, is_applied
from tenfold.formats.base import ParsedSession
from tenfold.formats.json_items import JsonItem, get_list, list_objects
from tenfold.formats.json_lines import LineFile
from tenfold.formats.message_parts import dump_json
from tenfold.formats.output_pieces import share_bytes
from tenfold.formats.session_draft import SessionDraft, build_sessions, parse_token_count
from tenfold.store.base import SessionInfo

ParseRecord = Callable[[JsonItem, str], list[Message] | None]
"""Parses one record, as the documents hold it. Returns None if it is no message. The second argument is the file."""
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


class GeminiLines:
    """Reads a file of lines in order, as gemini-cli does when it resumes the session."""

    def __init__(self, source: LineFile, file: str, format: str, parse_record: ParseRecord) -> None:
        self.draft = SessionDraft(file)
        self._source = source
        self._file, self._format, self._parse = file, format, parse_record
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
        info = SessionInfo(
            session, self._format, self._file, source_id=session, prefix=source.before, suffix=source.after
        )
        return build_sessions([self.draft], [info], source.problems)

    def _is_known(self, line: JsonItem) -> bool:
        own = str(line.value.get("id") or "")
        return (line.number, line.place) in self._earlier or self.draft.has_source(own)

    def _add_line(self, line: JsonItem) -> None:
        value, native = line.value, line.to_native(self._format)
        if line.problem:
            self.draft.add_damaged(line.problem, native)
        elif is_applied(value):
            self.draft.add_custom(APPLIED_KIND, native)
            key = self.draft.newest_entry.id if self.draft.newest_entry else None
            self._shown = []
            for each, messages in self._parse_set_records(line):
                self._show(_describe(each, messages, key))
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
        native, own = line.to_native(self._format), str(line.value["id"])
        messages = None if _is_answered(line.value, self._answered) else self._parse(line, self._file)
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
        self.draft.set_usage(parse_usage(line.value))
        self._show(_describe(line, messages, keys[-1]))

    def _set_messages(self, line: JsonItem) -> None:
        """Adds what a line that sets the whole conversation says anew, behind what it has in common with the present.

        What is common stays, also what the client leaves out when it resumes, such as the environment.
        """
        records = self._parse_set_records(line)
        native = line.to_native(self._format)
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
            self._show(_describe(each, messages, key))

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
            if messages := self._parse(item, self._file):
                out.append((item, messages))
        return out


def _find_common(
    present: Sequence[_Shown], records: Sequence[tuple[JsonItem, list[Message]]]
) -> tuple[int, list[tuple[JsonItem, list[Message]]]]:
    """Finds how many records of the present conversation come first among others, and which of those come behind."""
    count = 0
    answered: set[str] = set()
    for place, record in enumerate(records):
        new = _describe(*record, None)
        if new.is_unsent or (not new.words and answered.issuperset(call for call, _ in new.results)):
            continue
        if count == len(present) or not present[count].has_words_of(new):
            return count, list(records[place:])
        answered.update(call for call, _ in present[count].results)
        count += 1
    return count, []


def _describe(record: JsonItem, messages: Sequence[Message], key: str | None) -> _Shown:
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


def parse_usage(value: dict[str, Any]) -> Usage | None:
    """Parses the usage of a record with an answer. Its input includes what was cached."""
    match value.get("tokens"):
        case {"input": int(prompt), "output": int(output), **rest} if prompt > 0:
            return Usage(prompt, output, parse_token_count(rest.get("cached")), 0, str(value.get("model") or ""))
    return None
