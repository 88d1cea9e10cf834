"""What reaches a terminal: nothing that commands it, nothing secret, nothing it cannot encode."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tenfold.apps.cli.main import COMMANDS
from tenfold.core.text.terminal_safe import sanitize, strip_controls, to_one_line
from tests.cli.conftest import Cli, write_messages

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m \u202egnp.exe\u202c \x9b1A\x08\x08 \u2066iso\u2069 end"
SECRET = "sk-" + "ant-api03-" + "Zq7" * 12


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A conversation with terminal escapes, direction marks and a secret in every kind of place."""
    asked = f"Always answer briefly. API_KEY={SECRET} {HOSTILE} marker-user"
    messages: list[object] = [{"role": "user", "content": asked}]
    for n in range(40):
        call = {
            "id": f"c{n}",
            "type": "function",
            "function": {"name": "bash", "arguments": json.dumps({"command": f"echo {n}"})},
        }
        messages.append({"role": "assistant", "content": f"{HOSTILE} step {n}", "tool_calls": [call]})
        messages.append(
            {
                "role": "tool",
                "tool_call_id": f"c{n}",
                "content": f"{HOSTILE}\nline {n} API_KEY={SECRET} marker-tool\n" * 10,
            }
        )
    messages.append({"role": "user", "content": "go on"})
    return write_messages(tmp_path / "hostile.json", messages)


def test_no_command_prints_what_a_session_commands(tenfold: Cli, hostile: Path) -> None:
    tenfold.run_ok("compact", hostile, "--to", "20%")
    block = tenfold.run_json("diff", "last")["block"]
    for line in (
        ("show", "last"),
        ("show", "last", "--all"),
        ("diff", "last"),
        ("expand", block, "--depth", "all"),
        ("search", "marker-tool"),
        ("sessions",),
        ("compact", hostile, "--to", "10%", "--preview"),
    ):
        out = tenfold.run_ok(*line).out
        assert not {
            c for c in out if (c < " " and c not in "\n\t") or "\x7f" <= c <= "\x9f" or c in "\u202e\u202c\u2066\u2069"
        }, line
        assert "owned" not in out
        assert SECRET not in out, line
    assert "[redacted]" in tenfold.run_ok("expand", block, "--depth", "all").out


def test_json_of_searches_and_shows_hides_secrets_too(tenfold: Cli, hostile: Path) -> None:
    tenfold.run_ok("compact", hostile, "--to", "20%")
    for line in (("search", "marker-tool"), ("diff", "last"), ("show", "last", "--all"), ("sessions",)):
        out = tenfold.run_ok(*line, "--json").out
        assert SECRET not in out, line
        assert "\\u001b" not in out, line


def test_export_and_expand_as_json_are_exact(tenfold: Cli, hostile: Path) -> None:
    tenfold.run_ok("compact", hostile, "--to", "20%")
    entry = tenfold.run_ok("search", "marker-tool", "--json").objects[0]["entry"]
    assert f"API_KEY={SECRET}" in tenfold.run_json("expand", entry)["text"]
    assert tenfold.run_json("expand", entry)["text"].startswith(HOSTILE)
    assert tenfold.run_ok("export", "last", "--original").out.encode() == hostile.read_bytes()


def test_a_string_that_never_ends_hides_nothing_behind_it() -> None:
    assert strip_controls("before \x1b]8;; after") == "before 8;; after"
    assert strip_controls("before \x1b]8;;x\x1b\\ after") == "before  after"
    assert strip_controls("a\r\nb\rc\td") == "a\nb\nc\td"
    assert sanitize(f"x \x1b[1mAPI_KEY\x1b[0m={SECRET}") == "x API_KEY=[redacted]"
    assert to_one_line("a\n\n  b\x07" + "c" * 99, 12) == "a b" + "c" * 6 + "..."


def run(
    *arguments: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    whole = os.environ | (env or {})
    return subprocess.run(
        [sys.executable, "-m", "tenfold", *map(str, arguments)],
        capture_output=True,
        env=whole,
        cwd=cwd,
        check=False,
        timeout=500,
    )


def test_a_console_that_knows_only_ascii_gets_only_ascii(tmp_path: Path) -> None:
    file = write_messages(tmp_path / "a.json", [{"role": "user", "content": "naïve – 日本語 ✓ :smile:"}] * 3)
    env = {"PYTHONIOENCODING": "ascii", "TENFOLD_STORE": str(tmp_path / "s.db")}
    assert run("compact", file, "--to", "9", "--yes", env=env).returncode == 0
    for line in (("show", "last"), ("--help",), ("compact", "--help"), ("search", "日本語"), ("show", "日本語")):
        ran = run(*line, env=env)
        assert (ran.stdout + ran.stderr).isascii(), line
        assert b"Traceback" not in ran.stderr, line
        if line == ("show", "last"):
            assert b"na?ve ? ??? ? :smile:" in ran.stdout
    told_ = json.loads(run("show", "last", "--json", env=env).stdout)
    assert told_["timeline"][0]["text"] == "naïve – 日本語 ✓ :smile:", "JSON is UTF-8 wherever it goes"


def test_a_reader_that_stops_early_is_no_failure(tmp_path: Path, pi: Path) -> None:
    env = os.environ | {"TENFOLD_STORE": str(tmp_path / "s.db")}
    assert run("compact", pi, "--to", "10%", env=env).returncode == 0
    program = [sys.executable, "-m", "tenfold", "expand", "--depth", "all"]
    block = json.loads(run("diff", "last", "--json", env=env).stdout)["block"]
    with subprocess.Popen([*program, block], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.read(10)
        child.stdout.close()
        assert child.stderr.read() == b""
        assert child.wait(60) == 0


def test_a_bare_call_shows_the_help_and_versions_are_told(tmp_path: Path) -> None:
    bare = run(env={"TENFOLD_STORE": str(tmp_path / "s.db")})
    assert bare.returncode == 2
    assert b"Usage: tenfold" in bare.stdout + bare.stderr
    assert run("--version").stdout.strip().startswith(b"tenfold 0.")


def test_a_paragraph_of_help_is_wrapped_by_the_terminal_alone(tenfold: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Typer keeps the line ends of a docstring, which came between those of a narrower terminal."""
    monkeypatch.setenv("COLUMNS", "400")
    for command in (["wrap"], ["apply"], ["eval", "quality"]):
        lines = [line.strip() for line in tenfold.run_ok(*command, "--help").out.splitlines()]
        end = next(at for at, line in enumerate(lines) if "Arguments" in line)
        assert not any(one and other for one, other in pairwise(lines[:end])), lines[:end]


@pytest.mark.parametrize("command", [None, *sorted(COMMANDS.keys() - {"eval"})])
def test_every_help_has_an_example_that_names_real_options(tenfold: Cli, command: str | None) -> None:
    out = tenfold.run_ok(*([command] if command else []), "--help").out
    example = out.split("Example: ")[1].strip()
    assert example.startswith(f"tenfold {command or ''}".strip())
    for word in example.split():
        if word.startswith("--") and command:
            assert out.count(word) >= 2, f"{word} stands in the example but is no option of {command}"


def test_the_help_of_the_hook_says_that_it_compacts(tenfold: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """It told of two of the three events that it answers."""
    monkeypatch.setenv("COLUMNS", "400")
    out = tenfold.run_ok("hook", "--help").out
    assert "session.compact" in out
    assert "compacts in its place" in out
