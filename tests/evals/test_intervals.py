"""Bootstrap intervals: known answers for cases small enough to work out, and the same in every run."""

from __future__ import annotations

import math

import pytest

from tenfold.evals.future import Recall
from tenfold.evals.intervals import RESAMPLES, Interval, drawings, interval, of_area, of_lead


def score(session: str, present: int, needed: int = 10, *, budget: int = 4_000, method: str = "a") -> Recall:
    return Recall(session, 5, "50%", method, budget, 1, needed, 100_000, present=present)


def test_as_many_sessions_are_drawn_as_there_are_and_the_same_each_time() -> None:
    drawn = drawings(["c", "a", "b", "a"])
    assert len(drawn) == RESAMPLES
    assert all(sum(one.values()) == 3 for one in drawn)
    assert {name for one in drawn for name in one} == {"a", "b", "c"}
    assert drawn == drawings(["b", "c", "a"])
    assert len({tuple(sorted(one.items())) for one in drawn}) == 10, "three of three, with replacement"


def test_where_all_sessions_are_alike_nothing_varies() -> None:
    scores = [score(name, 4) for name in "abcd"]
    assert of_area(scores, drawings("abcd")) == Interval(0.4, 0.4, 0.4)


def test_the_interval_of_a_mean_is_that_of_its_standard_error() -> None:
    names = [f"s{n}" for n in range(40)]
    scores = [score(name, 10 * (n % 2)) for n, name in enumerate(names)]
    found = of_area(scores, drawings(names))
    error = 1.96 * math.sqrt(0.25 / 40)
    assert found.value == 0.5
    assert found.low == pytest.approx(0.5 - error, abs=0.03)
    assert found.high == pytest.approx(0.5 + error, abs=0.03)


def test_cuts_of_one_session_are_drawn_together() -> None:
    alone = [score(f"s{n}", 10 * (n % 2)) for n in range(8)]
    together = [score(f"s{n % 2}", 10 * (n % 2)) for n in range(8)]
    wide, narrow = (of_area(each, drawings(r.session for r in each)) for each in (together, alone))
    assert (wide.low, wide.high) == (0.0, 1.0)
    assert 0.0 < narrow.low < narrow.high < 1.0


def test_facts_are_pooled_so_a_session_weighs_what_it_needed() -> None:
    scores = [score("much", 0, 90), score("little", 10, 10)]
    assert of_area(scores, drawings(["much", "little"])).value == 0.1


def test_a_lead_is_taken_within_each_drawing() -> None:
    names = [f"s{n}" for n in range(8)]
    first = [score(name, n + 2) for n, name in enumerate(names)]
    second = [score(name, n, method="b") for n, name in enumerate(names)]
    drawn = drawings(names)
    lead = of_lead(first, second, drawn)
    assert [lead.value, lead.low, lead.high] == pytest.approx([0.2, 0.2, 0.2])
    own = of_area(first, drawn)
    assert own.high - own.low > 0.2, "each of them varies"


def test_the_area_weighs_the_budgets_as_the_headline_does() -> None:
    scores = [score("a", 0), score("a", 10, budget=8_000), score("a", 10, budget=32_000)]
    assert of_area(scores, drawings("a")).value == pytest.approx((0.5 + 2) / 3)


def test_without_sessions_there_is_nothing_to_draw() -> None:
    assert interval(lambda one: float(len(one)), drawings([])) == Interval(0.0, 0.0, 0.0)
