"""Connections to one SQLite database, in a file or in memory, and the translation of SQLite's errors.

A file is created with mode 0600. Each thread that is in a call has a connection of its own to it, in write-ahead mode,
so readers never wait for a writer. A database in memory has one connection, which the threads use in turn. This module
knows nothing of entries.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path, PurePath

from tenfold.errors import LockedStore, StoreError, TenfoldError, UnwritableStore
from tenfold.store.base import MEMORY_LOCATION
from tenfold.store.sql.database import DuplicateRow, Values, translate_query
from tenfold.store.sqlite.schema import migrate

_CACHE_SIZE = -16_000  # the page cache of each connection, in KiB (SQLite wants them negative)
_NEXT_STEP = "name another place with --store or TENFOLD_STORE"
_LOCK_ERRORS = (
    "SQLITE_PROTOCOL",
    "SQLITE_NOLFS",
    "SQLITE_IOERR_LOCK",
    "SQLITE_IOERR_UNLOCK",
    "SQLITE_IOERR_RDLOCK",
    "SQLITE_IOERR_CHECKRESERVEDLOCK",
    "SQLITE_IOERR_SHM",
)
_PATIENCE_AFTER_A_LOCK = 0.01
"""Seconds that a writer waits shortly after another one has waited in vain, so that many in turn do not add up."""
_BUSY_ERRORS = ("SQLITE_BUSY", "SQLITE_LOCKED")
_SIDE_FILES = ("-wal", "-shm", "-journal")


class SqliteConnection(sqlite3.Connection):
    """A connection that understands the queries of `tenfold.store.sql`. See `Connection`."""

    def execute(self, query: str, values: Values = (), /) -> sqlite3.Cursor:  # type: ignore[override]  # no buffers
        """Runs a query."""
        return super().execute(_translate(query), values)

    def executemany(self, query: str, values: Iterable[Values], /) -> sqlite3.Cursor:  # type: ignore[override]  # as above
        """Runs a query once for each of the values."""
        return super().executemany(_translate(query), values)

    @staticmethod
    def bind_list(values: Iterable[object]) -> str:
        """See `Connection.bind_list`."""
        return json.dumps(list(values))

    @staticmethod
    def batch() -> contextlib.AbstractContextManager[object]:
        """Does nothing: a query takes no way."""
        return contextlib.nullcontext()

    def lock_record(self) -> None:
        """Does nothing, since a write transaction locks the whole file."""

    def create_namespace(self, namespace: str) -> None:
        """See `Connection.create_namespace`."""
        self.execute("INSERT INTO namespace (name) VALUES (?) ON CONFLICT DO NOTHING", (namespace,))

    def allocate_rows(self, count: int) -> range:
        """See `Connection.allocate_rows`. The transaction keeps all other writers out."""
        (last,) = self.execute("SELECT ifnull(max(seq), 0) FROM entry").fetchone()
        return range(last + 1, last + 1 + count)

    def lock_session(self, namespace: str, session: str) -> None:
        """Does nothing, since a write transaction locks the whole file."""


@lru_cache(maxsize=512)
def _translate(query: str) -> str:
    # Damage can turn a blob into another type. The cast makes it one again, and then its hash is found wrong.
    blob, in_list = "ifnull(CAST({} AS BLOB), x'')", "IN (SELECT value FROM json_each(?))"
    return translate_query(query, blob=blob, in_list=in_list)


class ConnectionPool:
    """Lends connections to the database at `path`. `busy_seconds` is how long a writer waits for another one.

    The connections are closed by `close`, or when nothing refers to this object any more.
    """

    def __init__(self, path: str, *, busy_seconds: float) -> None:
        self.path = path
        self.busy_seconds = busy_seconds
        self.is_read_only = False
        self._abandoned_connections: list[SqliteConnection] = []
        self._locked_until = 0.0
        self._closed = False
        self._begin_process()
        check_place(Path(path).absolute())
        _create_file(path)
        try:
            with self.read() as db:
                migrate(db, path, busy_seconds=busy_seconds)
        except BaseException:
            self.close()  # an error that somebody keeps would keep the file open
            raise

    @contextlib.contextmanager
    def read(self, namespace: str | None = None) -> Iterator[SqliteConnection]:  # noqa: ARG002 - one file for all
        """Lends a connection for reading. Errors of SQLite are raised as `StoreError`."""
        if self._closed:
            raise StoreError(f"the store {self.path} is closed: open it again")
        if self._process_id != os.getpid():
            # A connection must not be used after a fork, not even to close it.
            self._finalizer.detach()
            self._abandoned_connections += self._idle_connections
            self._begin_process()
        self._files.check()
        try:
            try:
                db = self._idle_connections.pop()
            except IndexError:
                db = self.connect()
            try:
                yield db
            finally:
                self._files.note()
                self._release(db)
        except (sqlite3.Error, OverflowError) as exc:
            raise translate_error(exc, self.path, self.busy_seconds) from exc

    @contextlib.contextmanager
    def write(self, namespace: str | None = None) -> Iterator[SqliteConnection]:  # noqa: ARG002 - as above
        """Lends a connection inside a write transaction, which is rolled back if anything is raised.

        Raises `LockedStore` if other writers do not end in time. Writers that come within `busy_seconds` of that hardly
        wait: else each of them would wait as long, one after the other.
        """
        with self.read() as db, self._wait_for_turn(db), _run_transaction(db):
            yield db

    @contextlib.contextmanager
    def _wait_for_turn(self, db: SqliteConnection) -> Iterator[None]:
        with self._write_lock:
            is_locked = time.monotonic() < self._locked_until
            seconds = min(self.busy_seconds, _PATIENCE_AFTER_A_LOCK) if is_locked else self.busy_seconds
            db.execute(f"PRAGMA busy_timeout={round(seconds * 1_000)}")
            try:
                yield
            except sqlite3.OperationalError as exc:
                if exc.sqlite_errorname.startswith(_BUSY_ERRORS):
                    self._locked_until = time.monotonic() + self.busy_seconds
                raise

    def empty_wal(self) -> None:
        """Moves the write-ahead log into the file and empties it, so that purged bytes are in neither."""
        with self.read() as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Closes every idle connection. A connection in use is closed when its call ends."""
        self._closed = True
        _close_all(self._idle_connections, self._process_id)

    def _begin_process(self) -> None:
        self._idle_connections: list[SqliteConnection] = []
        self._process_id = os.getpid()
        self._write_lock = threading.Lock()
        self._files = _OpenFiles(self.path)
        self._finalizer = weakref.finalize(self, _close_all, self._idle_connections, self._process_id)

    def connect(self) -> SqliteConnection:
        """Opens a new connection, for writing if that is possible, else for reading."""
        if self.is_read_only:
            return _open_read_only(self.path, self.busy_seconds)
        try:
            return _open(Path(self.path).absolute().as_uri() + "?mode=rw", self.busy_seconds)
        except sqlite3.OperationalError as exc:
            if not os.access(self.path, os.R_OK) or not _is_access_error(exc, self.path):
                raise
            db = _open_read_only(self.path, self.busy_seconds)
            self.is_read_only = True
            return db

    def _release(self, db: SqliteConnection) -> None:
        if self._closed:
            db.close()
        else:
            self._idle_connections.append(db)


def _close_all(connections: list[SqliteConnection], process_id: int) -> None:
    while connections and process_id == os.getpid():
        connections.pop().close()


class _OpenFiles:
    """The files that an open database works on, to notice if others take their place.

    As long as a connection is open, SQLite removes none of them. If something else does, the open connections go on
    with files that nobody else sees: what is written to them is lost, and two writers no longer notice each other.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._known: dict[str, tuple[int, int]] = {}

    def note(self) -> None:
        """Notes the files that there are now and were not noted before."""
        for name in (self._path, self._path + "-wal", self._path + "-shm"):
            if name not in self._known and (identity := _read_identity(name)) is not None:
                self._known[name] = identity

    def check(self) -> None:
        """Raises `StoreError` if one of the noted files was removed or replaced."""
        for name, known in self._known.items():
            identity = _read_identity(name)
            if identity != known:
                what = "removed or moved" if identity is None else "replaced"
                raise StoreError(
                    f"{name} was {what} while the store was open; nothing was written: put it back, or close the store "
                    "and open it again, and run `tenfold verify`"
                )


def _read_identity(path: str) -> tuple[int, int] | None:
    """Returns what identifies a file, None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - three times as fast, and each call of the store asks three times
    except OSError:
        return None
    return found.st_dev, found.st_ino


class MemoryConnection:
    """Lends the only connection to a database in memory, to one thread at a time.

    The database is gone when this object is. A forked process has a copy of its own.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._db = _connect(MEMORY_LOCATION)
        self._finalizer = weakref.finalize(self, self._db.close)
        migrate(self._db, MEMORY_LOCATION)

    @contextlib.contextmanager
    def read(self, namespace: str | None = None) -> Iterator[SqliteConnection]:  # noqa: ARG002 - as above
        """Lends the connection. Errors of SQLite are raised as `StoreError`."""
        with self._lock:
            if not self._finalizer.alive:
                raise StoreError("the store in memory is closed, and what it held is gone: make a new one")
            try:
                yield self._db
            except (sqlite3.Error, OverflowError) as exc:
                raise translate_error(exc, MEMORY_LOCATION) from exc

    @contextlib.contextmanager
    def write(self, namespace: str | None = None) -> Iterator[SqliteConnection]:  # noqa: ARG002 - as above
        """Lends the connection inside a write transaction, which is rolled back if anything is raised."""
        with self.read() as db, _run_transaction(db):
            yield db

    def empty_wal(self) -> None:
        """Does nothing, since a database in memory has no write-ahead log."""

    def close(self) -> None:
        """Frees the database."""
        with self._lock:
            self._finalizer()


@contextlib.contextmanager
def connect_read_only(path: str) -> Iterator[SqliteConnection]:
    """Lends a connection that changes nothing, for what must read a damaged file. Errors are raised as `StoreError`."""
    try:
        with contextlib.closing(_open_read_only(path)) as db:
            yield db
    except sqlite3.Error as exc:
        raise translate_error(exc, path) from exc


def read_file_version(path: str) -> int:
    """Reads how many migrations a store has had, 0 if there is no file."""
    if path == MEMORY_LOCATION or not Path(path).exists():
        return 0
    with connect_read_only(path) as db:
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def check_place(path: PurePath) -> None:
    """Raises `UnwritableStore` for a network share of Windows: an address of SQLite cannot name one."""
    if path.drive.startswith("\\\\"):
        raise UnwritableStore(
            f"{path} is on a network share, where SQLite cannot keep its write-ahead log: name a file on a disk of "
            "this machine, or a database: postgresql://USER@HOST/DATABASE"
        )


def _open_read_only(path: str, busy_seconds: float = 0.0) -> SqliteConnection:
    address = Path(path).absolute().as_uri() + "?mode=ro"
    try:
        return _open(address, busy_seconds)
    except sqlite3.OperationalError:
        # Reading a write-ahead database needs its side files. If they cannot be created and no writer has left
        # any, nothing can change the file while it is read.
        if any(Path(path + side).exists() for side in _SIDE_FILES):
            raise
        return _open(address + "&immutable=1", busy_seconds)


def _open(address: str, busy_seconds: float) -> SqliteConnection:
    db = _connect(address, timeout=busy_seconds)
    try:
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute("PRAGMA checkpoint_fullfsync=ON")  # without it macOS may keep a checkpoint in the drive's own memory
        db.execute("PRAGMA secure_delete=ON")
        db.execute(f"PRAGMA cache_size={_CACHE_SIZE}")
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error:
        db.close()
        raise
    return db


def _connect(address: str, *, timeout: float = 0.0) -> SqliteConnection:
    db = SqliteConnection(
        address, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False, cached_statements=256
    )
    db.text_factory = _decode_text
    db.execute("PRAGMA temp_store=MEMORY")  # what a search or a sort needs for a moment is written to no file
    return db


def _decode_text(value: bytes) -> str:
    """Decodes a text of the database. Only damage makes one that is not UTF-8, and it must not hide the other rows."""
    return value.decode("utf-8", "replace")


@contextlib.contextmanager
def _run_transaction(db: SqliteConnection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except sqlite3.IntegrityError as exc:
        raise DuplicateRow(f"the store holds a row with this key already ({exc}): nothing was written") from exc
    finally:
        if db.in_transaction:
            db.execute("ROLLBACK")


def translate_error(error: sqlite3.Error | OverflowError, path: str, busy_seconds: float = 0.0) -> TenfoldError:
    """Translates an error of SQLite into one that names the file and the next step."""
    if isinstance(error, OverflowError):
        return StoreError(f"a number is larger than the store {path} can hold, which is 64 bits: nothing was written")
    name = getattr(error, "sqlite_errorname", "") or ""
    if name.startswith("SQLITE_FULL"):
        return UnwritableStore(f"no room to write the store {path}: free some space, or {_NEXT_STEP}")
    if name.startswith(("SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH")):
        return UnwritableStore(f"the store {path} is read-only: change its permissions, or {_NEXT_STEP}")
    if name.startswith("SQLITE_CANTOPEN") and _is_writable(path):
        return StoreError(
            f"the store {path} could not be opened at this moment ({error}), as happens when too many files are open: "
            "close some, and try again"
        )
    if name.startswith("SQLITE_CANTOPEN"):
        return UnwritableStore(f"the store {path} cannot be opened: check its folder's permissions, or {_NEXT_STEP}")
    if name.startswith(_BUSY_ERRORS):
        return LockedStore(
            f"the store {path} was locked by another process for {busy_seconds:g} seconds; nothing "
            "was written: try again"
        )
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StoreError(
            f"the store {path} is damaged or not a Tenfold store ({error}): restore it from a backup, save what "
            f"is readable with `tenfold salvage NEW_STORE`, or {_NEXT_STEP}"
        )
    if name.startswith(_LOCK_ERRORS):
        return StoreError(
            f"the file system of the store {path} does not lock files or share memory as SQLite needs it ({name}), as "
            f"some network drives do: move the store to a local disk, or {_NEXT_STEP}"
        )
    if name.startswith("SQLITE_IOERR"):
        return UnwritableStore(f"the disk refused access to the store {path} ({name}): check it, or {_NEXT_STEP}")
    if name.startswith("SQLITE_TOOBIG") or isinstance(error, sqlite3.DataError):
        return StoreError(f"an entry is too large for the store {path} ({error}): split it, nothing was written")
    return StoreError(f"the store {path} cannot do this ({name or type(error).__name__}: {error})")


def has_index_damage(error: StoreError) -> bool:
    """Tells whether an error came from a damaged search index, which holds nothing that the entries do not hold."""
    return getattr(error.__cause__, "sqlite_errorname", "") == "SQLITE_CORRUPT_VTAB"


def _create_file(path: str) -> None:
    """Creates the file if it does not exist. It is private from the first moment on."""
    try:
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if Path(path).is_dir():
            raise UnwritableStore(f"{path} is a folder, not a store: name a file in it") from None
    except OSError as exc:
        raise UnwritableStore(f"the store {path} cannot be made ({exc.strerror}): {_NEXT_STEP}") from exc


def _is_access_error(error: sqlite3.Error, path: str) -> bool:
    """Tells whether the file cannot be written at all. A lack of file descriptors looks similar to SQLite."""
    name = error.sqlite_errorname
    return name.startswith(("SQLITE_READONLY", "SQLITE_PERM")) or (
        name.startswith("SQLITE_CANTOPEN") and not _is_writable(path)
    )


def _is_writable(path: str) -> bool:
    """Tells whether the file can be written, and side files can be created next to it."""
    return os.access(path, os.R_OK | os.W_OK) and os.access(Path(path).absolute().parent, os.W_OK | os.X_OK)
