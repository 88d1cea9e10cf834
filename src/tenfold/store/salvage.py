"""Saves what is readable of a damaged store to a new one, and names what is not.

It trusts neither the indexes nor the links between the tables: entries are read row by row and put in order by the
parents that they name themselves, and only then by the place where they were stored.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct

from tenfold.core.record.block import Block
from tenfold.core.record.entry import Entry, Retraction
from tenfold.core.view.fold import Snapshot, View
from tenfold.core.view.path import Path
from tenfold.errors import TenfoldError
from tenfold.store.base import DEFAULT_NAMESPACE, MAIN, Problem, Store
from tenfold.store.ids import IDS
from tenfold.store.sql.paths import read_info
from tenfold.store.sql.verify import STORED_ROW, StoredRow, build_row, has_valid_hash
from tenfold.store.sqlite.connections import connect_read_only
from tenfold.store.unreadable import build_stand_in, explain_damage, is_unreadable, recover_entry

SALVAGED = "salvaged"
"""The head, or the beginning of the session's name, that is given to what nothing leads to any more."""
_SELECT_PLACES = (
    "SELECT e.seq, e.session, e.seg, CAST(e.pos AS INTEGER) FROM entry e NOT INDEXED WHERE e.seq {} ORDER BY e.seq"
)
_SELECT_ROW = f"SELECT {STORED_ROW} FROM entry e NOT INDEXED WHERE e.seq = ?"  # noqa: S608 - a constant
_MOST_MISSING = 1_000
"""Missing ancestors of an entry that are replaced one by one. If there are more, its place is damaged."""


class Salvage(Struct):
    """What was saved: the numbers of sessions and entries, and what could not be read or was found changed."""

    session_count: int = 0
    entry_count: int = 0
    problems: list[Problem] = []


class _StoredPlace(Struct, frozen=True):
    """Where an entry is stored: its row, session, segment and position."""

    seq: int
    session: int
    segment: int
    position: int


def salvage_file(path: str, target: Store) -> Salvage:
    """Copies everything readable of the store at `path` to the empty store `target`. Changes nothing at `path`.

    An entry that cannot be read is replaced by a tombstone in its place, which keeps its id. Snapshots, token counts
    and search indexes are made again. Raises `StoreError` if the file cannot be opened as a database at all.
    """
    result = Salvage()
    with connect_read_only(path) as db:
        reader = _StoreReader(db, result)
        for session in reader.list_sessions():
            _SessionCopy(reader, target, session).run()
    return result


class _StoreReader:
    """Reads the tables of a damaged store, as far as SQLite can read them."""

    def __init__(self, db: sqlite3.Connection, result: Salvage) -> None:
        self.db, self.result = db, result
        self.namespaces = {key: str(name) for key, name in self.read("SELECT id, name FROM namespace")}
        self.sessions = {
            key: (ns, str(name), info)
            for key, ns, name, info in self.read("SELECT id, ns, name, blob(info) FROM session")
        }
        self.segments: dict[int, tuple[int | None, int]] = {}
        owners: dict[int, int] = {}
        for key, owner, parent, start in self.read("SELECT id, session, parent, CAST(start AS INTEGER) FROM seg"):
            self.segments[key], owners[key] = (parent, start), owner
        self.heads: dict[int, list[tuple[int, str]]] = {}
        for session, name, leaf in self.read("SELECT session, name, leaf FROM head"):
            self.heads.setdefault(session, []).append((leaf, str(name)))
        self.places = _group_by_session([_StoredPlace(*row) for row in self._read_places()], self.sessions, owners)

    def list_sessions(self) -> list[int]:
        """Lists the row numbers of the sessions, those included that only entries name."""
        return sorted({*self.sessions, *self.places}, key=str)

    def report(self, session: str, entry: str, what: str) -> None:
        """Adds a problem to the result."""
        self.result.problems.append(Problem(session, entry, what))

    def read(self, query: str) -> Iterator[tuple]:  # type: ignore[type-arg]
        """Yields the rows of a query up to where they cannot be read."""
        try:
            yield from self.db.execute(query)
        except sqlite3.Error as exc:
            self.report("", "", f"some rows cannot be read ({exc}): {query}")

    def _read_places(self) -> Iterator[tuple[int, ...]]:
        """Yields the places of all entries. Where SQLite cannot go on, the rows behind are read one by one."""
        last = 0
        try:
            for row in self.db.execute(_SELECT_PLACES.format("> 0")):
                yield row
                last = row[0]
        except sqlite3.Error as exc:
            self.report("", "", f"the rows of entries cannot be read in one go ({exc}), so each was read by itself")
            newest = max((leaf for heads in self.heads.values() for leaf, _ in heads), default=last)
            for seq in range(last + 1, min(newest, last + 10_000_000) + 1):
                try:
                    yield from self.db.execute(_SELECT_PLACES.format("= ?"), (seq,)).fetchall()
                except sqlite3.Error:
                    self.report("", "", f"the entry in row {seq} cannot be read")

    def read_row(self, place: _StoredPlace) -> StoredRow | None:
        """Reads a stored row. Returns None if SQLite cannot."""
        try:
            values = self.db.execute(_SELECT_ROW, (place.seq,)).fetchone()
        except sqlite3.Error:
            return None
        return build_row(values) if values is not None else None


class _SessionCopy:
    """Copies one session. `entries` are those that are to be appended, by id, in the order of their rows."""

    def __init__(self, reader: _StoreReader, target: Store, session: int) -> None:
        self._reader, self._target = reader, target
        ns, name, info = reader.sessions.get(session, (None, f"{SALVAGED}-{session}", b""))
        self._namespace = reader.namespaces.get(ns, DEFAULT_NAMESPACE)
        self._info, self._name = read_info(name, info), name
        self._places = reader.places.get(session, [])
        self._heads = sorted(reader.heads.get(session, []), key=str)
        self._entries: dict[str, Entry] = {}
        self._ids: dict[tuple[int, int], str] = {}
        self._hashes: dict[str, bytes] = {}
        self._has_damage = False

    def run(self) -> None:
        """Copies the session's information, entries and heads."""
        for place in self._places:
            self._add_entry(place)
        if not self._entries and not self._info.format:
            return
        self._target.create(self._namespace, self._info)
        for ids, head, leaf in self._split_by_heads():
            self._append(ids, head, leaf)
        self._reader.result.session_count += 1
        self._reader.result.entry_count += sum(not is_unreadable(entry) for entry in self._entries.values())

    def _add_entry(self, place: _StoredPlace) -> None:
        row = self._reader.read_row(place)
        body = row.body if row is not None else b""
        id_ = row.id if row is not None and row.id else IDS.generate()
        entry = recover_entry(body)
        if entry is None:
            parent = self._find_parent(place)
            entry = build_stand_in(id_, parent, body, kind=row.kind if row is not None else "said")
            self._report(id_, f"cannot be read: {explain_damage(body)}; a tombstone stands in its place")
        elif entry.parent is not None and entry.parent not in self._entries:
            self._add_missing(entry.parent, place)
        if entry.id in self._entries:
            self._report(entry.id, "is stored twice; the second one is left out")
            return
        parent_hash = self._hashes.get(entry.parent or "", b"")
        if row is not None and not is_unreadable(entry) and not has_valid_hash(row, entry, parent_hash):
            self._report(entry.id, "is not as it was appended; it is saved as far as it can be read")
        self._entries[entry.id] = entry
        self._ids[place.segment, place.position] = entry.id
        self._hashes[entry.id] = row.hash if row is not None else b""

    def _add_missing(self, id: str, place: _StoredPlace) -> None:
        """Adds tombstones for the ancestors of an entry that are not stored, the last of which has this id."""
        parent = self._find_parent(place)
        depth = len(self._list_path(parent))
        count = place.position - depth if 0 < place.position - depth <= _MOST_MISSING else 1
        for number in range(count):
            own = id if number == count - 1 else IDS.generate()
            self._entries[own] = build_stand_in(own, parent)
            self._report(own, "is missing; a tombstone stands in its place")
            parent = own

    def _find_parent(self, place: _StoredPlace) -> str | None:
        """Finds the nearest entry that was stored before this place on its path, else the one saved last."""
        segment: int | None = place.segment
        position = place.position - 1
        for _ in range(_MOST_MISSING):
            if position < 0 or segment is None:
                break
            parent, start = self._reader.segments.get(segment, (None, 0))
            if position < start:
                segment = parent
                continue
            if (segment, position) in self._ids:
                return self._ids[segment, position]
            position -= 1
        return next(reversed(self._entries), None) if place.position > 0 else None

    def _split_by_heads(self) -> Iterator[tuple[list[str], str, str | None]]:
        """Yields what is appended in one call each: the ids, the head that moves to the last one, and where it was.

        A call ends where a head was, and at the newest Block or retraction before it, since a snapshot is stored there.
        """
        order = {id_: number for number, id_ in enumerate(self._entries)}
        rows = {place.seq: self._ids.get((place.segment, place.position)) for place in self._places}
        leaves = {rows[leaf]: name for leaf, name in self._heads if rows.get(leaf) is not None}
        newest = next(reversed(self._entries), None)
        if newest is None:
            return
        if newest not in leaves:  # the last append moved a head to the newest entry
            only = self._heads[0][1] if len(self._heads) == 1 else MAIN if not self._heads else SALVAGED
            leaves = {id_: name for id_, name in leaves.items() if name != only} | {newest: only}
            if self._heads:
                self._report(newest, f"is the newest entry, so head {only} is set to it")
        ends: dict[str, str] = {}
        for leaf, name in leaves.items():
            block = self._find_newest_block(leaf)
            if block is not None and block not in leaves:
                ends[str(block)] = name
        ends |= {str(leaf): name for leaf, name in leaves.items()}
        at: dict[str, str] = {}
        ids: list[str] = []
        for id_ in order:
            ids.append(id_)
            if id_ in ends:
                yield ids, ends[id_], at.get(ends[id_])
                at[ends[id_]] = id_
                ids = []

    def _find_newest_block(self, leaf: str | None) -> str | None:
        while leaf is not None and not isinstance(self._entries[leaf], Block | Retraction):
            leaf = self._entries[leaf].parent
        return leaf

    def _append(self, ids: Sequence[str], head: str, leaf: str | None) -> None:
        entries = [self._entries[id_] for id_ in ids]
        snapshot: Snapshot | None = None
        if isinstance(entries[-1], Block | Retraction):
            view = View.from_path(Path(self._list_path(ids[-1])))
            snapshot = view.to_snapshot()
            for position in view.state.stale_entries if self._has_damage else ():
                self._report(view.path.get_entry(position).id, "no longer applies to what is left of the path")
        try:
            self._target.append(self._namespace, self._name, entries, expected=leaf, head=head, snapshot=snapshot)
        except TenfoldError as exc:
            self._report("", f"{len(entries)} entries could not be saved: {exc}")

    def _list_path(self, leaf: str | None) -> list[Entry]:
        path: list[Entry] = []
        while leaf is not None:
            path.append(self._entries[leaf])
            leaf = path[-1].parent
        return path[::-1]

    def _report(self, entry: str, what: str) -> None:
        self._has_damage = True
        self._reader.report(self._name, entry, what)


def _group_by_session(
    places: Sequence[_StoredPlace], sessions: Collection[int], owners: Mapping[int, int]
) -> dict[int, list[_StoredPlace]]:
    """Groups entries by session. A segment belongs to the session that most of its entries name, and it itself."""
    votes: dict[int, Counter[int]] = {seg: Counter([owner]) for seg, owner in owners.items() if owner in sessions}
    for place in places:
        votes.setdefault(place.segment, Counter())[place.session] += 1
    out: dict[int, list[_StoredPlace]] = {}
    for place in places:
        out.setdefault(votes[place.segment].most_common(1)[0][0], []).append(place)
    return out
