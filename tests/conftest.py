"""What every folder of tests shares: the recorded sessions, and which cases of costly tests are run."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tenfold.formats import ParsedSession
from tenfold.store.base import Store
from tenfold.store.location import open_store
from tests import sessions
from tests.thorough import IS_THOROUGH, is_taken

settings.register_profile(
    "same",
    deadline=None,
    derandomize="TENFOLD_EXAMPLES" not in os.environ,
    database=None,
    max_examples=100 if IS_THOROUGH else 60,
)
settings.load_profile("same")
"""Property tests try the same examples on every machine, and fresh ones where TENFOLD_EXAMPLES is set."""

signal.signal(signal.SIGINT, signal.default_int_handler)
"""A shell starts what runs in its background deaf to Ctrl-C, and so would be every command that a test interrupts."""


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty store in memory."""
    opened = open_store(":memory:")
    yield opened
    opened.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test that asks for `session_file` or `session` once for each of the recorded ones."""
    if "session_file" in metafunc.fixturenames:
        files: list[Path | None] = list(sessions.list_session_files())
        if not sessions.FOLDER.is_dir():
            files.append(None)
        ids = [sessions.get_short_name(f) if f is not None else "recorded-sessions-missing" for f in files]
        metafunc.parametrize("session_file", files, ids=ids, indirect=True)
    if "session" in metafunc.fixturenames:
        metafunc.parametrize("session", sessions.build_params(), indirect=True)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the cases of a costly test that are not taken: see `tests.thorough`."""
    numbers: Counter[str] = Counter()
    left_out: list[pytest.Item] = []
    for item in items:
        marker = item.get_closest_marker("costly")
        name, is_case, _ = item.nodeid.partition("[")
        if marker is not None and is_case:
            left_out += [] if is_taken(name, numbers[name], *marker.args) else [item]
            numbers[name] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


@pytest.fixture
def session_file(request: pytest.FixtureRequest) -> Path:
    """A recorded session file. The test runs once for each."""
    if request.param is None:
        sessions.require_sessions()
    path: Path = request.param
    return path


@pytest.fixture
def session(request: pytest.FixtureRequest) -> ParsedSession:
    """A recorded session. The test runs once for each."""
    if request.param is None:
        sessions.require_sessions()
    found: ParsedSession = request.param
    return found
