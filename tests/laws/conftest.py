"""The parts of the recorded sessions as a fixture, and how a failing law prints.

A failing law prints its log however long it is: the warning about that must not take the place of the failure.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import sessions
from tests.laws import stretches
from tests.laws.stretches import Stretch

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder only."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore:Generating overly large repr"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test that asks for `stretch` once for each part of each recorded session."""
    if "stretch" in metafunc.fixturenames:
        metafunc.parametrize("stretch", stretches.build_params(), indirect=True)


@pytest.fixture
def stretch(request: pytest.FixtureRequest) -> Stretch:
    """A part of a recorded session: some of its cuts. All parts together cut it at every index."""
    if request.param is None:
        sessions.require_sessions()
    part: Stretch = request.param
    return part
