"""Long results in a real terminal: the pager that PAGER names, colours that NO_COLOR takes away, and plain letters."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chat.terminal import Terminal, build_environment
from tests.cli.conftest import write_messages

YELLOW = b"\x1b[1;33m"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder of a user whose store has a session of 60 messages."""
    messages = [{"role": ("user", "assistant")[n % 2], "content": f"naïve parcel {n} ✓"} for n in range(60)]
    env = build_environment(tmp_path)
    file = write_messages(tmp_path / "parcels.json", messages)
    subprocess.run([sys.executable, "-m", "tenfold", "import", file], env=env, check=True, capture_output=True)
    return tmp_path


@pytest.fixture
def run_paged(home: Path) -> Callable[..., tuple[bytes, bytes]]:
    """Runs a command in a terminal with a pager of the test's own: what it was given, and what the terminal got."""
    pager, given = home / "pager", home / "given"
    pager.write_text(f'#!/bin/sh\ncat > "{given}"\necho "the end of the pager"\n')
    pager.chmod(0o755)

    def run(*arguments: str, **env: str) -> tuple[bytes, bytes]:
        given.unlink(missing_ok=True)
        with Terminal(home, *arguments, size=(60, 20), env={"PAGER": str(pager), **env}) as terminal:
            assert terminal.wait_for_end() == 0
            return given.read_bytes() if given.exists() else b"", terminal.wrote

    return run


def test_what_is_longer_than_the_screen_goes_through_the_pager(run_paged: Callable[..., tuple[bytes, bytes]]) -> None:
    for command in (("show", "last", "--brief"), ("search", "parcel", "--limit", "30"), ("rules", "last", "--all")):
        given, wrote = run_paged(*command)
        assert b"parcel 5" in given, command
        assert b"\x1b" not in given, "only less is sent colours"
        assert b"the end of the pager" in wrote
        assert b"parcel 5" not in wrote
    given, wrote = run_paged("sessions")
    assert not given, "a short list needs no pager"
    assert b"parcels.json" in wrote


@pytest.mark.parametrize("env", [{"PAGER": ""}, {"TERM": "dumb"}, {"PAGER": "/nowhere/pager"}])
def test_without_a_pager_it_is_printed(run_paged: Callable[..., tuple[bytes, bytes]], env: dict[str, str]) -> None:
    given, wrote = run_paged("show", "last", **env)
    assert not given
    assert b"parcel 0" in wrote
    assert b"parcel 59" in wrote


def test_nothing_is_paged_or_coloured_in_a_pipe(home: Path) -> None:
    env = build_environment(home) | {"PAGER": "false"}
    for command in (("show", "last"), ("search", "parcel")):
        ran = subprocess.run([sys.executable, "-m", "tenfold", *command], env=env, check=True, capture_output=True)
        assert b"parcel" in ran.stdout
        assert b"\x1b" not in ran.stdout


@pytest.mark.skipif(shutil.which("less") is None, reason="less is not installed")
def test_less_shows_the_first_screen_in_colour_and_words_that_were_found(home: Path) -> None:
    with Terminal(home, "search", "PARCEL", "--limit", "30", size=(60, 20), env={"PAGER": "less"}) as terminal:
        terminal.wait_for_text("(session", ":")
        assert YELLOW + b"parcel" in terminal.wrote
        terminal.press("q")
        assert terminal.wait_for_end() == 0
    with Terminal(home, "search", "parcel", env={"NO_COLOR": "1", "PAGER": "cat"}) as terminal:
        assert terminal.wait_for_end() == 0
        assert b"[33m" not in terminal.wrote
        assert b";33m" not in terminal.wrote


def test_a_terminal_of_the_plain_locale_gets_plain_letters(home: Path) -> None:
    """Python writes UTF-8 there: lines of tables and letters came as several strange ones each."""
    for command in (("sessions",), ("show", "last", "--brief")):
        with Terminal(home, *command, env={"LC_ALL": "C", "PAGER": "cat"}) as terminal:
            assert terminal.wait_for_end() == 0
            assert terminal.wrote.isascii(), command
    with Terminal(home, "show", "last", "--json", env={"LC_ALL": "C"}) as terminal:
        assert terminal.wait_for_end() == 0
        assert "naïve".encode() in terminal.wrote, "JSON is UTF-8 wherever it goes"
    with Terminal(home, "show", "last", env={"LC_ALL": "", "LANG": "", "PAGER": "cat"}) as terminal:
        assert terminal.wait_for_end() == 0
        assert "naïve".encode() in terminal.wrote, "where no locale is set, terminals show it"
