"""The recorded sessions that tests run over: other people's, read only, and the project's own.

Their folder is named by the environment variable TENFOLD_SESSIONS; where it is missing, a run on CI fails and any
other run skips with the reason.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from tenfold.formats import ParsedSession, read_file

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(os.environ.get("TENFOLD_SESSIONS") or ROOT.parent / "shared" / "data")
_NAMES = (
    "pi/before-compaction.jsonl",
    "claude-code/large-conversation.jsonl",
    "gemini-cli/NotFollowingUserIntent.json",
    "openhands-requests/django__django-11299.json",
    "openhands-requests/django__django-10097.json",
    "openhands-events/sample.jsonl",
    "swe-agent/sphinx-doc__sphinx-7454.traj",
    "swe-agent/django__django-11885.traj",
    "swe-agent/matplotlib__matplotlib-25960.traj",
    "swe-agent/marshmallow-1867.function_calling.traj",
    "tau2/toolorchestra_retail_gpt-5_1trial.json",
    "cline/session.messages.json",
)
_SCENARIOS = "gemini-cli/compression-scenarios"
_OWN = (".jsonl", ".json", ".traj")


def list_session_files() -> list[Path]:
    """Every session file: those of `FOLDER` that its README lists, then the project's own examples."""
    own = [p for p in sorted((ROOT / "examples" / "sessions").iterdir()) if p.suffix in _OWN]
    if not FOLDER.is_dir():
        return own
    scenarios = sorted((FOLDER / _SCENARIOS).glob("*.json"))
    return [*(FOLDER / name for name in _NAMES), *scenarios, *own]


@cache
def get_short_name(path: Path) -> str:
    """The short name of a session file, for test ids and reports."""
    for folder in (FOLDER, ROOT):
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return path.name


def require_sessions() -> None:
    """Call in a test that needs the recorded sessions: fails on CI, else skips, where they are missing."""
    if FOLDER.is_dir():
        return
    reason = f"the recorded sessions are not at {FOLDER}; set TENFOLD_SESSIONS to their folder"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@cache
def read(path: Path) -> list[ParsedSession]:
    """The sessions of one file, read once a test run."""
    return read_file(path)


def read_all() -> list[ParsedSession]:
    """Every session of every file."""
    return [session for path in list_session_files() for session in read(path)]


@cache
def build_params() -> list[object]:
    """`pytest.param`s, one a session, with ids like `tau2/file.json#3`. Without the folder: one that skips or fails."""
    found = [
        pytest.param(session, id=f"{get_short_name(path)}#{number}")
        for path in list_session_files()
        for number, session in enumerate(read(path))
    ]
    return list(found) if FOLDER.is_dir() else [*found, pytest.param(None, id="recorded-sessions-missing")]
