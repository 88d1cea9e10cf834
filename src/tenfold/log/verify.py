"""Checks that stored entries are intact: hashes every entry again and compares every snapshot with the fold.

The checks are pure functions of the rows that a store hands in. The stores decide what to read. Damage is reported as
`Problem`s and never raised, so that one broken row does not hide the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from msgspec import Struct

from tenfold.errors import RecordError
from tenfold.log.base import Problem
from tenfold.record.block import Rep
from tenfold.record.codec import body_hash, chain_hash, decode_entry
from tenfold.record.entry import Entry, Tombstone
from tenfold.view.path import Path
from tenfold.view.view import Snapshot, View

RESTORE = "restore the store from a backup, or export what is readable with `tenfold export --original`"
_REBUILD = "the entries are intact: run `tenfold purge` on the session and import its file again"


class Row(Struct, frozen=True):
    """One stored entry as a row. `rewritten_hashes` is empty unless `purge` replaced the body.

    Then it holds the hash of the first body followed by the hash of the present one.
    """

    id: str
    position: int
    kind: str
    hash: bytes
    body: bytes
    rewritten: bytes = b""


class Stretch(Struct, frozen=True):
    """The rows of one segment. They begin at position `start` and follow the entry `parent_id`.

    `parent_hash` is the hash of that entry.
    """

    session: str
    start: int
    parent: str | None
    before: bytes
    rows: Iterable[Row]


class Checked(Struct):
    """The result of checking a segment: its readable entries by position, and the problems found."""

    entries: dict[int, Entry]
    problems: list[Problem]


def rewritten(old: bytes, before: bytes, body: bytes) -> bytes:
    """Builds what a store keeps beside a body that `purge` replaced.

    `previous` is what it already kept, if anything.
    """
    return (before[:32] or body_hash(old)) + body_hash(body)


def check_rows(stretch: Stretch) -> Checked:
    """Hashes the rows of a segment again.

    Each row is hashed on the stored hash of its parent, so one flipped byte is one problem.
    """
    result = Checked({}, [])
    parent, before, position = stretch.parent, stretch.before, stretch.start
    for row in stretch.rows:
        if row.position != position:
            what = f"entries at positions {position}..{row.position - 1} are missing; {RESTORE}"
            result.problems.append(Problem(stretch.session, row.id, what))
            parent = None
        else:
            entry = _checked(stretch.session, row, before, result.problems)
            if entry is not None:
                result.entries[row.position] = entry
                if entry.parent != parent:
                    what = f"its parent is {entry.parent}, but it is stored after {parent}; {RESTORE}"
                    result.problems.append(Problem(stretch.session, row.id, what))
        parent, before, position = row.id, row.hash, row.position + 1
    return result


def check_snapshots(session: str, entries: list[Entry], snapshots: Mapping[int, Snapshot]) -> list[Problem]:
    """Folds the path once from the root and compares each snapshot with the fold.

    `snapshots` are given by the position they are stored under.
    """
    problems: list[Problem] = []
    path = Path()
    view = View.of(path)
    for position in sorted(snapshots):
        view = _extended(view, entries[view.length : position + 1])
        stored, folded = snapshots[position], view.snapshot(snapshots[position].meter)
        if stored != folded:
            where = _difference(stored, folded)
            problems.append(
                Problem(session, entries[position].id, f"its snapshot is not the fold of the log ({where}); {_REBUILD}")
            )
    return problems


def _extended(view: View, entries: list[Entry]) -> View:
    for entry in entries:
        view.path.append(entry)
    return view.extend(entries)


def _checked(session: str, row: Row, before: bytes, problems: list[Problem]) -> Entry | None:
    try:
        entry = decode_entry(row.body)
    except RecordError as exc:
        problems.append(Problem(session, row.id, f"cannot be read: {exc}; {RESTORE}"))
        return None
    if not _holds(row, entry, before):
        problems.append(Problem(session, row.id, f"its bytes are not those that were appended; {RESTORE}"))
        return None
    if entry.id != row.id or row.kind != type(entry).__struct_config__.tag:
        what = f"it is stored as {row.kind} {row.id}, but its record says otherwise; {RESTORE}"
        problems.append(Problem(session, row.id, what))
        return None
    return entry


def _holds(row: Row, entry: Entry, before: bytes) -> bool:
    if not row.rewritten:
        return chain_hash(before, entry, row.body) == row.hash
    first, present = row.rewritten[:32], row.rewritten[32:]
    kept = not isinstance(entry, Tombstone) or entry.body_hash == first
    return kept and body_hash(row.body) == present and hashlib.sha256(before + first).digest() == row.hash


def _difference(stored: Snapshot, folded: Snapshot) -> str:
    if stored.length != folded.length:
        return f"it counts {stored.length} entries, the log {folded.length}"
    if stored.live != folded.live:
        return f"live Blocks at {list(stored.live)}, the log says {list(folded.live)}"
    if stored.undone != folded.undone:
        return f"it says undone={stored.undone}, the log {folded.undone}"
    if stored.pins != folded.pins:
        return f"pins at {list(stored.pins)}, the log says {list(folded.pins)}"
    has, should = (sum(isinstance(r, Rep) for r in s.refs) for s in (stored, folded))
    return f"{len(stored.refs)} stretches with {has} replaced, the log says {len(folded.refs)} with {should}"
