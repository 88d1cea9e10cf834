"""Appends entries to SQLite: finds each entry's place in the tree of segments and writes them in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from tenfold.errors import BadInput
from tenfold.log.placing import checked_counts, duplicate, fits, lost_race, no_parent, source_of, unknown_session
from tenfold.log.sqlite_paths import encode_snapshot
from tenfold.record.block import Block
from tenfold.record.codec import chain_hash, encode_entry
from tenfold.record.entry import Entry
from tenfold.view.view import Snapshot

_HEAD = (
    "SELECT s.ns, s.id, (SELECT ifnull(max(seq), 0) FROM entry), (SELECT id FROM counter WHERE name = ?4),"
    " e.id, e.seg, e.pos, e.hash, (SELECT max(pos) FROM entry WHERE seg = e.seg), h.leaf"
    " FROM namespace n JOIN session s ON s.ns = n.id AND s.name = ?2"
    " LEFT JOIN head h ON h.session = s.id AND h.name = ?3 LEFT JOIN entry e ON e.seq = h.leaf WHERE n.name = ?1"
)
_ENTRY = (
    "INSERT INTO entry (ns, session, seg, pos, kind, id, source, hash, body, seq, counter, n)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_MOVED = (
    "UPDATE head SET leaf = ?3, entries = entries + ?4, blocks = blocks + ?5,"
    " first = min(ifnull(first, ?6), ifnull(?6, first)), last = max(ifnull(last, ?7), ifnull(?7, last))"
    " WHERE session = ?1 AND name = ?2"
)


class Batch(Struct, frozen=True):
    """What one call appends. `bodies` are the entries' canonical bytes, encoded before any lock is taken."""

    entries: Sequence[Entry]
    bodies: list[bytes]
    expected: str | None
    head: str
    snapshot: Snapshot | None
    counts: Mapping[str, Sequence[int]]


class _Place(NamedTuple):
    seg: int
    pos: int
    hash: bytes


class _Writing(Struct):
    """The state of one append: the rows so far, the location of each entry, and the last position per segment."""

    ns: int
    session: int
    counter: int | None
    rows: list[tuple[object, ...]]
    places: dict[str, _Place]
    tips: dict[int, int]


def batch(
    entries: Sequence[Entry],
    *,
    expected: str | None,
    head: str,
    snapshot: Snapshot | None,
    counts: Mapping[str, Sequence[int]] | None,
) -> Batch:
    """Checks and encodes the arguments of an append. Raises `UsageError` if the counts do not match the entries."""
    counts_by_counter = checked_counts(entries, counts)
    return Batch(entries, [encode_entry(e) for e in entries], expected, head, snapshot, counts_by_counter)


def append(db: sqlite3.Connection, namespace: str, session: str, new: Batch) -> None:
    """Writes the entries. The caller's transaction makes this atomic."""
    first, *others = new.counts or ("",)
    row = db.execute(_HEAD, (namespace, session, new.head, first)).fetchone()
    if row is None:
        raise unknown_session(namespace, session)
    ns, sid, seq, counter, leaf, seg, pos, digest, last_position, old_leaf = row
    if leaf != new.expected:
        raise lost_race(new.head, new.expected, leaf)
    if counter is None and first:
        counter = counter_id(db, first)
    state = _Writing(ns, sid, counter, [], {}, {})
    if leaf is not None:
        state.places[leaf] = _Place(seg, pos, digest)
        state.tips[seg] = last_position
    counts = new.counts[first] if first else [None] * len(new.entries)
    for entry, body, count in zip(new.entries, new.bodies, counts, strict=True):
        _place(db, state, entry, body, seq + len(state.rows) + 1, count)
    last = state.places[new.entries[-1].id]
    try:
        db.executemany(_ENTRY, state.rows)
    except sqlite3.IntegrityError as exc:
        raise _duplicate(db, ns, seq, new.entries) from exc
    for name in others:
        store_counts(db, name, enumerate(new.counts[name], seq + 1))
    leaf_seq = seq + len(state.rows)
    if new.snapshot is not None:
        fits(new.snapshot, last.pos)
        db.execute(
            "INSERT INTO manifest VALUES (?, ?, ?, ?)", (leaf_seq, last.seg, last.pos, encode_snapshot(new.snapshot))
        )
    times = [e.time for e in new.entries if e.time is not None]
    blocks = sum(isinstance(e, Block) for e in new.entries)
    stats = (len(new.entries), blocks, min(times, default=None), max(times, default=None))
    statement = "INSERT INTO head VALUES (?, ?, ?, ?, ?, ?, ?)" if old_leaf is None else _MOVED
    db.execute(statement, (sid, new.head, leaf_seq, *stats))


def counter_id(db: sqlite3.Connection, name: str) -> int:
    """Returns the row id of a counter, and creates the row when the counter is new."""
    row = db.execute("SELECT id FROM counter WHERE name = ?", (name,)).fetchone()
    if row is None:
        return int(db.execute("INSERT INTO counter (name) VALUES (?) RETURNING id", (name,)).fetchone()[0])
    return int(row[0])


def _place(db: sqlite3.Connection, work: _Writing, entry: Entry, body: bytes, seq: int, count: int | None) -> None:
    if entry.id in work.places:
        raise duplicate(entry.id)
    if entry.parent is None:
        seg, pos, before = _segment(db, work.session, None, 0), 0, b""
    else:
        parent = work.places.get(entry.parent) or _stored(db, work, entry)
        last_position = work.tips.get(parent.seg)
        if last_position is None:
            last_position = db.execute("SELECT max(pos) FROM entry WHERE seg = ?", (parent.seg,)).fetchone()[0]
        pos, before = parent.pos + 1, parent.hash
        seg = parent.seg if last_position == parent.pos else _segment(db, work.session, parent.seg, pos)
        if seg != parent.seg:
            work.tips[parent.seg] = last_position
    digest = chain_hash(before, entry, body)
    work.tips[seg] = pos
    work.places[entry.id] = _Place(seg, pos, digest)
    kind = type(entry).__struct_config__.tag
    source = source_of(entry)
    work.rows.append((work.ns, work.session, seg, pos, kind, entry.id, source, digest, body, seq, work.counter, count))


def _stored(db: sqlite3.Connection, work: _Writing, entry: Entry) -> _Place:
    row = db.execute(
        "SELECT seg, pos, hash FROM entry WHERE ns = ? AND id = ? AND session = ?",
        (work.ns, entry.parent, work.session),
    ).fetchone()
    if row is None:
        raise no_parent(entry)
    return _Place(*row)


def _segment(db: sqlite3.Connection, session: int, parent: int | None, start: int) -> int:
    row = db.execute(
        "INSERT INTO seg (session, parent, start) VALUES (?, ?, ?) RETURNING id", (session, parent, start)
    ).fetchone()
    return int(row[0])


def store_counts(db: sqlite3.Connection, name: str, counts: Iterable[tuple[int, int]]) -> None:
    """Stores counts as (row number of an entry, tokens). They replace earlier counts by the same counter."""
    counter = counter_id(db, name)
    for seq, n in counts:
        if not db.execute("UPDATE entry SET n = ? WHERE seq = ? AND counter = ?", (n, seq, counter)).rowcount:
            db.execute("INSERT OR REPLACE INTO count VALUES (?, ?, ?)", (counter, seq, n))


def _duplicate(db: sqlite3.Connection, ns: int, before: int, entries: Sequence[Entry]) -> BadInput:
    # Some rows of this call may already be in the table. Rows that were there before it have numbers up to `before`.
    query = "SELECT 1 FROM entry WHERE ns = ? AND id = ? AND seq <= ?"
    duplicates = (e.id for e in entries if db.execute(query, (ns, e.id, before)).fetchone())
    return duplicate(next(duplicates, entries[-1].id))
