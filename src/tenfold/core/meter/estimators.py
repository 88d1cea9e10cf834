"""Learns from the usage that providers report: a handful of numbers per model, folded along a path.

The transitions are pure: `record_usage` after each answer, `expire_reports` after a Block or a retraction. A snapshot
carries the numbers as bytes. Turning them into a Reading is the job of `reading.py`.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from tenfold.core.meter.counters import get_family_factor
from tenfold.core.meter.report_bounds import SeenReport, judge_report
from tenfold.core.record.entry import Usage
from tenfold.core.record.message import Status
from tenfold.errors import RecordError

MIN_GROWTH = 2_000
"""Estimated tokens of growth that must be seen before the slope is computed from them."""
MIN_SLOPE, MAX_SLOPE = 0.5, 5.0
HOST_CUT_SHARE = 0.8
"""A report below this share of the one before, while our view only grew, means that the host itself cut the list.

The two compactions in the recorded pi session went down to 0.15 of the size before. No other report there fell at all.
"""
RECENT_REPORTS = 12
"""How many reports of a model are kept, and so for how long the estimator `ratio` expects another one as high."""
NEWEST_REPORTS = 4
"""For how many of them it does so although the hidden part alone fills the window."""
MIN_RATIO, MAX_RATIO = 1.0, 5.0
MIN_LEVER = 200
"""Estimated tokens between two requests from which their reports tell what grows with the estimate, and what not."""
MIN_HIDDEN_SHARE = 0.1
"""Share of the smallest report below which what nothing explains is taken for the inaccuracy of counting."""
MAX_MODELS = 8


class Estimator(Struct, frozen=True, omit_defaults=True):
    """How an estimate is corrected towards what the provider would report. It is a value on the policy.

    `anchored` reads floor + slope x estimate. `ratio` is the published formula of the preset `threshold`, with what the
    reports hold beside all that we count set apart. `factor` is the correction while no usage is known. None takes the
    factor of the model's family and the counter.
    """

    kind: Literal["anchored", "ratio"] = "anchored"
    factor: float | None = None


class ModelCalibration(Struct, frozen=True, array_like=True):
    """What one model reported under one counter. Estimates and reports are in tokens; -1 means none yet.

    `estimate_growth` and `reported_growth` sum the growth between consecutive requests with no Block between them.
    `smallest_estimate` and `reported_at_smallest` belong to the request with the smallest estimate. `last_estimate` and
    `last_reported` belong to the newest request; a reading builds on it as long as it is `fresh`. `diverged` means that
    the host shortened what it sent without telling us, so its reports describe another view than ours; or that what the
    provider counts beside the view comes and goes. `last_overhead` is our count of what the newest request held besides
    the view. `recent_reports` are the newest ones: our count of all that was sent, and what was reported. `unused` is
    in the place of a number that earlier versions wrote.
    """

    model: str
    counter: str
    estimate_growth: int = 0
    reported_growth: int = 0
    smallest_estimate: int = -1
    reported_at_smallest: int = -1
    last_estimate: int = -1
    last_reported: int = -1
    fresh: bool = False
    diverged: bool = False
    last_overhead: int = 0
    unused: int = 0
    recent_reports: tuple[tuple[int, int], ...] = ()

    def compute_slope(self, factor: float, least: float = 0.0) -> float:
        """Returns the reported tokens per estimated token, from growth and clamped.

        Returns `factor` until enough growth was seen, and where the reports grow by less than `least` allows.
        """
        if self.estimate_growth < MIN_GROWTH or (least and self.reported_growth < least * self.estimate_growth):
            return factor
        return min(max(self.reported_growth / self.estimate_growth, MIN_SLOPE), MAX_SLOPE)

    def compute_floor(self, slope: float) -> float:
        """Returns what requests hold that the estimate does not see (system prompt, tools); never below zero."""
        return max(0.0, self.reported_at_smallest - slope * self.smallest_estimate)

    @property
    def is_credible(self) -> bool:
        """Whether the reports follow what was sent. A provider may leave out cached tokens, or report a constant."""
        follows = self._measure_growth() >= MIN_SLOPE
        return follows and self.last_reported >= MIN_SLOPE * (self.last_estimate + self.last_overhead)

    def measure_hidden(self, factor: float) -> int:
        """Measures how many tokens the reports hold beside all that we count, for the estimator `ratio`.

        It is what the smallest recent request took beyond what the growth from it to the newest explains. Where the
        reports do not follow that growth, or there is too little of it and they are more than the largest correction
        explains, `factor` is taken for it.
        """
        lowest, reported = self._find_smallest()
        last = self.last_estimate + self.last_overhead
        growth = self._measure_growth()
        slope = factor if growth < MIN_SLOPE else min(max(growth, MIN_RATIO), MAX_RATIO)
        hidden = reported - slope * lowest if last - lowest >= MIN_LEVER else 0.0
        if hidden < self.last_reported - MAX_RATIO * last:
            hidden = self.last_reported - factor * last
        return int(hidden) if hidden > MIN_HIDDEN_SHARE * reported else 0

    def find_highest_line(self, factor: float, window: int | None) -> tuple[float, float] | None:
        """Finds on which line the highest of the recent reports lie where something hidden comes and goes.

        Returns the tokens that are hidden, and the slope, which is that of the other reports (at most `factor` where
        they are too close together to tell). None if one line can hold all reports. What fills the window alone is soon
        left out, since no compaction makes room for it.
        """
        reports = self.recent_reports
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

    def _measure_growth(self) -> float:
        """Returns the reported tokens per estimated one between the smallest and the newest request, 1.0 if too few."""
        lowest, reported = self._find_smallest()
        lever = self.last_estimate + self.last_overhead - lowest
        return (self.last_reported - reported) / lever if lever >= MIN_LEVER else 1.0

    def _find_smallest(self) -> tuple[int, int]:
        """Finds the smallest recent request, or that of all where the recent ones are too much alike to tell."""
        last = self.last_estimate + self.last_overhead
        lowest = min(self.recent_reports, default=(last, self.last_reported))
        if last - lowest[0] >= MIN_LEVER:
            return lowest
        return self.smallest_estimate + self.last_overhead, self.reported_at_smallest


def _is_beyond(report: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether even the largest correction of what was sent more does not explain a report, beside another one."""
    (sent, reported), (other_sent, other_reported) = report, other
    return other_reported + MAX_RATIO * max(0, sent - other_sent) < HOST_CUT_SHARE * reported


class Calibration(Struct, frozen=True, array_like=True):
    """The calibration of the models seen on a path, one row per model and counter, the newest last.

    `seen` are the newest reports for whole requests, believed or not.
    """

    rows: tuple[ModelCalibration, ...] = ()
    seen: tuple[SeenReport, ...] = ()

    def find_model(self, model: str, counter: str) -> ModelCalibration | None:
        """Returns the row of a model under a counter ("": any counter), or None before its first report."""
        for row in reversed(self.rows):
            if row.model == model and counter in (row.counter, ""):
                return row
        return None

    def find_seen(self, model: str, counter: str) -> SeenReport | None:
        """Returns the newest report of a model for a whole request, believed or not."""
        return next((each for each in self.seen if (each.model, each.counter) == (model, counter)), None)

    def find_other_model(self, model: str, counter: str) -> ModelCalibration | None:
        """Returns the newest row of another model under the same counter.

        It knows the floor, in that model's tokens.
        """
        return next((r for r in reversed(self.rows) if counter in (r.counter, "") and r.model != model), None)


def record_usage(
    calibration: Calibration, usage: Usage, estimate: int, counter: str, *, status: Status = "ok"
) -> Calibration:
    """Returns the calibration after an answer.

    `usage` is what the answer's request took, `estimate` our estimate of the view that was sent. Ignores answers that
    were aborted or failed, usage without prompt tokens, and a report that our count of a whole request contradicts.
    """
    if status != "ok" or usage.prompt <= 0 or estimate < 0:
        return calibration
    if usage.is_whole:
        calibration, is_believed = _judge(calibration, usage, estimate + usage.overhead, counter)
        if not is_believed:
            return calibration
    old = calibration.find_model(usage.model, counter) or ModelCalibration(usage.model, counter)
    sent, last = estimate + usage.overhead, old.last_estimate + old.last_overhead
    recent = (*old.recent_reports[1 - RECENT_REPORTS :], (sent, usage.prompt))
    is_cut = old.fresh and sent >= last and usage.prompt < HOST_CUT_SHARE * old.last_reported and not usage.is_whole
    if old.diverged or is_cut:
        return _with_row(calibration, msgspec.structs.replace(old, fresh=False, diverged=True, recent_reports=recent))
    grown_estimate, grown_reported = old.estimate_growth, old.reported_growth
    if old.fresh and estimate > old.last_estimate and usage.overhead == old.last_overhead:
        grown_estimate += estimate - old.last_estimate
        grown_reported += usage.prompt - old.last_reported
    lowest = old.smallest_estimate < 0 or estimate <= old.smallest_estimate
    row = ModelCalibration(
        usage.model,
        counter,
        grown_estimate,
        grown_reported,
        estimate if lowest else old.smallest_estimate,
        usage.prompt if lowest else old.reported_at_smallest,
        estimate,
        usage.prompt,
        True,
        last_overhead=usage.overhead,
        recent_reports=recent,
    )
    return _with_row(calibration, row)


def _with_row(calibration: Calibration, row: ModelCalibration) -> Calibration:
    others = tuple(r for r in calibration.rows if r.model != row.model or r.counter != row.counter)
    return msgspec.structs.replace(calibration, rows=(*others[1 - MAX_MODELS :], row))


def _judge(calibration: Calibration, usage: Usage, sent: int, counter: str) -> tuple[Calibration, bool]:
    """Returns the calibration that remembers the report of a whole request, and whether the report is believed."""
    before = calibration.find_seen(usage.model, counter)
    seen = judge_report(before, model=usage.model, counter=counter, sent=sent, reported=usage.prompt)
    others = tuple(each for each in calibration.seen if each is not before)
    return msgspec.structs.replace(calibration, seen=(*others[1 - MAX_MODELS :], seen)), seen.is_believed


def expire_reports(calibration: Calibration) -> Calibration:
    """Returns the calibration after a Block, a retraction or a change of branch.

    From then on no reading builds on an older report.
    """
    if not any(row.fresh or row.diverged for row in calibration.rows):
        return calibration
    rows = tuple(msgspec.structs.replace(row, fresh=False, diverged=False) for row in calibration.rows)
    return msgspec.structs.replace(calibration, rows=rows)


def get_factor(estimator: Estimator, model: str, counter: str) -> float:
    """Returns the correction while no usage is known: the estimator's own, else that of the family and counter."""
    return get_family_factor(model, counter) if estimator.factor is None else estimator.factor


def correct_by_ratio(
    reported: int, last_estimate: int, estimate: int, *, factor: float, hidden: int = 0
) -> tuple[int, float]:
    """Applies the published formula of `threshold`. Returns the tokens, and the correction that gave them.

    `reported` is the reported count of the last request and `last_estimate` its estimate (0: none). `estimate` is the
    present one. `hidden` is what the report is known to hold beside what was estimated; it is not corrected.
    """
    if reported <= 0:
        return hidden + int(estimate * factor), factor
    shown = reported - hidden
    correction = min(max(shown / last_estimate, MIN_RATIO), MAX_RATIO) if last_estimate > 0 else factor
    return max(reported, hidden + int(estimate * correction)), correction


def encode_calibration(calibration: Calibration) -> bytes:
    """Returns the calibration as bytes, for a snapshot."""
    return msgspec.msgpack.encode(calibration)


def decode_calibration(data: bytes) -> Calibration:
    """Returns the calibration in a snapshot's bytes, an empty one for empty bytes.

    Raises `RecordError` for bytes that `encode_calibration` did not write.
    """
    if not data:
        return Calibration()
    try:
        return msgspec.msgpack.decode(data, type=Calibration)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
        raise RecordError(f"a snapshot's meter does not validate: {exc}; run `tenfold verify`") from exc
