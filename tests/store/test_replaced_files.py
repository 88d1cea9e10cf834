"""What happens to the files of an open store: replaced, moved, or without their write-ahead log."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tenfold.errors import StoreError
from tenfold.store.sqlite.connections import translate_error
from tenfold.store.sqlite.schema import migrate
from tenfold.store.sqlite.store import SqliteStore
from tests.store.build import NS, Growing

posix = pytest.mark.skipif(os.name != "posix", reason="an open file can be replaced or removed only here")


@pytest.fixture
def growing(sqlite: SqliteStore) -> Growing:
    """A log in an open store."""
    log = Growing(sqlite)
    log.say("one", "two")
    return log


def assert_stopped(growing: Growing, *words: str) -> None:
    """Nothing is read or written any more, and the error has these words."""
    for work in (lambda: growing.say("three"), lambda: growing.store.open(NS, "s"), lambda: growing.store.verify(NS)):
        with pytest.raises(StoreError) as caught:
            work()
        assert [word for word in (*words, "nothing was written") if word not in str(caught.value)] == []


@posix
@pytest.mark.parametrize("side", ["", "-wal", "-shm"])
def test_a_file_that_is_removed_while_open_is_noticed(sqlite: SqliteStore, growing: Growing, side: str) -> None:
    Path(sqlite.path + side).unlink()
    assert_stopped(growing, Path(sqlite.path + side).name, "removed or moved")


@posix
@pytest.mark.parametrize("side", ["", "-wal", "-shm"])
def test_a_file_that_is_replaced_while_open_is_noticed(
    sqlite: SqliteStore, growing: Growing, tmp_path: Path, side: str
) -> None:
    shutil.copy(sqlite.path + side, tmp_path / "copy")
    (tmp_path / "copy").replace(sqlite.path + side)
    assert_stopped(growing, Path(sqlite.path + side).name, "replaced")


@posix
def test_a_replaced_store_can_be_opened_again(sqlite: SqliteStore, growing: Growing, tmp_path: Path) -> None:
    other = SqliteStore(tmp_path / "other.db")
    Growing(other, "another").say("hello")
    other.close()
    for side in ("-wal", "-shm"):
        Path(sqlite.path + side).unlink()
    (tmp_path / "other.db").replace(sqlite.path)
    assert_stopped(growing, "open it again")
    with closing(SqliteStore(sqlite.path)) as again:
        assert [row.info.id for row in again.list_sessions(NS)] == ["another"]


def test_what_other_processes_do_every_day_is_no_damage(sqlite: SqliteStore, growing: Growing) -> None:
    with closing(SqliteStore(sqlite.path)) as other:
        assert len(other.read_entries(NS, "s")) == 2
    with closing(sqlite3.connect(sqlite.path)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("VACUUM")
    growing.say("three")
    assert sqlite.verify(NS) == []


@posix
def test_a_file_system_without_shared_memory_is_refused(tmp_path: Path) -> None:
    address = (tmp_path / "store.db").as_uri() + "?vfs=unix-none"  # locks nothing and shares no memory
    with (
        closing(sqlite3.connect(address, uri=True, isolation_level=None)) as db,
        pytest.raises(StoreError, match=r"write-ahead log.*local disk"),
    ):
        migrate(db, "store.db")


@pytest.mark.parametrize(
    "name", ["SQLITE_IOERR_LOCK", "SQLITE_IOERR_SHMOPEN", "SQLITE_PROTOCOL", "SQLITE_IOERR_RDLOCK"]
)
def test_a_file_system_without_locks_is_named_with_the_next_step(name: str) -> None:
    error = sqlite3.OperationalError("locking protocol")
    error.sqlite_errorname = name
    assert "does not lock files" in str(translate_error(error, "store.db"))
    assert "local disk" in str(translate_error(error, "store.db"))
