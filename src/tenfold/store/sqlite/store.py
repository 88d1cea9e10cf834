"""The SQLite store: one file or none, safe for several threads and processes. Opening a head costs O(view).

The `sqlite_*` modules do the work. This module only decides in which transaction it runs.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from tenfold.compaction.facts.redacted_messages import redact_entry
from tenfold.core.record.entry import Entry, Usage
from tenfold.core.record.token_reading import Counted
from tenfold.core.text.surrogates import replace_surrogates
from tenfold.core.view.fold import Snapshot
from tenfold.errors import NotFoundError, StoreError, UsageError
from tenfold.store.base import (
    HIT_LIMIT,
    MAIN,
    MEMORY_LOCATION,
    HeadState,
    Hit,
    LocatedEntry,
    Problem,
    SessionInfo,
    SessionRow,
    redact_info,
)
from tenfold.store.sqlite import append as appending
from tenfold.store.sqlite import paths, purging
from tenfold.store.sqlite.connections import ConnectionPool, MemoryConnection, has_index_damage
from tenfold.store.sqlite.meanings import embed_entries, has_unembedded
from tenfold.store.sqlite.passages import search_passages
from tenfold.store.sqlite.paths import BODY, check_range, encode_info, find_entry_row, find_session_id, read_info
from tenfold.store.sqlite.search_index import clear_indexes, find_sessions, has_unindexed, index_entries
from tenfold.store.sqlite.verify import verify_namespace
from tenfold.store.sqlite.word_search import search_words
from tenfold.store.unreadable import read_entry

BUSY_SECONDS = 10.0
"""How long a write waits for the write of another process by default."""
_UPSERT_SESSION = (
    "INSERT INTO session (ns, name, info) SELECT id, :session, :info FROM namespace WHERE name = :namespace"
    " ON CONFLICT (ns, name) DO UPDATE SET info = excluded.info"
)
_SELECT_SESSIONS = (
    "SELECT s.id, s.name, ifnull(CAST(s.info AS BLOB), x''), ifnull(sum(h.entries), 0),"
    " ifnull(sum(h.blocks), 0), min(h.first), max(h.last) AS newest"
    " FROM session s JOIN namespace n ON n.id = s.ns LEFT JOIN head h ON h.session = s.id WHERE n.name = ?"
    " GROUP BY s.id ORDER BY newest IS NULL, newest DESC, s.id DESC"
)
_SELECT_SIZES = (
    "SELECT s.name, ifnull(sum(length(e.body)), 0) FROM session s JOIN namespace n ON n.id = s.ns"
    " LEFT JOIN entry e ON e.session = s.id WHERE n.name = ? GROUP BY s.id"
)
_SELECT_HEADS = "SELECT h.name, e.id FROM head h JOIN entry e ON e.seq = h.leaf WHERE h.session = ? ORDER BY h.name"
_SELECT_ENTRIES = (
    f"SELECT {BODY}, e.id, e.kind FROM entry e"  # noqa: S608 - constants
    " WHERE e.seg IN (SELECT id FROM seg WHERE session = ?) ORDER BY e.seq"
)
_FIND_ENTRY = (
    f"SELECT s.name, e.pos, {BODY}, e.id, e.kind FROM namespace n"  # noqa: S608 - constants
    " JOIN entry e ON e.ns = n.id AND e.id >= :first AND e.id < :beyond"
    " JOIN session s ON s.id = e.session WHERE n.name = :namespace ORDER BY e.id LIMIT 2"
)
_SELECT_COUNTS = (
    "SELECT CASE WHEN e.counter = :counter THEN e.n"
    " ELSE (SELECT n FROM count WHERE counter = :counter AND seq = e.seq) END FROM entry e"
    " WHERE e.seg = :seg AND e.pos BETWEEN :low AND :high ORDER BY e.pos"
)


class SqliteStore:
    """A store in one SQLite file. The file is created with mode 0600 if it does not exist.

    The path `:memory:` gives a store that keeps nothing on disk and is gone when it is closed.

    `busy_seconds` is how long a write waits for the write of another process before it raises `LockedStore`. Opening
    raises `NewerStore`, `UnwritableStore` or `StoreError`. A file without write permission is opened for reading only.

    With `redact_at_rest`, secrets are replaced by `[redacted]` before an entry is written. What is read, searched and
    exported later does not have them either, so an export of such messages is not byte for byte what came in. Entries
    that are stored already stay as they are.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, busy_seconds: float = BUSY_SECONDS, redact_at_rest: bool = False
    ) -> None:
        self.path = os.fspath(path)
        in_memory = self.path == MEMORY_LOCATION
        self._connections = MemoryConnection() if in_memory else ConnectionPool(self.path, busy_seconds=busy_seconds)
        self._chains = paths.ChainCache()
        self.redact_at_rest = redact_at_rest

    def __repr__(self) -> str:
        try:
            size = f": {os.stat(self.path).st_size:,} bytes"  # noqa: PTH116 - `path` is a text, and may name no file
        except OSError:
            size = ""
        return f"<{type(self).__name__} {self.path!r}{size}>"

    def create(self, namespace: str, info: SessionInfo) -> None:
        """See `Store.create`."""
        info = replace_surrogates(info)
        if self.redact_at_rest:
            info = redact_info(info)
        with self._connections.write() as db:
            db.execute("INSERT INTO namespace (name) VALUES (?) ON CONFLICT DO NOTHING", (namespace,))
            row = {"namespace": namespace, "session": info.id, "info": encode_info(info)}
            db.execute(_UPSERT_SESSION, row)

    def list_sessions(self, namespace: str) -> list[SessionRow]:
        """See `Store.list_sessions`."""
        with self._connections.read() as db:
            rows = db.execute(_SELECT_SESSIONS, (namespace,)).fetchall()
            return [
                SessionRow(read_info(name, info), entries, blocks, first, last, dict(db.execute(_SELECT_HEADS, (sid,))))
                for sid, name, info, entries, blocks, first, last in rows
            ]

    def append(  # noqa: PLR0913  one append is one transaction, and these are its parts
        self,
        namespace: str,
        session: str,
        entries: Sequence[Entry],
        *,
        expected: str | None,
        head: str = MAIN,
        snapshot: Snapshot | None = None,
        counts: Mapping[str, Sequence[int]] | None = None,
        purges: int | None = None,
    ) -> None:
        """See `Store.append`."""
        if self.redact_at_rest:
            entries = [redact_entry(entry) for entry in entries]
        new = appending.build_request(
            entries,
            expected=expected,
            head=head,
            snapshot=snapshot,
            counts=counts,
            purges=purges,
            compress=self.path != MEMORY_LOCATION,
        )
        with self._connections.write() as db:
            appending.append_entries(db, namespace, session, new)

    def open(self, namespace: str, session: str, head: str = MAIN, *, after: str | None = None) -> HeadState:
        """See `Store.open`."""
        with self._connections.read() as db:
            return paths.read_head(db, self._chains, find_session_id(db, namespace, session), head, after)

    def keep_request(
        self, namespace: str, session: str, head: str, *, usage: Usage | None, overhead: Counted | None
    ) -> None:
        """See `Store.keep_request`."""
        with self._connections.write() as db:
            paths.write_request(db, find_session_id(db, namespace, session), head, usage, overhead)

    def read_range(self, namespace: str, session: str, leaf: str, first: int, last: int) -> list[Entry]:
        """See `Store.read_range`."""
        with self._connections.read() as db:
            leaf_row = find_entry_row(db, find_session_id(db, namespace, session), leaf)
            check_range(leaf_row, first, last)
            return paths.read_range(db, self._chains.get_chain(db, leaf_row.segment), first, last)

    def read_counts(
        self, namespace: str, session: str, leaf: str, counter: str, first: int, last: int
    ) -> list[Counted | None]:
        """See `Store.read_counts`."""
        with self._connections.read() as db:
            leaf_row = find_entry_row(db, find_session_id(db, namespace, session), leaf)
            check_range(leaf_row, first, last)
            row = db.execute("SELECT id FROM counter WHERE name = ?", (counter,)).fetchone()
            number = row[0] if row else 0
            ranges = self._chains.get_chain(db, leaf_row.segment).split_range(first, last)
            bounds = ({"counter": number, "seg": seg, "low": low, "high": high} for seg, low, high in ranges)
            return [row[0] for values in bounds for row in db.execute(_SELECT_COUNTS, values)]

    def read_entries(self, namespace: str, session: str) -> list[Entry]:
        """See `Store.read_entries`."""
        with self._connections.read() as db:
            rows = db.execute(_SELECT_ENTRIES, (find_session_id(db, namespace, session),))
            return [read_entry(body, id_, kind) for body, id_, kind in rows]

    def locate(self, namespace: str, entry: str) -> LocatedEntry:
        """See `Store.locate`."""
        with self._connections.read() as db:
            limits = {"namespace": namespace, "first": entry, "beyond": entry + "\U0010ffff"}
            rows = db.execute(_FIND_ENTRY, limits).fetchall() if entry else []
        if not rows:
            raise NotFoundError(
                f"no entry {entry or '(empty id)'} in namespace {namespace}: `tenfold search` finds entries"
            )
        if len(rows) > 1 and rows[0][3] != entry:
            first, second = rows[0][3], rows[1][3]
            raise NotFoundError(f"several entries begin with {entry}, {first} and {second} among them: give more of it")
        name, position, body, id_, kind = rows[0]
        return LocatedEntry(name, position, read_entry(body, id_, kind))

    def read_heads(self, namespace: str, session: str) -> dict[str, str]:
        """See `Store.read_heads`."""
        with self._connections.read() as db:
            return dict(db.execute(_SELECT_HEADS, (find_session_id(db, namespace, session),)))

    def list_other_branches(self, namespace: str, session: str, leaf: str) -> frozenset[str]:
        """See `Store.list_other_branches`."""
        with self._connections.read() as db:
            sid = find_session_id(db, namespace, session)
            return paths.list_other_branches(db, self._chains, sid, find_entry_row(db, sid, leaf))

    def index(self, *, limit: int = 2_000) -> int:
        """See `Store.index`."""
        if limit < 1:
            raise UsageError(f"a limit of {limit} entries never comes to an end: give at least 1")
        with self._connections.read() as db:
            is_indexed, is_embedded = not has_unindexed(db), not has_unembedded(db)
        if is_indexed and is_embedded:
            return 0
        with self._connections.write() as db:
            return embed_entries(db, limit) if is_indexed else index_entries(db, limit)

    def search(
        self,
        namespace: str,
        words: str,
        *,
        session: str | None = None,
        limit: int = HIT_LIMIT,
        without: Collection[str] = (),
    ) -> list[Hit]:
        """See `Store.search`. If the index cannot be written, entries missing from it are scanned."""
        return self._run_search(
            lambda db: search_words(db, words, find_sessions(db, namespace, session), limit, without)
        )

    def search_passages(
        self,
        namespace: str,
        words: str,
        *,
        session: str | None = None,
        limit: int = HIT_LIMIT,
        without: Collection[str] = (),
    ) -> list[Hit]:
        """See `Store.search_passages`. If the index cannot be written, entries missing from it are read."""
        return self._run_search(
            lambda db: search_passages(db, words, find_sessions(db, namespace, session), limit, without)
        )

    def _run_search(self, search: Callable[[sqlite3.Connection], list[Hit]]) -> list[Hit]:
        """Runs a search on an index that is up to date. A damaged index is built again from the entries."""
        try:
            with self._read_indexed() as db:
                return search(db)
        except StoreError as exc:
            if not has_index_damage(exc):
                raise
        with self._connections.write() as db:
            clear_indexes(db)
        with self._read_indexed() as db:
            return search(db)

    @contextlib.contextmanager
    def _read_indexed(self) -> Iterator[sqlite3.Connection]:
        with contextlib.suppress(StoreError):
            while self.index():
                pass
        with self._connections.read() as db:
            yield db

    def purge(self, namespace: str, session: str, entry: str | None, *, now: int) -> int:
        """See `Store.purge`. A reader at work may keep the old bytes in the write-ahead log until it finishes."""
        with self._connections.write() as db:
            sid = find_session_id(db, namespace, session)
            if entry is None:
                touched = purging.purge_session(db, sid)
            else:
                touched = purging.purge_entry(db, self._chains, sid, entry, now)
        self._connections.empty_wal()
        return touched

    def record_export(self, namespace: str, session: str, path: str, digest: bytes) -> None:
        """See `Store.record_export`."""
        with self._connections.write() as db:
            sid = find_session_id(db, namespace, session)
            db.execute("INSERT OR REPLACE INTO export VALUES (?, ?, ?)", (sid, path, digest))

    def list_exports(self, namespace: str, session: str) -> dict[str, bytes]:
        """See `Store.list_exports`."""
        query = "SELECT path, hash FROM export WHERE session = ? ORDER BY path"
        with self._connections.read() as db:
            return dict(db.execute(query, (find_session_id(db, namespace, session),)))

    def measure_sessions(self, namespace: str) -> dict[str, int]:
        """See `Store.measure_sessions`."""
        with self._connections.read() as db:
            return dict(db.execute(_SELECT_SIZES, (namespace,)))

    def release_space(self) -> int:
        """See `Store.release_space`. SQLite needs as much free space for it as the store takes."""
        with self._connections.read() as db:
            db.execute("VACUUM")
        self._connections.empty_wal()
        with self._connections.read() as db:
            return int(
                db.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchone()[0]
            )

    def verify(self, namespace: str) -> list[Problem]:
        """See `Store.verify`."""
        with self._connections.read() as db:
            return verify_namespace(db, self._chains, namespace)

    def close(self) -> None:
        """See `Store.close`."""
        self._connections.close()
