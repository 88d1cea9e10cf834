"""Verify names every damage done to a real file, and only that."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tenfold.core.record.codec import encode_entry
from tenfold.core.view.fold import Snapshot
from tenfold.store.sql.paths import decode_snapshot, encode_snapshot
from tenfold.store.sqlite.store import SqliteStore
from tenfold.store.unreadable import is_unreadable
from tests.store.build import NS, Growing

Damage = Callable[[sqlite3.Connection], object]


def build_log(store: SqliteStore) -> Growing:
    log = Growing(store)
    log.say(*(f"message number {i}" for i in range(8)))
    log.compact(0, 3, "first four")
    log.say("nine", "ten")
    log.compact(4, 6, "next three")
    log.undo()
    side = log.fork(9, "side")
    side.say("another way", "and on")
    side.compact(4, 6, "side summary")
    store.search(NS, "message")
    return log


def verify_damaged(path: Path, damage: Damage) -> list[tuple[str, str]]:
    """What verify says after `damage`: (position or name of the entry, what)."""
    store = SqliteStore(path)
    log = build_log(store)
    assert store.verify(NS) == []
    store.close()
    db = sqlite3.connect(path)
    damage(db)
    db.commit()
    db.close()
    store = SqliteStore(path)
    places = {e.id: str(p) for p, e in enumerate(log.entries)}
    problems = [(places.get(p.entry, p.entry and "side"), p.what) for p in store.verify(NS)]
    assert all(p.session in ("s", "") for p in store.verify(NS))
    store.close()
    return problems


def build_damage(*statements: str) -> Damage:
    def damage(db: sqlite3.Connection) -> None:
        for statement in statements:
            db.execute(statement)

    return damage


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (
            "UPDATE entry SET body = CAST(replace(body, 'number 2', 'number 7') AS BLOB) WHERE seq = 3",
            [("2", "its bytes are not")],
        ),
        ("UPDATE entry SET body = CAST(x'01' || substr(body, 3) AS BLOB) WHERE seq = 3", [("2", "cannot be read")]),
        ("UPDATE entry SET body = CAST(x'09' || substr(body, 2) AS BLOB) WHERE seq = 3", [("2", "record schema 9")]),
        ("UPDATE entry SET body = 'text' || x'ff' WHERE seq = 3", [("2", "cannot be read")]),
        ("UPDATE entry SET body = (SELECT body FROM entry WHERE seq = 5) WHERE seq = 3", [("2", "its bytes are not")]),
        ("UPDATE entry SET hash = x'00' WHERE seq = 3", [("2", "its bytes are not"), ("3", "its bytes are not")]),
        ("UPDATE entry SET kind = 'custom' WHERE seq = 3", [("2", "its record says otherwise")]),
        ("UPDATE head SET leaf = 99 WHERE name = 'main'", [("", "the entry at head main is missing")]),
        ("UPDATE head SET entries = entries + 1 WHERE name = 'main'", [("", "17 entries were appended, but 16")]),
    ],
)
def test_a_changed_row_is_named(tmp_path: Path, damage: str, expected: list[tuple[str, str]]) -> None:
    found = verify_damaged(tmp_path / "store.db", build_damage(damage))
    assert len(found) == len(expected)
    for (place, what), (expected_place, expected_what) in zip(found, expected, strict=True):
        assert place == expected_place
        assert expected_what in what
        assert "restore the store from a backup" in what or "upgrade tenfold" in what


def test_a_missing_row_is_named(tmp_path: Path) -> None:
    found = verify_damaged(tmp_path / "store.db", build_damage("DELETE FROM entry WHERE seq = 3"))
    assert any("positions 2..2 are missing" in what for _, what in found)
    assert any("16 entries were appended, but 15" in what for _, what in found)


@pytest.mark.parametrize("head", ["main", "side"])
def test_a_missing_last_row_is_named(tmp_path: Path, head: str) -> None:
    last = f"SELECT leaf FROM head WHERE name = '{head}'"  # noqa: S608
    found = verify_damaged(tmp_path / "store.db", build_damage(f"DELETE FROM entry WHERE seq = ({last})"))  # noqa: S608
    assert any(f"the entry at head {head} is missing" in what for _, what in found)


def test_a_missing_row_at_a_fork_is_named(tmp_path: Path) -> None:
    found = verify_damaged(tmp_path / "store.db", build_damage("DELETE FROM entry WHERE seq = 9"))
    assert any("from which a branch starts" in what for _, what in found)


def test_a_flipped_byte_in_the_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    log = build_log(store)
    store.close()
    data = path.read_bytes()
    places = [m.start() for m in re.finditer(b"message number 5", data)]
    assert len(places) == 2  # as text and as native bytes
    for place in places:
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        store = SqliteStore(path)
        problems = store.verify(NS)
        store.close()
        assert [(p.session, p.entry) for p in problems] == [("s", log.entries[5].id)]


@pytest.mark.parametrize("place", [0, 1, 2, 40, 200, -1], ids=lambda place: f"byte {place}")
def test_a_flipped_byte_in_a_compressed_entry_costs_that_entry_alone(tmp_path: Path, place: int) -> None:
    store = SqliteStore(tmp_path / "store.db")
    log = Growing(store)
    log.say("before", " ".join(f"word{number * number}" for number in range(400)), "after")
    store.close()
    with closing(sqlite3.connect(tmp_path / "store.db")) as db, db:
        stored = bytearray(db.execute("SELECT body FROM entry WHERE seq = 2").fetchone()[0])
        assert len(stored) < len(encode_entry(log.entries[1])) / 2
        stored[place] ^= 1
        db.execute("UPDATE entry SET body = ? WHERE seq = 2", (bytes(stored),))
    store = SqliteStore(tmp_path / "store.db")
    (problem,) = store.verify(NS)
    assert (problem.entry, "cannot be read" in problem.what) == (log.entries[1].id, True)
    before, broken, after = store.read_entries(NS, "s")
    assert (before, after) == (log.entries[0], log.entries[2])
    assert is_unreadable(broken)
    assert [hit.position for hit in store.search(NS, "after")] == [2]
    store.close()


@pytest.mark.parametrize(
    ("pick", "place", "what"),
    [
        ("ASC", "8", "live Blocks at [7], the log says [8]"),
        ("DESC", "side", "live Blocks at [7], the log says [8, 11]"),
    ],
)
def test_a_wrong_snapshot_is_named(tmp_path: Path, pick: str, place: str, what: str) -> None:
    def damage(db: sqlite3.Connection) -> None:
        seq, body = db.execute(f"SELECT seq, body FROM manifest ORDER BY seq {pick}").fetchone()  # noqa: S608
        old = decode_snapshot(body)
        wrong = encode_snapshot(Snapshot(old.length, old.range_refs, (7,), old.pins, old.undone, old.meter_state))
        db.execute("UPDATE manifest SET body = ? WHERE seq = ?", (wrong, seq))

    found = verify_damaged(tmp_path / "store.db", damage)
    assert [p for p, _ in found] == [place]
    assert what in found[0][1]


def test_every_field_of_a_snapshot_is_compared(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    build_log(store)
    with store._database.read() as db:
        rows = db.execute("SELECT seq, body FROM manifest").fetchall()
    for seq, body in rows:
        old = decode_snapshot(body)
        for wrong in (
            Snapshot(old.length, old.range_refs[:-1], old.live_blocks, old.pins, old.undone),
            Snapshot(old.length, old.range_refs, old.live_blocks, (1,), old.undone),
            Snapshot(old.length, old.range_refs, old.live_blocks, old.pins, not old.undone),
            Snapshot(old.length - 1, old.range_refs, old.live_blocks, old.pins, old.undone),
        ):
            with store._database.write() as db:
                db.execute("UPDATE manifest SET body = ? WHERE seq = ?", (encode_snapshot(wrong), seq))
            problems = store.verify(NS)
            assert len(problems) == 1
            assert "its snapshot is not the fold of the log" in problems[0].what
        with store._database.write() as db:
            db.execute("UPDATE manifest SET body = x'c1' WHERE seq = ?", (seq,))
        assert "its snapshot cannot be read" in store.verify(NS)[0].what
        with store._database.write() as db:
            db.execute("UPDATE manifest SET body = ? WHERE seq = ?", (body, seq))
    assert store.verify(NS) == []
    store.close()


def test_a_tombstone_that_was_tampered_with_is_named(sqlite: SqliteStore) -> None:
    log = build_log(sqlite)
    sqlite.purge(NS, "s", log.entries[2].id, now=1)
    assert sqlite.verify(NS) == []
    with sqlite._database.write() as db:
        db.execute("UPDATE entry SET body = replace(body, 'removed', 'changed') WHERE seq = 3")
    assert [p.entry for p in sqlite.verify(NS)] == [log.entries[2].id]
