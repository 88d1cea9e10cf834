"""Appending to SQLite: finds each entry's place in the tree of segments and writes all of them in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
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
    "SELECT s.ns, s.id, e.id, e.seg, e.pos, e.hash FROM namespace n JOIN session s ON s.ns = n.id AND s.name = ?2"
    " LEFT JOIN head h ON h.session = s.id AND h.name = ?3 LEFT JOIN entry e ON e.seq = h.leaf WHERE n.name = ?1"
)
_ENTRY = (
    "INSERT INTO entry (ns, session, seg, pos, kind, id, source, hash, body, seq) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_STATS = (
    "UPDATE session SET entries = entries + ?, blocks = blocks + ?, first = min(ifnull(first, ?3), ifnull(?3, first)),"
    " last = max(ifnull(last, ?4), ifnull(?4, last)) WHERE id = ?5"
)


class Batch(Struct, frozen=True):
    """What one call appends. `bodies` are the entries' canonical bytes, made before any lock is taken."""

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
    """One call at work: the rows so far, where this call's entries are, and which position ends each segment."""

    ns: int
    session: int
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
    """The call's arguments, checked and encoded. Raises `UsageError` for counts that do not match the entries."""
    checked = checked_counts(entries, counts)
    return Batch(entries, [encode_entry(e) for e in entries], expected, head, snapshot, checked)


def append(db: sqlite3.Connection, namespace: str, session: str, new: Batch) -> None:
    """Writes the batch. The caller's transaction makes it one step."""
    row = db.execute(_HEAD, (namespace, session, new.head)).fetchone()
    if row is None:
        raise unknown_session(namespace, session)
    ns, sid, leaf, seg, pos, digest = row
    if leaf != new.expected:
        raise lost_race(new.head, new.expected, leaf)
    seq = db.execute("SELECT ifnull(max(seq), 0) FROM entry").fetchone()[0]
    work = _Writing(ns, sid, [], {}, {})
    if leaf is not None:
        work.places[leaf] = _Place(seg, pos, digest)
    for entry, body in zip(new.entries, new.bodies, strict=True):
        _place(db, work, entry, body, seq + len(work.rows) + 1)
    last = work.places[new.entries[-1].id]
    try:
        db.executemany(_ENTRY, work.rows)
    except sqlite3.IntegrityError as exc:
        raise _duplicate(db, ns, seq, new.entries) from exc
    _store_counts(db, new.counts, seq)
    leaf_seq = seq + len(work.rows)
    db.execute(
        "INSERT INTO head VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET leaf = excluded.leaf", (sid, new.head, leaf_seq)
    )
    if new.snapshot is not None:
        fits(new.snapshot, last.pos)
        db.execute(
            "INSERT INTO manifest VALUES (?, ?, ?, ?)", (leaf_seq, last.seg, last.pos, encode_snapshot(new.snapshot))
        )
    times = [e.time for e in new.entries if e.time is not None]
    blocks = sum(isinstance(e, Block) for e in new.entries)
    db.execute(_STATS, (len(new.entries), blocks, min(times, default=None), max(times, default=None), sid))


def counter_id(db: sqlite3.Connection, name: str) -> int:
    """The number of a counter, given one when it is first seen."""
    row = db.execute("SELECT id FROM counter WHERE name = ?", (name,)).fetchone()
    if row is None:
        return int(db.execute("INSERT INTO counter (name) VALUES (?) RETURNING id", (name,)).fetchone()[0])
    return int(row[0])


def _place(db: sqlite3.Connection, work: _Writing, entry: Entry, body: bytes, seq: int) -> None:
    if entry.id in work.places:
        raise duplicate(entry.id)
    if entry.parent is None:
        seg, pos, before = _segment(db, work.session, None, 0), 0, b""
    else:
        parent = work.places.get(entry.parent) or _stored(db, work, entry)
        tip = work.tips.get(parent.seg)
        if tip is None:
            tip = db.execute("SELECT max(pos) FROM entry WHERE seg = ?", (parent.seg,)).fetchone()[0]
        pos, before = parent.pos + 1, parent.hash
        seg = parent.seg if tip == parent.pos else _segment(db, work.session, parent.seg, pos)
        if seg != parent.seg:
            work.tips[parent.seg] = tip
    digest = chain_hash(before, entry, body)
    work.tips[seg] = pos
    work.places[entry.id] = _Place(seg, pos, digest)
    kind = type(entry).__struct_config__.tag
    work.rows.append((work.ns, work.session, seg, pos, kind, entry.id, source_of(entry), digest, body, seq))


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


def _store_counts(db: sqlite3.Connection, counts: Mapping[str, Sequence[int]], before: int) -> None:
    for name, values in counts.items():
        counter = counter_id(db, name)
        rows = [(counter, seq, count) for seq, count in enumerate(values, before + 1)]
        db.executemany("INSERT INTO count VALUES (?, ?, ?)", rows)


def _duplicate(db: sqlite3.Connection, ns: int, before: int, entries: Sequence[Entry]) -> BadInput:
    # Some rows of this call may be in the table already: those stored earlier have numbers up to `before`.
    known = "SELECT 1 FROM entry WHERE ns = ? AND id = ? AND seq <= ?"
    stored = (e.id for e in entries if db.execute(known, (ns, e.id, before)).fetchone())
    return duplicate(next(stored, entries[-1].id))
