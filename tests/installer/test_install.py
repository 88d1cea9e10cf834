"""`tenfold install`: what it writes, that it does so once, and that nothing of the user's settings is lost."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tenfold.apps.cli.main import run

CODEX = """# my settings
model = "gpt-5"   # the good one

[mcp_servers.other]   # mine
command = "other"
args = [ "a", ]
"""
CLAUDE = '{\n    "permissions": {"allow": ["Bash(ls)"]},\n    "enabledPlugins": {"mine@x": true},\n    "ratio": 1.50\n}'
OPENCODE = '{\n\t"$schema": "https://opencode.ai/config.json",\n\t"theme": "day"\n}\n'
PLACES = {
    "claude-code": (".claude/settings.json", CLAUDE),
    "codex": (".codex/config.toml", CODEX),
    "opencode": (".config/opencode/opencode.json", OPENCODE),
    "pi": (".pi/agent/settings.json", '{"theme": "dark"}\n'),
}
VARIABLES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "OPENCODE_CONFIG_DIR", "XDG_CONFIG_HOME", "PI_CODING_AGENT_DIR")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (*VARIABLES, "TENFOLD_STORE", "TENFOLD_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


def read_tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_settings(home: Path, client: str) -> Path:
    name, text = PLACES[client]
    path = home / name
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode())
    return path


def load(path: Path) -> dict[str, Any]:
    text = path.read_text("utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


@pytest.mark.parametrize("client", PLACES)
def test_installed_twice_is_installed_once_and_removed_it_is_as_before(client: str, home: Path) -> None:
    path = write_settings(home, client)
    before, settings = read_tree(home), load(path)
    assert run(["install", client, "--dry-run"]) == 0
    assert read_tree(home) == before
    assert run(["install", client]) == 0
    installed = read_tree(home)
    assert installed != before
    now = load(path)
    assert {key: now[key] | settings[key] if isinstance(settings[key], dict) else now[key] for key in settings} == {
        key: now[key] if isinstance(settings[key], dict) else settings[key] for key in settings
    }
    assert run(["install", client]) == 0
    assert read_tree(home) == installed
    assert run(["install", client, "--uninstall", "--dry-run"]) == 0
    assert read_tree(home) == installed
    assert run(["install", client, "--uninstall"]) == 0
    assert read_tree(home) == before
    assert run(["install", client, "--uninstall"]) == 0
    assert read_tree(home) == before


@pytest.mark.parametrize("client", PLACES)
def test_without_settings_it_makes_them_and_takes_them_away(client: str, home: Path) -> None:
    assert run(["install", client]) == 0
    assert read_tree(home)
    assert run(["install", client, "--uninstall"]) == 0
    assert read_tree(home) == {}


def list_folders(home: Path) -> set[str]:
    return {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_dir()}


@pytest.mark.parametrize("client", PLACES)
@pytest.mark.parametrize("had_settings", [False, True])
def test_folders_that_it_made_go_and_others_stay(client: str, home: Path, *, had_settings: bool) -> None:
    if had_settings:
        write_settings(home, client)
    (home / ".config" / "empty").mkdir(parents=True)
    before = list_folders(home)
    assert run(["install", client]) == 0
    assert list_folders(home) > before or (client, had_settings) == ("codex", True)
    assert run(["install", client]) == 0
    assert run(["install", client, "--uninstall"]) == 0
    assert list_folders(home) == before


@pytest.mark.parametrize("folder", [".pi/agent/extensions", ".config/opencode/plugin", ".claude/tenfold", ".codex"])
def test_an_empty_folder_of_the_user_stays(folder: str, home: Path) -> None:
    (home / folder).mkdir(parents=True)
    before = list_folders(home)
    for client in PLACES:
        assert run(["install", client]) == 0
    for client in PLACES:
        assert run(["install", client, "--uninstall"]) == 0
    assert list_folders(home) == before
    assert read_tree(home) == {}


def test_a_folder_that_it_made_stays_with_what_a_client_has_put_there(home: Path) -> None:
    assert run(["install", "pi"]) == 0
    (home / ".pi" / "agent" / "auth.json").write_text("{}", "utf-8")
    assert run(["install", "pi", "--uninstall"]) == 0
    assert read_tree(home) == {".pi/agent/auth.json": b"{}"}
    assert list_folders(home) == {".pi", ".pi/agent"}


@pytest.mark.parametrize("client", ["claude-code", "codex", "opencode"])
def test_what_the_user_changes_after_the_installation_stays_when_it_is_removed(client: str, home: Path) -> None:
    path = write_settings(home, client)
    assert run(["install", client]) == 0
    text = path.read_text("utf-8")
    if client == "codex":
        path.write_text(f"{text}\n[tui]  # new\nvim = true\n", "utf-8")
    else:
        path.write_text(text.replace("{", '{ "new": {"deep": 1},', 1), "utf-8")
    expected = load(path)
    assert run(["install", client, "--uninstall"]) == 0
    now = load(path)
    assert ("tui" if client == "codex" else "new") in now
    assert "tenfold" not in json.dumps(now)
    assert expected.keys() - now.keys() <= {"mcp", "extraKnownMarketplaces"}
    if client == "codex":
        assert path.read_text("utf-8").startswith(CODEX)
        assert "[tui]  # new" in path.read_text("utf-8")
    kept = path.with_name(path.name + ".before-tenfold").read_text("utf-8")
    assert kept == PLACES[client][1], "the copy of the settings as they were"


def test_comments_and_layout_of_toml_stay(home: Path) -> None:
    path = write_settings(home, "codex")
    assert run(["install", "codex", "--store", "own.db", "--namespace", "team"]) == 0
    text = path.read_text("utf-8")
    assert text.startswith(CODEX)
    server = tomllib.loads(text)["mcp_servers"]["tenfold"]
    options = ["--store", str(Path("own.db").absolute()), "--namespace", "team"]
    assert server == {"command": sys.executable, "args": ["-m", "tenfold", "mcp", *options]}


def test_a_key_that_the_user_added_to_our_table_stays_on_the_next_installation(home: Path) -> None:
    assert run(["install", "codex"]) == 0
    path = home / ".codex" / "config.toml"
    path.write_text(path.read_text("utf-8") + "startup_timeout_sec = 20\n", "utf-8")
    assert run(["install", "codex", "--namespace", "team"]) == 0
    server = load(path)["mcp_servers"]["tenfold"]
    assert (server["startup_timeout_sec"], server["args"][-1]) == (20, "team")


@pytest.mark.parametrize("text", ['{\n  // mine\n  "theme": "day"\n}\n', '{"theme": ', "[1]"])
def test_json_that_cannot_be_kept_whole_is_left_alone_with_the_lines_to_add(
    text: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / ".config" / "opencode" / "opencode.jsonc"
    path.parent.mkdir(parents=True)
    path.write_text(text, "utf-8")
    before = read_tree(home)
    assert run(["install", "opencode"]) == 3
    assert read_tree(home) == before
    said = capsys.readouterr().err
    assert str(path) in said
    assert "left alone" in said
    assert text == "[1]" or '"mcp": {' in said


def test_toml_that_is_none_is_left_alone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text("model = \n", "utf-8")
    assert run(["install", "codex"]) == 3
    assert path.read_text("utf-8") == "model = \n"
    assert "[mcp_servers.tenfold]" in capsys.readouterr().err


def test_a_file_of_the_user_is_not_replaced(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / ".pi" / "agent" / "extensions" / "tenfold.ts"
    path.parent.mkdir(parents=True)
    path.write_text("// my own\n", "utf-8")
    assert run(["install", "pi"]) == 2
    assert "is not from Tenfold" in capsys.readouterr().err
    assert run(["install", "pi", "--uninstall"]) == 0
    assert path.read_text("utf-8") == "// my own\n"


@pytest.mark.skipif(os.name == "nt", reason="Windows has neither")
def test_a_link_stays_a_link_and_permissions_stay(home: Path) -> None:
    real = home / "dotfiles" / "config.toml"
    real.parent.mkdir()
    real.write_text(CODEX, "utf-8")
    real.chmod(0o640)
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.symlink_to(real)
    assert run(["install", "codex"]) == 0
    assert path.is_symlink()
    assert "tenfold" in real.read_text("utf-8")
    assert real.stat().st_mode & 0o777 == 0o640
    assert run(["install", "codex", "--uninstall"]) == 0
    assert real.read_text("utf-8") == CODEX


def test_the_plugin_of_claude_code_is_whole(home: Path) -> None:
    assert run(["install", "claude-code"]) == 0
    folder = home / ".claude" / "tenfold"
    (listed,) = load(folder / ".claude-plugin" / "marketplace.json")["plugins"]
    plugin = folder / listed["source"]
    assert load(plugin / ".claude-plugin" / "plugin.json")["name"] == listed["name"] == "tenfold"
    written = load(plugin / "hooks" / "hooks.json")
    assert all((plugin / "hooks" / name).is_file() for name in written["modules"])
    hooks = written["hooks"]
    assert hooks.keys() == {"PreCompact", "SessionStart"}
    assert hooks["SessionStart"][0]["matcher"] == "compact"
    assert load(plugin / ".mcp.json")["mcpServers"]["tenfold"]["args"] == ["-m", "tenfold", "mcp"]
    assert sorted(path.stem for path in (plugin / "commands").iterdir()) == ["rules", "search", "status"]
    assert all(path.read_text("utf-8").startswith("---\ndescription: ") for path in (plugin / "commands").iterdir())
    settings = load(home / ".claude" / "settings.json")
    assert settings["extraKnownMarketplaces"]["tenfold"]["source"] == {"source": "directory", "path": str(folder)}
    assert settings["enabledPlugins"] == {"tenfold@tenfold": True}
