"""A store with a flipped bit: one bad byte costs one entry, every command says what is wrong, and the rest stays."""

from __future__ import annotations

import random
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Ran
from tests.thorough import IS_THOROUGH

DERIVED = ("words", "passages")
"""Virtual tables. What they hold stands in the tables whose names begin with theirs."""


@pytest.fixture
def lines(pi: Path) -> list[bytes]:
    """The lines of the session that the damaged store holds."""
    return pi.read_bytes().splitlines(keepends=True)[:40]


@pytest.fixture
def damaged(tenfold: Cli, tmp_path: Path, lines: list[bytes]) -> DamagedStore:
    """A store with a compacted session and another one, and ways to damage a fresh copy of it."""
    file, other = tmp_path / "small.jsonl", tmp_path / "other.json"
    file.write_bytes(b"".join(lines[:30]))
    session = tenfold.run_json("compact", file, "--to", "30%")["session"]
    file.write_bytes(b"".join(lines))
    tenfold.run_ok("compact", file, "--to", "60%")
    other.write_text('[{"role":"user","content":"The other session asks."},{"role":"assistant","content":"Yes."}]')
    tenfold.run_ok("compact", other, "--to", "5000")
    tenfold.run_ok("search", "session")
    return DamagedStore(tenfold, session, lines)


ACCESS = {"access_key": ["id"], "access_record": ["number"]}
"""The keys of the tables of access, which have no other row number."""


class DamagedStore:
    """A sound store, and a copy of it that is damaged again for each flip."""

    def __init__(self, tenfold: Cli, session: str, lines: list[bytes]) -> None:
        self.tenfold, self.session, self.lines = tenfold, session, lines
        with closing(sqlite3.connect(tenfold.store)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.original = tenfold.store.with_name("original.jsonl")
        self._sound = tenfold.store.with_name("sound.db")
        shutil.copy(tenfold.store, self._sound)

    def restore(self) -> None:
        """Makes the store sound again."""
        for side in ("-wal", "-shm"):
            Path(f"{self.tenfold.store}{side}").unlink(missing_ok=True)
        shutil.copy(self._sound, self.tenfold.store)

    def flip_value(self, table: str, column: str, chance: random.Random, where: str = "") -> bool:
        """Flips a bit of a value in a random row, and returns whether there was one."""
        self.restore()
        with closing(sqlite3.connect(self.tenfold.store)) as db:
            keys = ["segid", "term"] if table.endswith("_idx") else ["k"] if table.endswith("_config") else ["rowid"]
            keys = {
                "mark": ["name"],
                "count": ["counter", "seq"],
                "head": ["session", "name"],
                "lease": ["session", "head"],
                **ACCESS,
            }.get(table, keys)
            values = ", ".join(keys)
            found = db.execute(
                f"SELECT CAST({column} AS BLOB), typeof({column}), {values} FROM {table}"  # noqa: S608
                f" WHERE {column} IS NOT NULL {where}"
            )
            rows = found.fetchall()
            if not rows:
                return False
            value, kind, *row = chance.choice(rows)
            if kind == "integer":
                new: object = int(value) ^ 1 << chance.randrange(40)
                update = "?"
            else:
                if not value:
                    return False
                place = chance.randrange(len(value))
                new = value[:place] + bytes([value[place] ^ 1 << chance.randrange(8)]) + value[place + 1 :]
                update = f"CAST(? AS {kind})"
            same = " AND ".join(f"{key} = ?" for key in keys)
            db.execute(f"UPDATE OR IGNORE {table} SET {column} = {update} WHERE {same}", (new, *row))  # noqa: S608
            db.commit()
            return True

    def run_all(self) -> dict[str, Ran]:
        """Runs the commands that read. An exception that is not caught fails the test."""
        session = self.session
        commands = {
            "verify": ("verify",),
            "sessions": ("sessions",),
            "show": ("show", session, "--all"),
            "search": ("search", "server", "log"),
            "original": ("export", session, "--original", "--out", self.original, "--force"),
            "view": ("export", session, "--out", self.original.with_name("view.jsonl"), "--force"),
            "expand": ("expand", "3", "--session", session, "--around", "2"),
            "diff": ("diff", session),
        }
        self.original.write_bytes(b"")
        ran = {name: self.tenfold(*line) for name, line in commands.items()}
        assert {name: each.err for name, each in ran.items() if each.code not in (0, 2, 4)} == {}
        return ran


def find_missing(lines: list[bytes], exported: bytes) -> list[bytes]:
    """The lines that were not exported. Where the line before one is missing, it hangs on the one before that."""
    there = {_cut_parent(line) for line in exported.splitlines()}
    return [line for line in lines if _cut_parent(line.rstrip()) not in there]


def _cut_parent(line: bytes) -> bytes:
    return re.sub(rb'"parentId":("[^"]*"|null)', b"", line, count=1)


def _list_columns(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as db:
        tables = [r[0] for r in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return [
            (table, column[1])
            for table in tables
            if table not in DERIVED and not table.startswith("sqlite_")
            for column in db.execute(f"PRAGMA table_info({table})")
        ]


def test_a_flipped_bit_in_a_body_costs_one_entry_at_most(damaged: DamagedStore) -> None:
    chance = random.Random(1)  # noqa: S311
    for _ in range(40):
        where = "AND session = 1 AND kind = 'said'"
        assert damaged.flip_value("entry", "body", chance, where)
        ran = damaged.run_all()
        assert ran["verify"].code == 4, "no flip goes unnoticed"
        assert "salvage" in ran["verify"].out
        assert {name: each.err for name, each in ran.items() if each.code not in (0, 4)} == {}
        assert ran["show"].code == ran["view"].code == ran["search"].code == ran["expand"].code == 0
        exported = damaged.original.read_bytes()
        assert len(find_missing(damaged.lines, exported)) <= 1
        assert ran["original"].code == (4 if exported.count(b"\n") < len(damaged.lines) else 0)
        if ran["original"].code:
            assert "cannot be read" in ran["original"].err


def test_a_flipped_bit_in_a_block_or_a_snapshot_keeps_every_message(damaged: DamagedStore) -> None:
    chance = random.Random(102)  # noqa: S311
    for table, where in [("entry", "AND kind = 'block'"), ("manifest", "")] * 20:
        assert damaged.flip_value(table, "body", chance, where)
        ran = damaged.run_all()
        assert {name: each.err for name, each in ran.items() if each.code and name not in ("verify", "diff")} == {}
        assert damaged.original.read_bytes() == b"".join(damaged.lines)


def test_no_flipped_bit_of_any_row_gives_a_traceback(damaged: DamagedStore) -> None:
    chance = random.Random(3)  # noqa: S311
    columns = _list_columns(damaged.tenfold.store)
    assert len({table for table, _ in columns}) > 12
    for table, column in columns * (2 if IS_THOROUGH else 1):
        damaged.flip_value(table, column, chance)
        damaged.run_all()


def test_no_flipped_bit_of_the_file_gives_a_traceback(damaged: DamagedStore) -> None:
    chance = random.Random(4)  # noqa: S311
    for _ in range(50):
        damaged.restore()
        data = bytearray(damaged.tenfold.store.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        damaged.tenfold.store.write_bytes(data)
        damaged.run_all()


def test_salvage_saves_all_but_the_damaged_entry(damaged: DamagedStore, tmp_path: Path) -> None:
    chance = random.Random(5)  # noqa: S311
    places = [("entry", "body"), ("entry", "pos"), ("seg", "start"), ("head", "leaf"), ("entry", "id")] * 4
    for number, (table, column) in enumerate(places):
        damaged.flip_value(table, column, chance)
        saved = tmp_path / f"saved-{number}.db"
        ran = damaged.tenfold.run_ok("salvage", saved)
        assert "salvaged" in ran.out
        damaged.tenfold.run_ok("verify", "--store", saved)
        out = ("--out", damaged.original, "--force")
        damaged.tenfold("export", damaged.session, "--original", "--store", saved, *out)
        assert len(find_missing(damaged.lines, damaged.original.read_bytes())) <= 1
        assert damaged.tenfold("show", damaged.session, "--store", saved).code == 0
