"""Says how sure a figure is, with bootstrap intervals over sessions.

The facts of one session depend on each other, so whole sessions are resampled: as many as there are, with replacement.
The figure is computed for each resample, and its interval lies between two percentiles of the results (Efron and
Tibshirani, An Introduction to the Bootstrap, 1993, chapters 8 and 13). All methods get the same resamples, so the
difference of two methods is paired. The seed is fixed, so the same scores give the same intervals. With only a dozen
sessions the intervals are wide, and they hold for similar sessions only.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from tenfold.evals.future import Recall, area

RESAMPLES = 2_000
"""The number of resamples. With fewer, the ends of a 95 % interval vary by more than the third digit."""
LEVEL = 0.95
SEED = 1979
"""Any number will do, as long as it is the same in every run."""

Curve = dict[int, tuple[int, int]]
"""The facts (present, needed) at each budget, of one session or of several."""
Drawing = Mapping[str, int]
"""How often each session is in the resample."""


class Interval(Struct, frozen=True):
    """A figure as it was measured, and the ends between which the share `CONFIDENCE` of its resamples lies."""

    value: float
    low: float
    high: float


def drawings(sessions: Iterable[str]) -> list[Drawing]:
    """Returns `RESAMPLES` resamples of the sessions. The same names give the same resamples in any order."""
    names = sorted(set(sessions))
    chance = random.Random(SEED)  # noqa: S311 - no secret; the seed makes it the same in every run
    return [Counter(chance.choices(names, k=len(names))) for _ in range(RESAMPLES if names else 0)]


def interval(figure: Callable[[Drawing], float], drawn: Sequence[Drawing]) -> Interval:
    """Returns the figure for all sessions, each once, and its percentile interval over the resamples."""
    every = dict.fromkeys({name for one in drawn for name in one}, 1)
    found = sorted(figure(one) for one in drawn)
    if not found:
        return Interval(0.0, 0.0, 0.0)
    edge = (1 - LEVEL) / 2
    return Interval(figure(every), _at(found, edge), _at(found, 1 - edge))


def of_area(scores: Sequence[Recall], drawn: Sequence[Drawing]) -> Interval:
    """Returns the interval of one method's area over the budgets. The scores must have the area's budgets only."""
    curves = curves_of(scores)
    return interval(lambda one: area_under(curves, one), drawn)


def of_lead(scores: Sequence[Recall], others: Sequence[Recall], drawn: Sequence[Drawing]) -> Interval:
    """Returns the interval of the difference between two methods' areas, both taken on the same resamples."""
    first, second = curves_of(scores), curves_of(others)
    return interval(lambda one: area_under(first, one) - area_under(second, one), drawn)


def curves_of(scores: Iterable[Recall]) -> dict[str, Curve]:
    """Returns the facts (present, needed) by session and budget."""
    out: dict[str, Curve] = {}
    for score in scores:
        curve = out.setdefault(score.session, {})
        have, of = curve.get(score.budget, (0, 0))
        curve[score.budget] = (have + score.present, of + score.needed)
    return out


def area_under(curves: Mapping[str, Curve], drawing: Drawing) -> float:
    """Returns the area over the budgets for the facts of a resample, pooled at each budget."""
    have: dict[int, int] = {}
    wanted: dict[int, int] = {}
    for name, times in drawing.items():
        for budget, (present, needed) in curves.get(name, {}).items():
            have[budget] = have.get(budget, 0) + times * present
            wanted[budget] = wanted.get(budget, 0) + times * needed
    return area({budget: have[budget] / of for budget, of in wanted.items() if of})


def _at(found: Sequence[float], share: float) -> float:
    """Returns the percentile, interpolated linearly between two values."""
    place = share * (len(found) - 1)
    low = int(place)
    high = min(low + 1, len(found) - 1)
    return found[low] + (found[high] - found[low]) * (place - low)
