"""What only a file can do (permissions, other processes, other versions, a full disk, damage), and only memory."""

from __future__ import annotations

import gc
import os
import random
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tenfold.errors import NewerStore, StoreError, TenfoldError, UnwritableStore
from tenfold.store.base import MAIN, SessionInfo
from tenfold.store.location import FILE_NAME, get_default_location, open_store
from tenfold.store.sqlite import schema
from tenfold.store.sqlite.connections import MemoryConnection
from tenfold.store.sqlite.store import SqliteStore
from tests.store.build import NS, Growing, make_message

ROOT = Path(__file__).parents[2]


def test_the_file_is_private_from_the_start(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        store = SqliteStore(tmp_path / "new folder" / "store.db")
    finally:
        os.umask(old)
    Growing(store).say("one")
    for file in (tmp_path / "new folder").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new folder").stat().st_mode) == 0o700
    assert {f.name for f in (tmp_path / "new folder").iterdir()} == {"store.db", "store.db-wal", "store.db-shm"}
    store.close()


def test_it_is_write_ahead_and_synchronous_normal(sqlite: SqliteStore) -> None:
    with sqlite._database.read() as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA synchronous").fetchone() == (1,)
        assert db.execute("PRAGMA secure_delete").fetchone() == (1,)
        assert db.execute("PRAGMA user_version").fetchone() == (schema.SCHEMA_VERSION,)


def test_what_was_written_is_there_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "a folder with spaces, ? and #" / "störe.db"
    store = SqliteStore(path)
    log = Growing(store)
    log.say("one", "two", "three")
    log.compact(0, 1, "sum")
    store.close()
    store = SqliteStore(path)
    assert store.read_entries(NS, "s") == log.entries
    assert store.verify(NS) == []
    store.close()


def test_a_newer_store_names_both_numbers(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    SqliteStore(path).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 41")
    db.close()
    before = path.read_bytes()
    with pytest.raises(NewerStore, match=rf"{path} has schema 41, this release reads up to {schema.SCHEMA_VERSION}"):
        SqliteStore(path)
    assert path.read_bytes() == before


def test_an_older_store_is_migrated_once_by_two_openers(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    db.close()
    stores: list[SqliteStore] = []
    threads = [threading.Thread(target=lambda: stores.append(SqliteStore(path))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores) == 4
    Growing(stores[0]).say("one")
    assert stores[3].open(NS, "s").length == 1
    for store in stores:
        store.close()


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE t (x)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="database of another program"):
        SqliteStore(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("size", [20, 1_000, 5_000, 20_000, -4_096])
def test_a_truncated_file_gives_a_clear_error(tmp_path: Path, size: int) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    Growing(store).say(*("text " * 50 for _ in range(300)))
    store.close()
    data = path.read_bytes()
    path.write_bytes(data[:size])
    with pytest.raises(StoreError, match=r"store\.db is damaged.*restore it from a backup"):
        SqliteStore(path).read_entries(NS, "s")


def test_a_file_that_is_no_database_and_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but longer than a header would be " * 50)
    with pytest.raises(StoreError, match="damaged or not a Tenfold store"):
        SqliteStore(path)
    assert path.read_text().startswith("not a database")
    with pytest.raises(UnwritableStore, match="is a folder"):
        SqliteStore(tmp_path)
    with pytest.raises(UnwritableStore, match="TENFOLD_STORE"):
        SqliteStore(path / "below a file.db")


def test_a_damaged_page_is_a_problem_not_a_crash(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    chance = random.Random(3)  # noqa: S311 - texts that do not shrink
    Growing(store).say(*(chance.randbytes(900).hex() for _ in range(300)))
    store.close()
    data = bytearray(path.read_bytes())
    for page in range(100, 120):  # they hold entries; the first ones hold the tables' names
        data[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(data)
    store = SqliteStore(path)
    problems = store.verify(NS)
    assert any("the file is damaged" in p.what for p in problems)
    assert all("restore the store from a backup" in p.what for p in problems)
    store.close()


def fill_disk(store: SqliteStore, *, spare: int) -> None:
    """Gives the disk of this store only `spare` more pages: SQLite then reports a full disk."""
    with store._database.read() as db:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages + spare}")


@pytest.mark.parametrize("spare", [0, 1, 5])
def test_a_full_disk_loses_nothing(tmp_path: Path, spare: int) -> None:
    store = SqliteStore(tmp_path / "store.db")
    log = Growing(store)
    log.say("one", "two")
    fill_disk(store, spare=spare)
    leaf, chooser = log.leaf, random.Random(3)  # noqa: S311  texts that can be repeated
    with pytest.raises(UnwritableStore, match=r"no room to write the store .*store\.db: free some.*TENFOLD_STORE"):
        log.say(*(chooser.randbytes(1_500).hex() for _ in range(40)))
    assert store.open(NS, "s").leaf == leaf
    assert store.read_entries(NS, "s") == log.entries[:2]
    fill_disk(store, spare=1_000)
    again = log.fork(2, MAIN)
    again.say("after some space was freed")
    assert store.read_entries(NS, "s") == again.entries
    assert store.verify(NS) == []
    store.close()


def run_as_nobody(path: Path) -> list[str]:
    """What a user without rights gets for each call, in a fork of its own: root may write everything."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            os.write(writer, "\n".join(try_calls(path)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        lines = pipe.read().splitlines()
    os.waitpid(child, 0)
    return lines


def try_calls(path: Path) -> list[str]:
    """What opening the store and a few calls give, one line each."""
    try:
        store = SqliteStore(path)
    except TenfoldError as exc:
        return [f"{type(exc).__name__} {exc}"]
    out = ["opened"]
    calls: list[Callable[[], object]] = [
        lambda: store.open(NS, "s").length,
        lambda: len(store.search(NS, "readable words")),
        lambda: len(store.search_passages(NS, "what did readable mean")),
        lambda: store.create(NS, SessionInfo("new")),
        lambda: store.purge(NS, "s", None, now=1),
        lambda: len(store.verify(NS)),
    ]
    for call in calls:
        try:
            out.append(repr(call()))
        except TenfoldError as exc:
            out.append(f"{type(exc).__name__} {exc}")
    return out


def make_reachable(folder: Path) -> None:
    """Lets every user walk into the folder: the parents that pytest made are private to the one who runs it."""
    for each in [folder, *folder.parents]:
        if each != Path("/") and each.stat().st_uid == os.getuid() and "pytest" in str(each):
            each.chmod(each.stat().st_mode | 0o055)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
@pytest.mark.parametrize("indexed", [True, False])
def test_a_read_only_store_can_be_read_and_says_what_to_do(
    tmp_path_factory: pytest.TempPathFactory, *, indexed: bool
) -> None:
    folder = tmp_path_factory.mktemp("readonly")
    path = folder / "store.db"
    store = SqliteStore(path)
    Growing(store).say("some readable words", "others")
    if indexed:
        store.index()
    store.close()
    make_reachable(folder)
    path.chmod(0o444)
    folder.chmod(0o555)
    before = path.read_bytes()
    try_calls(folder.with_name("loaded.db"))  # nobody may not read where Python keeps what it loads at first use
    lines = run_as_nobody(path)
    assert lines[:4] == ["opened", "2", "1", "2"]
    for line in lines[4:6]:
        assert line.startswith(f"UnwritableStore the store {path} is read-only: change its permissions, or name")
    assert lines[6] == "0"
    assert path.read_bytes() == before
    folder.chmod(0o755)


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_a_store_that_may_not_be_made_or_read(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("closed")
    make_reachable(folder)
    lines = run_as_nobody(folder / "new.db")
    refused = f"UnwritableStore the store {folder}/new.db cannot be made (Permission denied): name another place with"
    assert lines == [f"{refused} --store or TENFOLD_STORE"]
    path = folder / "private.db"
    SqliteStore(path).close()
    (line,) = run_as_nobody(path)
    assert line.startswith(f"UnwritableStore the store {path} cannot be opened")


STARVED = """
import resource, sys
from tenfold.errors import StoreError
from tenfold.store.sqlite.store import SqliteStore
from tests.store.build import NS, Growing
store = SqliteStore(sys.argv[1])
log = Growing(store)
log.say("before")
twin = log.fork(1, "twin")
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
taken = []
with store._database.read():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
    try:
        while True:
            taken.append(open("/dev/null"))
    except OSError:
        pass
    try:
        log.say("while there are none")
    except StoreError as exc:
        print(type(exc).__name__, exc)
    for each in taken:
        each.close()
    twin.say("after")
print(len(store.read_entries(NS, "s")))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of this kind are POSIX")
def test_a_moment_without_file_descriptors_does_not_make_a_store_read_only(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-c", STARVED, str(path)]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    said, entries = ran.stdout.splitlines()
    assert said.startswith(f"StoreError the store {path} could not be opened at this moment")
    assert said.endswith("try again")
    assert entries == "2"


def test_a_locked_store_says_how_long_it_waited(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    holder, waiter = SqliteStore(path), SqliteStore(path, busy_seconds=0.05)
    Growing(holder).say("one")
    with holder._database.write():
        assert waiter.open(NS, "s").length == 1  # readers never wait
        with pytest.raises(StoreError, match=r"locked by another process for 0\.05 seconds; nothing was written"):
            waiter.create(NS, SessionInfo("t"))
    waiter.create(NS, SessionInfo("t"))
    holder.close()
    waiter.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX only")
def test_a_new_store_waits_for_the_one_that_makes_it_too(tmp_path: Path) -> None:
    """SQLite changes the journal mode without waiting for a lock: of 60 openers in two processes, 7 were refused."""
    path = tmp_path / "store.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match=r"locked by another process for 0\.2 seconds"):
        SqliteStore(path, busy_seconds=0.2)
    releasing = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
    releasing.start()
    store = SqliteStore(path)
    releasing.join()
    other.close()
    Growing(store).say("one")
    assert store.verify(NS) == []
    store.close()


def test_many_open_a_new_store_at_once(tmp_path: Path) -> None:
    for number in range(20):
        path, errors, barrier = tmp_path / f"{number}.db", list[StoreError](), threading.Barrier(4)

        def open_it(path: Path = path, errors: list[StoreError] = errors, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            try:
                SqliteStore(path).close()
            except StoreError as exc:
                errors.append(exc)

        threads = [threading.Thread(target=open_it) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []


def test_a_fork_opens_connections_of_its_own(sqlite: SqliteStore) -> None:
    log = Growing(sqlite)
    log.say("one")
    child = os.fork()
    if child == 0:
        ok = 1
        try:
            log.fork(1, MAIN).say("from the child")
            ok = 0
        finally:
            os._exit(ok)
    assert os.waitpid(child, 0)[1] == 0
    assert sqlite.open(NS, "s").length == 2
    assert sqlite.verify(NS) == []


def test_a_store_that_nobody_holds_closes_its_connections(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    with store._database.read() as db:
        pass
    del store
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        db.execute("SELECT 1")


def test_memory_touches_no_file_and_is_gone_when_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore(":memory:")
    Growing(store).say("one", "two")
    assert store.search(NS, "two")
    assert list(tmp_path.iterdir()) == []
    store.close()
    with pytest.raises(StoreError, match="is closed, and what it held is gone: make a new one"):
        store.read_entries(NS, "s")
    again = SqliteStore(":memory:")
    assert again.list_sessions(NS) == []


def test_a_memory_store_is_freed_with_its_last_reference() -> None:
    store = SqliteStore(":memory:")
    connection = store._database
    assert isinstance(connection, MemoryConnection)
    finalizer = connection._finalizer
    del store, connection
    gc.collect()
    assert not finalizer.alive


@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")
def test_a_forked_process_has_a_memory_store_of_its_own() -> None:
    store = SqliteStore(":memory:")
    log = Growing(store)
    log.say("one")
    child = os.fork()
    if child == 0:
        ok = 1
        try:
            twin = log.fork(1, MAIN)
            twin.say("from the child")
            ok = int(store.read_entries(NS, "s") != twin.entries)
        finally:
            os._exit(ok)
    assert os.waitpid(child, 0)[1] == 0
    log.say("from the parent")
    assert store.read_entries(NS, "s") == log.entries
    assert store.verify(NS) == []


def test_the_place_of_the_store(tmp_path: Path) -> None:
    memory = open_store(":memory:")
    assert isinstance(memory, SqliteStore)
    assert memory.path == ":memory:"
    store = open_store(tmp_path / "x.db")
    assert isinstance(store, SqliteStore)
    store.close()
    assert get_default_location({"TENFOLD_STORE": ":memory:"}) == ":memory:"
    assert get_default_location({"TENFOLD_STORE": "/somewhere/else.db"}) == "/somewhere/else.db"
    assert Path(get_default_location({})).name == FILE_NAME
    assert "tenfold" in Path(get_default_location({})).parts
    assert make_message("x").role == "user"
