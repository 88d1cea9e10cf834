"""Keys are kept as digests, and the record of who did what cannot be changed without being noticed."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from msgspec.structs import replace

from tenfold.errors import UsageError
from tenfold.store.access import KEY_PREFIX, AccessRecord, create_key, find_broken_record, parse_key
from tenfold.store.base import Store
from tenfold.store.location import open_store
from tenfold.store.sqlite.store import SqliteStore
from tests.postgres import create_database
from tests.store.build import read_disk

LINE = AccessRecord(0, 5, "anna", "command", "read", "team", "s")


def test_a_key_is_found_by_its_id_and_known_by_its_digest(store: Store) -> None:
    key, text = create_key("anna", "team", 10)
    other, other_text = create_key("bob", "default", 11)
    for each in (other, key):
        store.save_key(each)
    assert store.list_keys() == [key, other]
    assert (store.find_key(key.id), store.find_key("nobody")) == (key, None)
    assert parse_key(text) == (key.id, key.digest)
    assert text.startswith(KEY_PREFIX)
    assert parse_key(text[:-1] + ("A" if text[-1] != "A" else "B")) != (key.id, key.digest)
    assert text != other_text
    store.save_key(replace(key, revoked=20))
    assert [each.is_valid(30) for each in store.list_keys()] == [False, True]


def test_a_key_ends_when_it_expires() -> None:
    key = replace(create_key("anna", "team", 10)[0], expires=100)
    assert [key.is_valid(now) for now in (10, 99, 100, 101)] == [True, True, False, False]


@pytest.mark.parametrize("text", ["", "sk-123", KEY_PREFIX, f"{KEY_PREFIX}00_x", "Bearer x", "\x00", "é" * 60])
def test_what_is_no_key_is_none(text: str) -> None:
    assert parse_key(text) is None


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 81, "<b>"])
def test_a_name_that_would_break_a_line_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is no name for a key"):
        create_key(name, "team", 1)


def test_the_text_of_a_key_is_nowhere_in_the_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    key, text = create_key("anna", "team", 10)
    with closing(SqliteStore(path)) as store:
        store.save_key(key)
        assert text.partition(f"{key.id}_")[2].encode() not in read_disk(path)
        assert key.digest in read_disk(path)


def test_every_line_of_the_record_holds_on_to_the_one_before(store: Store) -> None:
    with ThreadPoolExecutor(6) as pool:
        written = list(pool.map(lambda n: store.record_access(replace(LINE, target=f"s{n}")), range(30)))
    record = store.read_record()
    assert [each.number for each in record] == list(range(1, 31))
    assert sorted(written, key=lambda each: each.number) == record
    assert {each.target for each in record} == {f"s{n}" for n in range(30)}
    assert store.read_record(29) == record[28:]
    assert find_broken_record(record) == 0
    for changed in (
        [*record[:4], replace(record[4], actor="bob"), *record[5:]],
        [*record[:4], *record[5:]],
        [*record[:4], replace(record[5], number=5), *record[5:]],
    ):
        assert find_broken_record(changed) == 5
    assert find_broken_record([*record[1:]]) == 1


def test_no_line_of_the_record_can_be_changed_or_deleted(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(SqliteStore(path)) as store:
        store.record_access(LINE)
    statements = ("UPDATE {} SET body = ''", "DELETE FROM {}")
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                db.execute(statement.format("access_record"))
    with create_database() as url:
        with closing(open_store(url)) as store:
            store.record_access(LINE)
        with psycopg.connect(url, autocommit=True) as other:
            for statement in (*statements, "TRUNCATE {}"):
                with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
                    other.execute(statement.format("tenfold.access_record"))
