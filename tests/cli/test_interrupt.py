"""Ctrl-C ends a command at once, with one line that says what is kept, and what it says is so."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.chat.terminal import Terminal
from tests.cli.conftest import Cli, write_messages
from tests.models.loopback import Loopback, Served

PROGRAM = (sys.executable, "-m", "tenfold")
MANY = 400
"""Sessions of which none but the first few are worked on before the interrupt."""


@pytest.mark.costly(2)
@pytest.mark.parametrize("policy", ["tenfold", "tail", "clip"])
def test_an_interrupt_while_a_model_hangs_leaves_no_block(tenfold: Cli, pi: Path, policy: str) -> None:
    with Loopback(Served(hang=600)) as loopback:
        given = ("--model", "openai:gpt-4o-mini", "--base-url", f"{loopback.url}/v1", "--to", "10%", "--policy", policy)
        env = os.environ | {"TENFOLD_STORE": str(tenfold.store), "OPENAI_API_KEY": "none"}
        with subprocess.Popen(
            [*PROGRAM, "compact", str(pi), *given], env=env, stderr=subprocess.PIPE, text=True
        ) as ran:
            while not loopback.requests and ran.poll() is None:
                time.sleep(0.02)
            ran.send_signal(signal.SIGINT)
            _, err = ran.communicate(timeout=500)
    assert ran.returncode == 130
    assert err.splitlines()[1:] == ["tenfold: interrupted; 0 of 1 compacted, and kept so; the others are not changed"]
    assert tenfold.run_json("show", "last")["blocks"] == []
    tenfold.run_ok("verify")


def interrupt(tenfold: Cli, *arguments: str | Path) -> tuple[int, str]:
    """Runs a command, interrupts it when it has printed its first line, and gives what it said then."""
    env = os.environ | {"TENFOLD_STORE": str(tenfold.store)}
    command = [*PROGRAM, *map(str, arguments)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as ran:
        assert ran.stdout is not None
        assert ran.stdout.readline()
        ran.send_signal(signal.SIGINT)
        _, err = ran.communicate(timeout=500)
    return ran.returncode, err.splitlines()[-1]


def make_folder(folder: Path, count: int) -> Path:
    """A folder of small sessions."""
    folder.mkdir()
    for number in range(count):
        write_messages(folder / f"{number:04}.json", [{"role": "user", "content": f"Session {number}."}])
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of many of them."""
    return make_folder(tmp_path / "many", MANY)


def test_an_import_and_a_copy_say_how_much_is_stored_and_go_on_there(
    tenfold: Cli, folder: Path, tmp_path: Path
) -> None:
    code, said = interrupt(tenfold, "import", folder, "--json")
    kept = r"(\d+) sessions? (?:is|are) stored, each of them whole; the same command stores the rest"
    match = re.fullmatch(f"tenfold: interrupted; {kept}", said)
    assert match is not None, said
    stored = len(tenfold.run_ok("sessions", "--json").objects)
    assert code == 130
    assert stored - int(match[1]) in (0, 1), "one may be stored that was not counted yet"
    assert stored < MANY
    tenfold.run_ok("import", folder)
    assert len(tenfold.run_ok("sessions", "--json").objects) == MANY

    target = tmp_path / "copy.db"
    code, said = interrupt(tenfold, "store", "copy", tenfold.store, target, "--json")
    match = re.fullmatch(
        rf"tenfold: interrupted; (\d+) of {MANY:,} sessions are copied; the same command goes on there", said
    )
    assert match is not None, said
    assert code == 130
    assert 0 < int(match[1]) < MANY
    assert f"{MANY:,} sessions" in tenfold.run_ok("store", "copy", tenfold.store, target).out
    tenfold.run_ok("verify", "--store", target)


def test_a_terminal_shows_what_is_worked_on_and_ctrl_c_ends_it(tmp_path: Path, pi: Path) -> None:
    with Loopback(Served(hang=600)) as loopback:
        given = ("--model", "openai:gpt-4o-mini", "--base-url", f"{loopback.url}/v1", "--to", "10%")
        env = {"OPENAI_API_KEY": "none"}
        with Terminal(tmp_path, "compact", str(pi), *given, size=(100, 20), env=env) as terminal:
            terminal.wait_for_text("writes a summary", "0/1", "so far")
            terminal.process.send_signal(signal.SIGINT)
            assert terminal.wait_for_end() == 130
            assert "tenfold: interrupted; 0 of 1 compacted" in terminal.text
            assert "writes a summary" not in terminal.text, "the bar is wiped away"
            assert "Traceback" not in terminal.text
            assert terminal.get_modes() == terminal.before


def test_progress_names_the_file_and_the_time_left_and_wraps_nothing(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "many", 1_200)  # no bar is shown where it takes less than two seconds
    with Terminal(tmp_path, "import", str(folder), size=(60, 20), env={"PYTHONUNBUFFERED": "1"}) as terminal:
        terminal.wait_until(lambda: re.search(r"\d+\.json .*/1200 \d+:\d\d left", terminal.text), "it shows a bar")
        assert terminal.wait_for_end() == 0
        assert " left" not in terminal.text
        assert "1,200 sessions stored" in terminal.text


def test_nothing_is_drawn_where_standard_error_is_no_terminal(tenfold: Cli, folder: Path) -> None:
    ran = tenfold.run_ok("import", folder)
    assert "left" not in ran.err
    assert "\x1b" not in ran.err
