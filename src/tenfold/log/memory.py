"""A store in memory, for one process. It gives the same answers as the SQLite store and is gone when it is closed.

As in SQLite, a path is built from segments without a fork, so opening costs O(view). A search for words scans the
texts. Questions have an index, which the next question brings up to date.
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
    """A stretch of a path without a fork: its entries, and the segment and position where it begins.

    `snapshot_positions` are the positions that have a snapshot, in order.
    """

    parent: _Seg | None
    start: int
    lines: list[_Line]
    at: list[int]
    snapshots: dict[int, Snapshot]

    def next(self) -> int:
        """Returns the position that the next entry of this segment would have."""
        return self.start + len(self.lines)


class _Session(Struct):
    """A session: its segments, its entries by id in the order of appending, and its heads."""

    info: SessionInfo
    order: int
    segs: list[_Seg]
    lines: dict[str, _Line]
    heads: dict[str, str]
    terms: dict[str, list[int]] = {}
    """For each term the passages that contain it, oldest first. `indexed_count` says how many entries were indexed."""
    passages: int = 0
    indexed: int = 0


class MemoryStore:
    """A store that keeps nothing on disk. It is safe to use from several threads."""

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
            record = sessions.get(info.id)
            if record is None:
                self._order += 1
                sessions[info.id] = _Session(info, self._order, [], {}, {})
            else:
                record.info = info

    def sessions(self, namespace: str) -> list[SessionRow]:
        """See `Store.list_sessions`."""
        with self._lock:
            rows = [(_row(s), s.order) for s in self._space(namespace).values()]
        rows.sort(key=lambda f: (f[0].last is not None, f[0].last or 0, f[1]), reverse=True)
        return [row for row, _ in rows]

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
        counts_by_counter = checked_counts(entries, counts)
        bodies = [encode_entry(e) for e in entries]
        with self._lock:
            record = self._session(namespace, session)
            leaf = record.heads.get(head)
            if leaf != expected:
                raise lost_race(head, expected, leaf)
            new = self._planned(namespace, record, entries, bodies)
            last = new[-1]
            if snapshot is not None:
                fits(snapshot, last.pos)
            for name, values in counts_by_counter.items():
                for item, count in zip(new, values, strict=True):
                    item.counts[name] = count
            self._install(namespace, record, new)
            record.heads[head] = last.entry.id
            if snapshot is not None:
                last.seg.at.append(last.pos)
                last.seg.snapshots[last.pos] = snapshot

    def open(self, namespace: str, session: str, head: str = MAIN) -> Opened:
        """See `Store.open`."""
        with self._lock:
            record = self._session(namespace, session)
            if head not in record.heads:
                return Opened(None, 0, None, ())
            leaf = record.lines[record.heads[head]]
            after, snapshot = 0, None
            for seg, last in _up(leaf):
                index = bisect_right(seg.at, last)
                if index:
                    after, snapshot = seg.at[index - 1] + 1, seg.snapshots[seg.at[index - 1]]
                    break
            entries = tuple(line.entry for line in _span(leaf, after, leaf.pos)) if after <= leaf.pos else ()
            snapshot_entries = (
                held(snapshot, lambda places: {p: _span(leaf, p, p)[0].entry for p in places}) if snapshot else {}
            )
            return Opened(leaf.entry.id, leaf.pos + 1, snapshot, entries, snapshot_entries)

    def span(self, namespace: str, session: str, leaf: str, first: int, last: int) -> list[Entry]:
        """See `Store.read_range`."""
        with self._lock:
            return [item.entry for item in _span(self._line(namespace, session, leaf), first, last)]

    def counts(self, namespace: str, session: str, leaf: str, counter: str, first: int, last: int) -> list[int | None]:
        """See `Store.read_counts`."""
        with self._lock:
            return [item.counts.get(counter) for item in _span(self._line(namespace, session, leaf), first, last)]

    def add_counts(self, namespace: str, session: str, counter: str, counts: Mapping[str, int]) -> None:
        """See `Store.add_counts`."""
        with self._lock:
            items = [(self._line(namespace, session, entry), n) for entry, n in counts.items()]
            for item, n in items:
                item.counts[counter] = n

    def original(self, namespace: str, session: str) -> list[Entry]:
        """See `Store.read_entries`."""
        with self._lock:
            return [item.entry for item in self._session(namespace, session).lines.values()]

    def locate(self, namespace: str, entry: str) -> Located:
        """See `Store.locate`."""
        with self._lock:
            self._space(namespace)
            ids = self._ids.get(namespace, {})
            matches = [entry] if entry in ids else sorted(i for i in ids if entry and i.startswith(entry))
            if not matches:
                raise unknown_entry(namespace, entry)
            if len(matches) > 1:
                raise several(entry, matches[0], matches[1])
            line = self._line(namespace, ids[matches[0]], matches[0])
            return Located(ids[matches[0]], line.pos, line.entry)

    def by_source(self, namespace: str, session: str) -> dict[str, str]:
        """See `Store.read_source_ids`."""
        with self._lock:
            items = self._session(namespace, session).lines.values()
            return {item.source: item.entry.id for item in items if item.source}

    def heads(self, namespace: str, session: str) -> dict[str, str]:
        """See `Store.read_heads`."""
        with self._lock:
            return dict(sorted(self._session(namespace, session).heads.items()))

    def index(self, *, limit: int = 2_000) -> int:
        """See `Store.index`. This store has no index for words, so there is never anything to do."""
        with self._lock:
            self._space("")
        return min(checked_limit(limit), 0)

    def search(self, namespace: str, words: str, *, session: str | None = None, limit: int = 20) -> list[Hit]:
        """See `Store.search`."""
        query = parse(words)
        with self._lock:
            records = [self._session(namespace, session)] if session else list(self._space(namespace).values())
            candidates = [(candidate, s.info.id) for s in records for candidate in s.lines.values()]
        candidates.sort(key=lambda item: -item[0].order)
        pool: list[Candidate] = []
        for candidate, name in candidates:
            text = searchable(candidate.entry)
            match = find(text, query)
            if match is not None:
                kind = str(type(candidate.entry).__struct_config__.tag)
                pool.append(Candidate(candidate.order, name, candidate.entry, candidate.pos, kind, match, text))
            if len(pool) >= max(POOL, limit):
                break
        return ranked(pool, query, limit)

    def ask(self, namespace: str, words: str, *, session: str | None = None, limit: int = 20) -> list[Hit]:
        """See `Store.search_passages`."""
        question_terms = asked_for(words)
        with self._lock:
            records = [self._session(namespace, session)] if session else list(self._space(namespace).values())
            for each in records:
                _index(each)
            keys_by_term = {
                term: sorted((key for s in records for key in s.terms.get(term, ())[-NEWEST:]), reverse=True)[:NEWEST]
                for term in question_terms
            }
            total = max(sum(len(s.lines) for s in records), min(NEWEST, sum(s.passages for s in records)))
            return answered(keys_by_term, lambda orders: _sources(records, set(orders)), among=total, limit=limit)

    def purge(self, namespace: str, session: str, entry: str | None, *, now: int) -> int:
        """See `Store.purge`."""
        with self._lock:
            record = self._session(namespace, session)
            if entry is None:
                for each in record.lines:
                    del self._ids[namespace][each]
                del self._spaces[namespace][session]
                return len(record.lines)
            return _purge(record, self._line(namespace, session, entry), now)

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
        record = self._space(namespace).get(session)
        if record is None:
            raise unknown_session(namespace, session)
        return record

    def _line(self, namespace: str, session: str, entry: str) -> _Line:
        item = self._session(namespace, session).lines.get(entry)
        if item is None:
            raise NotFound(f"no entry {entry} in this session: `tenfold show` lists its entries")
        return item

    def _planned(
        self, namespace: str, known: _Session, entries: Sequence[Entry], bodies: Sequence[bytes]
    ) -> list[_Line]:
        """Builds the stored entries of one append. Nothing refers to them yet, so an error changes nothing."""
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
        for item in new:
            if not item.seg.lines:
                known.segs.append(item.seg)
            item.seg.lines.append(item)
            known.lines[item.entry.id] = item
            ids[item.entry.id] = known.info.id
        self._order += len(new)


def _up(leaf: _Line) -> Iterator[tuple[_Seg, int]]:
    """Yields the segments of a path from leaf to root, each with its last position on the path."""
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
    return [item for piece in reversed(pieces) for item in piece]


def _row(session: _Session) -> SessionRow:
    items = session.lines.values()
    times = [item.entry.time for item in items if item.entry.time is not None]
    blocks = sum(isinstance(item.entry, Block) for item in items)
    return SessionRow(
        session.info,
        len(items),
        blocks,
        min(times, default=None),
        max(times, default=None),
        dict(sorted(session.heads.items())),
    )


def _index(session: _Session) -> None:
    """Indexes the entries of a session that are not indexed yet."""
    for item in islice(session.lines.values(), session.indexed, None):
        for key, terms in keys(item.order, item.entry):
            for term in terms:
                session.terms.setdefault(term, []).append(key)
            session.passages += 1
    session.indexed = len(session.lines)


def _sources(sessions: Sequence[_Session], orders: set[int]) -> Iterator[Source]:
    for session in sessions:
        for item in session.lines.values():
            if item.order in orders:
                kind = str(type(item.entry).__struct_config__.tag)
                yield Source(item.order, session.info.id, item.pos, kind, item.entry)


def _purge(session: _Session, line: _Line, now: int) -> int:
    session.terms, session.passages, session.indexed = {}, 0, 0
    old, body = line.entry, encode_entry(line.entry)
    tombstone = scrub.buried(old, body, now)
    quoting = [each for each in session.lines.values() if each is not line and _may_quote(each, line)]
    others = (each.entry for each in session.lines.values() if each is not line)
    pieces = scrub.distinctive(old, (each.entry for each in quoting), others)
    touched = 1 + len(line.counts)
    _replace(line, tombstone)
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
        segment = Stretch(name, seg.start, before.entry.id if before else None, before.hash if before else b"", rows)
        problems += check_rows(segment).problems
    if problems:
        return problems
    for seg in session.segs:
        if seg.at:
            leaf = seg.lines[seg.at[-1] - seg.start]
            problems += check_snapshots(name, [item.entry for item in _span(leaf, 0, leaf.pos)], seg.snapshots)
    return problems


def _parent(seg: _Seg) -> _Line | None:
    return seg.parent.lines[seg.start - 1 - seg.parent.start] if seg.parent else None
