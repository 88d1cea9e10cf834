"""`tenfold completion SHELL` completes commands, options and sessions in the shells themselves."""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tenfold.apps.cli.store_access import list_completions
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo
from tenfold.store.sqlite.store import SqliteStore
from tests.chat.terminal import PATIENCE, build_environment
from tests.cli.conftest import Cli


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The environment of a user who has `tenfold` on the path, and a store with three sessions."""
    program = tmp_path / "bin" / "tenfold"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tenfold "$@"\n')
    program.chmod(0o755)
    env = build_environment(tmp_path) | {"TERM": "xterm", "PS1": "$ "}
    with closing(SqliteStore(env["TENFOLD_STORE"])) as store:
        for info in (
            SessionInfo("support-42", title="the parcel\x1b[31m"),
            SessionInfo("support-7", file="/logs/monday.jsonl"),
            SessionInfo("01a2005b-7d4e-7003-8000-000000000001", file="/logs/two words.jsonl"),
        ):
            store.create(DEFAULT_NAMESPACE, info)
    return env | {"PATH": f"{program.parent}:{env['PATH']}"}


def type_into(shell: list[str], env: dict[str, str], lines: str, wanted: str) -> str:
    """Types into an interactive shell and reads until `wanted` is on its screen."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        shell, stdin=slave, stdout=slave, stderr=slave, env=env, cwd=env["HOME"], start_new_session=True
    ) as process:
        seen, end = "", time.monotonic() + PATIENCE
        os.write(master, lines.encode())
        while wanted not in seen and time.monotonic() < end:
            if select.select([master], [], [], 0.1)[0]:
                seen += os.read(master, 65_536).decode("utf-8", "replace")
        process.kill()
    os.close(master)
    os.close(slave)
    assert wanted in seen, seen
    return seen


COMPLETE = """
COMP_WORDS=({words}); COMP_CWORD={at}; _tenfold_completion tenfold; printf '%s\\n' "${{COMPREPLY[@]}}" =; COMPREPLY=()
"""


def complete_in_bash(env: dict[str, str], *lines: str) -> list[list[str]]:
    """Completes the last word of each line in one bash. A line that ends in a space has an empty one."""
    script = "source <(tenfold completion bash)\n"
    for line in lines:
        words = ["tenfold", *line.split(" ")]
        script += COMPLETE.format(words=shlex.join(words), at=len(words) - 1)
    ran = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, check=True)
    assert not ran.stderr
    return [found.split() for found in ran.stdout.split("=\n")[:-1]]


COMPLETED = {
    "sal": ["salvage"],
    "show --br": ["--brief"],
    "show supp": ["support-7", "support-42"],
    "diff mon": ["monday.jsonl"],
    "export ": ["last", "01a2005b-7d4e-7003-8000-000000000001", "support-7", "support-42"],
    "search x --session support-4": ["support-42"],
    "chat --session support-4": ["support-42"],
    "run --session support-4": ["support-42"],
    "bill --session support-4": ["support-42"],
    "inspect support-4": ["support-42"],
    "purge support-4": ["support-42"],
    "apply support-4": ["support-42"],
    "compact --policy th": ["threshold"],
    "export --as openai-c": ["openai-chat"],
    "bill --by ": ["session", "model", "client"],
    "show --store /nowhere/at/all.db supp": [],
}


@needs("bash")
def test_bash_completes_commands_options_and_sessions(env: dict[str, str]) -> None:
    assert dict(zip(COMPLETED, complete_in_bash(env, *COMPLETED), strict=True)) == COMPLETED


@needs("bash")
def test_bash_completes_what_a_session_holds(env: dict[str, str], tenfold: Cli, pi: Path) -> None:
    tenfold.run_ok("compact", pi, "--to", "10%")
    shown = tenfold.run_json("show", "last")
    (block,) = shown["blocks"]
    seen = [row for row in shown["timeline"] if row["seen"] == "as it was"]
    number = str(seen[-1]["position"])
    named = env | {"TENFOLD_STORE": str(tenfold.store)}
    found = complete_in_bash(named, "undo last --block ", "pin ", f"pin {number}")
    assert found == [[block["block"]], [row["id"] for row in reversed(seen)], [number]]


@needs("bash")
def test_tab_completes_in_an_interactive_bash(env: dict[str, str]) -> None:
    typed = "source <(tenfold completion bash)\ntenfold show support-4\t"
    type_into(["bash", "--norc", "--noprofile", "-i"], env, typed, "show support-42")


@needs("zsh")
def test_tab_completes_in_an_interactive_zsh(env: dict[str, str]) -> None:
    typed = 'autoload -Uz compinit; compinit -u -D; eval "$(tenfold completion zsh)"\ntenfold show support-4\t'
    type_into(["zsh", "-f", "-i"], env, typed, "show support-42")


@needs("fish")
def test_fish_completes_with_what_each_is(env: dict[str, str]) -> None:
    def complete(line: str) -> str:
        script = f"tenfold completion fish | source; complete --do-complete {shlex.quote(line)}"
        command = ["fish", "--no-config", "-c", script]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    assert "support-42\tthe parcel" in complete("tenfold show supp")
    assert "\x1b" not in complete("tenfold show supp")
    assert complete("tenfold sal").startswith("salvage\t")
    (Path(env["HOME"]) / "exported.jsonl").write_text("{}")
    assert "exported.jsonl" in complete(f"tenfold compact {env['HOME']}/exp"), (
        "where a file is wanted, files are offered"
    )


def test_an_unknown_shell_is_refused_with_those_that_are_known(tenfold: Cli) -> None:
    ran = tenfold("completion", "tcsh")
    assert ran.code == 2
    assert "'bash', 'zsh', 'fish'" in ran.err


def test_settings_that_cannot_be_read_complete_nothing_and_say_nothing(env: dict[str, str]) -> None:
    (Path(env["HOME"]) / "work" / "tenfold.toml").write_text("[tenfold\n")
    words = {"_TENFOLD_COMPLETE": "complete_bash", "COMP_WORDS": "tenfold\nshow\nsupp", "COMP_CWORD": "2"}
    del env["TENFOLD_STORE"]
    command = [sys.executable, "-m", "tenfold"]
    ran = subprocess.run(command, env=env | words, cwd=Path(env["HOME"]) / "work", capture_output=True, check=True)
    assert (ran.stdout.strip(), ran.stderr) == (b"", b"")


def test_no_words_of_others_reach_the_shell_as_code() -> None:
    """zsh evaluates what it is told, and a backslash before a dollar sign ended the quotation."""
    attacks = ["a \\$(touch pwned) b", "`touch pwned`", "x'; touch pwned; '", "y\"))' ; touch pwned", "\x1b]0;t\x07 z"]
    told = list_completions([("last", each) for each in attacks], "")
    told += list_completions([(each, "") for each in attacks], "")
    assert len(told) == len(attacks), "a value that is more than a word is not offered"
    assert not set("".join(value + text for value, text in told)) & set("\\$`\"'();\x1b\x07:&|<>{}[]*?!~#")
