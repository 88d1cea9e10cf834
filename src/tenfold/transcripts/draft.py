"""Builds a session's entries while a format reads a file: their keys, parents, runs, and the order of their bytes.

A format decides what each line or array element means; this module knows how entries are linked. It parses no JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from tenfold.log.base import SessionInfo
from tenfold.record.entry import Branch, Custom, Entry, Said, Setting, Usage
from tenfold.record.message import Message, Native, calls_of, result_of
from tenfold.transcripts.base import Recorded

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def micros(value: object) -> int | None:
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


def tokens(value: object) -> int:
    """Returns a token count as read from a file, or 0 if the value is not a positive integer."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


class Draft:
    """The entries of one session while its file is being read.

    Set `line_number` to the place in the file that the next entries come from. The `parent_key` of an entry is
    `last_key` in formats without parent ids; in trees `resolve_parent` returns it for a foreign id.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.lines: list[int] = []
        self.problems: list[str] = []
        self.line = 0
        self._runs: dict[str | None, str] = {}
        self._tools: dict[str, str] = {}
        self._spoken = False
        self._keys: dict[str, str] = {}
        self._hung: dict[str | None, str] = {}

    @property
    def last(self) -> str | None:
        """The key of the newest entry."""
        return self.entries[-1].id if self.entries else None

    def knows(self, source: str) -> bool:
        """Returns whether an entry with that foreign id was added."""
        return source in self._keys

    def find(self, source: str | None) -> str | None:
        """Finds the parent key for a foreign parent id: that entry, or the last unlinked entry added behind it."""
        key = self._keys.get(source) if source else None
        while key in self._hung:
            key = self._hung[key]
        return key

    def under(self, parent: str | None) -> str | None:
        """Does the same as `find_parent_key`, but uses the newest entry if the parent is not in the file.

        That is recorded as a problem, unless there is no message yet: the first parent of a resumed session is in an
        earlier file.
        """
        if not parent or parent in self._keys:
            return self.find(parent)
        if self._spoken:
            self.problems.append(f"line {self.line}: the parent {parent!r} is not in the file; hung on the line before")
        return self.last

    def alias(self, source: str) -> None:
        """Gives the newest entry a second foreign id."""
        last = self.last
        if source and last is not None:
            self._keys[source] = last

    def said(
        self,
        messages: Sequence[Message],
        *,
        at: str | None,
        source: str = "",
        time: int | None = None,
        usage: Usage | None = None,
    ) -> None:
        """Adds the messages of one native message. All but the last get the foreign id `source_id#index`."""
        self._spoken = True
        for index, message in enumerate(messages):
            is_last = index == len(messages) - 1
            key = self._key()
            run = key if message.role == "user" and message.origin == "human" else self._runs.get(at, "")
            foreign_id = source if is_last or not source else f"{source}#{index}"
            self._add(Said(key, at, run, time, self._known(message), usage if is_last else None, foreign_id))
            at = key

    def join(self, message: Message, *, source: str = "", usage: Usage | None = None) -> None:
        """Extends the newest entry, an answer, by a message that continues it. The bytes must follow directly."""
        last = self.entries[-1]
        assert isinstance(last, Said)
        old, new = last.message.native, message.native
        assert old is not None
        assert new is not None
        native = replace(old, body=old.body + new.lead + new.body)
        joined = replace(last.message, parts=(*last.message.parts, *self._known(message).parts), native=native)
        self.entries[-1] = replace(last, message=joined, usage=usage or last.usage, source=source or last.source)
        self.alias(source)

    def answer(self) -> int | None:
        """Finds the index of the newest model answer, if only the results of its tool calls follow it."""
        for index in range(len(self.entries) - 1, -1, -1):
            entry = self.entries[index]
            if isinstance(entry, Said) and entry.message.role != "tool":
                return index if entry.message.role == "assistant" else None
        return None

    def used(self, usage: Usage) -> None:
        """Sets the usage of the newest answer, for files that report it on a later line."""
        index = self.answer()
        entry = self.entries[index] if index is not None else None
        if index is not None and isinstance(entry, Said):
            self.entries[index] = replace(entry, usage=usage)

    def _known(self, message: Message) -> Message:
        """Returns the message with the tool's name on its result, for formats that give only the call's id."""
        self._tools.update((call.id, call.name) for call in calls_of(message))
        result = result_of(message)
        if result is None or result.name or result.call not in self._tools:
            return message
        return replace(message, parts=(replace(result, name=self._tools[result.call]),))

    def branch(self, message: Message, *, at: str | None, left: str, source: str, time: int | None) -> None:
        """Adds the summary of a branch that was left."""
        self._add(Branch(self._key(), at, self._runs.get(at, ""), time, message, left, source))

    def setting(self, key: str, value: str, native: Native, *, at: str | None, source: str, time: int | None) -> None:
        """Adds a change of setting."""
        self._add(Setting(self._key(), at, self._runs.get(at, ""), time, key, value, native, source))

    def custom(self, kind: str, native: Native, *, at: str | None, source: str = "", time: int | None = None) -> None:
        """Adds an entry that is not a message. Use `add_unlinked` if only this line lacks a parent id."""
        self._add(Custom(self._key(), at, self._runs.get(at, ""), time, kind, native, source))

    def hang(self, kind: str, native: Native, *, time: int | None = None, source: str = "") -> None:
        """Adds an entry without a parent id after the newest entry.

        Children of that newest entry then become children of the added one.
        """
        parent_key = self.last
        self.custom(kind, native, at=parent_key, source=source, time=time)
        last = self.last
        if last is not None:
            self._hung[parent_key] = last

    def recorded(self, info: SessionInfo) -> Recorded:
        """Builds the finished session."""
        return Recorded(info, tuple(self.entries), tuple(self.problems))

    def _key(self) -> str:
        return f"e{len(self.entries)}"

    def _add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self.lines.append(self.line)
        self._runs[entry.id] = entry.run
        source = getattr(entry, "source", "")
        if source:
            self._keys[source] = entry.id


def weave(drafts: Sequence[Draft]) -> tuple[tuple[int, int, int], ...]:
    """Computes the order of the entries' bytes in the file as runs of (session, first entry, count).

    Returns () if there is one session whose entries are in file order.
    """
    located = [(line, s, e) for s, draft in enumerate(drafts) for e, line in enumerate(draft.lines)]
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


def woven(drafts: Sequence[Draft], infos: Sequence[SessionInfo]) -> list[Recorded]:
    """Builds the finished sessions of one file. The first one holds the byte order of the entries."""
    order = weave(drafts)
    first = replace(infos[0], weave=order) if order else infos[0]
    return [draft.recorded(info) for draft, info in zip(drafts, [first, *infos[1:]], strict=True)]
