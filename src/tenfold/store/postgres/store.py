"""The PostgreSQL store: one database for many processes on many machines."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import psycopg
from msgspec.structs import replace

from tenfold.errors import StoreError
from tenfold.store.base import StoreState
from tenfold.store.postgres.connections import POOL_SIZE, LostConnection, PostgresDatabase, describe_place, has_password
from tenfold.store.postgres.schema import SCHEMA, migrate
from tenfold.store.postgres.search_index import PostgresIndex
from tenfold.store.sql.database import Connection
from tenfold.store.sql.store import SqlStore

__all__ = ["PostgresStore", "describe_place", "has_password", "migrate_database"]
T = TypeVar("T")
P = ParamSpec("P")
_PAUSES = (0.05, 0.2, 1.0)
"""Seconds between two tries after a lost connection."""
_SIZE = (
    "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c JOIN pg_namespace n"
    " ON n.oid = c.relnamespace WHERE n.nspname = ? AND c.relkind = 'r'"
)

_SELECT_ROLE = "SELECT rolname, rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
_SELECT_LOCKS = (
    "SELECT pid, array_to_string(pg_blocking_pids(pid), ', '), left(query, 80) FROM pg_stat_activity"
    " WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0"
)


def _retry(method: Callable[Concatenate[PostgresStore, P], T]) -> Callable[Concatenate[PostgresStore, P], T]:
    """Has a method try again after a lost connection. It must do no more when it is done twice."""

    @wraps(method)
    def run(self: PostgresStore, /, *args: P.args, **options: P.kwargs) -> T:
        for pause in _PAUSES:
            try:
                return method(self, *args, **options)
            except LostConnection:
                time.sleep(pause)
                self._database.drop_broken()
        return method(self, *args, **options)

    return run


class PostgresStore(SqlStore[PostgresDatabase]):
    """A store in a PostgreSQL database, whose tables `migrate_database` has made.

    `url` is `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`, or what else libpq understands. `busy_seconds` is how long
    a call waits for a connection or for another writer of the same session before it raises `LockedStore`. Opening
    raises `NewerStore`, `UsageError` or `StoreError`. `redact_at_rest` is as for `SqlStore`.

    Asynchronous callers wait in `threads`, one for each connection, however many calls there are.

    After a lost connection a call is tried again, up to three times within about a second.
    """

    def __init__(
        self, url: str, *, busy_seconds: float, redact_at_rest: bool = False, pool_size: int = POOL_SIZE
    ) -> None:
        database = PostgresDatabase(url, busy_seconds=busy_seconds, pool_size=pool_size)
        super().__init__(database, PostgresIndex(), redact_at_rest=redact_at_rest, compresses=True)
        self._threads = ThreadPoolExecutor(pool_size, "tenfold-postgres")
        self.threads = self._threads

    def close(self) -> None:
        """See `Store.close`."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        super().close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._database.place!r}>"

    def release_space(self) -> int:
        """See `Store.release_space`. Rows that were deleted are free for new ones afterwards."""
        with self._database.read() as db:
            for (table,) in db.execute("SELECT tablename FROM pg_tables WHERE schemaname = ?", (SCHEMA,)).fetchall():
                db.execute(f"VACUUM (ANALYZE) {SCHEMA}.{table}")
            (size,) = db.execute(_SIZE, (SCHEMA,)).fetchall()[0]
            return int(size)

    def _complete_state(self, db: Connection, state: StoreState) -> StoreState:
        (size,) = db.execute(_SIZE, (SCHEMA,)).fetchone()
        (version,) = db.execute("SHOW server_version").fetchone()
        (schema,) = db.execute("SELECT version FROM schema_version").fetchone()
        role, is_above = db.execute(_SELECT_ROLE).fetchone()
        note = (
            f"the role {role} is above row-level security (it is a superuser or has BYPASSRLS): give Tenfold a role of "
            "its own, so that a fault cannot show one tenant what is another's"
        )
        locks = tuple(
            f"process {pid} waits for {blockers}: {query}" for pid, blockers, query in db.execute(_SELECT_LOCKS)
        )
        notes = (note,) if is_above else ()
        name = f"PostgreSQL {version}"
        return replace(state, database=name, schema=schema, size=size, locks=locks, notes=notes)

    create = _retry(SqlStore.create)
    read_info = _retry(SqlStore.read_info)
    list_namespaces = _retry(SqlStore.list_namespaces)
    list_sessions = _retry(SqlStore.list_sessions)
    append = _retry(SqlStore.append)
    open = _retry(SqlStore.open)
    keep_request = _retry(SqlStore.keep_request)
    take_lease = _retry(SqlStore.take_lease)
    drop_lease = _retry(SqlStore.drop_lease)
    read_range = _retry(SqlStore.read_range)
    read_counts = _retry(SqlStore.read_counts)
    read_entries = _retry(SqlStore.read_entries)
    locate = _retry(SqlStore.locate)
    read_heads = _retry(SqlStore.read_heads)
    list_other_branches = _retry(SqlStore.list_other_branches)
    index = _retry(SqlStore.index)
    search = _retry(SqlStore.search)
    search_passages = _retry(SqlStore.search_passages)
    record_export = _retry(SqlStore.record_export)
    list_exports = _retry(SqlStore.list_exports)
    measure_sessions = _retry(SqlStore.measure_sessions)
    save_key = _retry(SqlStore.save_key)
    list_keys = _retry(SqlStore.list_keys)
    find_key = _retry(SqlStore.find_key)
    record_access = _retry(SqlStore.record_access)
    read_record = _retry(SqlStore.read_record)
    check = _retry(SqlStore.check)


def migrate_database(url: str) -> tuple[int, int]:
    """Makes the tables of a store in a database, or brings them to this release's schema. Returns both versions.

    The role needs the right to create a schema, and the extension btree_gin (it comes with PostgreSQL; the owner of a
    database may create it). Raises `NewerStore`, `UsageError` or `StoreError`.
    """
    place = describe_place(url)
    try:
        with psycopg.connect(url, autocommit=True) as db:
            return migrate(db, place)
    except psycopg.Error as exc:
        raise StoreError(f"the tables of {place} cannot be made: {' '.join(str(exc).split())}") from exc
