"""Verifies a store: hashes every entry again, compares every snapshot with the fold, and checks the derived tables.

Damage is reported as `Problem`s and never raised, so that one broken row does not hide the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from tenfold.core.meter.estimators import decode_calibration
from tenfold.core.record.block import BlockPart
from tenfold.core.record.codec import compute_chain_hash, decode_entry, hash_body
from tenfold.core.record.entry import Entry, Tombstone, get_kind
from tenfold.core.view.fold import Snapshot, View
from tenfold.core.view.path import Path
from tenfold.errors import RecordError, StoreError
from tenfold.store.base import Problem
from tenfold.store.compressed_bodies import restore_body
from tenfold.store.sql.database import Connection
from tenfold.store.sql.paths import BODY, ChainCache, decode_info, decode_snapshot
from tenfold.store.unreadable import SALVAGE_ADVICE, explain_damage

_REBUILD_ADVICE = "the entries are intact: `tenfold salvage NEW_STORE` makes a store with sound snapshots"
_SELECT_SESSIONS = (
    "SELECT s.id, s.name, (SELECT CAST(coalesce(sum(entries), 0) AS BIGINT) FROM head WHERE session = s.id),"
    " blob(s.info)"
    " FROM session s JOIN namespace n ON n.id = s.ns WHERE n.name = ? ORDER BY s.id"
)
STORED_ROW = f"CAST(e.id AS TEXT), CAST(e.pos AS BIGINT), CAST(e.kind AS TEXT), blob(e.hash), {BODY}, blob(e.rewritten)"
"""The columns of a `StoredRow` in a query. Damage can change the type of a value, and the casts make it right again."""
_SELECT_ROWS = f"SELECT {STORED_ROW} FROM entry e WHERE e.seg = ? ORDER BY e.pos"  # noqa: S608 - a constant
_SELECT_SEGMENTS = (
    "SELECT g.id, CAST(g.start AS BIGINT), g.parent, p.id, blob(p.hash) FROM seg g"
    " LEFT JOIN entry p ON p.seg = g.parent AND p.pos = g.start - 1 WHERE g.session = ? ORDER BY g.id"
)
_SELECT_SNAPSHOTS = (
    "SELECT m.seg, CAST(m.pos AS BIGINT), blob(m.body), e.id FROM seg g"
    " JOIN manifest m ON m.seg = g.id LEFT JOIN entry e ON e.seg = m.seg AND e.pos = m.pos WHERE g.session = ?"
)
_COUNT_ENTRIES = "SELECT count(*) FROM seg g JOIN entry e ON e.seg = g.id WHERE g.session = ?"
_SELECT_LOST_HEADS = (
    "SELECT h.name FROM head h LEFT JOIN entry e ON e.seq = h.leaf AND e.session = h.session"
    " WHERE h.session = ? AND e.seq IS NULL"
)
_COUNT_LOST_ROWS = (
    "SELECT (SELECT count(*) FROM session WHERE ns NOT IN (SELECT id FROM namespace)),"
    " (SELECT count(*) FROM seg WHERE session NOT IN (SELECT id FROM session)),"
    " (SELECT count(*) FROM entry WHERE seg NOT IN (SELECT id FROM seg))"
)
_HASH_LENGTH = 32


class StoredRow(Struct, frozen=True):
    """One stored entry. `rewritten_hashes` is empty unless `purge` replaced the body."""

    id: str
    position: int
    kind: str
    hash: bytes
    body: bytes
    rewritten_hashes: bytes


def build_row(values: Sequence[Any]) -> StoredRow:
    """Builds a row from the values of the columns `STORED_ROW`."""
    id_, position, kind, digest, body, rewritten = values
    return StoredRow(id_, position, kind, digest, restore_body(body), rewritten)


def build_rewritten_hashes(old: bytes, previous: bytes, body: bytes) -> bytes:
    """Builds what is kept beside a body that `purge` replaced: the hashes of the first body and of the present one.

    `previous` is what was kept already, if anything.
    """
    return (previous[:_HASH_LENGTH] or hash_body(old)) + hash_body(body)


def verify_namespace(
    db: Connection,
    chains: ChainCache,
    namespace: str,
    damage: Iterable[Problem] = (),
    report: Callable[[int, int], None] | None = None,
) -> list[Problem]:
    """Returns everything that is wrong with the tables and with the sessions of the namespace.

    `damage` is what the database finds to be wrong with its own structures. `report` is told how many sessions are
    done, and of how many.
    """
    problems: list[Problem] = []
    try:
        problems += damage
        problems += _check_tables(db, namespace)
        sessions = db.execute(_SELECT_SESSIONS, (namespace,)).fetchall()
    except db.Error as exc:
        return [*problems, Problem("", "", f"the store cannot be read further: {exc}; {SALVAGE_ADVICE}")]
    for number, (session, name, appended, info) in enumerate(sessions):
        if report is not None:
            report(number, len(sessions))
        problems += _SessionCheck(db, chains, session, name).run(appended, info)
    return problems


def _check_tables(db: Connection, namespace: str) -> Iterator[Problem]:
    """Checks what belongs to no session: rows that nothing leads to."""
    for count, what in zip(db.execute(_COUNT_LOST_ROWS).fetchone(), ("sessions", "segments", "entries"), strict=True):
        if count:
            yield Problem("", "", f"{count} {what} belong to nothing that is stored; {SALVAGE_ADVICE}")
    names = [str(name) for (name,) in db.execute("SELECT name FROM namespace")]
    if names and namespace not in names:
        advice = f"name one of them with --namespace, or, if {namespace} had sessions, {SALVAGE_ADVICE}"
        yield Problem(
            "", "", f"no session is stored in the namespace {namespace}, only in {', '.join(names)}: {advice}"
        )


class _SessionCheck:
    """The check of one session: the readable entries by segment and position, and the problems found so far."""

    def __init__(self, db: Connection, chains: ChainCache, session: int, name: str) -> None:
        self._db, self._chains, self._session, self._name = db, chains, session, name
        self._entries: dict[tuple[int, int], Entry] = {}
        self._problems: list[Problem] = []

    def run(self, appended: int, info: bytes) -> list[Problem]:
        """Returns the problems. `appended` is the number of entries that were appended."""
        try:
            self._check_entries(appended)
        except self._db.Error as exc:
            self._report("", f"the session cannot be read further: {exc}")
        except StoreError as exc:
            self._report("", str(exc), advice="")
        try:
            if decode_info(info).id != self._name:
                self._report("", f"its stored information is that of session {decode_info(info).id}")
        except RecordError as exc:
            self._report("", str(exc), advice="")
        return self._problems

    def _check_entries(self, appended: int) -> None:
        for seg, start, parent, parent_id, before in self._db.execute(_SELECT_SEGMENTS, (self._session,)).fetchall():
            if parent is not None and parent_id is None:
                self._report("", f"the entry at position {start - 1}, from which a branch starts, is missing")
            else:
                self._check_segment(seg, start, parent_id, before or b"")
        snapshots = self._read_snapshots()
        self._check_totals_and_heads(appended)
        if not self._problems:  # folding damaged entries would only repeat them
            self._check_snapshots(snapshots)

    def _report(self, entry: str, what: str, *, advice: str = SALVAGE_ADVICE) -> None:
        self._problems.append(Problem(self._name, entry, f"{what}; {advice}" if advice else what))

    def _check_segment(self, seg: int, start: int, parent: str | None, before: bytes) -> None:
        """Hashes each row of a segment again, on the stored hash of its parent: one flipped byte is one problem."""
        position = start
        for values in self._db.execute(_SELECT_ROWS, (seg,)):
            row = build_row(values)
            if row.position != position:
                self._report(row.id, f"entries at positions {position}..{row.position - 1} are missing")
            else:
                entry = self._check_row(row, before)
                if entry is not None:
                    self._entries[seg, row.position] = entry
                    if entry.parent != parent:
                        self._report(row.id, f"its parent is {entry.parent}, but it is stored after {parent}")
            parent, before, position = row.id, row.hash, row.position + 1

    def _check_row(self, row: StoredRow, parent_hash: bytes) -> Entry | None:
        try:
            entry = decode_entry(row.body)
        except RecordError:
            self._report(row.id, f"cannot be read: {explain_damage(row.body)}")
            return None
        if not has_valid_hash(row, entry, parent_hash):
            self._report(row.id, "its bytes are not those that were appended")
            return None
        if entry.id != row.id or row.kind != get_kind(entry):
            self._report(row.id, f"it is stored as {row.kind} {row.id}, but its record says otherwise")
            return None
        return entry

    def _read_snapshots(self) -> dict[tuple[int, int], Snapshot]:
        found: dict[tuple[int, int], Snapshot] = {}
        for seg, pos, body, entry in self._db.execute(_SELECT_SNAPSHOTS, (self._session,)):
            try:
                found[seg, pos] = decode_snapshot(body)
                decode_calibration(found[seg, pos].meter_state)
            except RecordError as exc:
                self._report(entry or "", f"its snapshot cannot be read: {exc}")
            if entry is None:
                self._report("", f"the entry under the snapshot at position {pos} is missing")
        return found

    def _check_snapshots(self, snapshots: dict[tuple[int, int], Snapshot]) -> None:
        """Folds the longest path that ends in a snapshot once, for every snapshot on it, until none is left."""
        while snapshots:
            last_seg, leaf = max(snapshots, key=lambda place: (place[1], place[0]))
            places: list[tuple[int, int]] = []
            for seg, first, last in self._chains.get_chain(self._db, last_seg).split_range(0, leaf):
                places += [(seg, position) for position in range(first, last + 1)]
            if not self._entries.keys() >= set(places):
                self._report("", f"the snapshot at position {leaf} is on the path of another session")
                return
            view = View.from_path(Path())
            for place in [each for each in places if each in snapshots]:
                new = [self._entries[each] for each in places[view.length : place[1] + 1]]
                for entry in new:
                    view.path.append(entry)
                view = view.extend(new)
                difference = _describe_difference(snapshots.pop(place), view)
                if difference:
                    what = f"its snapshot is not the fold of the log ({difference})"
                    self._report(self._entries[place].id, what, advice=_REBUILD_ADVICE)

    def _check_totals_and_heads(self, appended: int) -> None:
        """Compares the number of entries and the heads, since nothing else shows that the newest entry is missing."""
        count = int(self._db.execute(_COUNT_ENTRIES, (self._session,)).fetchone()[0])
        if count != appended:
            self._report("", f"{appended} entries were appended, but {count} are stored")
        for (head,) in self._db.execute(_SELECT_LOST_HEADS, (self._session,)):
            self._report("", f"the entry at head {head} is missing")


def has_valid_hash(row: StoredRow, entry: Entry, parent_hash: bytes) -> bool:
    """Tells whether an entry's bytes are those that were appended after an entry with that hash."""
    if not row.rewritten_hashes:
        return compute_chain_hash(parent_hash, entry, row.body) == row.hash
    first, present = row.rewritten_hashes[:_HASH_LENGTH], row.rewritten_hashes[_HASH_LENGTH:]
    kept = not isinstance(entry, Tombstone) or entry.body_hash == first
    return kept and hash_body(row.body) == present and hashlib.sha256(parent_hash + first).digest() == row.hash


def _describe_difference(stored: Snapshot, view: View) -> str:
    """Says how a snapshot differs from the fold, or returns an empty string."""
    folded = view.to_snapshot(stored.meter_state)
    if stored == folded:
        return ""
    if stored.length != folded.length:
        return f"it counts {stored.length} entries, the log {folded.length}"
    if stored.live_blocks != folded.live_blocks:
        return f"live Blocks at {list(stored.live_blocks)}, the log says {list(folded.live_blocks)}"
    if stored.undone != folded.undone:
        return f"it says undone={stored.undone}, the log {folded.undone}"
    if stored.pins != folded.pins:
        return f"pins at {list(stored.pins)}, the log says {list(folded.pins)}"
    has, should = (sum(isinstance(r, BlockPart) for r in s.range_refs) for s in (stored, folded))
    return (
        f"{len(stored.range_refs)} stretches with {has} replaced, the log says {len(folded.range_refs)} with {should}"
    )
