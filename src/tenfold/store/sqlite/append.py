"""Appends entries to SQLite: finds each entry's place in the tree of segments and writes them in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from tenfold.core.record.block import Block
from tenfold.core.record.codec import compute_chain_hash, encode_entry
from tenfold.core.record.entry import Entry, MessageEntry, get_kind
from tenfold.core.view.fold import Snapshot
from tenfold.errors import BadInput, LostRace, NotFoundError, UsageError
from tenfold.store.sqlite.compressed_bodies import compress_body
from tenfold.store.sqlite.paths import build_unknown_session_error, encode_snapshot

_SELECT_HEAD = (
    "SELECT s.ns, s.id, (SELECT ifnull(max(seq), 0) FROM entry), (SELECT id FROM counter WHERE name = :counter),"
    " e.id, e.seg, e.pos, e.hash, (SELECT max(pos) FROM entry WHERE seg = e.seg), s.purges"
    " FROM namespace n JOIN session s ON s.ns = n.id AND s.name = :session"
    " LEFT JOIN head h ON h.session = s.id AND h.name = :head LEFT JOIN entry e ON e.seq = h.leaf"
    " WHERE n.name = :namespace"
)
_INSERT_ENTRY = (
    "INSERT INTO entry (ns, session, seg, pos, kind, id, source, hash, seq, counter, n, body)"
    " VALUES (?, ?, ?, ?, ?, ?, '', ?, ?, ?, ?, ?)"
)
_MOVE_HEAD = (
    "INSERT INTO head (session, name, leaf, entries, blocks, first, last) VALUES (?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT DO UPDATE SET"
    " leaf = excluded.leaf, entries = entries + excluded.entries, blocks = blocks + excluded.blocks,"
    " first = min(ifnull(first, excluded.first), ifnull(excluded.first, first)),"
    " last = max(ifnull(last, excluded.last), ifnull(excluded.last, last))"
)


class AppendRequest(Struct, frozen=True):
    """What one call appends. `bodies` are the entries' canonical bytes, `stored_bodies` the same as they are stored.

    Both are made before any lock is taken.
    """

    entries: Sequence[Entry]
    bodies: list[bytes]
    stored_bodies: list[bytes]
    expected: str | None
    head: str
    snapshot: Snapshot | None
    counts: Mapping[str, Sequence[int]]
    purges: int | None


class _TreePosition(NamedTuple):
    segment: int
    position: int
    hash: bytes


class _AppendState(Struct):
    """The state of one append: the rows so far without bodies, where each entry is, the last position per segment."""

    namespace_id: int
    session_id: int
    counter_id: int | None
    rows: list[tuple[object, ...]]
    positions: dict[str, _TreePosition]
    last_positions: dict[int, int]


def build_request(  # noqa: PLR0913  one append is one transaction, and these are its parts
    entries: Sequence[Entry],
    *,
    expected: str | None,
    head: str,
    snapshot: Snapshot | None,
    counts: Mapping[str, Sequence[int]] | None,
    purges: int | None,
    compress: bool,
) -> AppendRequest:
    """Checks and encodes the arguments of an append. `compress` says that the entries go into a file.

    Raises `UsageError` if there are no entries, or if a counter does not give exactly one count per entry.
    """
    if not entries:
        raise UsageError("append needs at least one entry")
    for counter, values in (counts or {}).items():
        if len(values) != len(entries):
            raise UsageError(f"{len(values)} counts by {counter} for {len(entries)} entries: give one count per entry")
    bodies = [encode_entry(e) for e in entries]
    stored = [compress_body(body) for body in bodies] if compress else bodies
    return AppendRequest(entries, bodies, stored, expected, head, snapshot, counts or {}, purges)


def append_entries(db: sqlite3.Connection, namespace: str, session: str, request: AppendRequest) -> None:
    """Writes the entries. The caller's transaction makes this atomic."""
    first, *others = request.counts or ("",)
    names = {"namespace": namespace, "session": session, "head": request.head, "counter": first}
    row = db.execute(_SELECT_HEAD, names).fetchone()
    if row is None:
        raise build_unknown_session_error(namespace, session)
    ns, sid, seq, counter, leaf, seg, pos, digest, last_position, purges = row
    if leaf != request.expected:
        raise LostRace(
            f"head {request.head} is at {leaf or 'no entry'}, not at {request.expected or 'no entry'}: another writer "
            "moved it; nothing was written: open the session again and retry"
        )
    if request.purges not in (None, purges):
        raise LostRace(
            f"session {session} has had {purges} purges, {request.purges} when this was made: it may quote what was "
            "purged since; nothing was written: open the session again and make it anew"
        )
    if counter is None and first:
        counter = _get_counter_id(db, first)
    state = _AppendState(ns, sid, counter, [], {}, {})
    if leaf is not None:
        state.positions[leaf] = _TreePosition(seg, pos, digest)
        state.last_positions[seg] = last_position
    counts = request.counts[first] if first else [None] * len(request.entries)
    for entry, body, count in zip(request.entries, request.bodies, counts, strict=True):
        _place_entry(db, state, entry, body, seq + len(state.rows) + 1, count)
    last = state.positions[request.entries[-1].id]
    try:
        db.executemany(_INSERT_ENTRY, [(*r, body) for r, body in zip(state.rows, request.stored_bodies, strict=True)])
    except sqlite3.IntegrityError as exc:
        raise _find_duplicate(db, ns, seq, request.entries) from exc
    for name in others:
        number = _get_counter_id(db, name)
        rows = [(number, at, count) for at, count in enumerate(request.counts[name], seq + 1)]
        db.executemany("INSERT INTO count VALUES (?, ?, ?)", rows)
    leaf_seq = seq + len(state.rows)
    if request.snapshot is not None:
        if request.snapshot.length != last.position + 1:
            raise UsageError(
                f"the snapshot folds {request.snapshot.length} entries, but the last entry appended is number "
                f"{last.position + 1} on its path: take the snapshot of the view that includes it"
            )
        db.execute(
            "INSERT INTO manifest VALUES (?, ?, ?, ?)",
            (leaf_seq, last.segment, last.position, encode_snapshot(request.snapshot)),
        )
    times = [e.time for e in request.entries if e.time is not None]
    blocks = sum(isinstance(e, Block) for e in request.entries)
    stats = (len(request.entries), blocks, min(times, default=None), max(times, default=None))
    db.execute(_MOVE_HEAD, (sid, request.head, leaf_seq, *stats))
    if leaf is not None and (request.entries[0].parent != leaf or any(map(_is_answer, request.entries))):
        db.execute("UPDATE head SET pending = NULL WHERE session = ? AND name = ?", (sid, request.head))


def _is_answer(entry: Entry) -> bool:
    """Tells whether an entry is what the last request was made for."""
    return isinstance(entry, MessageEntry) and entry.message.role == "assistant"


def _get_counter_id(db: sqlite3.Connection, name: str) -> int:
    row = db.execute("SELECT id FROM counter WHERE name = ?", (name,)).fetchone()
    if row is None:
        return int(db.execute("INSERT INTO counter (name) VALUES (?) RETURNING id", (name,)).fetchone()[0])
    return int(row[0])


def _place_entry(
    db: sqlite3.Connection, state: _AppendState, entry: Entry, body: bytes, seq: int, count: int | None
) -> None:
    if entry.id in state.positions:
        raise _build_duplicate_error(entry.id)
    if entry.parent is None:
        seg, pos, before = _create_segment(db, state.session_id, None, 0), 0, b""
    else:
        parent = state.positions.get(entry.parent) or _find_parent(db, state, entry)
        last_position = state.last_positions.get(parent.segment)
        if last_position is None:
            last_position = db.execute("SELECT max(pos) FROM entry WHERE seg = ?", (parent.segment,)).fetchone()[0]
        pos, before = parent.position + 1, parent.hash
        seg = (
            parent.segment
            if last_position == parent.position
            else _create_segment(db, state.session_id, parent.segment, pos)
        )
        if seg != parent.segment:
            state.last_positions[parent.segment] = last_position
    digest = compute_chain_hash(before, entry, body)
    state.last_positions[seg] = pos
    state.positions[entry.id] = _TreePosition(seg, pos, digest)
    place = (state.namespace_id, state.session_id, seg, pos)
    state.rows.append((*place, get_kind(entry), entry.id, digest, seq, state.counter_id, count))


def _find_parent(db: sqlite3.Connection, state: _AppendState, entry: Entry) -> _TreePosition:
    row = db.execute(
        "SELECT seg, pos, hash FROM entry WHERE ns = ? AND id = ? AND session = ?",
        (state.namespace_id, entry.parent, state.session_id),
    ).fetchone()
    if row is None:
        raise NotFoundError(
            f"entry {entry.id} names the parent {entry.parent}, which is not in this session: append parents first"
        )
    return _TreePosition(*row)


def _create_segment(db: sqlite3.Connection, session: int, parent: int | None, start: int) -> int:
    row = db.execute(
        "INSERT INTO seg (session, parent, start) VALUES (?, ?, ?) RETURNING id", (session, parent, start)
    ).fetchone()
    return int(row[0])


def _find_duplicate(db: sqlite3.Connection, ns: int, last_seq: int, entries: Sequence[Entry]) -> BadInput:
    # Some rows of this call may already be in the table. Rows that were there before it have numbers up to `before`.
    query = "SELECT 1 FROM entry WHERE ns = ? AND id = ? AND seq <= ?"
    duplicates = (e.id for e in entries if db.execute(query, (ns, e.id, last_seq)).fetchone())
    return _build_duplicate_error(next(duplicates, entries[-1].id))


def _build_duplicate_error(entry: str) -> BadInput:
    return BadInput(f"entry {entry} is stored already: nothing was written; give each entry an id of its own")
