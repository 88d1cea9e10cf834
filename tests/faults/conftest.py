"""Prints at the end of a run how many processes were killed, and where."""

from __future__ import annotations

import pytest

REPORT = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[REPORT] = []


@pytest.fixture
def report(request: pytest.FixtureRequest) -> list[str]:
    """Lines for the end of the run."""
    return request.config.stash[REPORT]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for line in config.stash[REPORT]:
        terminalreporter.write_line(f"faults: {line}")
