"""Builds a session's entries one native piece at a time: keys, parents, runs, and the order of the bytes.

Readers say what a piece means; this module knows how entries hang together. It reads no JSON.
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
    """A time as a file writes it (ISO text, or seconds or milliseconds as a number) in microseconds UTC.

    Text without a zone is taken as UTC. None for anything else: times are never invented.
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
    """A token count as a file writes it; 0 for anything that is no count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


class Draft:
    """The entries of one session while a reader finds them.

    `line` is where in the file the piece stands that the next entries come from. `at` gives the key of the entry
    to hang the next one on: `last` for formats without pointers, `find(foreign id)` for trees.
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
        """The key of the entry that was added last."""
        return self.entries[-1].id if self.entries else None

    def knows(self, source: str) -> bool:
        """Whether an entry with that foreign id was added."""
        return source in self._keys

    def find(self, source: str | None) -> str | None:
        """The key to hang on for a foreign parent id: that entry, or what was hung on it without a pointer."""
        key = self._keys.get(source) if source else None
        while key in self._hung:
            key = self._hung[key]
        return key

    def under(self, parent: str | None) -> str | None:
        """Like `find`, but a parent that is not in the file is bridged by the entry before.

        That is noted, unless nothing was said yet: a resumed session begins with a parent in an earlier file.
        """
        if not parent or parent in self._keys:
            return self.find(parent)
        if self._spoken:
            self.problems.append(f"line {self.line}: the parent {parent!r} is not in the file; hung on the line before")
        return self.last

    def alias(self, source: str) -> None:
        """Lets a second foreign id name the entry that was added last."""
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
        """Adds the messages of one native piece; all but the last get `source#index` as their foreign id."""
        self._spoken = True
        for index, message in enumerate(messages):
            final = index == len(messages) - 1
            key = self._key()
            run = key if message.role == "user" and message.origin == "human" else self._runs.get(at, "")
            name = source if final or not source else f"{source}#{index}"
            self._add(Said(key, at, run, time, self._known(message), usage if final else None, name))
            at = key

    def join(self, message: Message, *, source: str = "", usage: Usage | None = None) -> None:
        """Adds to the last entry, an answer: a later native piece goes on with it. Its bytes follow directly."""
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
        """The index of the newest answer of the model, if no more than results of its calls follow it."""
        for index in range(len(self.entries) - 1, -1, -1):
            entry = self.entries[index]
            if isinstance(entry, Said) and entry.message.role != "tool":
                return index if entry.message.role == "assistant" else None
        return None

    def used(self, usage: Usage) -> None:
        """Notes what the request of the newest answer took, where the file says so on a later line."""
        index = self.answer()
        entry = self.entries[index] if index is not None else None
        if index is not None and isinstance(entry, Said):
            self.entries[index] = replace(entry, usage=usage)

    def _known(self, message: Message) -> Message:
        """The message with the tool's name on a result whose format names only the call."""
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
        """Adds something that is no message; `hang` is for what names no parent in a format with pointers."""
        self._add(Custom(self._key(), at, self._runs.get(at, ""), time, kind, native, source))

    def hang(self, kind: str, native: Native, *, time: int | None = None, source: str = "") -> None:
        """Adds something that names no parent, behind the last entry; what names that one as parent follows it."""
        at = self.last
        self.custom(kind, native, at=at, source=source, time=time)
        last = self.last
        if last is not None:
            self._hung[at] = last

    def recorded(self, info: SessionInfo) -> Recorded:
        """The finished session."""
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
    """The order of the entries' bytes in the file, as runs; () when it is the order of one session's entries."""
    places = [(line, s, e) for s, draft in enumerate(drafts) for e, line in enumerate(draft.lines)]
    ordered = sorted(places)
    if ordered == places and len(drafts) == 1:
        return ()
    runs: list[tuple[int, int, int]] = []
    for _, session, entry in ordered:
        if runs and runs[-1][0] == session and sum(runs[-1][1:]) == entry:
            runs[-1] = (session, runs[-1][1], runs[-1][2] + 1)
        else:
            runs.append((session, entry, 1))
    return tuple(runs)


def woven(drafts: Sequence[Draft], infos: Sequence[SessionInfo]) -> list[Recorded]:
    """The finished sessions of one file, the byte order of their entries noted on the first."""
    order = weave(drafts)
    first = replace(infos[0], weave=order) if order else infos[0]
    return [draft.recorded(info) for draft, info in zip(drafts, [first, *infos[1:]], strict=True)]
