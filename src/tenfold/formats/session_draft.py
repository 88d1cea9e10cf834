"""Builds a session's entries while a format reads a file: their keys, parents, runs, and the order of their bytes.

A format decides what each line or array element means; this module knows how entries are linked. It parses no JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from tenfold.core.record.entry import BranchSummary, CustomEntry, Entry, MessageEntry, Setting, Usage
from tenfold.core.record.message import Message, NativeBytes, get_tool_calls, get_tool_result
from tenfold.errors import BadInput
from tenfold.formats.base import ParsedSession
from tenfold.store.base import SessionInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_micros(value: object) -> int | None:
    """Parses a time (ISO text, or a number of seconds or milliseconds) to microseconds UTC.

    Text without a time zone is taken as UTC. Returns None for anything else: times are never invented.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        if not 0 < value < 1e17:
            return None
        return round(value * 1000) if value > 1e11 else round(value * 1_000_000)
    if not isinstance(value, str):
        return None
    try:
        when = datetime.fromisoformat(value)
    except ValueError:
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return (when - _EPOCH) // timedelta(microseconds=1)


TIME_KEYS = ("timestamp", "created_at", "createdAt", "created", "ts")
"""The keys under which messages carry the time at which they were written."""


def find_timestamp(message: object) -> object:
    """Finds the time that a native message carries, in a form that `parse_micros` takes; None if it carries none."""
    values = map(message.get, TIME_KEYS) if isinstance(message, Mapping) else ()
    return next((value for value in values if parse_micros(value) is not None), None)


DAMAGED_KIND = "damaged"
"""The kind of the entries that keep damaged lines."""
MAX_TOKENS = 10**12
"""Tokens of a request that are believed. Larger counts come from a damaged file, and the largest cannot be stored."""


def parse_token_count(value: object) -> int:
    """Returns a token count as read from a file, or 0 if the value is not a positive integer."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def build_usage(report: object, keys: Sequence[str], model: object, *, is_fresh: bool = False) -> Usage | None:
    """Builds the usage of a request from what a file reports of it, None if it reports no input.

    `keys` name four counts: the input, the output, and the input that was read from the cache and written to it; "" for
    one that the format has not. With `is_fresh` the input is without what the cache was used for.
    """
    counts = report if isinstance(report, dict) else {}
    given, output, read, written = (parse_token_count(counts.get(key)) for key in keys)
    prompt = given + read + written if is_fresh else given
    return Usage.build(prompt, output, read, written, str(model or "")) if prompt else None


class SessionDraft:
    """The entries of one session while its file is being read.

    Call `start_item` for each line or element; what is added then comes from there. `file` and `noun` name the place in
    errors. An entry follows the newest one, unless `set_parent` said otherwise.
    """

    def __init__(self, file: str = "", noun: str = "line") -> None:
        self.line_numbers: list[tuple[int, int]] = []
        self._place = f"{file}: {noun}"
        self._entries: list[Entry] = []
        self._problems: list[str] = []
        self._line_number = self._place_in_line = 0
        self._source_id = ""
        self._time: int | None = None
        self._parent_key: str | None = None
        self._runs: dict[str | None, str] = {}
        self._tool_names: dict[str, list[str]] = {}
        self._has_messages = False
        self._keys_by_source: dict[str, str] = {}
        self._unlinked_keys: dict[str | None, str] = {}
        self._behind_messages: set[str | None] = set()

    @property
    def newest_entry(self) -> Entry | None:
        """The entry added last."""
        return self._entries[-1] if self._entries else None

    @property
    def has_messages(self) -> bool:
        """Whether a message was added."""
        return self._has_messages

    def get_parent(self, key: str) -> str | None:
        """Returns the key of the entry that a recent one hangs on."""
        return next(entry.parent for entry in reversed(self._entries) if entry.id == key)

    def start_item(self, line_number: int, *, source_id: str = "", timestamp: object = None, place: int = 0) -> None:
        """Starts the line or element with this number. `source_id` is its foreign id, "" if it has none.

        `place` tells the objects on one line apart.

        Raises `BadInput` if an earlier one has the same id.
        """
        if source_id and source_id in self._keys_by_source:
            raise BadInput(
                f"{self._place} {line_number}: the id {source_id!r} was already used; remove one of the two and read "
                "the file again"
            )
        self._line_number, self._place_in_line = line_number, place
        self._source_id, self._time = source_id, parse_micros(timestamp)
        self._parent_key = self._last_key

    def has_source(self, source_id: str) -> bool:
        """Returns whether an entry with that foreign id was added."""
        return source_id in self._keys_by_source

    def has_message_before(self, source_id: str | None) -> bool:
        """Returns whether the entry with that foreign id, or one that it hangs on, is a message."""
        return self._keys_by_source.get(source_id or "") in self._behind_messages

    def set_parent(self, source_id: str | None) -> None:
        """Sets the parent of the current line by its foreign id: that entry, or the last unlinked one behind it.

        If there is no such entry in the file, the newest one is the parent. That is recorded as a problem, unless there
        is no message yet: the first parent of a resumed session is in an earlier file.
        """
        if source_id and source_id not in self._keys_by_source:
            if self._has_messages:
                self._problems.append(
                    f"line {self._line_number}: the parent {source_id!r} is not in the file; hung on the line before"
                )
            return
        key = self._keys_by_source.get(source_id) if source_id else None
        while key in self._unlinked_keys:
            key = self._unlinked_keys[key]
        self._parent_key = key

    def set_parent_key(self, key: str | None) -> None:
        """Sets the parent of the current line by the key of its entry, None for a new beginning."""
        self._parent_key = key

    def add_messages(self, messages: Sequence[Message], usage: Usage | None = None) -> list[str]:
        """Adds the messages of one native message, and returns the keys of their entries.

        All but the last get the foreign id `source_id#index`.
        """
        self._has_messages = True
        keys: list[str] = []
        usage = self._check_usage(usage)
        for index, message in enumerate(messages):
            is_last = index == len(messages) - 1
            key, run = self._make_key(), self._run
            run = key if message.role == "user" and message.origin == "human" else run
            foreign_id = self._source_id if is_last or not self._source_id else f"{self._source_id}#{index}"
            named = self._with_tool_name(message)
            self._add_entry(
                MessageEntry(key, self._parent_key, run, self._time, named, usage if is_last else None, foreign_id)
            )
            self._parent_key = key
            keys.append(key)
        return keys

    def extend_newest(self, message: Message, usage: Usage | None = None) -> None:
        """Extends the newest entry, an answer, by a message that continues it. The bytes must follow directly."""
        newest = self._entries[-1]
        assert isinstance(newest, MessageEntry)
        usage = self._check_usage(usage)
        old, new = newest.message.native, message.native
        assert old is not None
        assert new is not None
        native = replace(old, body=old.body + new.lead + new.body)
        parts = (*newest.message.parts, *self._with_tool_name(message).parts)
        self._entries[-1] = replace(
            newest,
            message=replace(newest.message, parts=parts, native=native),
            usage=usage or newest.usage,
            source_id=self._source_id or newest.source_id,
        )
        if self._source_id:
            self._keys_by_source[self._source_id] = newest.id

    def set_usage(self, usage: Usage | None) -> None:
        """Sets the usage of the newest answer, if only the results of its tool calls follow it.

        For files that report the usage on a later line. None changes nothing.
        """
        usage = self._check_usage(usage)
        for index in range(len(self._entries) - 1, -1, -1):
            entry = self._entries[index]
            if isinstance(entry, MessageEntry) and entry.message.role != "tool":
                if usage is not None and entry.message.role == "assistant":
                    self._entries[index] = replace(entry, usage=usage)
                return

    def _check_usage(self, usage: Usage | None) -> Usage | None:
        """Returns the usage, or None for numbers that no request has, which is recorded as a problem."""
        if usage is None:
            return None
        counts = (usage.prompt, usage.output, usage.cache_read, usage.cache_write)
        if all(0 <= count <= MAX_TOKENS for count in counts):
            return usage
        self._problems.append(f"line {self._line_number}: its token usage has impossible numbers and was left out")
        return None

    def _with_tool_name(self, message: Message) -> Message:
        """Returns the message with the tool's name on its result, for formats that give only the call's id.

        If several calls of an answer have the same id, their results are taken to come in the same order.
        """
        names: dict[str, list[str]] = {}
        for call in get_tool_calls(message):
            names.setdefault(call.id, []).append(call.name)
        self._tool_names.update(names)
        result = get_tool_result(message)
        waiting = self._tool_names.get(result.call_id) if result is not None else None
        if result is None or not waiting:
            return message
        name = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        return message if result.name else replace(message, parts=(replace(result, name=name),))

    def add_branch(self, message: Message, left: str) -> None:
        """Adds the summary of a branch that was left."""
        self._add_entry(
            BranchSummary(self._make_key(), self._parent_key, self._run, self._time, message, left, self._source_id)
        )

    def add_setting(self, key: str, value: str, native: NativeBytes) -> None:
        """Adds a change of setting."""
        self._add_entry(
            Setting(self._make_key(), self._parent_key, self._run, self._time, key, value, native, self._source_id)
        )

    def add_custom(self, kind: str, native: NativeBytes) -> None:
        """Adds an entry that is not a message. Use `add_unlinked` if only this line lacks a parent id."""
        self._add_entry(
            CustomEntry(self._make_key(), self._parent_key, self._run, self._time, kind, native, self._source_id)
        )

    def add_unlinked(self, kind: str, native: NativeBytes) -> None:
        """Adds an entry without a parent id after the newest entry.

        Children of that newest entry then become children of the added one.
        """
        self._parent_key = before = self._last_key
        self.add_custom(kind, native)
        self._unlinked_keys[before] = self._entries[-1].id

    def add_unlinked_message(self, message: Message) -> None:
        """Does the same for a message."""
        self._parent_key = before = self._last_key
        self.add_messages([message])
        self._unlinked_keys[before] = self._entries[-1].id

    def add_damaged(self, problem: str, native: NativeBytes) -> None:
        """Keeps the bytes of a damaged line as an entry without a message, and records the problem."""
        self.add_unlinked(DAMAGED_KIND, native)
        self._problems.append(problem)

    def build_session(self, info: SessionInfo) -> ParsedSession:
        """Builds the finished session."""
        return ParsedSession(info, tuple(self._entries), tuple(self._problems))

    @property
    def _last_key(self) -> str | None:
        return self._entries[-1].id if self._entries else None

    @property
    def _run(self) -> str:
        return self._runs.get(self._parent_key, "")

    def _make_key(self) -> str:
        return f"e{len(self._entries)}"

    def _add_entry(self, entry: MessageEntry | BranchSummary | Setting | CustomEntry) -> None:
        self._entries.append(entry)
        self.line_numbers.append((self._line_number, self._place_in_line))
        self._runs[entry.id] = entry.run
        if isinstance(entry, MessageEntry) or entry.parent in self._behind_messages:
            self._behind_messages.add(entry.id)
        if entry.source_id:
            self._keys_by_source[entry.source_id] = entry.id


def _compute_byte_order(drafts: Sequence[SessionDraft]) -> tuple[tuple[int, int, int], ...]:
    """Computes the order of the entries' bytes in the file as runs of (session, first entry, count).

    Returns () if there is one session whose entries are in file order, each on a line of its own.
    """
    located = [(line, s, e) for s, draft in enumerate(drafts) for e, line in enumerate(draft.line_numbers)]
    ordered = sorted(located)
    if ordered == located and len(drafts) == 1 and not any(place for (_, place), _, _ in located):
        return ()
    runs: list[tuple[int, int, int]] = []
    for _, session, entry in ordered:
        if runs and runs[-1][0] == session and sum(runs[-1][1:]) == entry:
            runs[-1] = (session, runs[-1][1], runs[-1][2] + 1)
        else:
            runs.append((session, entry, 1))
    return tuple(runs)


def build_sessions(
    drafts: Sequence[SessionDraft], infos: Sequence[SessionInfo], problems: Sequence[str] = ()
) -> list[ParsedSession]:
    """Builds the finished sessions of one file. The first holds the byte order of the entries, and more `problems`."""
    order = _compute_byte_order(drafts)
    first = replace(infos[0], interleaving=order) if order else infos[0]
    out = [draft.build_session(info) for draft, info in zip(drafts, [first, *infos[1:]], strict=True)]
    return [replace(out[0], problems=(*out[0].problems, *problems)), *out[1:]]


APPLIED_KEY = "tenfoldApplied"
"""The key of an added line; its value names the compaction that the line belongs to."""
APPLIED_KIND = "tenfold_applied"
"""The kind of the entries that keep added lines."""


def is_applied(value: object) -> bool:
    """Returns whether a line's or record's value was added by `tenfold apply`."""
    return isinstance(value, dict) and APPLIED_KEY in value


def mark_applied(value: dict[str, Any], mark: str) -> dict[str, Any]:
    """Returns the line's value with the mark, which readers of the client ignore."""
    return value | {APPLIED_KEY: mark}
