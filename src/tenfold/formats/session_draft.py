"""Builds a session's entries while a format reads a file: their keys, parents, runs, and the order of their bytes.

A format decides what each line or array element means; this module knows how entries are linked. It parses no JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from tenfold.formats.base import ParsedSession
from tenfold.record.entry import BranchSummary, CustomEntry, Entry, MessageEntry, Setting, Usage
from tenfold.record.message import Message, NativeBytes, get_tool_calls, get_tool_result
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


def parse_token_count(value: object) -> int:
    """Returns a token count as read from a file, or 0 if the value is not a positive integer."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


class SessionDraft:
    """The entries of one session while its file is being read.

    Set `line_number` to the place in the file that the next entries come from. The `parent_key` of an entry is
    `last_key` in formats without parent ids; in trees `resolve_parent` returns it for a foreign id.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.line_numbers: list[int] = []
        self.problems: list[str] = []
        self.line_number = 0
        self._runs: dict[str | None, str] = {}
        self._tool_names: dict[str, str] = {}
        self._has_messages = False
        self._keys_by_source: dict[str, str] = {}
        self._unlinked_keys: dict[str | None, str] = {}

    @property
    def last_key(self) -> str | None:
        """The key of the newest entry."""
        return self.entries[-1].id if self.entries else None

    def has_source(self, source_id: str) -> bool:
        """Returns whether an entry with that foreign id was added."""
        return source_id in self._keys_by_source

    def find_parent_key(self, source_id: str | None) -> str | None:
        """Finds the parent key for a foreign parent id: that entry, or the last unlinked entry added behind it."""
        key = self._keys_by_source.get(source_id) if source_id else None
        while key in self._unlinked_keys:
            key = self._unlinked_keys[key]
        return key

    def resolve_parent(self, parent: str | None) -> str | None:
        """Does the same as `find_parent_key`, but uses the newest entry if the parent is not in the file.

        That is recorded as a problem, unless there is no message yet: the first parent of a resumed session is in an
        earlier file.
        """
        if not parent or parent in self._keys_by_source:
            return self.find_parent_key(parent)
        if self._has_messages:
            self.problems.append(
                f"line {self.line_number}: the parent {parent!r} is not in the file; hung on the line before"
            )
        return self.last_key

    def add_alias(self, source_id: str) -> None:
        """Gives the newest entry a second foreign id."""
        last = self.last_key
        if source_id and last is not None:
            self._keys_by_source[source_id] = last

    def add_messages(
        self,
        messages: Sequence[Message],
        *,
        parent_key: str | None,
        source_id: str = "",
        time: int | None = None,
        usage: Usage | None = None,
    ) -> None:
        """Adds the messages of one native message. All but the last get the foreign id `source_id#index`."""
        self._has_messages = True
        for index, message in enumerate(messages):
            is_last = index == len(messages) - 1
            key = self._make_key()
            run = key if message.role == "user" and message.origin == "human" else self._runs.get(parent_key, "")
            foreign_id = source_id if is_last or not source_id else f"{source_id}#{index}"
            self._add_entry(
                MessageEntry(
                    key, parent_key, run, time, self._with_tool_name(message), usage if is_last else None, foreign_id
                )
            )
            parent_key = key

    def extend_last(self, message: Message, *, source_id: str = "", usage: Usage | None = None) -> None:
        """Extends the newest entry, an answer, by a message that continues it. The bytes must follow directly."""
        last = self.entries[-1]
        assert isinstance(last, MessageEntry)
        old, new = last.message.native, message.native
        assert old is not None
        assert new is not None
        native = replace(old, body=old.body + new.lead + new.body)
        joined = replace(last.message, parts=(*last.message.parts, *self._with_tool_name(message).parts), native=native)
        self.entries[-1] = replace(
            last, message=joined, usage=usage or last.usage, source_id=source_id or last.source_id
        )
        self.add_alias(source_id)

    def find_newest_answer(self) -> int | None:
        """Finds the index of the newest model answer, if only the results of its tool calls follow it."""
        for index in range(len(self.entries) - 1, -1, -1):
            entry = self.entries[index]
            if isinstance(entry, MessageEntry) and entry.message.role != "tool":
                return index if entry.message.role == "assistant" else None
        return None

    def set_usage(self, usage: Usage) -> None:
        """Sets the usage of the newest answer, for files that report it on a later line."""
        index = self.find_newest_answer()
        entry = self.entries[index] if index is not None else None
        if index is not None and isinstance(entry, MessageEntry):
            self.entries[index] = replace(entry, usage=usage)

    def _with_tool_name(self, message: Message) -> Message:
        """Returns the message with the tool's name on its result, for formats that give only the call's id."""
        self._tool_names.update((call.id, call.name) for call in get_tool_calls(message))
        result = get_tool_result(message)
        if result is None or result.name or result.call_id not in self._tool_names:
            return message
        return replace(message, parts=(replace(result, name=self._tool_names[result.call_id]),))

    def add_branch(
        self, message: Message, *, parent_key: str | None, left: str, source_id: str, time: int | None
    ) -> None:
        """Adds the summary of a branch that was left."""
        self._add_entry(
            BranchSummary(self._make_key(), parent_key, self._runs.get(parent_key, ""), time, message, left, source_id)
        )

    def add_setting(
        self, key: str, value: str, native: NativeBytes, *, parent_key: str | None, source_id: str, time: int | None
    ) -> None:
        """Adds a change of setting."""
        self._add_entry(
            Setting(self._make_key(), parent_key, self._runs.get(parent_key, ""), time, key, value, native, source_id)
        )

    def add_custom(
        self, kind: str, native: NativeBytes, *, parent_key: str | None, source_id: str = "", time: int | None = None
    ) -> None:
        """Adds an entry that is not a message. Use `add_unlinked` if only this line lacks a parent id."""
        self._add_entry(
            CustomEntry(self._make_key(), parent_key, self._runs.get(parent_key, ""), time, kind, native, source_id)
        )

    def add_unlinked(self, kind: str, native: NativeBytes, *, time: int | None = None, source_id: str = "") -> None:
        """Adds an entry without a parent id after the newest entry.

        Children of that newest entry then become children of the added one.
        """
        parent_key = self.last_key
        self.add_custom(kind, native, parent_key=parent_key, source_id=source_id, time=time)
        last = self.last_key
        if last is not None:
            self._unlinked_keys[parent_key] = last

    def build_session(self, info: SessionInfo) -> ParsedSession:
        """Builds the finished session."""
        return ParsedSession(info, tuple(self.entries), tuple(self.problems))

    def _make_key(self) -> str:
        return f"e{len(self.entries)}"

    def _add_entry(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.line_numbers.append(self.line_number)
        self._runs[entry.id] = entry.run
        source = getattr(entry, "source_id", "")
        if source:
            self._keys_by_source[source] = entry.id


def compute_byte_order(drafts: Sequence[SessionDraft]) -> tuple[tuple[int, int, int], ...]:
    """Computes the order of the entries' bytes in the file as runs of (session, first entry, count).

    Returns () if there is one session whose entries are in file order.
    """
    located = [(line, s, e) for s, draft in enumerate(drafts) for e, line in enumerate(draft.line_numbers)]
    ordered = sorted(located)
    if ordered == located and len(drafts) == 1:
        return ()
    runs: list[tuple[int, int, int]] = []
    for _, session, entry in ordered:
        if runs and runs[-1][0] == session and sum(runs[-1][1:]) == entry:
            runs[-1] = (session, runs[-1][1], runs[-1][2] + 1)
        else:
            runs.append((session, entry, 1))
    return tuple(runs)


def build_sessions(drafts: Sequence[SessionDraft], infos: Sequence[SessionInfo]) -> list[ParsedSession]:
    """Builds the finished sessions of one file. The first one holds the byte order of the entries."""
    order = compute_byte_order(drafts)
    first = replace(infos[0], interleaving=order) if order else infos[0]
    return [draft.build_session(info) for draft, info in zip(drafts, [first, *infos[1:]], strict=True)]
