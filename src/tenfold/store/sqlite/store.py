"""The SQLite store: one file or none, safe for several threads and processes."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator

from msgspec.structs import replace

from tenfold.errors import LockedStore, StoreError, UnwritableStore, UsageError
from tenfold.store.base import MEMORY_LOCATION, Problem, StoreState
from tenfold.store.sql.database import Connection
from tenfold.store.sql.store import SqlStore
from tenfold.store.sqlite.connections import ConnectionPool, MemoryConnection, has_index_damage
from tenfold.store.sqlite.schema import SCHEMA_VERSION
from tenfold.store.sqlite.search_index import SqliteIndex
from tenfold.store.unreadable import SALVAGE_ADVICE

BUSY_SECONDS = 10.0
"""How long a write waits for the write of another process by default."""


class SqliteStore(SqlStore[ConnectionPool | MemoryConnection]):
    """A store in one SQLite file. The file is created with mode 0600 if it does not exist.

    The path `:memory:` gives a store that keeps nothing on disk and is gone when it is closed.

    `busy_seconds` is how long a write waits for the write of another process before it raises `LockedStore`. Opening
    raises `NewerStore`, `UnwritableStore` or `StoreError`. A file without write permission is opened for reading only.
    `redact_at_rest` is as for `SqlStore`.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, busy_seconds: float = BUSY_SECONDS, redact_at_rest: bool = False
    ) -> None:
        self.path = os.fspath(path)
        in_memory = self.path == MEMORY_LOCATION
        database = MemoryConnection() if in_memory else ConnectionPool(self.path, busy_seconds=busy_seconds)
        super().__init__(database, SqliteIndex(), redact_at_rest=redact_at_rest, compresses=not in_memory)

    def __repr__(self) -> str:
        try:
            size = f": {os.stat(self.path).st_size:,} bytes"  # noqa: PTH116 - `path` is a text, and may name no file
        except OSError:
            size = ""
        return f"<{type(self).__name__} {self.path!r}{size}>"

    def release_space(self) -> int:
        """See `Store.release_space`. SQLite needs as much free space for it as the store takes."""
        with self._database.read() as db:
            db.execute("VACUUM")
        self._database.empty_wal()
        with self._database.read() as db:
            return int(
                db.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchone()[0]
            )

    def copy_to(self, path: str | os.PathLike[str]) -> None:
        """Copies the store to a new file, while others may go on writing. Raises `UsageError` if there is one."""
        if os.path.lexists(path):
            raise UsageError(f"{os.fspath(path)} exists already: name a new file for the backup")
        target = ConnectionPool(os.fspath(path), busy_seconds=BUSY_SECONDS)
        try:
            with self._database.read() as db, target.read() as copy:
                db.backup(copy)
        finally:
            target.close()

    def _complete_state(self, db: Connection, state: StoreState) -> StoreState:
        size = db.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchone()[0]
        locks: tuple[str, ...] = ()
        try:
            with self._database.write():
                pass
        except LockedStore as exc:
            locks = (str(exc),)
        except UnwritableStore:
            locks = ("the file can only be read here",)
        name = f"SQLite {sqlite3.sqlite_version}"
        return replace(state, database=name, schema=SCHEMA_VERSION, size=size, locks=locks)

    def _release_purged(self) -> None:
        """Empties the write-ahead log. A reader at work may keep the old bytes in it until it finishes."""
        self._database.empty_wal()

    def _has_index_damage(self, error: StoreError) -> bool:
        return has_index_damage(error)

    def _find_damage(self, db: Connection) -> Iterator[Problem]:
        for (what,) in db.execute("PRAGMA quick_check(20)"):
            if what != "ok":
                yield Problem("", "", f"the file is damaged: {what}; {SALVAGE_ADVICE}")
