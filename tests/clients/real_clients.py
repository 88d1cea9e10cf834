"""Real clients, run unmodified against the tests' provider: how each is set up, started, and told to go on.

`make clients` installs them into `.clients`, each in a folder of its own, and runs these tests. A client that is not
there is skipped. `TENFOLD_CLIENTS` names another folder.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.live.client_rows import CLIENTS, PROVIDER
from tests.live.terminal_run import run_in_terminal
from tests.shape.scan import ROOT

VARIABLE = "TENFOLD_CLIENTS"
_FOLDERS = {"claude": "claude-code"}
"""The folders of clients whose program has another name."""
_TIMEOUT = 120


def find_program(name: str) -> Path:
    """The client's program. Skips the test if it is not installed."""
    folder = Path(os.environ.get(VARIABLE) or ROOT / ".clients")
    program = folder / _FOLDERS.get(name, name) / "node_modules" / ".bin" / name
    if not program.exists():
        pytest.skip(f"{name} is not installed: `make clients` does that")
    return program


class RealClient(Struct, frozen=True):
    """A client with a home of its own, in a folder where it works."""

    name: str
    home: Path
    work: Path
    url: str

    def run(self, *arguments: str) -> str:
        """Runs the client to its end and returns what it printed. It must succeed."""
        self.home.mkdir(exist_ok=True)
        self.work.mkdir(exist_ok=True)
        ran = subprocess.run(
            [str(find_program(self.name)), *arguments],
            cwd=self.work,
            env=self.configure(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
        assert ran.returncode == 0, (ran.stdout[-2_000:], ran.stderr[-2_000:])
        return ran.stdout

    def configure(self) -> dict[str, str]:
        """Points the client to the provider on this machine, in its own home. Returns its variables."""
        row = next(row for row in CLIENTS if row.name == _ROWS[self.name])
        own = {"HOME": str(self.home), "PATH": os.environ["PATH"], "PI_OFFLINE": "1"}
        return own | row.configure(self.home, self.url)

    def start(self, prompt: str) -> str:
        """Starts a session with a prompt."""
        return self.run(*_START[self.name], prompt)

    def resume(self, session: str, prompt: str, is_done: Callable[[], bool]) -> None:
        """Goes on in a session with another prompt. cline does so only in a terminal, where `is_done` ends it."""
        if self.name == "cline":
            self._resume_in_terminal(session, prompt, is_done)
            return
        resumed = {
            "claude": [*_START["claude"], "--resume", session],
            "pi": ["--session", session, *_START["pi"]],
            "codex": ["exec", "resume", *_START["codex"][1:], session],
            "gemini": ["--resume", session, *_START["gemini"]],
            "opencode": [*_START["opencode"], "--session", session],
        }
        self.run(*resumed[self.name], prompt)

    def _resume_in_terminal(self, session: str, prompt: str, is_done: Callable[[], bool]) -> None:
        command = [str(find_program(self.name)), "--id", session, *_START["cline"][1:]]
        run_in_terminal(command, prompt, is_done, env=self.configure(), cwd=self.work, timeout=_TIMEOUT)
        self.run("hub", "stop")  # a process that outlives it

    def build_call(self, number: int) -> tuple[str, str, dict[str, Any]]:
        """A call of the client's shell tool that prints some numbers."""
        command = f"seq {number} 400"
        named: dict[str, tuple[str, dict[str, Any]]] = {
            "claude": ("Bash", {"command": command, "description": "Print numbers"}),
            "pi": ("bash", {"command": command}),
            "codex": ("exec_command", {"cmd": command}),
            "gemini": ("run_shell_command", {"command": command}),
            "opencode": ("bash", {"command": command, "description": "Print numbers"}),
            "cline": ("run_commands", {"commands": [command]}),
        }
        name, arguments = named[self.name]
        return str(number), name, arguments


_ROWS = {
    "claude": "Claude Code, Messages",
    "codex": "codex, Responses",
    "pi": "pi, Chat",
    "gemini": "gemini, generateContent",
    "opencode": "opencode, Chat",
    "cline": "cline, Chat",
}
"""The rows that say how each is configured."""
_START: dict[str, Sequence[str]] = {
    "claude": ["-p", "--allowedTools=Bash"],
    "pi": ["--provider", PROVIDER, "--model", "m", "-p"],
    "codex": ["exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"],
    "gemini": ["--yolo", "--skip-trust", "-m", "gemini-2.5-pro", "-p"],
    "opencode": ["run", "-m", f"{PROVIDER}/m"],
    "cline": ["--json", "-P", "openai-compatible", "-m", "m"],
}
