"""The published estimator of `threshold` and `sliding`: the newest report, corrected by the ratio of two counts.

What the reports hold beside everything that we count (a cached prefix, tools that a gateway adds) is set apart first.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct

from tenfold.core.meter.counters import get_family_factor
from tenfold.core.meter.estimators import HOST_CUT_SHARE, MIN_SLOPE, Calibration, ModelCalibration
from tenfold.core.meter.media_counts import NO_MEDIA, MediaTokens
from tenfold.core.meter.reading import add_family_bounds, add_growth_bounds, build_corrected
from tenfold.core.record.token_reading import Counted, Reading, ReadingSource

NEWEST_REPORTS = 4
"""For how many of them it does so although the hidden part alone fills the window."""
MIN_RATIO, MAX_RATIO = 1.0, 5.0
MIN_LEVER = 200
"""Estimated tokens between two requests from which their reports tell what grows with the estimate, and what not."""
MIN_HIDDEN_SHARE = 0.1
"""Share of the smallest report below which what nothing explains is taken for the inaccuracy of counting."""


class RatioEstimator(Struct, frozen=True):
    """Reads max(reported, estimate x clamp(reported / estimate then, 1, 5)), and without a report estimate x factor.

    `factor` None takes the factor of the model's family and the counter.
    """

    factor: float | None = None
    covers_overhead: ClassVar[bool] = True

    def get_factor(self, model: str, counter: str) -> float:
        """See `Estimator.get_factor`."""
        return get_family_factor(model, counter) if self.factor is None else self.factor

    def read(
        self,
        estimate: Counted,
        calibration: Calibration,
        *,
        model: str,
        window: int | None,
        counter: str = "",
        media: MediaTokens = NO_MEDIA,
    ) -> Reading:
        """See `Estimator.read`."""
        row = calibration.find_model(model, counter)
        reading = _read_by_ratio(estimate, row, self.get_factor(model, counter), window)
        if row is not None and row.fresh:
            return add_growth_bounds(reading, row, media)
        return add_family_bounds(reading, model, counter, media)


def _read_by_ratio(estimate: Counted, row: ModelCalibration | None, factor: float, window: int | None) -> Reading:
    """Reads the size by the published formula, without a report by `factor`. What is hidden from us is the floor."""
    if row is None:
        return build_corrected(int(estimate * factor), "estimated", window, factor, 0, estimate)
    hidden, last = measure_hidden(row, factor), row.last_estimate + row.last_overhead
    reported, follows = row.last_reported if row.fresh else 0, is_credible(row)
    if row.diverged and row.recent_reports:  # what is hidden comes and goes: the newest report is read as it is
        last, reported = row.recent_reports[-1]
        hidden, follows = 0, reported >= MIN_SLOPE * last
    tokens, correction = correct_by_ratio(reported, last if follows else 0, estimate, factor=factor, hidden=hidden)
    line = find_highest_line(row, factor, window)
    if line is not None and (row.diverged or line[0] + line[1] * estimate > tokens):
        hidden, correction = int(line[0]), line[1]
        tokens = hidden + int(estimate * correction)
    if estimate < last:  # the request shrank (tools were removed), so the older count is no lower bound
        tokens = hidden + int(estimate * correction)
    source: ReadingSource = "reported" if row.fresh else "estimated"
    return build_corrected(max(0, tokens), source, window, correction, max(0, hidden), estimate)


def correct_by_ratio(
    reported: int, last_estimate: int, estimate: int, *, factor: float, hidden: int = 0
) -> tuple[int, float]:
    """Applies the published formula. Returns the tokens, and the correction that gave them.

    `reported` is the reported count of the last request and `last_estimate` its estimate (0: none). `estimate` is the
    present one. `hidden` is what the report is known to hold beside what was estimated; it is not corrected.
    """
    if reported <= 0:
        return hidden + int(estimate * factor), factor
    shown = reported - hidden
    correction = min(max(shown / last_estimate, MIN_RATIO), MAX_RATIO) if last_estimate > 0 else factor
    return max(reported, hidden + int(estimate * correction)), correction


def is_credible(row: ModelCalibration) -> bool:
    """Whether the reports follow what was sent. A provider may leave out cached tokens, or report a constant."""
    follows = _measure_growth(row) >= MIN_SLOPE
    return follows and row.last_reported >= MIN_SLOPE * (row.last_estimate + row.last_overhead)


def measure_hidden(row: ModelCalibration, factor: float) -> int:
    """Measures how many tokens the reports hold beside all that we count.

    It is what the smallest recent request took beyond what the growth from it to the newest explains. Where the
    reports do not follow that growth, or there is too little of it and they are more than the largest correction
    explains, `factor` is taken for it.
    """
    lowest, reported = _find_smallest(row)
    last = row.last_estimate + row.last_overhead
    growth = _measure_growth(row)
    slope = factor if growth < MIN_SLOPE else min(max(growth, MIN_RATIO), MAX_RATIO)
    hidden = reported - slope * lowest if last - lowest >= MIN_LEVER else 0.0
    if hidden < row.last_reported - MAX_RATIO * last:
        hidden = row.last_reported - factor * last
    return int(hidden) if hidden > MIN_HIDDEN_SHARE * reported else 0


def find_highest_line(row: ModelCalibration, factor: float, window: int | None) -> tuple[float, float] | None:
    """Finds on which line the highest of the recent reports lie where something hidden comes and goes.

    Returns the tokens that are hidden, and the slope, which is that of the other reports (at most `factor` where
    they are too close together to tell). None if one line can hold all reports. What fills the window alone is soon
    left out, since no compaction makes room for it.
    """
    reports = row.recent_reports
    high = [each for each in reports if any(_is_beyond(each, other) for other in reports)]
    if not high:
        return None
    low = sorted(each for each in reports if each not in high)
    (least, at_least), (most, at_most) = low[0], low[-1]
    slope = (at_most - at_least) / (most - least) if most - least >= MIN_LEVER else factor
    slope = min(max(slope, MIN_RATIO), MAX_RATIO)
    newest = reports[-NEWEST_REPORTS:]
    hidden = [(each, each[1] - slope * each[0]) for each in high]
    found = [tokens for each, tokens in hidden if window is None or tokens < window or each in newest]
    return (max(found), slope) if found else None


def _measure_growth(row: ModelCalibration) -> float:
    """Returns the reported tokens per estimated one between the smallest and the newest request, 1.0 if too few."""
    lowest, reported = _find_smallest(row)
    lever = row.last_estimate + row.last_overhead - lowest
    return (row.last_reported - reported) / lever if lever >= MIN_LEVER else 1.0


def _find_smallest(row: ModelCalibration) -> tuple[int, int]:
    """Finds the smallest recent request, or that of all where the recent ones are too much alike to tell."""
    last = row.last_estimate + row.last_overhead
    lowest = min(row.recent_reports, default=(last, row.last_reported))
    if last - lowest[0] >= MIN_LEVER:
        return lowest
    return row.smallest_estimate + row.last_overhead, row.reported_at_smallest


def _is_beyond(report: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether even the largest correction of what was sent more does not explain a report, beside another one."""
    (sent, reported), (other_sent, other_reported) = report, other
    return other_reported + MAX_RATIO * max(0, sent - other_sent) < HOST_CUT_SHARE * reported
