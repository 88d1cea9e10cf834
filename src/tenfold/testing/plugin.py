"""The pytest plugin: the fixture `survives`, and a line at the end of the run for each session that it judged.

pytest loads the plugin wherever Tenfold is installed, so it loads nothing of Tenfold until a test uses the fixture.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tenfold.testing.losses import SurvivalResult

KEPT_PROPERTY = "tenfold kept"
"""The property of a test's report that says what was kept of one session. It also comes back from a worker process."""


@pytest.fixture
def survives(request: pytest.FixtureRequest) -> Callable[..., tuple[SurvivalResult, ...]]:
    """`tenfold.testing.assert_survives`, with the session's path taken from the test's folder.

    What was kept is also written into the run's JUnit report, as properties of the test, and told at its end.
    """
    from tenfold.testing.survival import assert_survives  # noqa: PLC0415 - nothing is loaded before a test asks for it

    def judge(compactor: object, session: object, **options: object) -> tuple[SurvivalResult, ...]:
        __tracebackhide__ = True
        if isinstance(session, str | Path):
            session = request.path.parent / session
        found = assert_survives(compactor, session, **options)  # type: ignore[arg-type]
        for each in found:
            own = request.node.user_properties  # `record_property` warns about pytest's own JUnit family
            own += [(f"tenfold {each.session} {kind}", f"{k}/{n}") for kind, (k, n) in each.kept.items()]
            own.append((f"tenfold {each.session} tokens", f"{each.tokens[0]} -> {each.tokens[1]}"))
            own.append((KEPT_PROPERTY, format_kept(each)))
        return found

    return judge


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Shows what passing tests kept, so that a falling share is noticed before it is too low."""
    reports = [report for found in terminalreporter.stats.values() for report in found]
    ended = [report for report in reports if getattr(report, "when", "") == "teardown"]
    lines = [f"{each.nodeid}: {text}" for each in ended for name, text in each.user_properties if name == KEPT_PROPERTY]
    if lines:
        terminalreporter.section("what survived compaction")
        for line in lines:
            terminalreporter.write_line(line)


def format_kept(result: SurvivalResult) -> str:
    """Returns what was kept of one session, in a line."""
    kept = ", ".join(f"{kind} {kept}/{asked}" for kind, (kept, asked) in result.kept.items())
    return f"{result.session}: {result.tokens[0]:,} -> {result.tokens[1]:,} tokens: {kept}"
