"""Opens the store: a database if its address is given, else a file, by default in the user's data folder.

`TENFOLD_STORE` is read at every call, and the disk is not touched until a store is opened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import platformdirs

from tenfold.errors import UsageError
from tenfold.store.base import Store
from tenfold.store.sqlite.connections import read_file_version
from tenfold.store.sqlite.schema import SCHEMA_VERSION
from tenfold.store.sqlite.store import BUSY_SECONDS, SqliteStore

STORE_VARIABLE = "TENFOLD_STORE"
FILE_NAME = "tenfold.db"
JOBS_SUFFIX = ".jobs"
"""Ends the name of the file with a store's jobs."""
DATABASE_SCHEMES = ("postgresql", "postgres")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def get_default_location(environ: Mapping[str, str] = os.environ) -> str:
    """Returns `TENFOLD_STORE` if it is set, else the path of `tenfold.db` in the user's data folder."""
    return environ.get(STORE_VARIABLE) or str(platformdirs.user_data_path("tenfold", appauthor=False) / FILE_NAME)


def is_database(location: str | os.PathLike[str]) -> bool:
    """Tells whether a location is the address of a database and no path. Raises `UsageError` for an unknown kind."""
    scheme = _SCHEME.match(os.fspath(location))
    if scheme is None:
        return False
    if scheme[1].lower() not in DATABASE_SCHEMES:
        raise UsageError(
            f"a store is a file or a PostgreSQL database, and {scheme[1]}:// is neither: give a path, :memory:, or "
            "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
        )
    return True


def describe_location(location: str | os.PathLike[str]) -> str:
    """Returns a location as it may be shown: an address without its password."""
    return str(_load_postgres().describe_place(str(location))) if is_database(location) else os.fspath(location)


def has_password(location: str | os.PathLike[str]) -> bool:
    """Tells whether a location is the address of a database with a password in it."""
    return is_database(location) and bool(_load_postgres().has_password(str(location)))


def find_jobs_file(location: str) -> Path:
    """Returns the file with the durable jobs of a store that is a file: `tenfold.db.jobs` beside `tenfold.db`."""
    path = Path(location)
    return path.with_name(f"{path.name}{JOBS_SUFFIX}")


def migrate_store(location: str) -> tuple[int, int]:
    """Brings the tables of a store to this release's schema, making them if there are none. Returns both versions.

    Opening does this for a file. Raises what `open_store` raises.
    """
    if is_database(location):
        before, after = _load_postgres().migrate_database(location)
        return before, after
    before = read_file_version(location)
    SqliteStore(location).close()
    return before, SCHEMA_VERSION


def _load_postgres() -> Any:  # noqa: ANN401 - the module, which is optional
    try:
        return import_module("tenfold.store.postgres.store")
    except ModuleNotFoundError as exc:
        if (exc.name or "").split(".")[0] not in ("psycopg", "psycopg_pool"):
            raise
        raise UsageError("a store in PostgreSQL needs the extra: pip install 'tenfold[postgres]'") from exc


def open_store(
    location: str | os.PathLike[str] | None = None, *, redact_at_rest: bool = False, busy_seconds: float = BUSY_SECONDS
) -> Store:
    """Opens the store, which keeps every message of your sessions. Creates its file if there is none.

    Open one for a process, give it to your sessions, and close it at the end. `location` is a path, `:memory:` for a
    store that writes no file, or `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`, for which `tenfold store migrate` has
    made the tables; without it, `get_default_location()` decides. With `redact_at_rest` the store keeps no secrets. A
    write waits up to `busy_seconds` while another process writes. Raises `NewerStore`, `UnwritableStore` or
    `StoreError`, each with the place and the next step, and `UsageError` for the address of another kind of database.
    """
    place = get_default_location() if location is None else location
    if is_database(place):
        store: Store = _load_postgres().PostgresStore(
            str(place), redact_at_rest=redact_at_rest, busy_seconds=busy_seconds
        )
        return store
    return SqliteStore(place, redact_at_rest=redact_at_rest, busy_seconds=busy_seconds)
