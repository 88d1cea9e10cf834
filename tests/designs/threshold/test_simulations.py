"""Every row of the design's simulations, with the calls that the summariser really got."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tenfold.designs.threshold import with_default_factor, with_sliding_window
from tests.designs.threshold.simulator import (
    FUTILE,
    SIMULATIONS,
    SUMMARY,
    Simulation,
    build_small_setup,
    build_tools,
    run,
)


def get_name(made: Simulation) -> str:
    return made.name


def test_every_row_of_the_published_table_is_run_with_a_summary_of_the_published_size() -> None:
    assert len(SUMMARY) == 120
    assert len({row.name.partition(":")[0] for row in (*SIMULATIONS, *FUTILE)}) == 27


@pytest.mark.costly(2)
@pytest.mark.parametrize("row", SIMULATIONS, ids=get_name)
def test_a_row_stays_within_its_window(row: Simulation) -> None:
    ran = run(row.setup)
    assert ran.peak <= row.setup.window
    assert ran.calls >= row.least
    assert ran.calls == row.calls, "the calls of the summariser, not the steps after the first of them"


@pytest.mark.parametrize("row", [r for r in SIMULATIONS if r.calls], ids=get_name)
def test_a_compaction_gets_smaller_and_is_not_followed_by_another_at_once(row: Simulation) -> None:
    """The original decides by calibrated tokens and accepts by the raw heuristic, so that what fits fires again."""
    ran = run(row.setup)
    made = [o for o in ran.outcomes if o.status == "compacted"]
    assert len(made) == ran.calls
    assert all(o.tokens_after < o.tokens_before // 2 or row.setup.system >= 8_000 for o in made)
    assert all(later - earlier > 2 for earlier, later in zip(ran.called, ran.called[1:], strict=False))
    assert ran.attempts == ()


@pytest.mark.parametrize("row", FUTILE, ids=get_name)
def test_a_floor_over_the_threshold_calls_no_model(row: Simulation) -> None:
    """The original summarises at every step: 4 of 5, and 10 of 10, each of them three times where it is worse."""
    ran = run(row.setup)
    assert ran.calls == 0
    assert ran.overflows == ()


def test_what_does_not_fit_the_window_is_said_once() -> None:
    ran = run(FUTILE[0].setup)
    (attempt,) = ran.attempts
    assert attempt.status == "unsatisfiable"
    assert "nothing can bring the view under 8,000 tokens" in attempt.reason


def test_a_floor_between_threshold_and_window_is_compacted_to_the_least() -> None:
    ran = run(replace(FUTILE[1].setup, turns=40))
    assert ran.calls == 0
    assert ran.peak <= 8_000
    assert not any(o.status == "unsatisfiable" for o in ran.outcomes)


def test_without_usage_a_ratio_above_the_factor_overflows_and_a_larger_factor_does_not() -> None:
    """The published limit of the method: the factor is all there is. 2.5 is the one to take where no usage comes."""
    worse = build_small_setup(15, user=800, system=300, ratio=3.0, usage=False, tools=build_tools(1_500))
    assert run(worse).peak > 8_000
    assert run(worse, with_default_factor(2.5)).peak <= 8_000
    assert run(replace(worse, ratio=2.0)).peak <= 8_000


@pytest.mark.costly(2)
@pytest.mark.parametrize("row", SIMULATIONS, ids=get_name)
def test_the_sliding_window_stays_within_it_as_well(row: Simulation) -> None:
    ran = run(row.setup, with_sliding_window(20))
    assert ran.peak <= row.setup.window
    made = [o for o in ran.outcomes if o.status == "compacted"]
    assert bool(made) <= ran.calls <= 3 * len(made), "one call, or more where a text was too long, or none so soon"
    assert len(made) <= ran.steps // 3
