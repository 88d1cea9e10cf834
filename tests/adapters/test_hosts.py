"""Agents of the frameworks that are installed beside Tenfold work in a small window, one line switched on.

`make adapters` installs and runs all of them, in a second window too: that takes a network and a quarter of an hour.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.adapters.host_rows import HOSTS, HostRow
from tests.adapters.host_runs import count_shared, is_installed_here, run_host, run_tests

HERE = Path(sys.executable)
INSTALLED = [host for host in HOSTS if is_installed_here(host)]


def test_some_are_installed() -> None:
    assert len(INSTALLED) >= 4


@pytest.mark.parametrize(
    ("earlier", "shared"), [([], 0), (["ab"], 2), (["abcd", "xy"], 4), (["xy", "abc"], 3), (["abcdef"], 5), (["x"], 0)]
)
def test_what_begins_like_any_earlier_request_is_in_the_cache(earlier: list[str], shared: int) -> None:
    """A request for a summary between two others takes nothing of it away."""
    assert count_shared(earlier, "abcde") == shared


@pytest.mark.timeout(400)
@pytest.mark.parametrize("host", INSTALLED, ids=lambda host: host.name)
def test_an_agent_works_in_a_small_window(host: HostRow) -> None:
    result = run_host(host, HERE, 8_000)
    assert result.problems == ()
    assert result.refusals == ()
    assert result.steps == 60
    assert result.compactions > 0
    assert result.largest <= 8_000


@pytest.mark.costly(2)
@pytest.mark.timeout(400)
@pytest.mark.parametrize("host", INSTALLED, ids=lambda host: host.name)
def test_the_tests_of_an_adapter_pass(host: HostRow) -> None:
    assert run_tests(host, HERE) == ""
