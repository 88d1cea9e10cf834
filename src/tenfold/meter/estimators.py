"""Learns from the usage that providers report: a handful of numbers per model, folded along a path.

The transitions are pure: `record_usage` after each answer, `expire_reports` after a Block or a retraction. A snapshot
carries the numbers as bytes. Turning them into a Reading is the job of `reading.py`.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from tenfold.errors import RecordError
from tenfold.meter.counters import factor_for
from tenfold.record.entry import Usage
from tenfold.record.message import Status

GROWTH_NEEDED = 2_000
"""Estimated tokens of growth that must be seen before the slope is computed from them."""
SLOPE_LEAST, SLOPE_MOST = 0.5, 5.0
DROP = 0.8
"""A report below this share of the one before, while our view only grew, means that the host itself cut the list.

The two compactions in the recorded pi session went down to 0.15 of the size before. No other report there fell at all.
"""
RATIO_LEAST, RATIO_MOST = 1.0, 5.0
MODELS_KEPT = 8


class Estimator(Struct, frozen=True, omit_defaults=True):
    """How an estimate is corrected towards what the provider would report. It is a value on the policy.

    `anchored` reads floor + slope x estimate. `ratio` is the published formula of the preset `threshold`. `factor` is
    the correction while no usage is known. None takes the factor of the model's family and the counter.
    """

    kind: Literal["anchored", "ratio"] = "anchored"
    factor: float | None = None


class Anchor(Struct, frozen=True, array_like=True):
    """What one model reported under one counter. Estimates and reports are in tokens; -1 means none yet.

    `estimate_growth` and `reported_growth` sum the growth between consecutive requests with no Block between them.
    `smallest_estimate` and `reported_at_smallest` belong to the request with the smallest estimate. `last_estimate` and
    `last_reported` belong to the newest request; a reading builds on it as long as it is `fresh`. `diverged` means that
    the host shortened what it sent without telling us, so its reports describe another view than ours. `last_overhead`
    is our count of what the newest request held besides the view.
    """

    model: str
    counter: str
    grown_estimate: int = 0
    grown_reported: int = 0
    low_estimate: int = -1
    low_reported: int = -1
    last_estimate: int = -1
    last_reported: int = -1
    fresh: bool = False
    adrift: bool = False
    last_apart: int = 0

    def slope(self, factor: float) -> float:
        """Returns the reported tokens per estimated token, from growth and clamped.

        Returns `factor` until enough growth was seen.
        """
        if self.grown_estimate < GROWTH_NEEDED:
            return factor
        return min(max(self.grown_reported / self.grown_estimate, SLOPE_LEAST), SLOPE_MOST)

    def floor(self, slope: float) -> float:
        """Returns what requests hold that the estimate does not see (system prompt, tools); never below zero."""
        return max(0.0, self.low_reported - slope * self.low_estimate)


class Anchors(Struct, frozen=True, array_like=True):
    """The calibration of the models seen on a path, one row per model and counter, the newest last."""

    rows: tuple[Anchor, ...] = ()

    def of(self, model: str, counter: str) -> Anchor | None:
        """Returns the row of a model under a counter ("": any counter), or None before its first report."""
        for row in reversed(self.rows):
            if row.model == model and counter in (row.counter, ""):
                return row
        return None

    def lent(self, model: str, counter: str) -> Anchor | None:
        """Returns the newest row of another model under the same counter.

        It knows the floor, in that model's tokens.
        """
        return next((r for r in reversed(self.rows) if counter in (r.counter, "") and r.model != model), None)


def reported(anchors: Anchors, usage: Usage, estimate: int, counter: str, *, status: Status = "ok") -> Anchors:
    """Returns the calibration after an answer.

    `usage` is what the answer's request took, `estimate` our estimate of the view that was sent. Ignores answers that
    were aborted or failed, and usage without prompt tokens.
    """
    if status != "ok" or usage.prompt <= 0 or estimate < 0:
        return anchors
    old = anchors.of(usage.model, counter) or Anchor(usage.model, counter)
    if old.adrift:
        return anchors
    sent, last = estimate + usage.apart, old.last_estimate + old.last_apart
    if old.fresh and sent >= last and usage.prompt < DROP * old.last_reported:
        return _with(anchors, msgspec.structs.replace(old, fresh=False, adrift=True))
    grown_estimate, grown_reported = old.grown_estimate, old.grown_reported
    if old.fresh and estimate > old.last_estimate and usage.apart == old.last_apart:
        grown_estimate += estimate - old.last_estimate
        grown_reported += usage.prompt - old.last_reported
    lowest = old.low_estimate < 0 or estimate <= old.low_estimate
    row = Anchor(
        usage.model,
        counter,
        grown_estimate,
        grown_reported,
        estimate if lowest else old.low_estimate,
        usage.prompt if lowest else old.low_reported,
        estimate,
        usage.prompt,
        True,
        last_apart=usage.apart,
    )
    return _with(anchors, row)


def _with(anchors: Anchors, row: Anchor) -> Anchors:
    others = tuple(r for r in anchors.rows if r.model != row.model or r.counter != row.counter)
    return Anchors((*others[1 - MODELS_KEPT :], row))


def rebased(anchors: Anchors) -> Anchors:
    """Returns the calibration after a Block, a retraction or a change of branch.

    From then on no reading builds on an older report.
    """
    if not any(row.fresh or row.adrift for row in anchors.rows):
        return anchors
    return Anchors(tuple(msgspec.structs.replace(row, fresh=False, adrift=False) for row in anchors.rows))


def factor_of(estimator: Estimator, model: str, counter: str) -> float:
    """Returns the correction while no usage is known: the estimator's own, else that of the family and counter."""
    return factor_for(model, counter) if estimator.factor is None else estimator.factor


def ratio(real: int, last: int, now: int, *, factor: float) -> tuple[int, float]:
    """Applies the published formula of `threshold`. Returns the tokens, and the correction that gave them.

    `reported` is the reported count of the last request and `last_estimate` its estimate (0: none). `estimate` is the
    present one.
    """
    if real <= 0:
        return int(now * factor), factor
    correction = min(max(real / last, RATIO_LEAST), RATIO_MOST) if last > 0 else factor
    return max(real, int(now * correction)), correction


def encode(anchors: Anchors) -> bytes:
    """Returns the calibration as bytes, for a snapshot."""
    return msgspec.msgpack.encode(anchors)


def decode(data: bytes) -> Anchors:
    """Returns the calibration in a snapshot's bytes, an empty one for empty bytes.

    Raises `RecordError` for bytes that `encode_calibration` did not write.
    """
    if not data:
        return Anchors()
    try:
        return msgspec.msgpack.decode(data, type=Anchors)
    except (msgspec.ValidationError, msgspec.DecodeError) as exc:
        raise RecordError(f"a snapshot's meter does not validate: {exc}; run `tenfold verify`") from exc
