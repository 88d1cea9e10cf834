"""The store in memory: the same contract and the same answers as SQLite, for one process, gone with it.

Paths are built as in SQLite, from segments without a fork, so that opening costs O(view) here too. A search for words
is a scan; questions have an index, filled by the next question.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import msgspec
from msgspec import Struct

from tenfold.errors import NotFound, StoreError
from tenfold.log import scrub
from tenfold.log.base import MAIN, Hit, Located, Opened, Problem, SessionInfo, SessionRow
from tenfold.log.placing import (
    checked_counts,
    checked_limit,
    duplicate,
    fits,
    held,
    lost_race,
    no_parent,
    several,
    source_of,
    unknown_entry,
    unknown_session,
)
from tenfold.log.search_passages import NEWEST, Source, answered, keys
from tenfold.log.search_terms import asked_for
from tenfold.log.verify import Row, Stretch, check_rows, check_snapshots, rewritten
from tenfold.log.words import POOL, Candidate, find, parse, ranked, searchable
from tenfold.record.block import Block
from tenfold.record.codec import chain_hash, encode_entry
from tenfold.record.entry import Branch, Entry
from tenfold.view.view import Snapshot


class _Line(Struct):
    """One stored entry. Only `purge` changes it."""

    entry: Entry
    seg: _Seg
    pos: int
    order: int
    hash: bytes
    source: str
    rewritten: bytes = b""
    counts: dict[str, int] = {}


class _Seg(Struct):
    """A stretch without a fork: its lines, and where it leaves its parent. `at` are the positions of snapshots."""

    parent: _Seg | None
    start: int
    lines: list[_Line]
    at: list[int]
    snapshots: dict[int, Snapshot]

    def next(self) -> int:
        """The position that the next entry of this segment would have."""
        return self.start + len(self.lines)


class _Session(Struct):
    """A session: its segments, its lines by id in the order they came, its heads."""

    info: SessionInfo
    order: int
    segs: list[_Seg]
    lines: dict[str, _Line]
    heads: dict[str, str]
    terms: dict[str, list[int]] = {}
    """The passages that hold each term, oldest first, of as many lines as `indexed` says."""
    passages: int = 0
    indexed: int = 0


class MemoryStore:
    """A store that keeps nothing on disk. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._spaces: dict[str, dict[str, _Session]] = {}
        self._ids: dict[str, dict[str, str]] = {}
        self._order = 0
        self._closed = False

    def create(self, namespace: str, info: SessionInfo) -> None:
        """See `Store.create`."""
        with self._lock:
            sessions = self._space(namespace)
            known = sessions.get(info.id)
            if known is None:
                self._order += 1
                sessions[info.id] = _Session(info, self._order, [], {}, {})
            else:
                known.info = info

    def sessions(self, namespace: str) -> list[SessionRow]:
        """See `Store.sessions`."""
        with self._lock:
            found = [(_row(s), s.order) for s in self._space(namespace).values()]
        found.sort(key=lambda f: (f[0].last is not None, f[0].last or 0, f[1]), reverse=True)
        return [row for row, _ in found]

    def append(  # noqa: PLR0913  one append is one transaction, and these are its parts
        self,
        namespace: str,
        session: str,
        entries: Sequence[Entry],
        *,
        expected: str | None,
        head: str = MAIN,
        snapshot: Snapshot | None = None,
        counts: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """See `Store.append`."""
        columns = checked_counts(entries, counts)
        bodies = [encode_entry(e) for e in entries]
        with self._lock:
            known = self._session(namespace, session)
            leaf = known.heads.get(head)
            if leaf != expected:
                raise lost_race(head, expected, leaf)
            new = self._planned(namespace, known, entries, bodies)
            last = new[-1]
            if snapshot is not None:
                fits(snapshot, last.pos)
            for name, values in columns.items():
                for line, count in zip(new, values, strict=True):
                    line.counts[name] = count
            self._install(namespace, known, new)
            known.heads[head] = last.entry.id
            if snapshot is not None:
                last.seg.at.append(last.pos)
                last.seg.snapshots[last.pos] = snapshot

    def open(self, namespace: str, session: str, head: str = MAIN) -> Opened:
        """See `Store.open`."""
        with self._lock:
            known = self._session(namespace, session)
            if head not in known.heads:
                return Opened(None, 0, None, ())
            leaf = known.lines[known.heads[head]]
            after, snapshot = 0, None
            for seg, last in _up(leaf):
                index = bisect_right(seg.at, last)
                if index:
                    after, snapshot = seg.at[index - 1] + 1, seg.snapshots[seg.at[index - 1]]
                    break
            entries = tuple(line.entry for line in _span(leaf, after, leaf.pos)) if after <= leaf.pos else ()
            shown = held(snapshot, lambda places: {p: _span(leaf, p, p)[0].entry for p in places}) if snapshot else {}
            return Opened(leaf.entry.id, leaf.pos + 1, snapshot, entries, shown)

    def span(self, namespace: str, session: str, leaf: str, first: int, last: int) -> list[Entry]:
        """See `Store.span`."""
        with self._lock:
            return [line.entry for line in _span(self._line(namespace, session, leaf), first, last)]

    def counts(self, namespace: str, session: str, leaf: str, counter: str, first: int, last: int) -> list[int | None]:
        """See `Store.counts`."""
        with self._lock:
            return [line.counts.get(counter) for line in _span(self._line(namespace, session, leaf), first, last)]

    def add_counts(self, namespace: str, session: str, counter: str, counts: Mapping[str, int]) -> None:
        """See `Store.add_counts`."""
        with self._lock:
            lines = [(self._line(namespace, session, entry), n) for entry, n in counts.items()]
            for line, n in lines:
                line.counts[counter] = n

    def original(self, namespace: str, session: str) -> list[Entry]:
        """See `Store.original`."""
        with self._lock:
            return [line.entry for line in self._session(namespace, session).lines.values()]

    def locate(self, namespace: str, entry: str) -> Located:
        """See `Store.locate`."""
        with self._lock:
            self._space(namespace)
            ids = self._ids.get(namespace, {})
            found = [entry] if entry in ids else sorted(i for i in ids if entry and i.startswith(entry))
            if not found:
                raise unknown_entry(namespace, entry)
            if len(found) > 1:
                raise several(entry, found[0], found[1])
            line = self._line(namespace, ids[found[0]], found[0])
            return Located(ids[found[0]], line.pos, line.entry)

    def by_source(self, namespace: str, session: str) -> dict[str, str]:
        """See `Store.by_source`."""
        with self._lock:
            lines = self._session(namespace, session).lines.values()
            return {line.source: line.entry.id for line in lines if line.source}

    def heads(self, namespace: str, session: str) -> dict[str, str]:
        """See `Store.heads`."""
        with self._lock:
            return dict(sorted(self._session(namespace, session).heads.items()))

    def index(self, *, limit: int = 2_000) -> int:
        """See `Store.index`: there is no index here, so never anything to do."""
        with self._lock:
            self._space("")
        return min(checked_limit(limit), 0)

    def search(self, namespace: str, words: str, *, session: str | None = None, limit: int = 20) -> list[Hit]:
        """See `Store.search`."""
        asked = parse(words)
        with self._lock:
            known = [self._session(namespace, session)] if session else list(self._space(namespace).values())
            lines = [(line, s.info.id) for s in known for line in s.lines.values()]
        lines.sort(key=lambda item: -item[0].order)
        pool: list[Candidate] = []
        for line, name in lines:
            text = searchable(line.entry)
            found = find(text, asked)
            if found is not None:
                kind = str(type(line.entry).__struct_config__.tag)
                pool.append(Candidate(line.order, name, line.entry, line.pos, kind, found, text))
            if len(pool) >= max(POOL, limit):
                break
        return ranked(pool, asked, limit)

    def ask(self, namespace: str, words: str, *, session: str | None = None, limit: int = 20) -> list[Hit]:
        """See `Store.ask`."""
        wanted = asked_for(words)
        with self._lock:
            known = [self._session(namespace, session)] if session else list(self._space(namespace).values())
            for each in known:
                _index(each)
            found = {
                term: sorted((key for s in known for key in s.terms.get(term, ())[-NEWEST:]), reverse=True)[:NEWEST]
                for term in wanted
            }
            among = max(sum(len(s.lines) for s in known), min(NEWEST, sum(s.passages for s in known)))
            return answered(found, lambda orders: _sources(known, set(orders)), among=among, limit=limit)

    def purge(self, namespace: str, session: str, entry: str | None, *, now: int) -> int:
        """See `Store.purge`."""
        with self._lock:
            known = self._session(namespace, session)
            if entry is None:
                for each in known.lines:
                    del self._ids[namespace][each]
                del self._spaces[namespace][session]
                return len(known.lines)
            return _purge(known, self._line(namespace, session, entry), now)

    def verify(self, namespace: str) -> list[Problem]:
        """See `Store.verify`."""
        with self._lock:
            return [p for s in self._space(namespace).values() for p in _verify(s)]

    def close(self) -> None:
        """See `Store.close`."""
        self._closed = True

    def _space(self, namespace: str) -> dict[str, _Session]:
        if self._closed:
            raise StoreError("the store in memory is closed, and what it held is gone: make a new one")
        return self._spaces.setdefault(namespace, {})

    def _session(self, namespace: str, session: str) -> _Session:
        known = self._space(namespace).get(session)
        if known is None:
            raise unknown_session(namespace, session)
        return known

    def _line(self, namespace: str, session: str, entry: str) -> _Line:
        line = self._session(namespace, session).lines.get(entry)
        if line is None:
            raise NotFound(f"no entry {entry} in this session: `tenfold show` lists its entries")
        return line

    def _planned(
        self, namespace: str, known: _Session, entries: Sequence[Entry], bodies: Sequence[bytes]
    ) -> list[_Line]:
        """The lines of this call, not yet reachable from anywhere, so that a refusal changes nothing."""
        ids = self._ids.setdefault(namespace, {})
        new: dict[str, _Line] = {}
        tips: dict[int, int] = {}
        for entry, body in zip(entries, bodies, strict=True):
            if entry.id in ids or entry.id in new:
                raise duplicate(entry.id)
            parent = None
            if entry.parent is not None:
                parent = new.get(entry.parent) or known.lines.get(entry.parent)
                if parent is None:
                    raise no_parent(entry)
            pos = parent.pos + 1 if parent else 0
            if parent is not None and tips.get(id(parent.seg), parent.seg.next() - 1) == parent.pos:
                seg = parent.seg
            else:
                seg = _Seg(parent.seg if parent else None, pos, [], [], {})
            tips[id(seg)] = pos
            digest = chain_hash(parent.hash if parent else b"", entry, body)
            new[entry.id] = _Line(entry, seg, pos, self._order + len(new) + 1, digest, source_of(entry))
        return list(new.values())

    def _install(self, namespace: str, known: _Session, new: Sequence[_Line]) -> None:
        ids = self._ids[namespace]
        for line in new:
            if not line.seg.lines:
                known.segs.append(line.seg)
            line.seg.lines.append(line)
            known.lines[line.entry.id] = line
            ids[line.entry.id] = known.info.id
        self._order += len(new)


def _up(leaf: _Line) -> Iterator[tuple[_Seg, int]]:
    """The segments of a path from the leaf to the root, each with its last position on the path."""
    seg, last = leaf.seg, leaf.pos
    yield seg, last
    while seg.parent is not None:
        seg, last = seg.parent, seg.start - 1
        yield seg, last


def _span(leaf: _Line, first: int, last: int) -> list[_Line]:
    if first < 0 or last > leaf.pos or first > last:
        raise NotFound(f"positions {first}..{last} are not on a path of {leaf.pos + 1} entries")
    pieces: list[list[_Line]] = []
    for seg, end in _up(leaf):
        if seg.start <= last:
            pieces.append(seg.lines[max(0, first - seg.start) : min(end, last) + 1 - seg.start])
        if seg.start <= first:
            break
    return [line for piece in reversed(pieces) for line in piece]


def _row(session: _Session) -> SessionRow:
    lines = session.lines.values()
    times = [line.entry.time for line in lines if line.entry.time is not None]
    blocks = sum(isinstance(line.entry, Block) for line in lines)
    return SessionRow(
        session.info,
        len(lines),
        blocks,
        min(times, default=None),
        max(times, default=None),
        dict(sorted(session.heads.items())),
    )


def _index(session: _Session) -> None:
    """Brings the index of a session up to its last line."""
    for line in islice(session.lines.values(), session.indexed, None):
        for key, found in keys(line.order, line.entry):
            for term in found:
                session.terms.setdefault(term, []).append(key)
            session.passages += 1
    session.indexed = len(session.lines)


def _sources(sessions: Sequence[_Session], orders: set[int]) -> Iterator[Source]:
    for session in sessions:
        for line in session.lines.values():
            if line.order in orders:
                kind = str(type(line.entry).__struct_config__.tag)
                yield Source(line.order, session.info.id, line.pos, kind, line.entry)


def _purge(session: _Session, line: _Line, now: int) -> int:
    session.terms, session.passages, session.indexed = {}, 0, 0
    old, body = line.entry, encode_entry(line.entry)
    stone = scrub.buried(old, body, now)
    quoting = [each for each in session.lines.values() if each is not line and _may_quote(each, line)]
    others = (each.entry for each in session.lines.values() if each is not line)
    pieces = scrub.distinctive(old, (each.entry for each in quoting), others)
    touched = 1 + len(line.counts)
    _replace(line, stone)
    for each in quoting:
        if isinstance(each.entry, Block | Branch):
            clean = scrub.scrubbed(each.entry, scrub.Purged(old, line.pos, pieces))
            if clean is not each.entry:
                _replace(each, clean)
                touched += 1
    if scrub.titled(session.info.title, old):
        session.info = msgspec.structs.replace(session.info, title="")
        touched += 1
    return touched


def _may_quote(line: _Line, purged: _Line) -> bool:
    if isinstance(line.entry, Branch):
        return True
    if not isinstance(line.entry, Block) or line.pos <= purged.pos or not scrub.quotes(line.entry, purged.pos):
        return False
    return _span(line, purged.pos, purged.pos)[0] is purged


def _replace(line: _Line, entry: Entry) -> None:
    body = encode_entry(entry)
    line.rewritten = rewritten(encode_entry(line.entry), line.rewritten, body)
    line.entry, line.counts = entry, {}


def _verify(session: _Session) -> list[Problem]:
    problems: list[Problem] = []
    name = session.info.id
    for seg in session.segs:
        before = _parent(seg)
        rows = (
            Row(e.entry.id, e.pos, str(type(e.entry).__struct_config__.tag), e.hash, encode_entry(e.entry), e.rewritten)
            for e in seg.lines
        )
        stretch = Stretch(name, seg.start, before.entry.id if before else None, before.hash if before else b"", rows)
        problems += check_rows(stretch).problems
    if problems:
        return problems
    for seg in session.segs:
        if seg.at:
            leaf = seg.lines[seg.at[-1] - seg.start]
            problems += check_snapshots(name, [line.entry for line in _span(leaf, 0, leaf.pos)], seg.snapshots)
    return problems


def _parent(seg: _Seg) -> _Line | None:
    return seg.parent.lines[seg.start - 1 - seg.parent.start] if seg.parent else None
