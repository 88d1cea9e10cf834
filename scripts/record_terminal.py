"""Records the terminal pictures of the documentation: `python -m scripts.record_terminal [NAME...]`.

Each runs real commands in a terminal of its own, with a home, a store and a provider of its own, and without a network.
It writes `docs/recordings/NAME.svg`, and what stands in it as `NAME.txt`. The clock of the commands stands still and
their random bytes are always the same, so a recording made again has the same bytes as long as the commands print the
same. Only the totals of `wrap` differ by a few tokens, since the gateway counts while it waits. The pictures are drawn
by `scripts.terminal_picture`.
"""

from __future__ import annotations

import fcntl
import os
import pty
import random
import shutil
import string
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import uvicorn
from msgspec import Struct

from examples.gateway_demo import ScriptedProvider
from scripts.terminal_picture import Step, draw_picture, read_screen, write_text
from tenfold.apps.gateway.server import ServerThread

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "recordings"
COLUMNS = 80
NOW = 1_796_032_800  # 2026-11-30 10:00 UTC
"""Seconds since 1970 when a recording begins. Each of its commands is given a minute later."""
SHOWN_HOME = "/home/dev"
"""What is shown of the temporary home: its path has as many characters, so that lines break at the same places."""
SESSION = "4f1e9b7c"
"""A session of Claude Code in that home."""
_STILL_CLOCK = """\
import hashlib, os, time
now = int(os.environ["RECORDED_AT"]) * 1_000_000_000
time.time_ns = lambda: now
os.urandom = lambda size: hashlib.shake_128(now.to_bytes(8)).digest(size)
"""
"""What Python runs first in each command. The ids of one command differ in their number all the same."""
_AGENT = """\
import os
from examples.gateway_demo import STEPS, ScriptedProvider, run_agent
journey = run_agent(os.environ["OPENAI_BASE_URL"].removesuffix("/v1"), ScriptedProvider())
print(f"{journey.steps} of {STEPS} steps done")
print(journey.refusal or "finished")
"""
"""The program `agent.py` in the folder of the recording."""


class Recording(Struct, frozen=True):
    """A recording: the title of its window, and the commands that are typed, those before it without being shown."""

    title: str
    commands: tuple[str, ...]
    before: tuple[str, ...] = ()


_COMPACT = "tenfold compact examples/sessions/pricing.claude-code.jsonl --to 10%"
RECORDINGS = {
    "compact": Recording(
        "compact a session, look at it, take it back",
        (_COMPACT, "tenfold show last | grep -A6 'Rules (user)' | fold -s", "tenfold undo last"),
    ),
    "search": Recording(
        "find what the model no longer sees",
        (
            "tenfold show last | grep SPRING || echo 'the model sees nothing of it'",
            "tenfold search 'how long is the SPRING coupon valid' --limit 1",
            "tenfold expand 137 --session last",
        ),
        before=(_COMPACT,),
    ),
    "rules": Recording(
        "rules of the user",
        (
            "tenfold rules last",
            "tenfold rules last --add 'Never rename the columns.' | tail -1",
            "tenfold compact examples/sessions/pricing.claude-code.jsonl --to 5% | sed 2q",
            "tenfold show last | grep 'rename the columns'",
        ),
        before=(_COMPACT,),
    ),
    "recover": Recording(
        "recover a session of Claude Code",
        (
            "tenfold find",
            "tenfold apply 4f1e9b7c --to 20%",
            "# what the agent had is all there; this takes it back, byte for byte",
            "tenfold apply 4f1e9b7c --undo",
        ),
    ),
    "wrap": Recording(
        "an agent with a window of 16,000 tokens",
        (
            "python agent.py",
            "# the same agent behind the gateway",
            "tenfold wrap --window 16000 --summary-model none python agent.py",
            "tenfold search timeout_ms --limit 1 | grep timeout_ms",
        ),
    ),
    "eval": Recording(
        "ask what is left, on a session of yours", ("tenfold eval search examples/sessions/desk.openai-chat.json",)
    ),
}


def record(recording: Recording) -> list[Step]:
    """Runs the commands of a recording. Raises `SystemExit` where one fails, with what it printed."""
    commands = (*recording.before, *recording.commands)
    with prepare_place() as env:
        steps = [_take_step(command, env, number) for number, command in enumerate(commands)]
    return steps[len(recording.before) :]


@contextmanager
def prepare_place() -> Iterator[dict[str, str]]:
    """Makes a home with a session of Claude Code, and starts a provider. Yields the environment of the commands."""
    with TemporaryDirectory() as tools, make_home() as home:
        (Path(tools) / "sitecustomize.py").write_text(_STILL_CLOCK, "utf-8")
        (home / "agent.py").write_text(_AGENT, "utf-8")
        (home / "examples").symlink_to(ROOT / "examples")
        own = home / ".claude" / "projects" / "-home-dev-pricing" / f"{SESSION}.jsonl"
        own.parent.mkdir(parents=True)
        shutil.copyfile(ROOT / "examples" / "sessions" / "pricing.claude-code.jsonl", own)
        os.utime(own, (NOW - 7_200, NOW - 7_200))
        config = uvicorn.Config(ScriptedProvider().application, host="127.0.0.1", port=0, log_config=None)
        with ServerThread(config) as provider:
            yield {
                "HOME": str(home),
                "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.defpath)),
                "PYTHONPATH": os.pathsep.join((tools, str(ROOT / "src"), str(ROOT / "yardstick" / "src"), str(home))),
                "TENFOLD_STORE": "tenfold.db",
                "OPENAI_BASE_URL": f"{provider.url}/v1",
                "LANG": "C.UTF-8",
                "TERM": "xterm-256color",
            }


@contextmanager
def make_home() -> Iterator[Path]:
    """Makes an empty folder whose path is as long as the one that is shown in its place."""
    parent = Path("/tmp")  # noqa: S108 - a short path: the folder itself is new and nobody else's
    while True:
        letters = random.choices(string.ascii_lowercase, k=len(SHOWN_HOME) - len(f"{parent}/"))
        home = parent / "".join(letters)
        try:
            home.mkdir(mode=0o700)
        except FileExistsError:
            continue
        break
    try:
        yield home
    finally:
        shutil.rmtree(home)


def _take_step(command: str, env: Mapping[str, str], number: int) -> Step:
    if command.startswith("#"):
        return Step(command, [])
    code, wrote = run_in_terminal(command, {**env, "RECORDED_AT": str(NOW + 60 * number)})
    printed = read_screen(wrote.replace(env["HOME"].encode(), SHOWN_HOME.encode()), COLUMNS)
    if code:
        raise SystemExit(f"{command!r} ended with {code}:\n" + "\n".join(line.plain for line in printed))
    return Step(command, printed)


def run_in_terminal(command: str, env: Mapping[str, str]) -> tuple[int, bytes]:
    """Runs a command in a terminal of its own, in its home. Returns its exit code, and what it wrote."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    process = subprocess.Popen(
        ["/bin/sh", "-c", command], stdin=slave, stdout=slave, stderr=slave, cwd=env["HOME"], env=env,
        start_new_session=True,
    )  # fmt: skip
    os.close(slave)
    wrote = b""
    try:
        while data := _read(master):
            wrote += data
    finally:
        os.close(master)
    return process.wait(), wrote


def _read(master: int) -> bytes:
    """Reads on. Nothing: the last program that had the terminal has ended, which Linux says by an error."""
    try:
        return os.read(master, 65_536)
    except OSError:
        return b""


def write_recordings(names: list[str], folder: Path) -> None:
    """Records those with the given names, or all."""
    folder.mkdir(exist_ok=True)
    for name in names or RECORDINGS:
        recording = RECORDINGS[name]
        steps = record(recording)
        (folder / f"{name}.svg").write_text(draw_picture(steps, recording.title, COLUMNS), "utf-8")
        (folder / f"{name}.txt").write_text(write_text(steps), "utf-8")


if __name__ == "__main__":
    write_recordings(sys.argv[1:], FOLDER)
