"""Reads paths. A path is a few ranges of segments, and a segment is a stretch without a fork.

The chain of segments from the root to a segment never changes. It is loaded once, with one recursive query, and cached.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

import msgspec
from msgspec import Struct

from tenfold.core.record.block import Block, BlockPart, KeptOriginal
from tenfold.core.record.entry import Entry, Usage
from tenfold.core.view.fold import Snapshot
from tenfold.errors import NotFoundError, RecordError, StoreError
from tenfold.store.base import HeadState, SessionInfo
from tenfold.store.sql.database import Connection
from tenfold.store.unreadable import SALVAGE_ADVICE, build_stand_in, read_entry

_CACHE_LIMIT = 256
_SELECT_CHAIN = (
    "WITH RECURSIVE up (id, parent, start) AS (SELECT id, parent, start FROM seg WHERE id = ? UNION"
    " SELECT s.id, s.parent, s.start FROM seg s JOIN up ON s.id = up.parent) SELECT id, CAST(start AS BIGINT) FROM up"
)
# Damage can turn a blob into another type. The cast makes it one again, and then its hash is found wrong.
BODY = "blob(e.body)"
"""The body of the entry `e` in a query, as it is stored: see `compressed_bodies`."""
_SELECT_RANGE = (
    f"SELECT e.pos, {BODY}, e.id, e.kind FROM entry e"  # noqa: S608 - constants
    " WHERE e.seg = ? AND e.pos BETWEEN ? AND ? ORDER BY e.pos"
)
_SELECT_POSITIONS = (
    f"SELECT e.pos, {BODY}, e.id, e.kind FROM entry e"  # noqa: S608 - constants
    " WHERE e.seg = ? AND e.pos IN list(?)"
)
_SELECT_SNAPSHOT = "SELECT pos, blob(body) FROM manifest WHERE seg = ? AND pos <= ? ORDER BY pos DESC"
_MOST_MISSING = 1_000
"""Missing entries of a range that are replaced one by one. If there are more, the range itself is damaged."""
_info_decoder = msgspec.msgpack.Decoder(SessionInfo)
_snapshot_decoder = msgspec.msgpack.Decoder(Snapshot)
_usage_decoder = msgspec.msgpack.Decoder(Usage)
_encoder = msgspec.msgpack.Encoder()


Entries = dict[int, Entry]
"""Entries by their positions."""


class EntryRow(Struct, frozen=True):
    """Where an entry is stored: its row number, id, segment and position."""

    seq: int
    id: str
    segment: int
    position: int


class SegmentChain(Struct, frozen=True):
    """The segments from the root to one segment, and the position at which each begins."""

    segments: tuple[int, ...]
    starts: tuple[int, ...]

    def find_segment(self, position: int) -> int:
        """Returns the segment that holds `position` on this path."""
        return self.segments[bisect_right(self.starts, position) - 1]

    def split_range(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Yields (segment, first, last) for the positions `first` to `last`, starting nearest to the root."""
        index = bisect_right(self.starts, first) - 1
        while index < len(self.segments) and self.starts[index] <= last:
            end = self.starts[index + 1] - 1 if index + 1 < len(self.segments) else last
            yield self.segments[index], max(first, self.starts[index]), min(last, end)
            index += 1


class ChainCache:
    """A cache of chains of segments."""

    def __init__(self) -> None:
        self._chains: dict[int, SegmentChain] = {}

    def get_chain(self, db: Connection, seg: int) -> SegmentChain:
        """Returns the chain that ends in `seg`."""
        chain = self._chains.get(seg)
        if chain is None:
            rows = db.execute(_SELECT_CHAIN, (seg,)).fetchall()
            rows.reverse()
            chain = SegmentChain(tuple(r[0] for r in rows), tuple(r[1] for r in rows))
            if not _is_sound(chain):
                raise StoreError(
                    f"the segments of a path are damaged, so it cannot be followed to its beginning; {SALVAGE_ADVICE}"
                )
            if len(self._chains) >= _CACHE_LIMIT:
                self._chains.clear()
            self._chains[seg] = chain
        return chain


def _is_sound(chain: SegmentChain) -> bool:
    """Tells whether a chain leads to the root, and each segment begins after the one before."""
    return chain.starts[:1] == (0,) and all(a < b for a, b in pairwise(chain.starts))


def build_unknown_session_error(namespace: str, session: str) -> NotFoundError:
    """Builds the error for a session that is not in the store."""
    return NotFoundError(f"no session {session} in namespace {namespace}: `tenfold sessions` lists those there are")


def find_session_id(db: Connection, namespace: str, session: str) -> int:
    """Returns the row id of a session. Raises `NotFoundError`."""
    row = db.execute(
        "SELECT s.id FROM session s JOIN namespace n ON n.id = s.ns WHERE n.name = ? AND s.name = ?",
        (namespace, session),
    ).fetchone()
    if row is None:
        raise build_unknown_session_error(namespace, session)
    return int(row[0])


def find_entry_row(db: Connection, session: int, entry: str) -> EntryRow:
    """Finds where the entry with this id is stored in this session. Raises `NotFoundError`."""
    row = db.execute(
        "SELECT seq, id, seg, pos FROM entry WHERE ns = (SELECT ns FROM session WHERE id = :session) AND id = :entry"
        " AND session = :session",
        {"session": session, "entry": entry},
    ).fetchone()
    if row is None:
        raise NotFoundError(f"no entry {entry} in this session: `tenfold show` lists its entries")
    return EntryRow(*row)


def read_head(db: Connection, chains: ChainCache, session: int, head: str, after: str | None = None) -> HeadState:
    """Reads the leaf of a head, the newest snapshot on its path, and the entries that follow the snapshot.

    If the entry `after` is on the path, it reads only the entries that follow that one, and no snapshot.
    """
    row = db.execute(
        "SELECT s.purges, h.pending, CAST(h.overhead AS BIGINT), e.seq, e.id, e.seg, e.pos FROM session s"
        " LEFT JOIN head h ON h.session = s.id AND h.name = ? LEFT JOIN entry e ON e.seq = h.leaf WHERE s.id = ?",
        (head, session),
    ).fetchone()
    purges, pending, overhead = row[:3]
    if row[3] is None:
        return HeadState(None, 0, None, (), purges=purges)
    leaf = EntryRow(*row[3:])
    chain = chains.get_chain(db, leaf.segment)
    known = _find_position(db, chain, session, after) if after is not None else None
    snapshot, snapshot_entries = _find_snapshot(db, chain, leaf) if known is None else (None, {})
    first = known + 1 if known is not None else snapshot.length if snapshot is not None else 0
    entries = read_range(db, chain, first, leaf.position) if first <= leaf.position else []
    usage = decode_usage(pending)
    return HeadState(leaf.id, leaf.position + 1, snapshot, tuple(entries), snapshot_entries, purges, usage, overhead)


def decode_usage(body: object) -> Usage | None:
    """Decodes a usage report that waits for its answer. A damaged one is dropped: the next one teaches the same."""
    try:
        return _usage_decoder.decode(body) if isinstance(body, bytes) else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def write_request(db: Connection, session: int, head: str, usage: Usage | None, overhead: int | None) -> None:
    """Writes what is known of a head's last request."""
    pending = _encoder.encode(usage) if usage is not None else None
    db.execute(
        "UPDATE head SET pending = ?, overhead = ? WHERE session = ? AND name = ?", (pending, overhead, session, head)
    )


def _find_position(db: Connection, chain: SegmentChain, session: int, entry: str) -> int | None:
    """Finds the position of an entry on the path along `chain`, None if it is not on it."""
    try:
        row = find_entry_row(db, session, entry)
    except NotFoundError:
        return None
    return row.position if row.segment in chain.segments and chain.find_segment(row.position) == row.segment else None


def _find_snapshot(db: Connection, chain: SegmentChain, leaf: EntryRow) -> tuple[Snapshot | None, Entries]:
    """Finds the newest snapshot on the path that is undamaged, with the entries that it refers to."""
    for seg, _, last in reversed(list(chain.split_range(0, leaf.position))):
        for position, body in db.execute(_SELECT_SNAPSHOT, (seg, last)):
            try:
                snapshot = decode_snapshot(body)
            except RecordError:
                continue
            if snapshot.length == position + 1 and _is_gapless(snapshot):
                entries = _read_snapshot_entries(db, chain, snapshot)
                if entries is not None:
                    return snapshot, entries
    return None, {}


def _is_gapless(snapshot: Snapshot) -> bool:
    """Tells whether a snapshot's ranges follow each other from the first entry to the last, and its marks lie there."""
    following = 0
    for ref in snapshot.range_refs:
        if ref.first != following or ref.last < ref.first:
            return False
        following = ref.last + 1
    marks = (*snapshot.live_blocks, *snapshot.pins, *snapshot.rule_settings)
    return following == snapshot.length and all(0 <= mark < snapshot.length for mark in marks)


def read_range(db: Connection, chain: SegmentChain, first: int, last: int) -> list[Entry]:
    """Reads the entries at positions `first` to `last` of the path along `chain`.

    What is missing or cannot be read is replaced by what `build_stand_in` gives.
    """
    rows = [
        row for seg, low, high in chain.split_range(first, last) for row in db.execute(_SELECT_RANGE, (seg, low, high))
    ]
    found: Entries = {position: read_entry(body, id_, kind) for position, body, id_, kind in rows}
    missing = last - first + 1 - len(found)
    if missing > _MOST_MISSING or not found:
        raise StoreError(f"{missing:,} of the entries at positions {first}..{last} are missing; {SALVAGE_ADVICE}")
    if missing:
        _replace_missing(found, first, last)
    return [found[position] for position in range(first, last + 1)]


def _replace_missing(found: Entries, first: int, last: int) -> None:
    """Replaces missing entries. An entry's id is known from the entry after it, if that can be read."""
    for position in range(last, first - 1, -1):
        if position not in found:
            child = found.get(position + 1)
            id_ = child.parent if child is not None and child.parent is not None else f"missing-{position}"
            found[position] = build_stand_in(id_, None)


def _read_snapshot_entries(db: Connection, chain: SegmentChain, snapshot: Snapshot) -> Entries | None:
    """Reads the entries that a snapshot refers to: what it names, and the originals that its Blocks show again.

    Returns None if one of the Blocks cannot be read, since the snapshot is of no use then.
    """
    positions: set[int] = set()
    for ref in snapshot.range_refs:
        positions.update((ref.block,) if isinstance(ref, BlockPart) else range(ref.first, ref.last + 1))
    entries = _read_positions(db, chain, positions)
    repeated: set[int] = set()
    for ref in snapshot.range_refs:
        if isinstance(ref, BlockPart):
            block = entries.get(ref.block)
            if not isinstance(block, Block) or ref.index >= len(block.replacements):
                return None
            shown = block.replacements[ref.index].shown_items
            repeated.update(item.position for item in shown if isinstance(item, KeptOriginal))
    if any(not 0 <= position < snapshot.length for position in repeated):
        return None
    return {**entries, **_read_positions(db, chain, repeated - positions)}


def _read_positions(db: Connection, chain: SegmentChain, positions: set[int]) -> Entries:
    by_seg: dict[int, list[int]] = {}
    for position in sorted(positions):
        by_seg.setdefault(chain.find_segment(position), []).append(position)
    out: Entries = {}
    for seg, wanted in by_seg.items():
        rows = db.execute(_SELECT_POSITIONS, (seg, db.bind_list(wanted)))
        out.update((position, read_entry(body, id_, kind)) for position, body, id_, kind in rows)
    for position in positions - out.keys():
        out[position] = build_stand_in(f"missing-{position}", None)
    return out


def list_other_branches(db: Connection, chains: ChainCache, session: int, leaf: EntryRow) -> frozenset[str]:
    """Returns the ids of a session's entries that are not on the path that ends in `leaf`."""
    lasts = {seg: last for seg, _, last in chains.get_chain(db, leaf.segment).split_range(0, leaf.position)}
    segments = db.execute("SELECT id FROM seg WHERE session = ?", (session,)).fetchall()
    query = "SELECT id FROM entry WHERE seg = ? AND pos > ?"
    return frozenset(id_ for (seg,) in segments for (id_,) in db.execute(query, (seg, lasts.get(seg, -1))))


def check_range(leaf: EntryRow, first: int, last: int) -> None:
    """Raises `NotFoundError` unless `first` to `last` are positions on the path that ends in `leaf`."""
    if first < 0 or last > leaf.position or first > last:
        raise NotFoundError(f"positions {first}..{last} are not on a path of {leaf.position + 1} entries")


def encode_info(info: SessionInfo) -> bytes:
    """Encodes a session's information as it is stored."""
    return _encoder.encode(info)


def decode_info(body: bytes) -> SessionInfo:
    """Decodes a session's information. Raises `RecordError` if the bytes are damaged."""
    try:
        return _info_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise RecordError(f"a stored session record does not validate: {exc}; {SALVAGE_ADVICE}") from exc


def read_info(name: str, body: bytes) -> SessionInfo:
    """Decodes the information of the session `name`. If it is damaged, only the name is known."""
    try:
        info = decode_info(body)
    except RecordError:
        return SessionInfo(name)
    return info if info.id == name else msgspec.structs.replace(info, id=name)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Encodes a snapshot as it is stored."""
    return _encoder.encode(snapshot)


def decode_snapshot(body: bytes) -> Snapshot:
    """Decodes a snapshot. Raises `RecordError` if the bytes are damaged."""
    try:
        return _snapshot_decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise RecordError(f"a stored snapshot does not validate: {exc}") from exc
