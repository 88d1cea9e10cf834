"""The parts of the recorded sessions as a fixture, and how a failing law prints.

A failing law prints its log however long it is: the warning about that must not take the place of the failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import sessions
from tests.laws import stretches
from tests.laws.stretches import Stretch
from tests.stores import KINDS, use_law_stores
from tests.thorough import IS_THOROUGH

HERE = Path(__file__).parent
ON_EVERY_STORE = ("test_law_06_idle", "test_law_09_replay", "test_law_13_quiet", "test_presets_hosting")
"""The laws that are tried on every kind of store, each time."""
WITH_A_STORE = ("test_every_compaction", "test_presets_journeys", "test_presets_windows", "test_users_instructions")
"""The other laws that need a store: on every kind by `make thorough`, since they take minutes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of this folder only."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings("ignore:Generating overly large repr"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a law on every kind of store, and a test that asks for `stretch` on each part of each recorded session."""
    name = metafunc.module.__name__.rpartition(".")[2]
    if name in ON_EVERY_STORE or (IS_THOROUGH and name in WITH_A_STORE):
        metafunc.parametrize("law_store", KINDS, indirect=True)
    if "stretch" in metafunc.fixturenames:
        metafunc.parametrize("stretch", stretches.build_params(), indirect=True)


@pytest.fixture
def stretch(request: pytest.FixtureRequest) -> Stretch:
    """A part of a recorded session: some of its cuts. All parts together cut it at every index."""
    if request.param is None:
        sessions.require_sessions()
    part: Stretch = request.param
    return part


@pytest.fixture(autouse=True)
def law_store(request: pytest.FixtureRequest) -> Iterator[None]:
    """The kind of store that the law is tried on."""
    with use_law_stores(getattr(request, "param", KINDS[0])):
        yield
