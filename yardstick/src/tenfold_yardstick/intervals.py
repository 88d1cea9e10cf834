"""Says how sure a figure is, with bootstrap intervals over sessions.

The facts of one session depend on each other, so whole sessions are resampled: as many as there are, with replacement.
The figure is computed for each resample, and its interval lies between two percentiles of the results (Efron and
Tibshirani, An Introduction to the Bootstrap, 1993, chapters 8 and 13). A resample that holds nothing of a method has
no figure, and is left out. All methods get the same resamples, so the difference of two methods is paired. The seed is
fixed, so the same scores give the same intervals. With only a dozen sessions the intervals are wide, and they hold for
similar sessions only.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from tenfold_yardstick.future_recall import RecallScore, compute_area

RESAMPLES = 2_000
"""The number of resamples. With fewer, the ends of a 95 % interval vary by more than the third digit."""
CONFIDENCE = 0.95
SEED = 1979
"""Any number will do, as long as it is the same in every run."""

Curve = dict[int, tuple[int, int]]
"""The facts (present, needed) at each budget, of one session or of several."""
Resample = Mapping[str, int]
"""How often each session is in the resample."""
ResampleFigure = Callable[[Resample], float | None]
"""Computes a figure for a resample, or returns None if the resample holds nothing to compute it from."""


class Interval(Struct, frozen=True):
    """A figure as it was measured, and the ends between which the share `CONFIDENCE` of its resamples lies."""

    value: float
    low: float
    high: float


def draw_resamples(sessions: Iterable[str]) -> list[Resample]:
    """Returns `RESAMPLES` resamples of the sessions. The same names give the same resamples in any order."""
    names = sorted(set(sessions))
    chance = random.Random(SEED)  # noqa: S311 - no secret; the seed makes it the same in every run
    return [Counter(chance.choices(names, k=len(names))) for _ in range(RESAMPLES if names else 0)]


def compute_interval(figure: ResampleFigure, resamples: Sequence[Resample]) -> Interval | None:
    """Returns the figure for all sessions, each once, and its percentile interval over the resamples that have one.

    Returns None if none has.
    """
    every = dict.fromkeys({name for one in resamples for name in one}, 1)
    value = figure(every)
    found = sorted(each for one in resamples if (each := figure(one)) is not None)
    if value is None or not found:
        return None
    edge = (1 - CONFIDENCE) / 2
    return Interval(value, _interpolate_percentile(found, edge), _interpolate_percentile(found, 1 - edge))


def compute_area_interval(scores: Sequence[RecallScore], resamples: Sequence[Resample]) -> Interval | None:
    """Returns the interval of one method's area over the budgets. The scores must have the area's budgets only."""
    curves = build_curves(scores)
    return compute_interval(lambda one: compute_resample_area(curves, one), resamples)


def compute_lead_interval(
    scores: Sequence[RecallScore], others: Sequence[RecallScore], resamples: Sequence[Resample]
) -> Interval | None:
    """Returns the interval of the difference between two methods' areas, both taken on the same resamples."""
    curves, other_curves = build_curves(scores), build_curves(others)

    def compute_lead(resample: Resample) -> float | None:
        own, other = (compute_resample_area(each, resample) for each in (curves, other_curves))
        return own - other if own is not None and other is not None else None

    return compute_interval(compute_lead, resamples)


def build_curves(scores: Iterable[RecallScore]) -> dict[str, Curve]:
    """Returns the facts (present, needed) by session and budget."""
    out: dict[str, Curve] = {}
    for score in scores:
        curve = out.setdefault(score.session, {})
        have, of = curve.get(score.budget, (0, 0))
        curve[score.budget] = (have + score.present, of + score.needed)
    return out


def compute_resample_area(curves: Mapping[str, Curve], resample: Resample) -> float | None:
    """Returns the area over the budgets for the facts of a resample, pooled at each budget.

    Returns None if the resample needed nothing at one of the budgets: the area over the others is another figure.
    """
    have: dict[int, int] = {}
    wanted: dict[int, int] = {}
    for name, times in resample.items():
        for budget, (present, needed) in curves.get(name, {}).items():
            have[budget] = have.get(budget, 0) + times * present
            wanted[budget] = wanted.get(budget, 0) + times * needed
    budgets = {budget for curve in curves.values() for budget, (_, needed) in curve.items() if needed}
    if not budgets or any(not wanted.get(budget) for budget in budgets):
        return None
    return compute_area({budget: have[budget] / wanted[budget] for budget in budgets})


def _interpolate_percentile(values: Sequence[float], share: float) -> float:
    """Returns the percentile, interpolated linearly between two values."""
    place = share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)
