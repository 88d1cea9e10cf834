"""What holds for the store in PostgreSQL only: migrations, row-level security, lost connections, and its errors."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tenfold.errors import LockedStore, NewerStore, NotFoundError, StoreError, UsageError
from tenfold.store.base import SessionInfo
from tenfold.store.location import describe_location, migrate_store, open_store
from tenfold.store.postgres.connections import LostConnection
from tenfold.store.postgres.schema import load_migrations
from tenfold.store.postgres.store import PostgresStore
from tests.postgres import create_database, end_backends, open_postgres_store, require_server
from tests.store.build import NS, Growing

TABLES = ("session", "seg", "entry", "head", "manifest", "count", "export", "lease")


@pytest.fixture
def url() -> Iterator[str]:
    """The address of a database with the tables of a store."""
    with create_database() as address:
        yield address


@pytest.fixture
def postgres() -> Iterator[PostgresStore]:
    with open_postgres_store() as store:
        yield store


# -- migrations --------------------------------------------------------------------------------------------------------


def test_an_empty_database_is_refused_and_the_command_named() -> None:
    with create_database(empty=True) as url:
        with pytest.raises(StoreError, match=r"has schema 0, and this release needs \d+: `tenfold store migrate`"):
            open_store(url)
        assert migrate_store(url) == (0, len(load_migrations()))
        assert migrate_store(url) == (len(load_migrations()), len(load_migrations()))
        open_store(url).close()


def test_a_newer_schema_is_refused_with_both_numbers(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("UPDATE tenfold.schema_version SET version = 999")
    own = len(load_migrations())
    for attempt in (open_store, migrate_store):
        with pytest.raises(NewerStore, match=f"schema 999, this release reads up to {own}"):
            attempt(url)


def test_processes_that_migrate_at_once_make_one_store() -> None:
    program = "import sys; from tenfold.store.location import migrate_store; print(migrate_store(sys.argv[1])[0])"
    with create_database(empty=True) as url:
        started = [
            subprocess.Popen([sys.executable, "-c", program, url], stdout=subprocess.PIPE, text=True) for _ in range(4)
        ]
        before = sorted(int(process.communicate(timeout=60)[0]) for process in started)
        assert [process.returncode for process in started] == [0] * 4
        assert before == [0, *[len(load_migrations())] * 3]
        open_store(url).close()


def test_a_store_of_the_first_schema_is_migrated_and_finds_what_it_found(url: str) -> None:
    with closing(open_store(url)) as store:
        Growing(store, "s").say("the parcel of order 1017")
        store.index()
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("DROP INDEX tenfold.gram_grams")
        db.execute("CREATE INDEX gram_grams ON tenfold.gram USING gin (ns, session, grams)")
        db.execute("UPDATE tenfold.schema_version SET version = 1")
    with pytest.raises(StoreError, match=r"has schema 1, and this release needs \d+: `tenfold store migrate`"):
        open_store(url)
    assert migrate_store(url) == (1, len(load_migrations()))
    with closing(open_store(url)) as store:
        assert [hit.snippet for hit in store.search(NS, "parcel")] == ["the parcel of order 1017"]


# -- words -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_indexed", [True, False])
def test_words_are_found_in_every_block_of_entries_newest_first(url: str, is_indexed: bool) -> None:  # noqa: FBT001
    """Each message is in another block of the index, some blocks are empty, and one message is late."""
    blocks = (0, 1, 2, 5, 6, 7)
    with closing(open_store(url)) as store, psycopg.connect(url, autocommit=True) as db:
        log = Growing(store, "s")
        for block in blocks:
            db.execute("SELECT setval('tenfold.entry_seq', %s)", ((block << 14) + 9,))
            log.say(f"the parcel of block {block}")
            if is_indexed:
                store.index()
        log.say("the parcel that comes last")
        for session in ("s", None):
            found = list(store.search(NS, "parcel", session=session, limit=20))
            assert sorted(hit.position for hit in found) == list(range(len(blocks) + 1))
            assert [hit.snippet for hit in store.search(NS, "block 5", session=session)] == ["the parcel of block 5"]


def test_a_page_ends_and_the_next_one_goes_on(url: str) -> None:
    with closing(open_store(url)) as store:
        log = Growing(store, "s")
        log.say(*(f"parcel {at}" for at in range(1_100)))
        found = store.search(NS, "parcel", session="s", limit=1_100)
        assert sorted(hit.position for hit in found) == list(range(1_100))


# -- row-level security ------------------------------------------------------------------------------------------------


def test_a_forgotten_filter_shows_nothing_of_another_tenant(url: str) -> None:
    """A query that names no namespace, on a connection that was told one, sees that one only."""
    with closing(open_store(url)) as store:
        for tenant, text in (("one", "the first secret"), ("two", "the second secret")):
            store.create(tenant, SessionInfo("s"))
            Growing(store, "s", namespace=tenant, first=10 if tenant == "one" else 900).say(text, "noted")
        assert isinstance(store, PostgresStore)
        for namespace, expected in (("one", 2), ("two", 2), ("nobody", 0), (None, 4)):
            with store._database.read(namespace) as db:
                assert db.execute("SELECT count(*) FROM entry").fetchone() == (expected,)
    with psycopg.connect(url, autocommit=True) as bare:  # a program that says nothing at all
        for table in TABLES:
            assert bare.execute(f"SELECT count(*) FROM tenfold.{table}").fetchone() == (0,)  # noqa: S608 - constants


def test_a_search_without_a_filter_leads_to_nothing_of_another_tenant(postgres: PostgresStore) -> None:
    """The tables of the index are not under row-level security. What they lead to is."""
    Growing(postgres, "s", namespace="one").say("the parcel is blue")
    Growing(postgres, "s", namespace="two", first=900).say("the parcel is red")
    assert [hit.snippet for hit in postgres.search("one", "parcel")] == ["the parcel is blue"]
    with postgres._database.read("one") as db:
        found = db.execute("SELECT e.seq FROM gram g JOIN entry e ON e.seq = g.seq").fetchall()
        assert len(found) == 1


def test_a_superuser_is_told_that_nothing_hides_the_tenants(url: str) -> None:
    with closing(open_store(url)) as store:
        assert store.check().notes == ()
    database = url.split("@/")[1].split("?", maxsplit=1)[0]
    with closing(open_store(require_server().find_url(database, "postgres"))) as store:
        (note,) = store.check().notes
        assert "the role postgres is above row-level security" in note


# -- connections -------------------------------------------------------------------------------------------------------


def test_a_lost_connection_loses_and_doubles_nothing(url: str) -> None:
    with closing(open_store(url)) as store:
        log = Growing(store)
        for number in range(20):
            log.say(f"message {number}")
            if number % 4 == 0:
                assert end_backends(url)
        assert store.read_entries(NS, "s") == log.entries
        assert store.verify(NS) == []


def test_an_append_whose_answer_was_lost_is_not_done_twice(url: str) -> None:
    with closing(open_store(url)) as store:
        log = Growing(store)
        log.say("one")
        (entry,) = log.say("two")
        store.append(NS, "s", [entry], expected=log.entries[0].id)  # as the retry after a lost answer
        assert store.read_entries(NS, "s") == log.entries


def test_a_server_that_is_gone_is_named_without_its_password() -> None:
    with pytest.raises(LostConnection, match=r"postgresql://someone@127\.0\.0\.1:1/agents cannot be reached") as failed:
        open_store("postgresql://someone:hunter2@127.0.0.1:1/agents")
    assert "hunter2" not in str(failed.value)


def test_a_server_that_goes_away_is_told_as_that_and_found_again(tmp_path: Path) -> None:
    server, link = require_server(), tmp_path / "sockets"
    with create_database() as url:
        link.symlink_to(server.folder)
        with closing(open_store(url.replace(str(server.folder), str(link)), busy_seconds=0.3)) as store:
            log = Growing(store)
            log.say("one")
            link.unlink()
            end_backends(url)
            with pytest.raises(LostConnection, match="cannot be reached"):
                log.say("two")
            del log.entries[1:]
            link.symlink_to(server.folder)
            log.say("two")
            assert store.read_entries(NS, "s") == log.entries


@pytest.mark.parametrize(
    "location",
    [
        "mysql://someone:hunter2@host/agents",
        "postgresql://someone:hunter2@@host/agents",
        "postgresql://someone:hunter2@host:port/agents",
        "postgresql://someone:hunter2@host/agents?nothing=1",
        "redis://:hunter2@host",
    ],
)
def test_no_wrong_address_is_shown_or_becomes_a_file(
    location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((UsageError, StoreError)) as failed:
        open_store(location)
    assert "hunter2" not in str(failed.value)
    assert not list(tmp_path.iterdir())


def test_an_address_is_shown_without_its_password() -> None:
    assert describe_location("postgresql://me:hunter2@db.example:5433/agents?sslmode=require") == (
        "postgresql://me@db.example:5433/agents"
    )


def test_a_writer_that_waits_too_long_is_told(url: str) -> None:
    with closing(open_store(url, busy_seconds=0.3)) as store:
        log = Growing(store)
        log.say("one")
        with psycopg.connect(url) as other:
            other.execute("SET tenfold.namespace = 'all'")
            other.execute("SELECT pg_advisory_xact_lock(1413893188, id::integer) FROM tenfold.session")
            with pytest.raises(LockedStore, match=r"locked by another process for 0\.3 seconds; nothing was written"):
                log.say("two")
            other.rollback()
        del log.entries[1:]
        assert store.read_entries(NS, "s") == log.entries


def test_sessions_do_not_wait_for_one_another(url: str) -> None:
    """A lock is of one session: others go on while it is held."""
    with closing(open_store(url, busy_seconds=5)) as store:
        for name, first in (("held", 10), ("free", 900)):
            Growing(store, name, first=first).say("one")
        with store._database.write(NS) as db:  # type: ignore[attr-defined]
            db.lock_session(NS, "held")
            done = threading.Event()

            def write() -> None:
                log = Growing(store, "other", first=2_000)
                log.say("two")
                done.set()

            worker = threading.Thread(target=write)
            worker.start()
            assert done.wait(4)
            worker.join()


def test_an_unknown_session_is_not_found_here_either(postgres: PostgresStore) -> None:
    with pytest.raises(NotFoundError):
        postgres.open("nobody", "s")
    assert postgres.search("nobody", "word") == postgres.search_passages("nobody", "who does words") == []
