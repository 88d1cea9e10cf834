"""Real clients, run unmodified against the tests' provider: how each is set up, started, and told to go on.

`make clients` installs them into `.clients`, each in a folder of its own, and runs these tests. A client that is not
there is skipped. `TENFOLD_CLIENTS` names another folder.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

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
        self._write_settings()
        ran = subprocess.run(
            [str(find_program(self.name)), *arguments],
            cwd=self.work,
            env=self.environment | {"PATH": os.environ["PATH"]},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
        assert ran.returncode == 0, (ran.stdout[-2_000:], ran.stderr[-2_000:])
        return ran.stdout

    @property
    def environment(self) -> dict[str, str]:
        """The variables that the client is run with: its home, keys, and nothing of the user's."""
        own = {
            "claude": {
                "ANTHROPIC_API_KEY": "k",
                "ANTHROPIC_BASE_URL": self.url,
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
            },
            "codex": {"LOOPBACK_KEY": "k"},
            "pi": {"PI_OFFLINE": "1"},
            "gemini": {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": self.url},
            "opencode": {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"},
            "cline": {"OPENAI_COMPATIBLE_API_KEY": "k"},
        }
        return {"HOME": str(self.home)} | own[self.name]

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
        screen, terminal = os.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        running = subprocess.Popen(
            [str(find_program(self.name)), "--id", session, *_START["cline"][1:]],
            cwd=self.work,
            env=self.environment | {"PATH": os.environ["PATH"], "TERM": "xterm-256color"},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        started = time.monotonic()
        keys = [(10.0, prompt.encode()), (12.0, b"\r")]  # it takes a while to draw its screen, and then keys
        try:
            while not is_done() and time.monotonic() - started < _TIMEOUT:
                if select.select([screen], [], [], 0.2)[0]:
                    os.read(screen, 65_536)
                if keys and time.monotonic() - started > keys[0][0]:
                    os.write(screen, keys.pop(0)[1])
        finally:
            running.terminate()
            running.wait(10)
            os.close(screen)
            os.close(terminal)
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

    def _write_settings(self) -> None:
        """Writes the settings that point the client to the provider on this machine, in its own home."""
        match self.name:
            case "pi":
                model = {"id": "m", "contextWindow": 200_000, "maxTokens": 4_000}
                provider = {"baseUrl": f"{self.url}/v1", "api": "openai-completions", "apiKey": "k", "models": [model]}
                _write(self.home / ".pi/agent/models.json", {"providers": {"loopback": provider}})
            case "codex":
                path = self.home / ".codex" / "config.toml"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(
                    'model = "gpt-5"\nmodel_provider = "loopback"\n[model_providers.loopback]\nname = "loopback"\n'
                    f'base_url = "{self.url}/v1"\nenv_key = "LOOPBACK_KEY"\nwire_api = "responses"\n'
                )
            case "gemini":
                auth = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
                general = {"privacy": {"usageStatisticsEnabled": False}, "general": {"enableAutoUpdate": False}}
                _write(self.home / ".gemini/settings.json", auth | general)
            case "opencode":
                options = {"baseURL": f"{self.url}/v1", "apiKey": "k"}
                models = {"m": {"limit": {"context": 200_000, "output": 4_000}}}
                loopback: dict[str, object] = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": models}
                settings: dict[str, object] = {
                    "provider": {"loopback": loopback},
                    "model": "loopback/m",
                    "small_model": "loopback/m",
                }
                more = {"autoupdate": False, "share": "disabled"}
                _write(self.home / ".config/opencode/opencode.json", settings | more)
            case "cline":
                own = {"provider": "openai-compatible", "model": "m", "baseUrl": f"{self.url}/v1", "apiKey": "k"}
                providers = {"openai-compatible": {"settings": own, "updatedAt": "2026-01-01T00:00:00.000Z"}}
                head = {"version": 1, "lastUsedProvider": "openai-compatible", "modes": {}}
                _write(self.home / ".cline/data/settings/providers.json", head | {"providers": providers})


_START: dict[str, Sequence[str]] = {
    "claude": ["-p", "--allowedTools=Bash"],
    "pi": ["--provider", "loopback", "--model", "m", "-p"],
    "codex": ["exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"],
    "gemini": ["--yolo", "--skip-trust", "-m", "gemini-2.5-pro", "-p"],
    "opencode": ["run", "-m", "loopback/m"],
    "cline": ["--json", "-P", "openai-compatible", "-m", "m"],
}


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), "utf-8")
