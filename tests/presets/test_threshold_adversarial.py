"""Two hundred turns against a provider whose reports say nothing, lie, or contain what the guard never sees."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec.structs import replace

from tests.presets.simulator import Ran, Report, Setup, build_large_setup, build_small_setup, build_tools, run

TURNS = 200
SHARES = (0.1, 0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.92, 0.95, 1.0, 1.1)
"""What the provider counts beside all that the guard sees, as shares of the window."""


def report_constantly(tokens: int) -> Report:
    """A provider that reports the same number whatever was sent."""
    return lambda _real: tokens


def report_times(factor: float) -> Report:
    """A provider that reports a multiple of what it counted."""
    return lambda real: int(real * factor)


SMALL = build_small_setup(TURNS, user=200)
TOOLS = build_small_setup(TURNS, user=200, tools=build_tools(1_500, every=2))
SETUPS: dict[str, Setup] = {
    **{f"hidden {share:.0%}": replace(SMALL, hidden=int(8_000 * share)) for share in SHARES},
    **{f"hidden {share:.0%} with tools": replace(TOOLS, hidden=int(8_000 * share)) for share in SHARES[3::2]},
    "none": replace(SMALL, usage=False),
    "none with tools": replace(TOOLS, usage=False),
    "zero": replace(TOOLS, report=report_constantly(0)),
    **{f"always {n:,}": replace(TOOLS, report=report_constantly(n)) for n in (1, 3_000, 5_000, 7_000, 90_000)},
    **{f"ratio {n}": replace(SMALL, ratio=float(n)) for n in (1, 4, 10)},
    **{f"{n} times what it counts": replace(TOOLS, report=report_times(n)) for n in (0.25, 4, 10)},
    "200k, hidden 50%": replace(build_large_setup(TURNS, user=2_000, tools=build_tools(8_000)), hidden=100_000),
    "200k, hidden 93%": replace(build_large_setup(TURNS, user=2_000, tools=build_tools(8_000)), hidden=186_000),
    "200k, hidden 105%": replace(build_large_setup(TURNS, user=2_000, tools=build_tools(8_000)), hidden=210_000),
}


def count_calls_after_futility(ran: Ran) -> int:
    """The calls of the summariser after the log said that nothing can bring the view under the limit."""
    futile = next((at for at, o in enumerate(ran.outcomes) if o.status == "unsatisfiable"), len(ran.outcomes))
    return sum(1 for step in ran.called if step >= futile)


@pytest.mark.spec("threshold.27", "threshold.W3", "threshold.D4")
@pytest.mark.parametrize("name", SETUPS)
def test_no_avoidable_overflow_no_loop_and_no_call_after_futility(name: str) -> None:
    """With 8,900 hidden tokens of 8,000 the summariser was called 97 times in 100 turns."""
    ran = run(SETUPS[name])
    assert ran.overflows == ()
    assert len(ran.called) <= ran.steps // 3
    assert all(later - earlier >= 3 for earlier, later in pairwise(ran.called))
    assert count_calls_after_futility(ran) == 0
    assert sum(1 for each in ran.attempts if each.status == "unsatisfiable") <= 1, "it is said once"
    assert len(ran.attempts) <= 3, "a fruitless try is remembered"
