"""What is learned from the usage a provider reports: a handful of numbers per model, folded along a path.

The transitions are pure: `reported` after each answer, `rebased` after a Block or a retraction. They are carried in a
snapshot as bytes. Turning them into a Reading is `reading.py`'s job.
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
"""Estimated tokens of growth to have seen before the slope is taken from them."""
SLOPE_LEAST, SLOPE_MOST = 0.5, 5.0
DROP = 0.8
"""A report below this share of the one before, while our view only grew, is of a list that the host itself cut.

The two compactions inside the recorded pi session took it to 0.15 of what it was; no other report there fell at all.
"""
RATIO_LEAST, RATIO_MOST = 1.0, 5.0
MODELS_KEPT = 8


class Estimator(Struct, frozen=True, omit_defaults=True):
    """How an estimate is corrected towards what the provider would report: a value on the policy.

    `anchored` reads floor + slope x estimate; `ratio` is the published formula of the preset `threshold`. `factor` is
    the correction while no usage is known; None takes the one of the model's family and the counter.
    """

    kind: Literal["anchored", "ratio"] = "anchored"
    factor: float | None = None


class Anchor(Struct, frozen=True, array_like=True):
    """What one model reported under one counter. Estimates and reports in tokens; -1 where there is none yet.

    `grown_*` sum the growth between consecutive requests with no Block between; `low_*` is the request with the
    smallest estimate; `last_*` the newest one, on which a reading stands as long as it is `fresh`. `adrift`: the host
    shortened what it sent behind our back, so its reports are of another view than ours. `last_apart` is what the
    newest request held besides the view, by our count.
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
        """Reported tokens per estimated token: from growth, clamped, or `factor` until enough was seen."""
        if self.grown_estimate < GROWTH_NEEDED:
            return factor
        return min(max(self.grown_reported / self.grown_estimate, SLOPE_LEAST), SLOPE_MOST)

    def floor(self, slope: float) -> float:
        """What requests carry that the estimate does not see (system prompt, tools); never below zero."""
        return max(0.0, self.low_reported - slope * self.low_estimate)


class Anchors(Struct, frozen=True, array_like=True):
    """The anchors of the models seen on a path, the newest last."""

    rows: tuple[Anchor, ...] = ()

    def of(self, model: str, counter: str) -> Anchor | None:
        """The anchor of a model under a counter ("": under any), None before its first report."""
        for row in reversed(self.rows):
            if row.model == model and counter in (row.counter, ""):
                return row
        return None

    def lent(self, model: str, counter: str) -> Anchor | None:
        """The newest anchor of another model under the same counter: knows the floor, in that model's tokens."""
        return next((r for r in reversed(self.rows) if counter in (r.counter, "") and r.model != model), None)


def reported(anchors: Anchors, usage: Usage, estimate: int, counter: str, *, status: Status = "ok") -> Anchors:
    """The anchors after an answer: `usage` is what it took, `estimate` the estimate of the view that was sent.

    Left out: answers that were aborted or failed, and usage without prompt tokens.
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
    """The anchors after a Block, a retraction or a change of branch: no reading stands on an older report any more."""
    if not any(row.fresh or row.adrift for row in anchors.rows):
        return anchors
    return Anchors(tuple(msgspec.structs.replace(row, fresh=False, adrift=False) for row in anchors.rows))


def factor_of(estimator: Estimator, model: str, counter: str) -> float:
    """The correction while no usage is known: the estimator's own, else that of the model's family and counter."""
    return factor_for(model, counter) if estimator.factor is None else estimator.factor


def ratio(real: int, last: int, now: int, *, factor: float) -> tuple[int, float]:
    """The published formula of `threshold`: tokens, and the correction that gave them.

    `real` is the reported count of the last request and `last` its estimate (0: none); `now` is today's estimate.
    """
    if real <= 0:
        return int(now * factor), factor
    correction = min(max(real / last, RATIO_LEAST), RATIO_MOST) if last > 0 else factor
    return max(real, int(now * correction)), correction


def encode(anchors: Anchors) -> bytes:
    """The anchors as bytes, for a snapshot."""
    return msgspec.msgpack.encode(anchors)


def decode(data: bytes) -> Anchors:
    """The anchors in a snapshot's bytes; none for empty bytes. Raises `RecordError` for other bytes than `encode`'s."""
    if not data:
        return Anchors()
    try:
        return msgspec.msgpack.decode(data, type=Anchors)
    except (msgspec.ValidationError, msgspec.DecodeError) as exc:
        raise RecordError(f"a snapshot's meter does not validate: {exc}; run `tenfold verify`") from exc
