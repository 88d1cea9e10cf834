"""Checks that stored entries are intact: hashes every entry again and compares every snapshot with the fold.

The checks are pure functions of the rows that a store hands in. The stores decide what to read. Damage is reported as
`Problem`s and never raised, so that one broken row does not hide the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from msgspec import Struct

from tenfold.errors import RecordError
from tenfold.record.block import BlockPart
from tenfold.record.codec import compute_chain_hash, decode_entry, hash_body
from tenfold.record.entry import Entry, Tombstone
from tenfold.store.base import Problem
from tenfold.view.fold import Snapshot, View
from tenfold.view.path import Path

RESTORE_ADVICE = "restore the store from a backup, or export what is readable with `tenfold export --original`"
_REBUILD_ADVICE = "the entries are intact: run `tenfold purge` on the session and import its file again"


class StoredRow(Struct, frozen=True):
    """One stored entry as a row. `rewritten_hashes` is empty unless `purge` replaced the body.

    Then it holds the hash of the first body followed by the hash of the present one.
    """

    id: str
    position: int
    kind: str
    hash: bytes
    body: bytes
    rewritten_hashes: bytes = b""


class StoredSegment(Struct, frozen=True):
    """The rows of one segment. They begin at position `start` and follow the entry `parent_id`.

    `parent_hash` is the hash of that entry.
    """

    session: str
    start: int
    parent_id: str | None
    parent_hash: bytes
    rows: Iterable[StoredRow]


class SegmentCheck(Struct):
    """The result of checking a segment: its readable entries by position, and the problems found."""

    entries: dict[int, Entry]
    problems: list[Problem]


def build_rewritten_hashes(old: bytes, previous: bytes, body: bytes) -> bytes:
    """Builds what a store keeps beside a body that `purge` replaced.

    `previous` is what it already kept, if anything.
    """
    return (previous[:32] or hash_body(old)) + hash_body(body)


def check_rows(segment: StoredSegment) -> SegmentCheck:
    """Hashes the rows of a segment again.

    Each row is hashed on the stored hash of its parent, so one flipped byte is one problem.
    """
    result = SegmentCheck({}, [])
    parent, before, position = segment.parent_id, segment.parent_hash, segment.start
    for row in segment.rows:
        if row.position != position:
            what = f"entries at positions {position}..{row.position - 1} are missing; {RESTORE_ADVICE}"
            result.problems.append(Problem(segment.session, row.id, what))
            parent = None
        else:
            entry = _check_row(segment.session, row, before, result.problems)
            if entry is not None:
                result.entries[row.position] = entry
                if entry.parent != parent:
                    what = f"its parent is {entry.parent}, but it is stored after {parent}; {RESTORE_ADVICE}"
                    result.problems.append(Problem(segment.session, row.id, what))
        parent, before, position = row.id, row.hash, row.position + 1
    return result


def check_snapshots(session: str, entries: list[Entry], snapshots: Mapping[int, Snapshot]) -> list[Problem]:
    """Folds the path once from the root and compares each snapshot with the fold.

    `snapshots` are given by the position they are stored under.
    """
    problems: list[Problem] = []
    path = Path()
    view = View.from_path(path)
    for position in sorted(snapshots):
        view = _extend_view(view, entries[view.length : position + 1])
        stored, folded = snapshots[position], view.to_snapshot(snapshots[position].meter_state)
        if stored != folded:
            where = _describe_difference(stored, folded)
            problems.append(
                Problem(
                    session,
                    entries[position].id,
                    f"its snapshot is not the fold of the log ({where}); {_REBUILD_ADVICE}",
                )
            )
    return problems


def _extend_view(view: View, entries: list[Entry]) -> View:
    for entry in entries:
        view.path.append(entry)
    return view.extend(entries)


def _check_row(session: str, row: StoredRow, parent_hash: bytes, problems: list[Problem]) -> Entry | None:
    try:
        entry = decode_entry(row.body)
    except RecordError as exc:
        problems.append(Problem(session, row.id, f"cannot be read: {exc}; {RESTORE_ADVICE}"))
        return None
    if not _has_valid_hash(row, entry, parent_hash):
        problems.append(Problem(session, row.id, f"its bytes are not those that were appended; {RESTORE_ADVICE}"))
        return None
    if entry.id != row.id or row.kind != type(entry).__struct_config__.tag:
        what = f"it is stored as {row.kind} {row.id}, but its record says otherwise; {RESTORE_ADVICE}"
        problems.append(Problem(session, row.id, what))
        return None
    return entry


def _has_valid_hash(row: StoredRow, entry: Entry, parent_hash: bytes) -> bool:
    if not row.rewritten_hashes:
        return compute_chain_hash(parent_hash, entry, row.body) == row.hash
    first, present = row.rewritten_hashes[:32], row.rewritten_hashes[32:]
    kept = not isinstance(entry, Tombstone) or entry.body_hash == first
    return kept and hash_body(row.body) == present and hashlib.sha256(parent_hash + first).digest() == row.hash


def _describe_difference(stored: Snapshot, folded: Snapshot) -> str:
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
