"""The command line as a test calls it: in this process, with a store of its own and what it printed given back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tenfold.apps.cli.main import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "sessions"


class Ran:
    """What one command line came to."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The JSON objects printed, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]


class Cli:
    """Runs command lines against the store at `store`."""

    def __init__(self, capsys: pytest.CaptureFixture[str], store: Path) -> None:
        self._capsys, self.store = capsys, store

    def __call__(self, *arguments: str | Path) -> Ran:
        self._capsys.readouterr()
        code = run([str(a) for a in arguments])
        said = self._capsys.readouterr()
        return Ran(code, said.out, said.err)

    def run_ok(self, *arguments: str | Path) -> Ran:
        """Runs what must succeed."""
        ran = self(*arguments)
        assert ran.code == 0, ran.err
        return ran

    def run_json(self, *arguments: str | Path) -> dict[str, Any]:
        """Runs what must succeed and print one JSON object."""
        (found,) = self.run_ok(*arguments, "--json").objects
        return found


@pytest.fixture
def tenfold(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command, with a store in the test's own folder."""
    store = tmp_path / "store" / "tenfold.db"
    monkeypatch.setenv("TENFOLD_STORE", str(store))
    return Cli(capsys, store)


@pytest.fixture
def pi() -> Path:
    """A recorded pi session of this project."""
    return EXAMPLES / "logs.pi.jsonl"


@pytest.fixture
def chat() -> Path:
    """A recorded list of OpenAI Chat messages of this project."""
    return EXAMPLES / "desk.openai-chat.json"


def write_messages(path: Path, messages: Sequence[object]) -> Path:
    """A file with these messages as a JSON array."""
    path.write_text(json.dumps(messages, ensure_ascii=False), "utf-8")
    return path
