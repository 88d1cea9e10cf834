"""Where the jobs of a store are kept, and which workers live.

The jobs of a store in a file are in a file beside it, those of a database in a schema of their own there.
"""

from __future__ import annotations

import logging
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import sqlalchemy as sa
from dbos import DBOS, error
from sqlalchemy.dialects import postgresql, sqlite

from tenfold.errors import StoreError, UsageError
from tenfold.formats.output_file import PRIVATE_MODE
from tenfold.store.base import MEMORY_LOCATION
from tenfold.store.ids import get_current_time
from tenfold.store.location import JOBS_SUFFIX, describe_location, find_jobs_file, is_database

SCHEMA = "tenfold_jobs"
APPLICATION = "tenfold"
QUEUE = "tenfold"
"""The queue of jobs that belong to a namespace. Workers take from the namespaces in turn."""
UPKEEP_QUEUE = "tenfold-upkeep"
"""The queue of jobs over the whole store, which run one at a time."""


class JobError(StoreError):
    """The jobs cannot be read or written."""


def find_jobs_url(location: str) -> str:
    """Returns the address of the database with the jobs of a store, as SQLAlchemy takes it."""
    if location == MEMORY_LOCATION:
        raise UsageError("jobs outlive a process, and a store in memory does not: name a file or a database")
    if is_database(location):
        return re.sub(r"^postgres(ql)?://", "postgresql://", location)
    return f"sqlite:///{find_jobs_file(location).absolute()}"


def prepare_jobs(location: str, *, migrate: bool) -> str:
    """Makes the tables of a store's jobs if they may be made here, and returns the database's address.

    Those of a file are made when they are needed. Those of a database only with `migrate`, as `tenfold store migrate`
    has it.
    """
    url = find_jobs_url(location)
    log = logging.getLogger("dbos")
    log.setLevel(log.level or logging.WARNING)  # it tells of itself each time it connects
    if not is_database(location):
        file = find_jobs_file(location)
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            os.close(os.open(file, os.O_CREAT | os.O_RDWR, PRIVATE_MODE))
    elif not migrate:
        return url
    with explain_failure(location):
        DBOS.migrate(url, schema=SCHEMA)
        with suppress(sa.exc.IntegrityError), _connect(url) as db:  # another process makes it at this moment
            db.execute(sa.schema.CreateTable(_WORKERS, if_not_exists=True))
    return url


def has_jobs(location: str) -> bool:
    """Tells whether a store has ever had jobs. Nothing is made for it."""
    if location == MEMORY_LOCATION:
        return False
    if not is_database(location):
        return find_jobs_file(location).exists()
    with explain_failure(location), _connect(find_jobs_url(location)) as db:
        return (
            db.execute(sa.text("SELECT to_regclass(:name)"), {"name": f"{SCHEMA}.workflow_status"}).scalar() is not None
        )


@contextmanager
def explain_failure(location: str) -> Iterator[None]:
    """Turns what a database says about the jobs into a `JobError` with the next step."""
    try:
        yield
    except sa.exc.ProgrammingError as exc:
        raise JobError(
            f"the jobs of {describe_location(location)} cannot be used: {_get_first_line(exc)}; "
            "`tenfold store migrate` makes their tables, as a role that may"
        ) from exc
    except error.DBOSException as exc:
        raise JobError(
            f"the jobs of {describe_location(location)}: {exc}; `tenfold store migrate` brings their tables up to date"
        ) from exc
    except ValueError as exc:  # of the address
        raise JobError(
            f"the jobs of {describe_location(location)} need an address with one host and port: {_get_first_line(exc)}"
        ) from exc
    except sa.exc.SQLAlchemyError as exc:
        raise JobError(f"the jobs of {describe_location(location)} cannot be reached: {_get_first_line(exc)}") from exc


def _get_first_line(exc: Exception) -> str:
    cause = getattr(exc, "orig", None) or exc
    return next(iter(str(cause).splitlines()), type(cause).__name__)


_WORKERS = sa.Table(
    "tenfold_worker",
    sa.MetaData(),
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("until", sa.BigInteger, nullable=False),
)
"""The workers, each with the time in microseconds UTC until which it is taken to live."""


@sa.event.listens_for(sa.Engine, "connect")
def _tell_milliseconds(connection: Any, _: object) -> None:  # noqa: ANN401 - of any driver
    """Has an older SQLite answer what DBOS asks of it.

    From Python 3.12 on DBOS takes every time from `unixepoch('subsec')`, which SQLite knows since 3.42. An older one,
    as in Debian 12, says NULL. Only connections to files with jobs are told.
    """
    if not isinstance(connection, sqlite3.Connection) or sqlite3.sqlite_version_info >= (3, 42):
        return
    files = [row[2] for row in connection.execute("PRAGMA database_list")]
    if any(file.endswith(JOBS_SUFFIX) for file in files):
        connection.create_function("unixepoch", 1, lambda _: time.time_ns() / 1e9)


def _build_engine(url: str) -> sa.Engine:
    address = sa.make_url(url)
    if address.drivername == "postgresql":
        engine = sa.create_engine(address.set(drivername="postgresql+psycopg"), poolclass=sa.NullPool)
        return engine.execution_options(schema_translate_map={None: SCHEMA})
    return sa.create_engine(address, poolclass=sa.NullPool, connect_args={"timeout": 30})


@contextmanager
def _connect(url: str) -> Iterator[sa.Connection]:
    engine = _build_engine(url)
    try:
        with engine.begin() as db:
            yield db
    finally:
        engine.dispose()


class WorkerTable:
    """The workers of a store that live. One that has not said so for a while is taken to be dead."""

    def __init__(self, url: str) -> None:
        """Does not connect yet."""
        self._url = url

    def note_alive(self, worker: str, seconds: float) -> None:
        """Notes that a worker lives for so many seconds from now."""
        until = get_current_time() + int(seconds * 1_000_000)
        with _connect(self._url) as db:
            insert = (postgresql if db.dialect.name == "postgresql" else sqlite).insert(_WORKERS)
            row: Mapping[str, Any] = {"id": worker, "until": until}
            db.execute(insert.values(row).on_conflict_do_update(index_elements=["id"], set_={"until": until}))

    def list_alive(self, now: int) -> frozenset[str]:
        """Lists the workers that live. Forgets those that have been dead for a day."""
        with _connect(self._url) as db:
            db.execute(_WORKERS.delete().where(_WORKERS.c.until < now - 86_400_000_000))
            return frozenset(db.execute(sa.select(_WORKERS.c.id).where(_WORKERS.c.until >= now)).scalars())

    def forget(self, worker: str) -> None:
        """Forgets a worker that ends."""
        with _connect(self._url) as db:
            db.execute(_WORKERS.delete().where(_WORKERS.c.id == worker))
