"""Verifies a SQLite store: reads every row once, hands it to the checks, and compares the derived tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from tenfold.errors import RecordError
from tenfold.record.entry import Entry
from tenfold.store.base import Problem
from tenfold.store.sqlite_paths import ChainCache, decode_info, decode_snapshot
from tenfold.store.verify import RESTORE_ADVICE, StoredRow, StoredSegment, check_rows, check_snapshots
from tenfold.view.fold import Snapshot

# Damage can turn a blob into text that is not UTF-8. The cast lets it through, and then its hash is found wrong.
_SELECT_ROWS = (
    "SELECT id, pos, kind, CAST(hash AS BLOB), CAST(body AS BLOB), CAST(rewritten AS BLOB) FROM entry WHERE seg = ?"
    " ORDER BY pos"
)
_SELECT_SEGMENTS = (
    "SELECT g.id, g.start, g.parent, p.id, p.hash FROM seg g LEFT JOIN entry p ON p.seg = g.parent"
    " AND p.pos = g.start - 1 WHERE g.session = ? ORDER BY g.id"
)
_SELECT_SNAPSHOTS = (
    "SELECT m.seg, m.pos, m.body, e.id FROM seg g JOIN manifest m ON m.seg = g.id"
    " LEFT JOIN entry e ON e.seg = m.seg AND e.pos = m.pos WHERE g.session = ?"
)


def verify_namespace(db: sqlite3.Connection, chains: ChainCache, namespace: str) -> list[Problem]:
    """Returns everything that is wrong with the file and with the sessions of the namespace."""
    problems = [
        Problem("", "", f"the file is damaged: {row[0]}; {RESTORE_ADVICE}")
        for row in db.execute("PRAGMA quick_check(20)")
        if row[0] != "ok"
    ]
    try:
        problems += _verify_sessions(db, chains, namespace)
    except sqlite3.DatabaseError as exc:
        problems.append(Problem("", "", f"the file cannot be read further: {exc}; {RESTORE_ADVICE}"))
    return problems


def _verify_sessions(db: sqlite3.Connection, chains: ChainCache, namespace: str) -> list[Problem]:
    problems: list[Problem] = []
    sessions = db.execute(
        "SELECT s.id, s.name, (SELECT ifnull(sum(entries), 0) FROM head WHERE session = s.id), s.info"
        " FROM session s JOIN namespace n ON n.id = s.ns WHERE n.name = ? ORDER BY s.id",
        (namespace,),
    ).fetchall()
    for session, name, expected, info in sessions:
        problems += _verify_session(db, chains, session, name)
        problems += _check_totals_and_heads(db, session, name, expected)
        try:
            decode_info(info)
        except RecordError as exc:
            problems.append(Problem(name, "", str(exc)))
    return problems


def _verify_session(db: sqlite3.Connection, chains: ChainCache, session: int, name: str) -> list[Problem]:
    problems: list[Problem] = []
    entries: dict[int, dict[int, Entry]] = {}
    for seg, start, parent, parent_id, before in db.execute(_SELECT_SEGMENTS, (session,)).fetchall():
        if parent is not None and parent_id is None:
            what = f"the entry at position {start - 1}, from which a branch starts, is missing; {RESTORE_ADVICE}"
            problems.append(Problem(name, "", what))
            continue
        result = check_rows(StoredSegment(name, start, parent_id, before or b"", _read_rows(db, seg)))
        entries[seg] = result.entries
        problems += result.problems
    snapshots = _read_snapshots(db, session, name, problems)
    if problems:
        return problems  # folding damaged entries would only repeat them
    for path in _list_longest_paths(chains, db, snapshots):
        path_entries = [entries[seg][p] for seg, first, last in path for p in range(first, last + 1)]
        ends = {seg: last for seg, _, last in path}
        keys = [(seg, p) for seg, p in snapshots if p <= ends.get(seg, -1)]
        problems += check_snapshots(name, path_entries, {p: snapshots.pop((seg, p)) for seg, p in keys})
    return problems


def _list_longest_paths(
    chains: ChainCache, db: sqlite3.Connection, snapshots: dict[tuple[int, int], Snapshot]
) -> Iterator[list[tuple[int, int, int]]]:
    """Yields the longest path that ends in a snapshot, until the caller has removed every snapshot.

    So one fold serves all snapshots on a path.
    """
    while snapshots:
        seg, leaf = max(snapshots, key=lambda place: (place[1], place[0]))
        yield list(chains.get_chain(db, seg).split_range(0, leaf))


def _read_snapshots(
    db: sqlite3.Connection, session: int, name: str, problems: list[Problem]
) -> dict[tuple[int, int], Snapshot]:
    found: dict[tuple[int, int], Snapshot] = {}
    for seg, pos, body, entry in db.execute(_SELECT_SNAPSHOTS, (session,)):
        try:
            found[seg, pos] = decode_snapshot(body)
        except RecordError as exc:
            problems.append(Problem(name, entry or "", f"its snapshot cannot be read: {exc}; {RESTORE_ADVICE}"))
        if entry is None:
            problems.append(
                Problem(name, "", f"the entry under the snapshot at position {pos} is missing; {RESTORE_ADVICE}")
            )
    return found


def _check_totals_and_heads(db: sqlite3.Connection, session: int, name: str, expected: int) -> list[Problem]:
    """Compares the number of entries and the heads, since nothing else shows that the newest entry is missing."""
    problems: list[Problem] = []
    stored = db.execute("SELECT count(*) FROM seg g JOIN entry e ON e.seg = g.id WHERE g.session = ?", (session,))
    count = int(stored.fetchone()[0])
    if count != expected:
        what = f"{expected} entries were appended, but {count} are stored; {RESTORE_ADVICE}"
        problems.append(Problem(name, "", what))
    missing = db.execute(
        "SELECT h.name FROM head h LEFT JOIN entry e ON e.seq = h.leaf WHERE h.session = ? AND e.seq IS NULL",
        (session,),
    )
    problems += [Problem(name, "", f"the entry at head {row[0]} is missing; {RESTORE_ADVICE}") for row in missing]
    return problems


def _read_rows(db: sqlite3.Connection, seg: int) -> Iterator[StoredRow]:
    for entry, position, kind, digest, body, rewritten in db.execute(_SELECT_ROWS, (seg,)):
        yield StoredRow(entry, position, kind, digest or b"", body or b"", rewritten or b"")
