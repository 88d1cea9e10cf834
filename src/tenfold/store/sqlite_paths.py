"""Reads paths from SQLite. A path is a few ranges of segments, and a segment is a stretch without a fork.

The chain of segments from the root to a segment never changes. It is loaded once, with one recursive query, and cached.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_right
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from tenfold.errors import NotFoundError, RecordError, StoreError
from tenfold.record.block import Block, BlockPart, KeptOriginal
from tenfold.record.codec import decode_entry
from tenfold.record.entry import Entry
from tenfold.store.base import HeadState, SessionInfo
from tenfold.view.fold import Snapshot

_CACHE_LIMIT = 256
_SELECT_CHAIN = (
    "WITH RECURSIVE up (id, parent, start) AS (SELECT id, parent, start FROM seg WHERE id = ? UNION ALL"
    " SELECT s.id, s.parent, s.start FROM seg s JOIN up ON s.id = up.parent) SELECT id, start FROM up"
)
_SELECT_POSITIONS = "SELECT e.pos, e.body FROM json_each(?) j CROSS JOIN entry e WHERE e.seg = ? AND e.pos = j.value"
_info_decoder = msgspec.msgpack.Decoder(SessionInfo)
_snapshot_decoder = msgspec.msgpack.Decoder(Snapshot)
_encoder = msgspec.msgpack.Encoder()


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

    def get_chain(self, db: sqlite3.Connection, seg: int) -> SegmentChain:
        """Returns the chain that ends in `seg`."""
        chain = self._chains.get(seg)
        if chain is None:
            rows = db.execute(_SELECT_CHAIN, (seg,)).fetchall()
            rows.reverse()
            chain = SegmentChain(tuple(r[0] for r in rows), tuple(r[1] for r in rows))
            if len(self._chains) >= _CACHE_LIMIT:
                self._chains.clear()
            self._chains[seg] = chain
        return chain


def build_unknown_session_error(namespace: str, session: str) -> NotFoundError:
    """Builds the error for a session that is not in the store."""
    return NotFoundError(f"no session {session} in namespace {namespace}: `tenfold sessions` lists those there are")


def find_session_id(db: sqlite3.Connection, namespace: str, session: str) -> int:
    """Returns the row id of a session. Raises `NotFoundError`."""
    row = db.execute(
        "SELECT s.id FROM session s JOIN namespace n ON n.id = s.ns WHERE n.name = ? AND s.name = ?",
        (namespace, session),
    ).fetchone()
    if row is None:
        raise build_unknown_session_error(namespace, session)
    return int(row[0])


def find_entry_row(db: sqlite3.Connection, session: int, entry: str) -> EntryRow:
    """Finds where the entry with this id is stored in this session. Raises `NotFoundError`."""
    row = db.execute(
        "SELECT seq, id, seg, pos FROM entry WHERE ns = (SELECT ns FROM session WHERE id = ?1) AND id = ?2"
        " AND session = ?1",
        (session, entry),
    ).fetchone()
    if row is None:
        raise NotFoundError(f"no entry {entry} in this session: `tenfold show` lists its entries")
    return EntryRow(*row)


def read_head(db: sqlite3.Connection, chains: ChainCache, session: int, head: str) -> HeadState:
    """Reads the leaf of a head, the newest snapshot on its path, and the entries that follow the snapshot."""
    row = db.execute(
        "SELECT s.purges, e.seq, e.id, e.seg, e.pos FROM head h JOIN entry e ON e.seq = h.leaf"
        " JOIN session s ON s.id = h.session WHERE h.session = ? AND h.name = ?",
        (session, head),
    ).fetchone()
    if row is None:
        return HeadState(None, 0, None, ())
    purges, leaf = row[0], EntryRow(*row[1:])
    chain = chains.get_chain(db, leaf.segment)
    after, snapshot = 0, None
    for seg, _, last in reversed(list(chain.split_range(0, leaf.position))):
        snapshot_row = db.execute(
            "SELECT pos, body FROM manifest WHERE seg = ? AND pos <= ? ORDER BY pos DESC LIMIT 1", (seg, last)
        ).fetchone()
        if snapshot_row is not None:
            after, snapshot = snapshot_row[0] + 1, decode_snapshot(snapshot_row[1])
            break
    entries = read_range(db, chain, after, leaf.position) if after <= leaf.position else []
    snapshot_entries = _read_snapshot_entries(db, chain, snapshot) if snapshot else {}
    return HeadState(leaf.id, leaf.position + 1, snapshot, tuple(entries), snapshot_entries, purges)


def read_range(db: sqlite3.Connection, chain: SegmentChain, first: int, last: int) -> list[Entry]:
    """Reads the entries at positions `first` to `last` of the path along `chain`."""
    out: list[Entry] = []
    for seg, low, high in chain.split_range(first, last):
        rows = db.execute("SELECT body FROM entry WHERE seg = ? AND pos BETWEEN ? AND ? ORDER BY pos", (seg, low, high))
        out.extend([decode_entry(row[0]) for row in rows])
    if len(out) != last - first + 1:
        missing = last - first + 1 - len(out)
        raise StoreError(f"{missing} of the entries at positions {first}..{last} are missing: run `tenfold verify`")
    return out


def _read_snapshot_entries(db: sqlite3.Connection, chain: SegmentChain, snapshot: Snapshot) -> dict[int, Entry]:
    """Reads the entries that a snapshot refers to: what it names, and the originals that its Blocks show again."""
    positions: set[int] = set()
    for ref in snapshot.range_refs:
        positions.update((ref.block,) if isinstance(ref, BlockPart) else range(ref.first, ref.last + 1))
    entries = _read_positions(db, chain, positions)
    repeated: set[int] = set()
    for ref in snapshot.range_refs:
        block = entries.get(ref.block) if isinstance(ref, BlockPart) else None
        if isinstance(block, Block) and isinstance(ref, BlockPart):
            shown = block.replacements[ref.index].shown_items
            repeated.update(item.position for item in shown if isinstance(item, KeptOriginal))
    return {**entries, **_read_positions(db, chain, repeated - positions)}


def _read_positions(db: sqlite3.Connection, chain: SegmentChain, positions: set[int]) -> dict[int, Entry]:
    by_seg: dict[int, list[int]] = {}
    for position in sorted(positions):
        by_seg.setdefault(chain.find_segment(position), []).append(position)
    out: dict[int, Entry] = {}
    for seg, wanted in by_seg.items():
        rows = db.execute(_SELECT_POSITIONS, (json.dumps(wanted), seg))
        out.update((pos, decode_entry(body)) for pos, body in rows)
    return out


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
    except (msgspec.ValidationError, msgspec.DecodeError) as exc:
        raise RecordError(f"a stored session record does not validate: {exc}; run `tenfold verify`") from exc


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Encodes a snapshot as it is stored."""
    return _encoder.encode(snapshot)


def decode_snapshot(body: bytes) -> Snapshot:
    """Decodes a snapshot. Raises `RecordError` if the bytes are damaged."""
    try:
        return _snapshot_decoder.decode(body)
    except (msgspec.ValidationError, msgspec.DecodeError) as exc:
        raise RecordError(f"a stored snapshot does not validate: {exc}; run `tenfold verify`") from exc
