"""Bootstrap intervals: known answers for cases small enough to work out, and the same in every run."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from tenfold_yardstick.future_recall import RecallScore
from tenfold_yardstick.intervals import (
    RESAMPLES,
    Interval,
    compute_area_interval,
    compute_interval,
    compute_lead_interval,
    draw_resamples,
)


def make_recall(session: str, present: int, needed: int = 10, *, budget: int = 4_000, method: str = "a") -> RecallScore:
    return RecallScore(session, 5, "50%", method, budget, 1, needed, 100_000, present=present)


def compute_interval_of(scores: Sequence[RecallScore]) -> Interval:
    """The interval of the area over the sessions of these scores."""
    found = compute_area_interval(scores, draw_resamples(score.session for score in scores))
    assert found is not None
    return found


def test_as_many_sessions_are_drawn_as_there_are_and_the_same_each_time() -> None:
    drawn = draw_resamples(["c", "a", "b", "a"])
    assert len(drawn) == RESAMPLES
    assert all(sum(one.values()) == 3 for one in drawn)
    assert {name for one in drawn for name in one} == {"a", "b", "c"}
    assert drawn == draw_resamples(["b", "c", "a"])
    assert len({tuple(sorted(one.items())) for one in drawn}) == 10, "three of three, with replacement"


def test_where_all_sessions_are_alike_nothing_varies() -> None:
    scores = [make_recall(name, 4) for name in "abcd"]
    assert compute_area_interval(scores, draw_resamples("abcd")) == Interval(0.4, 0.4, 0.4)


def test_the_interval_of_a_mean_is_that_of_its_standard_error() -> None:
    names = [f"s{n}" for n in range(40)]
    scores = [make_recall(name, 10 * (n % 2)) for n, name in enumerate(names)]
    found = compute_interval_of(scores)
    error = 1.96 * math.sqrt(0.25 / 40)
    assert found.value == 0.5
    assert found.low == pytest.approx(0.5 - error, abs=0.03)
    assert found.high == pytest.approx(0.5 + error, abs=0.03)


def test_cuts_of_one_session_are_drawn_together() -> None:
    alone = [make_recall(f"s{n}", 10 * (n % 2)) for n in range(8)]
    together = [make_recall(f"s{n % 2}", 10 * (n % 2)) for n in range(8)]
    wide, narrow = (compute_interval_of(each) for each in (together, alone))
    assert (wide.low, wide.high) == (0.0, 1.0)
    assert 0.0 < narrow.low < narrow.high < 1.0


def test_facts_are_pooled_so_a_session_weighs_what_it_needed() -> None:
    scores = [make_recall("much", 0, 90), make_recall("little", 10, 10)]
    assert compute_interval_of(scores).value == 0.1


def test_a_lead_is_taken_within_each_drawing() -> None:
    names = [f"s{n}" for n in range(8)]
    first = [make_recall(name, n + 2) for n, name in enumerate(names)]
    second = [make_recall(name, n, method="b") for n, name in enumerate(names)]
    drawn = draw_resamples(names)
    lead = compute_lead_interval(first, second, drawn)
    assert lead is not None
    assert [lead.value, lead.low, lead.high] == pytest.approx([0.2, 0.2, 0.2])
    own = compute_interval_of(first)
    assert own.high - own.low > 0.2, "each of them varies"


def test_the_area_weighs_the_budgets_as_the_headline_does() -> None:
    scores = [make_recall("a", 0), make_recall("a", 10, budget=8_000), make_recall("a", 10, budget=32_000)]
    assert compute_interval_of(scores).value == pytest.approx((0.5 + 2) / 3)


def test_without_sessions_there_is_nothing_to_draw() -> None:
    assert compute_interval(lambda one: float(len(one)), draw_resamples([])) is None
    assert compute_interval(lambda _: None, draw_resamples("ab")) is None


def test_a_resample_that_drew_nothing_of_a_method_is_left_out() -> None:
    """A method that was measured on one session of four is missing in a third of the resamples."""
    drawn = draw_resamples("abcd")
    assert compute_area_interval([make_recall("a", 4)], drawn) == Interval(0.4, 0.4, 0.4)
    lead = compute_lead_interval([make_recall("a", 6)], [make_recall("a", 4)], drawn)
    assert lead is not None
    assert [lead.low, lead.high] == pytest.approx([0.2, 0.2])


def test_an_area_over_fewer_budgets_is_another_figure() -> None:
    """Only one session is long enough for the larger budget, where the score is lower."""
    scores = [make_recall("long", 8), make_recall("long", 2, budget=32_000), make_recall("short", 8)]
    found = compute_interval_of(scores)
    assert [found.low, found.high] == pytest.approx([0.5, 0.5])
