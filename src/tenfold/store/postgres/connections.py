"""Connections to PostgreSQL, from a pool, and the translation of its errors.

A connection works for one namespace at a time, and says so to the server: row-level security hides the others.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from tenfold.errors import LockedStore, StoreError, TenfoldError, UnwritableStore, UsageError
from tenfold.store.postgres.schema import SCHEMA, check_version
from tenfold.store.sql.database import DuplicateRow, Values, translate_query

POOL_SIZE = 10
"""Connections that a process holds at most."""
_CONNECTION_SECONDS = 5.0
"""How long a call waits for a connection, at least: new ones take a moment where the server has closed all."""
ALL = "all"
"""What a connection says that works for all namespaces."""
_LOCK = 0x54464C44
"""The first half of the advisory locks of sessions: "TFLD"."""
_NAME = re.compile(r"(?<![:\w]):([a-z_]+)")
_LOCK_SESSION = (
    f"SELECT pg_advisory_xact_lock({_LOCK}, (s.id & 2147483647)::integer)"  # noqa: S608 - a constant
    " FROM session s JOIN namespace n ON n.id = s.ns WHERE n.name = %s AND s.name = %s"
)
_AUTHORITY = re.compile(r"\w+://[^/?]*@[^/?]*@")
"""Matches an address whose password holds an @ as it stands."""
_LOST_STATES = ("08", "57")
"""The classes of SQLSTATE for a broken connection, and for a server that ends or starts."""
_MAX_SAID = 300
_NEXT_STEP = "name another place with --store or TENFOLD_STORE"


class PostgresConnection:
    """A connection that understands the queries of `tenfold.store.sql`. See `Connection`."""

    Error = psycopg.Error

    def __init__(self, raw: psycopg.Connection) -> None:
        self.raw = raw

    def execute(self, query: str, values: Values = (), /) -> psycopg.Cursor:
        """Runs a query."""
        return self.raw.execute(_translate(query), values or None, binary=True)

    def execute_anew(self, query: str, values: Values) -> psycopg.Cursor:
        """Runs a query that is planned for its values each time.

        A query that is asked often gets one plan for all values, which takes a rare term for a common one.
        """
        return self.raw.execute(_translate.__wrapped__(query), values, binary=True, prepare=False)

    def executemany(self, query: str, values: Iterable[Values], /) -> None:
        """Runs a query once for each of the values, all in one round trip."""
        with self.raw.cursor() as cursor:
            cursor.executemany(_translate(query), values)

    @staticmethod
    def bind_list(values: Iterable[object]) -> list[object]:
        """See `Connection.bind_list`."""
        return list(values)

    def batch(self) -> contextlib.AbstractContextManager[object]:
        """See `Connection.batch`."""
        return self.raw.pipeline()

    def lock_record(self) -> None:
        """See `Connection.lock_record`. No session has the lock 0."""
        self.raw.execute("SELECT pg_advisory_xact_lock(%s, 0)", (_LOCK,))

    def create_namespace(self, namespace: str) -> None:
        """See `Connection.create_namespace`."""
        row = self.raw.execute("SELECT id FROM namespace WHERE name = %s", (namespace,)).fetchone()
        if row is None:
            query = (
                "INSERT INTO namespace (name) VALUES (%s) ON CONFLICT (name) DO UPDATE SET name = excluded.name"
                " RETURNING id"
            )
            row = self.raw.execute(query, (namespace,)).fetchone()
            assert row is not None
        self.raw.execute("SELECT set_config('tenfold.namespace', %s, true)", (str(row[0]),))

    def allocate_rows(self, count: int) -> Sequence[int]:
        """See `Connection.allocate_rows`. The session is locked, so they are above all that it has."""
        rows = self.raw.execute("SELECT nextval('entry_seq') FROM generate_series(1, %s)", (count,))
        return [number for (number,) in rows]

    def lock_session(self, namespace: str, session: str) -> None:
        """See `Connection.lock_session`."""
        self.raw.execute(_LOCK_SESSION, (namespace, session))


@lru_cache(maxsize=512)
def _translate(query: str) -> bytes:
    query = translate_query(query, blob="coalesce({}, '')", in_list="= ANY(?)")
    return _NAME.sub(r"%(\1)s", query.replace("%", "%%").replace("?", "%s")).encode()


class PostgresDatabase:
    """A pool of connections to the database at `url`. See `Database`.

    `busy_seconds` is how long a call waits for a connection or a lock. The processes of a fork have pools of their own.
    """

    def __init__(self, url: str, *, busy_seconds: float, pool_size: int = POOL_SIZE) -> None:
        self.url, self.place, self.busy_seconds = url, describe_place(url), busy_seconds
        self._pool_size = pool_size
        self._namespaces: dict[str, int] = {}
        self._closed = False
        self._start()
        try:
            with self.read() as db:
                check_version(db.raw, self.place)
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        self._process_id, self._lock = os.getpid(), threading.Lock()
        self._pool = ConnectionPool(
            self.url,
            min_size=1,
            max_size=self._pool_size,
            timeout=max(self.busy_seconds, _CONNECTION_SECONDS),
            kwargs={"autocommit": True},
            configure=self._set_options,
            name="tenfold",
            open=False,
        )
        self._known: dict[int, str] = {}
        self._is_reached = False

    def _set_options(self, raw: psycopg.Connection) -> None:
        raw.execute(
            "SELECT set_config('search_path', %s, false), set_config('lock_timeout', %s, false),"
            " set_config('tenfold.namespace', '0', false)",
            (f"{SCHEMA}, public", str(round(self.busy_seconds * 1_000))),
        )

    @contextlib.contextmanager
    def read(self, namespace: str | None = None) -> Iterator[PostgresConnection]:
        """Lends a connection that works for this namespace, or for all of them. Errors are raised as `StoreError`."""
        if self._closed:
            raise StoreError(f"the store {self.place} is closed: open it again")
        if self._process_id != os.getpid():
            self._start()  # a connection must not be used after a fork
        try:
            if not self._is_reached:
                self._connect_once()
            with self._pool.connection() as raw:
                self._choose_namespace(raw, namespace)
                yield PostgresConnection(raw)
        except (psycopg.Error, PoolTimeout, PoolClosed) as exc:
            error = self.translate_error(exc)
            self._is_reached = self._is_reached and not isinstance(error, LostConnection)
            raise error from exc

    @contextlib.contextmanager
    def write(self, namespace: str | None = None) -> Iterator[PostgresConnection]:
        """Lends a connection inside a transaction, which is rolled back if anything is raised."""
        with self.read(namespace) as db, db.raw.transaction():
            yield db

    def _connect_once(self) -> None:
        """Connects once without the pool, which waits for a server until a time is over, and opens the pool.

        Each caller tries by itself: none waits for the time that another one takes to find out that there is no server.
        """
        psycopg.connect(self.url, connect_timeout=max(2, round(self.busy_seconds))).close()
        with self._lock:
            if self._pool.closed:
                self._pool.open(wait=True, timeout=self.busy_seconds)
            self._is_reached = True

    def _choose_namespace(self, raw: psycopg.Connection, namespace: str | None) -> None:
        wanted = ALL if namespace is None else str(self._find_namespace(raw, namespace))
        chosen = getattr(raw, "tenfold_namespace", "")
        if chosen != wanted:
            raw.execute("SELECT set_config('tenfold.namespace', %s, false)", (wanted,))
            raw.tenfold_namespace = wanted  # type: ignore[attr-defined]  # what the server was told last

    def _find_namespace(self, raw: psycopg.Connection, namespace: str) -> int:
        found = self._namespaces.get(namespace)
        if found is None:
            row = raw.execute("SELECT id FROM namespace WHERE name = %s", (namespace,)).fetchone()
            if row is None:
                return 0
            found = self._namespaces[namespace] = int(row[0])
        return found

    def drop_broken(self) -> None:
        """Drops the connections that the server has closed, unless another thread is at it: it takes all idle ones."""
        if self._lock.acquire(blocking=False):
            try:
                with contextlib.suppress(psycopg.Error, PoolTimeout, PoolClosed):
                    self._pool.check()
            finally:
                self._lock.release()

    def close(self) -> None:
        """Closes every connection."""
        self._closed = True
        if self._process_id == os.getpid():
            self._pool.close()

    def translate_error(self, error: Exception) -> TenfoldError:
        """Translates an error of PostgreSQL into one that names the database and the next step."""
        place, said = self.place, _describe(error)
        match error:
            case errors.UniqueViolation():
                return DuplicateRow(
                    f"the store {place} holds a row with this key already ({said}): nothing was written"
                )
            case PoolTimeout():
                return LockedStore(
                    f"no connection to the store {place} was free for {self._pool.timeout:g} seconds: all "
                    f"{self._pool_size} are in use, or the server cannot be reached; nothing was written: try again"
                )
            case errors.LockNotAvailable() | errors.DeadlockDetected():
                return LockedStore(
                    f"the session in the store {place} was locked by another process for {self.busy_seconds:g} "
                    "seconds; nothing was written: try again"
                )
            case errors.DiskFull():
                return UnwritableStore(f"no room to write the store {place} ({said}): free some space, or {_NEXT_STEP}")
            case errors.ReadOnlySqlTransaction() | errors.InsufficientPrivilege():
                return UnwritableStore(
                    f"the store {place} cannot be written ({said}): use a role that may, or {_NEXT_STEP}"
                )
            case errors.UndefinedTable() | errors.InvalidSchemaName():
                return StoreError(f"the database {place} holds no store ({said}): `tenfold store migrate`")
            case psycopg.OperationalError() | PoolClosed() if is_lost(error):
                return LostConnection(
                    f"the database {place} cannot be reached ({said}); nothing is known to be written: see that the "
                    f"server runs and lets you in, or {_NEXT_STEP}"
                )
            case psycopg.DataError():
                return StoreError(f"the store {place} cannot hold this ({said}): nothing was written and nothing found")
            case _:
                return StoreError(f"the store {place} cannot do this ({type(error).__name__}: {said})")


def is_lost(error: Exception) -> bool:
    """Tells whether an error says that the server cannot be reached, and not what the server thinks of a query."""
    state = getattr(error, "sqlstate", None)
    return state is None or state[:2] in _LOST_STATES


def _describe(error: Exception) -> str:
    """Returns what the server said, without the details, which may quote what was to be stored."""
    said = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return " ".join((said or str(error)).split())[:_MAX_SAID]


class LostConnection(StoreError):
    """The database could not be reached, or the connection broke. Whether the last call was done is not known."""


def describe_place(url: str) -> str:
    """Returns an address of a database without its password, which no message and no log may show.

    Raises `UsageError`, with nothing of the address in it, if it cannot be read.
    """
    given = _parse(url)
    user, host, port, name = (str(given.get(key) or "") for key in ("user", "host", "port", "dbname"))
    place = f"{user}@" if user else ""
    if host.startswith("/"):  # the folder of a socket
        return f"postgresql://{place}/{name}?host={host}" + (f"&port={port}" if port else "")
    return f"postgresql://{place}{host}{f':{port}' if port else ''}/{name}"


def has_password(url: str) -> bool:
    """Tells whether an address of a database has a password in it, also one of a certificate's key."""
    return any("password" in name and value for name, value in _parse(url).items())


def _parse(url: str) -> dict[str, Any]:
    try:
        if _AUTHORITY.match(url):  # what follows the first @ would be taken for the host, and shown
            raise psycopg.ProgrammingError
        return dict(conninfo_to_dict(url))
    except psycopg.Error:
        raise UsageError(
            "the address of the store cannot be read: it has the form postgresql://USER:PASSWORD@HOST:PORT/DATABASE, "
            "and what is special in it is written as %XX (an @ in a password as %40)"
        ) from None
