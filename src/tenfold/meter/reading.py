"""Measures how many tokens a view takes, how sure we are, and out of which window. Costs O(new messages).

`TokenCache` remembers the tokens of each visible message. `RunningTotal` keeps their sum along a growing view.
`build_reading` corrects the sum by what the provider reported. Deciding is the job of `trigger`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from tenfold.meter.counters import Counter, measure_messages
from tenfold.meter.estimators import Calibration, Estimator, ModelCalibration, correct_by_ratio, get_factor
from tenfold.view.fold import View
from tenfold.view.units import MessageKey, OpenStep, Unit, VisibleMessage, get_step_messages

__all__ = [
    "Calibration",
    "Reading",
    "ReadingSource",
    "RunningTotal",
    "TokenCache",
    "build_plain_reading",
    "build_reading",
]

ReadingSource = Literal["reported", "calibrated", "estimated", "unknown"]


class Reading(Struct, frozen=True):
    """A view's size. Decide by `tokens`; `window` is None where the model's window is unknown.

    `source` says where the number comes from: reported (the last request's count plus what came since), calibrated
    (floor + slope x estimate, both learned from reports), estimated (no report of this model), unknown (nothing could
    be counted; `tokens` is 0). `floor` is what requests hold besides the messages, `estimate` the uncorrected count of
    the messages.
    """

    tokens: int
    source: ReadingSource
    window: int | None
    slope: float
    floor: int
    estimate: int

    @property
    def fill(self) -> float | None:
        """The share of the window that is used, None where the window is unknown."""
        return self.tokens / self.window if self.window else None


def build_reading(
    estimate: int | None,
    calibration: Calibration,
    estimator: Estimator,
    *,
    model: str,
    window: int | None,
    counter: str = "",
) -> Reading:
    """Builds the Reading of a view whose messages count `estimate` tokens by `counter` (None: could not be counted).

    With `counter` "", the model's newest report counts, whatever counter it was filed under. That is for callers that
    use only one counter.
    """
    if estimate is None:
        return Reading(0, "unknown", window, 1.0, 0, 0)
    factor = get_factor(estimator, model, counter)
    row = calibration.find_model(model, counter)
    if estimator.kind == "ratio":
        return _read_by_ratio(estimate, row, factor, window)
    if row is None:
        return _read_by_other_model(
            estimate,
            calibration.find_other_model(model, counter),
            estimator,
            model=model,
            window=window,
            counter=counter,
        )
    slope = row.compute_slope(factor)
    floor = row.compute_floor(slope)
    if row.fresh:
        tokens = row.last_reported + slope * (estimate - row.last_estimate)
        return Reading(max(0, round(tokens)), "reported", window, slope, round(floor), estimate)
    return Reading(round(floor + slope * estimate), "calibrated", window, slope, round(floor), estimate)


def build_plain_reading(estimate: int, window: int | None = None, *, slope: float = 1.0) -> Reading:
    """Builds the Reading that takes each estimated token for `slope`, without what was learned otherwise.

    With 1.0 it is the plain count, as for an explicit target.
    """
    return Reading(round(slope * estimate), "estimated", window, slope, 0, estimate)


def _read_by_ratio(estimate: int, row: ModelCalibration | None, factor: float, window: int | None) -> Reading:
    if row is None or not row.fresh:
        return Reading(int(estimate * factor), "estimated", window, factor, 0, estimate)
    last = row.last_estimate + row.last_overhead
    tokens, correction = correct_by_ratio(row.last_reported, last, estimate, factor=factor)
    if estimate < last:  # the request shrank (tools were removed), so the older count is no lower bound
        tokens = int(estimate * correction)
    return Reading(tokens, "reported", window, correction, 0, estimate)


def _read_by_other_model(
    estimate: int, other: ModelCalibration | None, estimator: Estimator, *, model: str, window: int | None, counter: str
) -> Reading:
    """Reads the size for a model that has not reported yet.

    Takes the floor and slope of another model, converted by the factors of both families.
    """
    factor = get_factor(estimator, model, counter)
    if other is None:
        return Reading(round(estimate * factor), "estimated", window, factor, 0, estimate)
    other_factor = get_factor(estimator, other.model, counter)
    slope = other.compute_slope(other_factor)
    conversion = factor / other_factor
    floor = other.compute_floor(slope) * conversion
    return Reading(
        round(floor + slope * conversion * estimate), "estimated", window, slope * conversion, round(floor), estimate
    )


class TokenCache:
    """Tokens of visible messages by `VisibleMessage.key`, counted once. One cache per counter and path."""

    __slots__ = ("_tokens", "counter")

    def __init__(self, counter: Counter) -> None:
        self.counter = counter
        self._tokens: dict[MessageKey, int] = {}

    def add(self, key: MessageKey, tokens: int) -> None:
        """Adds a stored count, so that the message is not counted again."""
        self._tokens[key] = tokens

    def measure(self, shown: Sequence[VisibleMessage]) -> list[int]:
        """Returns the tokens of each message, in order. Counts the missing ones in one batch."""
        known = self._tokens
        missing = [s for s in shown if s.key not in known]
        if missing:
            for each, tokens in zip(missing, measure_messages([s.message for s in missing], self.counter), strict=True):
                known[each.key] = tokens
        return [known[s.key] for s in shown]

    def measure_open_step(self, step: OpenStep) -> int:
        """Returns the tokens of a step that is still open.

        Markers for unanswered calls are counted each time, because the call that a marker stands for may change until
        the step closes.
        """
        shown = get_step_messages(step, closing=False)
        steady = [s for s in shown if not s.is_missing_result]
        total = sum(self.measure(steady))
        if len(steady) < len(shown):
            total += sum(measure_messages([s.message for s in shown if s.is_missing_result], self.counter))
        return total

    def fork(self, length: int) -> TokenCache:
        """Returns a cache of the first `length` positions, for a path that shares only those."""
        twin = TokenCache(self.counter)
        twin._tokens = {key: tokens for key, tokens in self._tokens.items() if key[0] < length}
        return twin


class RunningTotal:
    """The running estimate of a view. Each call costs O(what is new since the last call)."""

    __slots__ = ("_cache", "_open_tokens", "_step", "_total", "_unit_count", "_units")

    def __init__(self, cache: TokenCache) -> None:
        self._cache = cache
        self._units: list[Unit] | None = None
        self._unit_count = 0
        self._total = 0
        self._step: OpenStep | None = None
        self._open_tokens = 0

    def __call__(self, view: View) -> int:
        """Returns the uncorrected tokens of all messages in view. After a Block or an undo it adds up again."""
        units, count = view.closed_units
        if units is not self._units or count < self._unit_count:
            self._units, self._unit_count, self._total = units, 0, 0
        if count > self._unit_count:
            shown = [each for unit in units[self._unit_count : count] for each in unit.visible_messages]
            self._total += sum(self._cache.measure(shown))
            self._unit_count = count
        step = view.open_step
        if step is None:
            return self._total
        if step is not self._step:
            self._step, self._open_tokens = step, self._cache.measure_open_step(step)
        return self._total + self._open_tokens
