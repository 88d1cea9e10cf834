"""What is wrong with a command line is said in one sentence with the next step, and nothing is done."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.cli.conftest import EXAMPLES, Cli
from tests.clients.conftest import home

__all__ = ["home"]
PI = EXAMPLES / "logs.pi.jsonl"


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (("import", "."), 3, ".: this folder has no .jsonl, .json, .traj file; name the session files"),
        (("import",), 2, "Missing argument 'FILE|ID...'; see `tenfold import --help`"),
        (("import", "nowhere"), 2, "no session of a client has an id that begins with 'nowhere'; `tenfold find` lists"),
        (("import", "no where.jsonl"), 3, "no where.jsonl: there is no such file or folder; check the path"),
        (("find", "--nope"), 2, "No such option: --nope; see `tenfold find --help`"),
        (("install",), 2, "Missing argument 'CLIENT'. Choose from: claude-code, codex, opencode, pi; see `tenfold"),
        (
            ("install", "emacs"),
            2,
            "'emacs' is not one of 'claude-code', 'codex', 'opencode', 'pi'; see `tenfold install",
        ),
        (
            ("wrap", "nowhere"),
            2,
            "there is no program 'nowhere' that can be run: give the command as you would type it",
        ),
        (("wrap", "--policy", "tenfolt", "true"), 2, "no policy is called 'tenfolt': did you mean 'tenfold'?"),
        (("serve", "--policy", "nope"), 2, "no policy is called 'nope'. There are: "),
        (("wrap", "--recall", "maybe", "true"), 2, "'maybe' is not one of 'inside', 'none'; see `tenfold wrap --help`"),
        (("mcp", "--http", "--host", "0.0.0.0"), 2, "0.0.0.0 can be reached by others"),  # noqa: S104 - it is refused
    ],
)
def test_it_is_said_in_one_line_with_the_next_step(
    line: tuple[str, ...], code: int, said: str, tenfold: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    ran = tenfold(*line)
    errors = [each for each in ran.err.splitlines() if not each.startswith("store: ")]
    assert (ran.code, len(errors)) == (code, 1), ran.err
    assert errors[0].startswith("tenfold: ")
    assert said in errors[0]


@pytest.mark.parametrize("command", ["apply", "show", "export", "import"])
def test_an_id_that_is_empty_means_no_session(command: str, tenfold: Cli, home: Path) -> None:
    """A variable of a shell may be empty. It meant the only session, whatever that was."""
    path = home / ".pi/agent/sessions/x/one.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(PI.read_bytes())
    tenfold.run_ok("import", path)
    ran = tenfold(command, "", *(["--to", "10%"] if command == "apply" else []))
    assert ran.code in (2, 3)
    assert path.read_bytes() == PI.read_bytes()


def test_a_name_may_have_spaces_quotes_and_other_letters(tenfold: Cli, home: Path) -> None:
    path = home / "wörk space" / "日本 語's.jsonl"
    path.parent.mkdir()
    path.write_bytes(PI.read_bytes())
    assert tenfold.run_json("import", path)["file"] == str(path)


def test_a_file_of_the_system_is_named_with_the_reason(tenfold: Cli, home: Path) -> None:
    (home / ".codex/config.toml").mkdir(parents=True)
    ran = tenfold("install", "codex")
    assert ran.code == 4
    assert ran.err.startswith(f"tenfold: {home / '.codex/config.toml'}: Is a directory; check the path")
    assert len(ran.err.splitlines()) == 1


def test_a_port_that_is_taken_is_no_success(tenfold: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for line in (("mcp", "--http", "--port", port), ("serve", "--port", port)):
            ran = tenfold(*line)
            assert ran.code == 4
            assert f"127.0.0.1:{port} cannot be used" in ran.err
            assert "give another --port" in ran.err
            assert "/mcp" not in ran.err, "no address is told that nobody listens on"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="an administrator may read everything")
def test_a_folder_without_rights_is_named_and_the_rest_is_found(tenfold: Cli, home: Path) -> None:
    for name in (".pi/agent/sessions/x", ".codex/sessions"):
        (home / name).mkdir(parents=True)
    (home / ".pi/agent/sessions/x/one.jsonl").write_bytes(PI.read_bytes())
    (home / ".codex/sessions").chmod(0)
    ran = tenfold.run_ok("find", "--json")
    assert [each["client"] for each in ran.objects] == ["pi"]
    assert f"{home / '.codex/sessions'} is left out (Permission denied)" in ran.err
    (home / ".codex/sessions").chmod(0o700)
