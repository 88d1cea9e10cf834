"""How sure a figure is: bootstrap intervals over sessions.

Facts of one session hang together, so whole sessions are drawn, with replacement, as often as there are sessions; the
figure is taken of each drawing, and its interval is that between percentiles of all drawings (Efron and Tibshirani,
An Introduction to the Bootstrap, 1993, chapters 8 and 13). All methods get the same drawings, so that the difference of
two is paired. The seed is fixed: the same scores give the same intervals. A dozen sessions make wide intervals, and
they speak of sessions like these.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from tenfold.evals.future import Recall, area

RESAMPLES = 2_000
"""Drawings: at fewer the ends of a 95 % interval move by more than the third digit."""
LEVEL = 0.95
SEED = 1979
"""Any number does; it has to be the same in every run."""

Curve = dict[int, tuple[int, int]]
"""Of one session or several, by budget: facts present and facts needed."""
Drawing = Mapping[str, int]
"""How often each session is in it."""


class Interval(Struct, frozen=True):
    """A figure as it was measured, and the ends between which `LEVEL` of its drawings lie."""

    value: float
    low: float
    high: float


def drawings(sessions: Iterable[str]) -> list[Drawing]:
    """`RESAMPLES` drawings of as many sessions as there are, the same for the same names in whichever order."""
    names = sorted(set(sessions))
    chance = random.Random(SEED)  # noqa: S311 - no secret; the seed makes it the same in every run
    return [Counter(chance.choices(names, k=len(names))) for _ in range(RESAMPLES if names else 0)]


def interval(figure: Callable[[Drawing], float], drawn: Sequence[Drawing]) -> Interval:
    """The figure of all sessions, each once, and its percentile interval over the drawings."""
    every = dict.fromkeys({name for one in drawn for name in one}, 1)
    found = sorted(figure(one) for one in drawn)
    if not found:
        return Interval(0.0, 0.0, 0.0)
    edge = (1 - LEVEL) / 2
    return Interval(figure(every), _at(found, edge), _at(found, 1 - edge))


def of_area(scores: Sequence[Recall], drawn: Sequence[Drawing]) -> Interval:
    """The area over the budgets of one method's scores. They must hold the budgets of the area alone."""
    curves = curves_of(scores)
    return interval(lambda one: area_under(curves, one), drawn)


def of_lead(scores: Sequence[Recall], others: Sequence[Recall], drawn: Sequence[Drawing]) -> Interval:
    """By how much the area of the first exceeds that of the others, both taken of the same drawings."""
    first, second = curves_of(scores), curves_of(others)
    return interval(lambda one: area_under(first, one) - area_under(second, one), drawn)


def curves_of(scores: Iterable[Recall]) -> dict[str, Curve]:
    """Present and needed by session and budget."""
    out: dict[str, Curve] = {}
    for score in scores:
        curve = out.setdefault(score.session, {})
        have, of = curve.get(score.budget, (0, 0))
        curve[score.budget] = (have + score.present, of + score.needed)
    return out


def area_under(curves: Mapping[str, Curve], drawing: Drawing) -> float:
    """The area over the budgets of the facts of a drawing, pooled at each budget."""
    have: dict[int, int] = {}
    wanted: dict[int, int] = {}
    for name, times in drawing.items():
        for budget, (present, needed) in curves.get(name, {}).items():
            have[budget] = have.get(budget, 0) + times * present
            wanted[budget] = wanted.get(budget, 0) + times * needed
    return area({budget: have[budget] / of for budget, of in wanted.items() if of})


def _at(found: Sequence[float], share: float) -> float:
    """The percentile, between two drawings in proportion."""
    place = share * (len(found) - 1)
    low = int(place)
    high = min(low + 1, len(found) - 1)
    return found[low] + (found[high] - found[low]) * (place - low)
