"""Appends entries: finds each entry's place in the tree of segments and writes them in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from tenfold.core.record.block import Block
from tenfold.core.record.codec import compute_chain_hash, encode_entry
from tenfold.core.record.entry import Entry, MessageEntry, get_kind
from tenfold.core.view.fold import Snapshot
from tenfold.errors import BadInput, LostRace, NotFoundError, UsageError
from tenfold.store.compressed_bodies import compress_body
from tenfold.store.sql.database import Connection
from tenfold.store.sql.paths import build_unknown_session_error, decode_usage, encode_snapshot

_SELECT_HEAD = (
    "SELECT s.ns, s.id, (SELECT id FROM counter WHERE name = :counter),"
    " e.id, e.seg, e.pos, e.hash, (SELECT l.pos FROM entry l WHERE l.seg = e.seg ORDER BY l.pos DESC LIMIT 1),"
    " s.purges, h.pending"
    " FROM namespace n JOIN session s ON s.ns = n.id AND s.name = :session"
    " LEFT JOIN head h ON h.session = s.id AND h.name = :head LEFT JOIN entry e ON e.seq = h.leaf"
    " WHERE n.name = :namespace"
)
_SELECT_LAST = "SELECT pos FROM entry WHERE seg = ? ORDER BY pos DESC LIMIT 1"
_INSERT_ENTRY = (
    "INSERT INTO entry (ns, session, seg, pos, kind, id, source, hash, seq, counter, n, body)"
    " VALUES (?, ?, ?, ?, ?, ?, '', ?, ?, ?, ?, ?)"
)
_ADD_COUNTER = (
    "INSERT INTO counter (name) VALUES (?) ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id"
)
_MOVE_HEAD = (
    "INSERT INTO head (session, name, leaf, entries, blocks, first, last) VALUES (?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (session, name) DO UPDATE SET"
    " leaf = excluded.leaf, entries = head.entries + excluded.entries, blocks = head.blocks + excluded.blocks,"
    " first = CASE WHEN excluded.first < head.first OR head.first IS NULL THEN excluded.first ELSE head.first END,"
    " last = CASE WHEN excluded.last > head.last OR head.last IS NULL THEN excluded.last ELSE head.last END"
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
    knows_usage: bool


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
    knows_usage: bool,
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
    return AppendRequest(entries, bodies, stored, expected, head, snapshot, counts or {}, purges, knows_usage)


def append_entries(db: Connection, namespace: str, session: str, request: AppendRequest) -> None:
    """Writes the entries. The caller's transaction makes this atomic."""
    db.lock_session(namespace, session)
    first, *others = request.counts or ("",)
    names = {"namespace": namespace, "session": session, "head": request.head, "counter": first}
    found = db.execute(_SELECT_HEAD, names)
    seqs = db.allocate_rows(len(request.entries))
    row = found.fetchone()
    if row is None:
        raise build_unknown_session_error(namespace, session)
    ns, sid, counter, leaf, seg, pos, digest, last_position, purges, pending = row
    if leaf != request.expected and leaf == request.entries[-1].id:
        return  # this call did it before, and lost its connection before it heard of it
    _check_race(session, request, leaf, purges, pending)
    if counter is None and first:
        counter = _get_counter_id(db, first)
    state = _AppendState(ns, sid, counter, [], {}, {})
    if leaf is not None:
        state.positions[leaf] = _TreePosition(seg, pos, digest)
        state.last_positions[seg] = last_position
    counts = request.counts[first] if first else [None] * len(request.entries)
    for entry, body, seq, count in zip(request.entries, request.bodies, seqs, counts, strict=True):
        _place_entry(db, state, entry, body, seq, count)
    last = state.positions[request.entries[-1].id]
    db.executemany(_INSERT_ENTRY, [(*r, body) for r, body in zip(state.rows, request.stored_bodies, strict=True)])
    for name in others:
        number = _get_counter_id(db, name)
        rows = [(number, seq, count) for seq, count in zip(seqs, request.counts[name], strict=True)]
        db.executemany("INSERT INTO count (counter, seq, n) VALUES (?, ?, ?)", rows)
    leaf_seq = seqs[-1]
    if request.snapshot is not None:
        if request.snapshot.length != last.position + 1:
            raise UsageError(
                f"the snapshot folds {request.snapshot.length} entries, but the last entry appended is number "
                f"{last.position + 1} on its path: take the snapshot of the view that includes it"
            )
        db.execute(
            "INSERT INTO manifest (seq, seg, pos, body) VALUES (?, ?, ?, ?)",
            (leaf_seq, last.segment, last.position, encode_snapshot(request.snapshot)),
        )
    times = [e.time for e in request.entries if e.time is not None]
    blocks = sum(isinstance(e, Block) for e in request.entries)
    stats = (len(request.entries), blocks, min(times, default=None), max(times, default=None))
    db.execute(_MOVE_HEAD, (sid, request.head, leaf_seq, *stats))
    if leaf is not None and (request.entries[0].parent != leaf or any(map(_is_answer, request.entries))):
        db.execute("UPDATE head SET pending = NULL WHERE session = ? AND name = ?", (sid, request.head))


def _check_race(session: str, request: AppendRequest, leaf: str | None, purges: int, pending: bytes | None) -> None:
    """Raises `LostRace` if others have changed what the caller counts on."""
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
    if not request.knows_usage and decode_usage(pending) is not None:
        raise LostRace(
            f"a report of usage is kept at head {request.head} for this answer: nothing was written: open the session "
            "again and append the report with it"
        )


def _is_answer(entry: Entry) -> bool:
    """Tells whether an entry is what the last request was made for."""
    return isinstance(entry, MessageEntry) and entry.message.role == "assistant"


def _get_counter_id(db: Connection, name: str) -> int:
    row = db.execute("SELECT id FROM counter WHERE name = ?", (name,)).fetchone()
    if row is None:
        # Another process may name the same counter at this moment: then its row is the one.
        query = (
            "INSERT INTO counter (name) VALUES (?) ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id"
        )
        row = db.execute(query, (name,)).fetchone()
    return int(row[0])


def _place_entry(db: Connection, state: _AppendState, entry: Entry, body: bytes, seq: int, count: int | None) -> None:
    if entry.id in state.positions:
        raise _build_duplicate_error(entry.id)
    if entry.parent is None:
        seg, pos, before = _create_segment(db, state.session_id, None, 0), 0, b""
    else:
        parent = state.positions.get(entry.parent) or _find_parent(db, state, entry)
        last_position = state.last_positions.get(parent.segment)
        if last_position is None:
            (last_position,) = db.execute(_SELECT_LAST, (parent.segment,)).fetchone()
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


def _find_parent(db: Connection, state: _AppendState, entry: Entry) -> _TreePosition:
    row = db.execute(
        "SELECT seg, pos, hash FROM entry WHERE ns = ? AND id = ? AND session = ?",
        (state.namespace_id, entry.parent, state.session_id),
    ).fetchone()
    if row is None:
        raise NotFoundError(
            f"entry {entry.id} names the parent {entry.parent}, which is not in this session: append parents first"
        )
    return _TreePosition(*row)


def _create_segment(db: Connection, session: int, parent: int | None, start: int) -> int:
    row = db.execute(
        "INSERT INTO seg (session, parent, start) VALUES (?, ?, ?) RETURNING id", (session, parent, start)
    ).fetchone()
    return int(row[0])


def build_stored_twice_error(db: Connection, namespace: str, entries: Sequence[Entry]) -> BadInput:
    """Builds the error for entries one of which was stored already, after the transaction was rolled back."""
    query = "SELECT 1 FROM entry e JOIN namespace n ON n.id = e.ns WHERE n.name = ? AND e.id = ?"
    duplicates = (e.id for e in entries if db.execute(query, (namespace, e.id)).fetchone())
    return _build_duplicate_error(next(duplicates, entries[-1].id))


def _build_duplicate_error(entry: str) -> BadInput:
    return BadInput(f"entry {entry} is stored already: nothing was written; give each entry an id of its own")
