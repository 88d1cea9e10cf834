"""The recorded sessions are what the committed script makes, and carry nothing of the machine they were made on."""

from __future__ import annotations

import getpass
import json
import re
import socket
import sys
from pathlib import Path

import pytest

from examples.record import HERE, RECORDED_WITH, RECORDINGS, record

SESSIONS = HERE / "sessions"
FILES = [SESSIONS / recording.file for recording in RECORDINGS.values()]
MACHINE = re.compile(
    r"/(?:tmp|root|work|Users|opt|usr/local)/|pyenv|site-packages|tenfold-example-|https?://(?!ledger\.internal)"
)
STEPS = ("type", "role", "name", "tool", "id")


def extract_skeleton(file: Path) -> list[str]:
    """What does not depend on the interpreter: the lines without the texts of results."""
    text = file.read_text("utf-8")
    lines = json.loads(text) if file.suffix == ".json" else [json.loads(line) for line in text.splitlines()]
    return [json.dumps({key: line[key] for key in STEPS if key in line}) for line in lines]


def test_recording_again_gives_the_same_bytes(tmp_path: Path) -> None:
    """One of them, in another folder: commits, tests and edits included, it comes out as it was committed."""
    again = record("logs", tmp_path)
    committed = SESSIONS / again.name
    assert extract_skeleton(again) == extract_skeleton(committed)
    if sys.version_info[:2] == RECORDED_WITH:
        assert again.read_bytes() == committed.read_bytes(), "run examples/record.py and commit what it wrote"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_nothing_of_a_machine_leaks(file: Path) -> None:
    text = file.read_text("utf-8")
    assert sorted(set(MACHINE.findall(text))) == []
    for private in (socket.gethostname(), str(Path.home())):
        assert len(private) < 4 or private not in text
    user = getpass.getuser()
    assert user in {"root", "dev"} or f"/{user}/" not in text


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_sizes_are_as_the_readme_says(file: Path) -> None:
    assert 200 <= len(extract_skeleton(file)) <= 800
    assert file.stat().st_size < 1_000_000


def test_every_session_is_in_the_readme() -> None:
    readme = (HERE / "README.md").read_text("utf-8")
    present = sorted(path.name for path in SESSIONS.glob("*.json*"))
    assert present == sorted(file.name for file in FILES)
    assert [name for name in present if f"sessions/{name}" not in readme] == []
