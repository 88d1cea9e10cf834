"""`--namespace`: each command works on the sessions of one tenant and sees no other's."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli


def test_tenants_do_not_see_each_other(tenfold: Cli, pi: Path, chat: Path, tmp_path: Path) -> None:
    tenfold.run_ok("compact", pi, "--to", "20%", "--namespace", "north")
    tenfold.run_ok("compact", chat, "--to", "20%", "--namespace", "south")
    assert tenfold.run_ok("sessions", "--json").objects == []
    (north,) = tenfold.run_ok("sessions", "--json", "--namespace", "north").objects
    (south,) = tenfold.run_ok("sessions", "--json", "--namespace", "south").objects
    assert north["session"] != south["session"]
    assert tenfold.run_ok("search", "refund", "--namespace", "south", "--json").objects
    assert tenfold.run_ok("search", "refund", "--namespace", "north", "--json").objects == []
    for command in (
        ["show", south["session"]],
        ["diff", south["session"]],
        ["undo", south["session"]],
        ["rules", south["session"]],
        ["export", south["session"]],
        ["search", "refund", "--session", south["session"]],
        ["purge", south["session"], "--yes"],
    ):
        assert tenfold(*command, "--namespace", "north").code == 2, command
        assert tenfold(*command).code == 2, command
    entry = tenfold.run_ok("search", "refund", "--namespace", "south", "--json").objects[0]["entry"]
    for command in (["expand", entry], ["pin", entry], ["unpin", entry], ["purge", entry, "--yes"]):
        assert tenfold(*command, "--namespace", "north").code == 2, command
    tenfold.run_ok("verify", "--namespace", "south")
    nobodys = tenfold("verify", "--namespace", "west")
    assert nobodys.code == 4
    assert nobodys.out.startswith("no session is stored in the namespace west, only in north, south: name one")
    tenfold.run_ok("show", "last", "--namespace", "south")
    tenfold.run_ok("export", "last", "--namespace", "south", "--out", tmp_path / "view.json")
    tenfold.run_ok("undo", "last", "--namespace", "south")
    tenfold.run_ok("purge", south["session"], "--yes", "--namespace", "south")
    assert tenfold.run_ok("sessions", "--json", "--namespace", "south").objects == []
    assert len(tenfold.run_ok("sessions", "--json", "--namespace", "north").objects) == 1


def test_settings_and_environment_name_the_tenant(
    tenfold: Cli, chat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text('[tenfold]\nnamespace = "south"\n')
    monkeypatch.setenv("TENFOLD_CONFIG", str(settings))
    tenfold.run_ok("compact", chat, "--to", "20%")
    assert len(tenfold.run_ok("sessions", "--json").objects) == 1
    monkeypatch.setenv("TENFOLD_NAMESPACE", "north")
    assert tenfold.run_ok("sessions", "--json").objects == []
    assert len(tenfold.run_ok("sessions", "--json", "--namespace", "south").objects) == 1
