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

from tenfold.errors import NotFoundError, StoreError
from tenfold.record.block import Block
from tenfold.record.codec import compute_chain_hash, encode_entry
from tenfold.record.entry import BranchSummary, Entry
from tenfold.store import purge
from tenfold.store.base import MAIN, HeadState, Hit, LocatedEntry, Problem, SessionInfo, SessionRow
from tenfold.store.passages import NEWEST_LIMIT, StoredEntry, find_best_hits, list_passage_terms
from tenfold.store.terms import parse_question
from tenfold.store.validation import (
    build_ambiguous_id_error,
    build_duplicate_error,
    build_lost_race_error,
    build_missing_parent_error,
    build_unknown_entry_error,
    build_unknown_session_error,
    check_counts,
    check_limit,
    check_snapshot,
    get_source_id,
    read_snapshot_entries,
)
from tenfold.store.verify import StoredRow, StoredSegment, build_rewritten_hashes, check_rows, check_snapshots
from tenfold.store.word_search import (
    POOL_SIZE,
    Candidate,
    get_searchable_text,
    match_words,
    parse_query,
    rank_candidates,
)
from tenfold.view.fold import Snapshot


class _MemoryEntry(Struct):
    """One stored entry. Only `purge` changes it."""

    entry: Entry
    segment: _MemorySegment
    position: int
    order: int
    hash: bytes
    source_id: str
    rewritten_hashes: bytes = b""
    counts: dict[str, int] = {}


class _MemorySegment(Struct):
    """A stretch of a path without a fork: its entries, and the segment and position where it begins.

    `snapshot_positions` are the positions that have a snapshot, in order.
    """

    parent: _MemorySegment | None
    start: int
    entries: list[_MemoryEntry]
    snapshot_positions: list[int]
    snapshots: dict[int, Snapshot]

    def get_next_position(self) -> int:
        """Returns the position that the next entry of this segment would have."""
        return self.start + len(self.entries)


class _MemorySession(Struct):
    """A session: its segments, its entries by id in the order of appending, and its heads."""

    info: SessionInfo
    order: int
    segments: list[_MemorySegment]
    entries: dict[str, _MemoryEntry]
    heads: dict[str, str]
    terms: dict[str, list[int]] = {}
    """For each term the passages that contain it, oldest first. `indexed_count` says how many entries were indexed."""
    passage_count: int = 0
    indexed_count: int = 0


class MemoryStore:
    """A store that keeps nothing on disk. It is safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._namespaces: dict[str, dict[str, _MemorySession]] = {}
        self._session_ids: dict[str, dict[str, str]] = {}
        self._last_order = 0
        self._closed = False

    def create(self, namespace: str, info: SessionInfo) -> None:
        """See `Store.create`."""
        with self._lock:
            sessions = self._get_namespace(namespace)
            record = sessions.get(info.id)
            if record is None:
                self._last_order += 1
                sessions[info.id] = _MemorySession(info, self._last_order, [], {}, {})
            else:
                record.info = info

    def list_sessions(self, namespace: str) -> list[SessionRow]:
        """See `Store.list_sessions`."""
        with self._lock:
            rows = [(_build_row(s), s.order) for s in self._get_namespace(namespace).values()]
        rows.sort(key=lambda f: (f[0].last_time is not None, f[0].last_time or 0, f[1]), reverse=True)
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
        counts_by_counter = check_counts(entries, counts)
        bodies = [encode_entry(e) for e in entries]
        with self._lock:
            record = self._get_session(namespace, session)
            leaf = record.heads.get(head)
            if leaf != expected:
                raise build_lost_race_error(head, expected, leaf)
            new = self._build_entries(namespace, record, entries, bodies)
            last = new[-1]
            if snapshot is not None:
                check_snapshot(snapshot, last.position)
            for name, values in counts_by_counter.items():
                for item, count in zip(new, values, strict=True):
                    item.counts[name] = count
            self._install_entries(namespace, record, new)
            record.heads[head] = last.entry.id
            if snapshot is not None:
                last.segment.snapshot_positions.append(last.position)
                last.segment.snapshots[last.position] = snapshot

    def open(self, namespace: str, session: str, head: str = MAIN) -> HeadState:
        """See `Store.open`."""
        with self._lock:
            record = self._get_session(namespace, session)
            if head not in record.heads:
                return HeadState(None, 0, None, ())
            leaf = record.entries[record.heads[head]]
            after, snapshot = 0, None
            for seg, last in _walk_up(leaf):
                index = bisect_right(seg.snapshot_positions, last)
                if index:
                    after, snapshot = (
                        seg.snapshot_positions[index - 1] + 1,
                        seg.snapshots[seg.snapshot_positions[index - 1]],
                    )
                    break
            entries = (
                tuple(line.entry for line in _get_range(leaf, after, leaf.position)) if after <= leaf.position else ()
            )
            snapshot_entries = (
                read_snapshot_entries(snapshot, lambda places: {p: _get_range(leaf, p, p)[0].entry for p in places})
                if snapshot
                else {}
            )
            return HeadState(leaf.entry.id, leaf.position + 1, snapshot, entries, snapshot_entries)

    def read_range(self, namespace: str, session: str, leaf: str, first: int, last: int) -> list[Entry]:
        """See `Store.read_range`."""
        with self._lock:
            return [item.entry for item in _get_range(self._get_entry(namespace, session, leaf), first, last)]

    def read_counts(
        self, namespace: str, session: str, leaf: str, counter: str, first: int, last: int
    ) -> list[int | None]:
        """See `Store.read_counts`."""
        with self._lock:
            return [
                item.counts.get(counter) for item in _get_range(self._get_entry(namespace, session, leaf), first, last)
            ]

    def add_counts(self, namespace: str, session: str, counter: str, counts: Mapping[str, int]) -> None:
        """See `Store.add_counts`."""
        with self._lock:
            items = [(self._get_entry(namespace, session, entry), n) for entry, n in counts.items()]
            for item, n in items:
                item.counts[counter] = n

    def read_entries(self, namespace: str, session: str) -> list[Entry]:
        """See `Store.read_entries`."""
        with self._lock:
            return [item.entry for item in self._get_session(namespace, session).entries.values()]

    def locate(self, namespace: str, entry: str) -> LocatedEntry:
        """See `Store.locate`."""
        with self._lock:
            self._get_namespace(namespace)
            ids = self._session_ids.get(namespace, {})
            matches = [entry] if entry in ids else sorted(i for i in ids if entry and i.startswith(entry))
            if not matches:
                raise build_unknown_entry_error(namespace, entry)
            if len(matches) > 1:
                raise build_ambiguous_id_error(entry, matches[0], matches[1])
            line = self._get_entry(namespace, ids[matches[0]], matches[0])
            return LocatedEntry(ids[matches[0]], line.position, line.entry)

    def read_source_ids(self, namespace: str, session: str) -> dict[str, str]:
        """See `Store.read_source_ids`."""
        with self._lock:
            items = self._get_session(namespace, session).entries.values()
            return {item.source_id: item.entry.id for item in items if item.source_id}

    def read_heads(self, namespace: str, session: str) -> dict[str, str]:
        """See `Store.read_heads`."""
        with self._lock:
            return dict(sorted(self._get_session(namespace, session).heads.items()))

    def index(self, *, limit: int = 2_000) -> int:
        """See `Store.index`. This store has no index for words, so there is never anything to do."""
        with self._lock:
            self._get_namespace("")
        return min(check_limit(limit), 0)

    def search(self, namespace: str, words: str, *, session: str | None = None, limit: int = 20) -> list[Hit]:
        """See `Store.search`."""
        query = parse_query(words)
        with self._lock:
            records = (
                [self._get_session(namespace, session)] if session else list(self._get_namespace(namespace).values())
            )
            candidates = [(candidate, s.info.id) for s in records for candidate in s.entries.values()]
        candidates.sort(key=lambda item: -item[0].order)
        pool: list[Candidate] = []
        for candidate, name in candidates:
            text = get_searchable_text(candidate.entry)
            match = match_words(text, query)
            if match is not None:
                kind = str(type(candidate.entry).__struct_config__.tag)
                pool.append(Candidate(candidate.order, name, candidate.entry, candidate.position, kind, match, text))
            if len(pool) >= max(POOL_SIZE, limit):
                break
        return rank_candidates(pool, query, limit)

    def search_passages(self, namespace: str, words: str, *, session: str | None = None, limit: int = 20) -> list[Hit]:
        """See `Store.search_passages`."""
        question_terms = parse_question(words)
        with self._lock:
            records = (
                [self._get_session(namespace, session)] if session else list(self._get_namespace(namespace).values())
            )
            for each in records:
                _index_session(each)
            keys_by_term = {
                term: sorted((key for s in records for key in s.terms.get(term, ())[-NEWEST_LIMIT:]), reverse=True)[
                    :NEWEST_LIMIT
                ]
                for term in question_terms
            }
            total = max(sum(len(s.entries) for s in records), min(NEWEST_LIMIT, sum(s.passage_count for s in records)))
            return find_best_hits(
                keys_by_term, lambda orders: _find_entries(records, set(orders)), total=total, limit=limit
            )

    def purge(self, namespace: str, session: str, entry: str | None, *, now: int) -> int:
        """See `Store.purge`."""
        with self._lock:
            record = self._get_session(namespace, session)
            if entry is None:
                for each in record.entries:
                    del self._session_ids[namespace][each]
                del self._namespaces[namespace][session]
                return len(record.entries)
            return _purge_entry(record, self._get_entry(namespace, session, entry), now)

    def verify(self, namespace: str) -> list[Problem]:
        """See `Store.verify`."""
        with self._lock:
            return [p for s in self._get_namespace(namespace).values() for p in _verify_session(s)]

    def close(self) -> None:
        """See `Store.close`."""
        self._closed = True

    def _get_namespace(self, namespace: str) -> dict[str, _MemorySession]:
        if self._closed:
            raise StoreError("the store in memory is closed, and what it held is gone: make a new one")
        return self._namespaces.setdefault(namespace, {})

    def _get_session(self, namespace: str, session: str) -> _MemorySession:
        record = self._get_namespace(namespace).get(session)
        if record is None:
            raise build_unknown_session_error(namespace, session)
        return record

    def _get_entry(self, namespace: str, session: str, entry: str) -> _MemoryEntry:
        item = self._get_session(namespace, session).entries.get(entry)
        if item is None:
            raise NotFoundError(f"no entry {entry} in this session: `tenfold show` lists its entries")
        return item

    def _build_entries(
        self, namespace: str, session: _MemorySession, entries: Sequence[Entry], bodies: Sequence[bytes]
    ) -> list[_MemoryEntry]:
        """Builds the stored entries of one append. Nothing refers to them yet, so an error changes nothing."""
        ids = self._session_ids.setdefault(namespace, {})
        new: dict[str, _MemoryEntry] = {}
        tips: dict[int, int] = {}
        for entry, body in zip(entries, bodies, strict=True):
            if entry.id in ids or entry.id in new:
                raise build_duplicate_error(entry.id)
            parent = None
            if entry.parent is not None:
                parent = new.get(entry.parent) or session.entries.get(entry.parent)
                if parent is None:
                    raise build_missing_parent_error(entry)
            pos = parent.position + 1 if parent else 0
            if (
                parent is not None
                and tips.get(id(parent.segment), parent.segment.get_next_position() - 1) == parent.position
            ):
                seg = parent.segment
            else:
                seg = _MemorySegment(parent.segment if parent else None, pos, [], [], {})
            tips[id(seg)] = pos
            digest = compute_chain_hash(parent.hash if parent else b"", entry, body)
            new[entry.id] = _MemoryEntry(entry, seg, pos, self._last_order + len(new) + 1, digest, get_source_id(entry))
        return list(new.values())

    def _install_entries(self, namespace: str, session: _MemorySession, new: Sequence[_MemoryEntry]) -> None:
        ids = self._session_ids[namespace]
        for item in new:
            if not item.segment.entries:
                session.segments.append(item.segment)
            item.segment.entries.append(item)
            session.entries[item.entry.id] = item
            ids[item.entry.id] = session.info.id
        self._last_order += len(new)


def _walk_up(leaf: _MemoryEntry) -> Iterator[tuple[_MemorySegment, int]]:
    """Yields the segments of a path from leaf to root, each with its last position on the path."""
    seg, last = leaf.segment, leaf.position
    yield seg, last
    while seg.parent is not None:
        seg, last = seg.parent, seg.start - 1
        yield seg, last


def _get_range(leaf: _MemoryEntry, first: int, last: int) -> list[_MemoryEntry]:
    if first < 0 or last > leaf.position or first > last:
        raise NotFoundError(f"positions {first}..{last} are not on a path of {leaf.position + 1} entries")
    pieces: list[list[_MemoryEntry]] = []
    for seg, end in _walk_up(leaf):
        if seg.start <= last:
            pieces.append(seg.entries[max(0, first - seg.start) : min(end, last) + 1 - seg.start])
        if seg.start <= first:
            break
    return [item for piece in reversed(pieces) for item in piece]


def _build_row(session: _MemorySession) -> SessionRow:
    items = session.entries.values()
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


def _index_session(session: _MemorySession) -> None:
    """Indexes the entries of a session that are not indexed yet."""
    for item in islice(session.entries.values(), session.indexed_count, None):
        for key, terms in list_passage_terms(item.order, item.entry):
            for term in terms:
                session.terms.setdefault(term, []).append(key)
            session.passage_count += 1
    session.indexed_count = len(session.entries)


def _find_entries(sessions: Sequence[_MemorySession], orders: set[int]) -> Iterator[StoredEntry]:
    for session in sessions:
        for item in session.entries.values():
            if item.order in orders:
                kind = str(type(item.entry).__struct_config__.tag)
                yield StoredEntry(item.order, session.info.id, item.position, kind, item.entry)


def _purge_entry(session: _MemorySession, item: _MemoryEntry, now: int) -> int:
    session.terms, session.passage_count, session.indexed_count = {}, 0, 0
    old, body = item.entry, encode_entry(item.entry)
    tombstone = purge.build_tombstone(old, body, now)
    quoting = [each for each in session.entries.values() if each is not item and _can_quote(each, item)]
    others = (each.entry for each in session.entries.values() if each is not item)
    pieces = purge.find_distinctive_pieces(old, (each.entry for each in quoting), others)
    touched = 1 + len(item.counts)
    _replace_entry(item, tombstone)
    for each in quoting:
        if isinstance(each.entry, Block | BranchSummary):
            clean = purge.scrub_entry(each.entry, purge.PurgedEntry(old, item.position, pieces))
            if clean is not each.entry:
                _replace_entry(each, clean)
                touched += 1
    if purge.is_title_from(session.info.title, old):
        session.info = msgspec.structs.replace(session.info, title="")
        touched += 1
    return touched


def _can_quote(item: _MemoryEntry, purged: _MemoryEntry) -> bool:
    if isinstance(item.entry, BranchSummary):
        return True
    if (
        not isinstance(item.entry, Block)
        or item.position <= purged.position
        or not purge.can_quote(item.entry, purged.position)
    ):
        return False
    return _get_range(item, purged.position, purged.position)[0] is purged


def _replace_entry(item: _MemoryEntry, entry: Entry) -> None:
    body = encode_entry(entry)
    item.rewritten_hashes = build_rewritten_hashes(encode_entry(item.entry), item.rewritten_hashes, body)
    item.entry, item.counts = entry, {}


def _verify_session(session: _MemorySession) -> list[Problem]:
    problems: list[Problem] = []
    name = session.info.id
    for seg in session.segments:
        before = _get_parent(seg)
        rows = (
            StoredRow(
                e.entry.id,
                e.position,
                str(type(e.entry).__struct_config__.tag),
                e.hash,
                encode_entry(e.entry),
                e.rewritten_hashes,
            )
            for e in seg.entries
        )
        segment = StoredSegment(
            name, seg.start, before.entry.id if before else None, before.hash if before else b"", rows
        )
        problems += check_rows(segment).problems
    if problems:
        return problems
    for seg in session.segments:
        if seg.snapshot_positions:
            leaf = seg.entries[seg.snapshot_positions[-1] - seg.start]
            problems += check_snapshots(
                name, [item.entry for item in _get_range(leaf, 0, leaf.position)], seg.snapshots
            )
    return problems


def _get_parent(seg: _MemorySegment) -> _MemoryEntry | None:
    return seg.parent.entries[seg.start - 1 - seg.parent.start] if seg.parent else None
