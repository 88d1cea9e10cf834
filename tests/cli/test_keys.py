"""`tenfold keys` and `tenfold audit`: who may use a store, and who did."""

from __future__ import annotations

import getpass
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.cli.conftest import Cli


def test_a_key_is_shown_once_and_lives_until_it_is_revoked(tenfold: Cli) -> None:
    made = tenfold.run_ok("keys", "create", "anna", "--namespace", "team", "--read-only", "--expires", "90d")
    text = made.out.strip()
    assert text.startswith("tenfold_")
    assert "it is shown this once" in made.err
    (listed,) = tenfold.run_ok("keys", "list", "--json").objects
    assert (listed["name"], listed["namespace"], listed["state"]) == ("anna", "team", "in use")
    assert listed["is_read_only"]
    assert text.partition(f"{listed['id']}_")[2] not in tenfold.run_ok("keys", "list").out + str(listed)
    assert tenfold("keys", "create", "anna").code == 2, "two keys of one name could not be told apart"
    rotated = tenfold.run_ok("keys", "rotate", "anna").out.strip()
    assert rotated != text
    assert rotated.split("_")[1] == text.split("_")[1] == listed["id"], "its sessions are those of the old one"
    tenfold.run_ok("keys", "revoke", listed["id"])
    assert tenfold.run_ok("keys", "list", "--json").objects[0]["state"] == "revoked"
    assert tenfold("keys", "revoke", "anna").code == 2
    assert tenfold("keys", "rotate", "nobody").code == 2


def test_what_was_done_is_recorded_as_soon_as_there_is_a_key(tenfold: Cli, pi: Path, tmp_path: Path) -> None:
    tenfold.run_ok("compact", pi, "--to", "20%")
    tenfold.run_ok("show", "last")
    assert tenfold.run_ok("audit", "--json").objects == []
    tenfold.run_ok("keys", "create", "anna")
    for command in (
        ["show", "last"],
        ["diff", "last"],
        ["search", "file"],
        ["rules", "last", "--add", "Never push."],
        ["export", "last", "--view", "--out", str(tmp_path / "view.jsonl")],
        ["compact", str(pi), "--to", "15%", "--out", str(tmp_path / "smaller.jsonl")],
        ["store", "copy", tenfold.store, str(tmp_path / "copy.db")],
        ["store", "backup", str(tmp_path / "backup.db")],
        ["undo", "last"],
        ["purge", tenfold.run_ok("sessions", "--json").objects[0]["session"], "--yes"],
    ):
        tenfold.run_ok(*command)
    lines = tenfold.run_ok("audit", "--json").objects
    assert [each["action"] for each in lines] == [
        *("keys create", "read", "read", "search", "rules", "export", "export", "copy", "backup", "undo", "purge")
    ]
    assert {(each["actor"], each["source"]) for each in lines} == {(getpass.getuser(), "command")}
    assert "11 lines, each as it was written" in tenfold.run_ok("audit", "--verify").out
    assert "file" not in str([each["target"] for each in lines]), "the words of a search are not in it"
    with closing(sqlite3.connect(tenfold.store, isolation_level=None)) as db:
        db.execute("DROP TRIGGER access_record_is_kept")
        db.execute("DELETE FROM access_record WHERE number = 3")
    broken = tenfold("audit", "--verify")
    assert (broken.code, "line 3 of the record is not as it was written" in broken.err) == (4, True)
