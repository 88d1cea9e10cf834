"""The pytest plugin: the fixture `survives`, and a line for each session that it judged at the end of the run.

pytest loads it wherever Tenfold is installed, so it loads nothing of Tenfold until a test asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tenfold.evals.losses import Survived

JUDGED: pytest.StashKey[list[tuple[str, Survived]]] = pytest.StashKey()
"""What was judged in this run: the test's id, and what was found."""


@pytest.fixture
def survives(request: pytest.FixtureRequest) -> Callable[..., tuple[Survived, ...]]:
    """`tenfold.testing.assert_survives`, with the session's path taken from the test's folder.

    What was kept is also written into the run's JUnit report, as properties of the test, and told at its end.
    """
    from tenfold.evals.surviving import assert_survives  # noqa: PLC0415 - nothing is loaded before a test asks for it

    def judged(compactor: object, session: object, **options: object) -> tuple[Survived, ...]:
        __tracebackhide__ = True
        if isinstance(session, str | Path):
            session = request.path.parent / session
        found = assert_survives(compactor, session, **options)  # type: ignore[arg-type]
        rows = request.config.stash.setdefault(JUDGED, [])
        for each in found:
            rows.append((request.node.nodeid, each))
            own = request.node.user_properties  # `record_property` warns of the JUnit family that pytest writes itself
            own += [(f"tenfold {each.session} {kind}", f"{k}/{n}") for kind, (k, n) in each.kept.items()]
            own.append((f"tenfold {each.session} tokens", f"{each.tokens[0]} -> {each.tokens[1]}"))
        return found

    return judged


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Tells what passing tests kept, so that a share that falls is seen before it is too low."""
    rows = config.stash.get(JUDGED, [])
    if rows:
        terminalreporter.section("what survived compaction")
        for line in told(rows):
            terminalreporter.write_line(line)


def told(rows: list[tuple[str, Survived]]) -> Iterator[str]:
    """A line for each session of each test."""
    for test, each in rows:
        kept = ", ".join(f"{kind} {kept}/{asked}" for kind, (kept, asked) in each.kept.items())
        yield f"{test}: {each.session}: {each.tokens[0]:,} -> {each.tokens[1]:,} tokens: {kept}"
