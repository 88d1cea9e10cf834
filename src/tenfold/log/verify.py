"""How a log proves itself: every hash again, and one fold from the root against every snapshot on the way.

Pure checks over rows that a store hands in; the stores decide what to read. Damage is reported as `Problem`s, never
raised, so that one broken row does not hide the others.
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
    """One stored entry. `rewritten` is empty, or what `purge` keeps: the hash of the first body and of this one."""

    id: str
    position: int
    kind: str
    hash: bytes
    body: bytes
    rewritten: bytes = b""


class Stretch(Struct, frozen=True):
    """The rows of one segment, which follow the entry `parent` with the hash `before` and begin at `start`."""

    session: str
    start: int
    parent: str | None
    before: bytes
    rows: Iterable[Row]


class Checked(Struct):
    """The outcome of checking a stretch: its readable entries by position, and what is wrong."""

    entries: dict[int, Entry]
    problems: list[Problem]


def rewritten(old: bytes, before: bytes, body: bytes) -> bytes:
    """What a store keeps beside a body that `purge` replaced. `before` is what it kept already, if anything."""
    return (before[:32] or body_hash(old)) + body_hash(body)


def check_rows(stretch: Stretch) -> Checked:
    """Re-hashes a stretch, each row on its parent's stored hash, so that one flipped byte is one problem."""
    found = Checked({}, [])
    parent, before, position = stretch.parent, stretch.before, stretch.start
    for row in stretch.rows:
        if row.position != position:
            what = f"entries at positions {position}..{row.position - 1} are missing; {RESTORE}"
            found.problems.append(Problem(stretch.session, row.id, what))
            parent = None
        else:
            entry = _checked(stretch.session, row, before, found.problems)
            if entry is not None:
                found.entries[row.position] = entry
                if entry.parent != parent:
                    what = f"its parent is {entry.parent}, but it is stored after {parent}; {RESTORE}"
                    found.problems.append(Problem(stretch.session, row.id, what))
        parent, before, position = row.id, row.hash, row.position + 1
    return found


def check_snapshots(session: str, entries: list[Entry], snapshots: Mapping[int, Snapshot]) -> list[Problem]:
    """Folds the path once from the root and compares each snapshot, given by the position it is stored under."""
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
