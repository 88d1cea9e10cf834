"""How many tokens a view takes, how sure we are, and out of which window. Costs O(new messages).

`Sizes` remembers each shown message's tokens, `Tally` keeps their sum along a growing view, `read` corrects the sum by
what the provider reported. Nothing here decides anything: see `trigger`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from tenfold.meter.counters import Counter, sizes
from tenfold.meter.estimators import Anchor, Anchors, Estimator, factor_of, ratio
from tenfold.view.units import OpenStep, Shown, Unit, shown_of
from tenfold.view.view import View

__all__ = ["Anchors", "Key", "Reading", "Sizes", "Source", "Tally", "counted", "read"]

Key = tuple[int, int, int]
Source = Literal["reported", "calibrated", "estimated", "unknown"]


class Reading(Struct, frozen=True):
    """A view's size. `tokens` is the number to decide by; `window` None where the model's is not known.

    `source`: reported (the last request's count plus what came since), calibrated (floor + slope x estimate, both
    learned from reports), estimated (no report of this model), unknown (nothing could be counted; `tokens` is 0).
    `floor` is the part that the messages do not show, `estimate` their uncorrected count.
    """

    tokens: int
    source: Source
    window: int | None
    slope: float
    floor: int
    estimate: int

    @property
    def fill(self) -> float | None:
        """The share of the window that is taken, None where the window is not known."""
        return self.tokens / self.window if self.window else None


def read(
    estimate: int | None, anchors: Anchors, estimator: Estimator, *, model: str, window: int | None, counter: str = ""
) -> Reading:
    """The Reading of a view whose messages count `estimate` tokens by `counter` (None: could not be counted).

    `counter` "" takes whichever counter the model's newest report was filed under: for callers that use only one.
    """
    if estimate is None:
        return Reading(0, "unknown", window, 1.0, 0, 0)
    factor = factor_of(estimator, model, counter)
    row = anchors.of(model, counter)
    if estimator.kind == "ratio":
        return _by_ratio(estimate, row, factor, window)
    if row is None:
        return _lent(estimate, anchors.lent(model, counter), estimator, model=model, window=window, counter=counter)
    slope = row.slope(factor)
    floor = row.floor(slope)
    if row.fresh:
        tokens = row.last_reported + slope * (estimate - row.last_estimate)
        return Reading(max(0, round(tokens)), "reported", window, slope, round(floor), estimate)
    return Reading(round(floor + slope * estimate), "calibrated", window, slope, round(floor), estimate)


def counted(estimate: int, window: int | None = None) -> Reading:
    """The Reading for an explicit target: the plain count over the content at hand, no anchors, no correction."""
    return Reading(estimate, "estimated", window, 1.0, 0, estimate)


def _by_ratio(estimate: int, row: Anchor | None, factor: float, window: int | None) -> Reading:
    if row is None or not row.fresh:
        return Reading(int(estimate * factor), "estimated", window, factor, 0, estimate)
    last = row.last_estimate + row.last_apart
    tokens, correction = ratio(row.last_reported, last, estimate, factor=factor)
    if estimate < last:  # the request shrank (tools were taken away), so the older count is no lower bound of this one
        tokens = int(estimate * correction)
    return Reading(tokens, "reported", window, correction, 0, estimate)


def _lent(
    estimate: int, other: Anchor | None, estimator: Estimator, *, model: str, window: int | None, counter: str
) -> Reading:
    """A model that has not reported yet: another's floor and slope, converted by what is known of both families."""
    factor = factor_of(estimator, model, counter)
    if other is None:
        return Reading(round(estimate * factor), "estimated", window, factor, 0, estimate)
    theirs = factor_of(estimator, other.model, counter)
    slope = other.slope(theirs)
    exchange = factor / theirs
    floor = other.floor(slope) * exchange
    return Reading(
        round(floor + slope * exchange * estimate), "estimated", window, slope * exchange, round(floor), estimate
    )


class Sizes:
    """Tokens of shown messages by `Shown.key`, counted once. One per counter and path (keys are positions on it)."""

    __slots__ = ("_known", "counter")

    def __init__(self, counter: Counter) -> None:
        self.counter = counter
        self._known: dict[Key, int] = {}

    def know(self, key: Key, tokens: int) -> None:
        """Remembers a size that was stored, so that it is not counted again."""
        self._known[key] = tokens

    def each(self, shown: Sequence[Shown]) -> list[int]:
        """Tokens of each message, in order; those not known yet are counted in one batch."""
        known = self._known
        missing = [s for s in shown if s.key not in known]
        if missing:
            for each, tokens in zip(missing, sizes([s.message for s in missing], self.counter), strict=True):
                known[each.key] = tokens
        return [known[s.key] for s in shown]

    def open(self, step: OpenStep) -> int:
        """Tokens of a step that is still open.

        The markers for unanswered calls are counted each time: which call one stands for may change until it closes.
        """
        shown = shown_of(step, closing=False)
        steady = [s for s in shown if s.original or s.key[1] == 0]
        total = sum(self.each(steady))
        if len(steady) < len(shown):
            total += sum(sizes([s.message for s in shown if not s.original and s.key[1]], self.counter))
        return total

    def fork(self, length: int) -> Sizes:
        """The sizes of the first `length` positions, for a path that shares only those."""
        twin = Sizes(self.counter)
        twin._known = {key: tokens for key, tokens in self._known.items() if key[0] < length}
        return twin


class Tally:
    """The estimate of a view, continued from the last call: `tally(view)` costs O(what is new)."""

    __slots__ = ("_count", "_open", "_sizes", "_step", "_total", "_units")

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._units: list[Unit] | None = None
        self._count = 0
        self._total = 0
        self._step: OpenStep | None = None
        self._open = 0

    def __call__(self, view: View) -> int:
        """Tokens of all messages in view, uncorrected. Added up afresh, from known sizes, after a Block or an undo."""
        units, count = view.closed
        if units is not self._units or count < self._count:
            self._units, self._count, self._total = units, 0, 0
        if count > self._count:
            shown = [each for unit in units[self._count : count] for each in unit.shown]
            self._total += sum(self._sizes.each(shown))
            self._count = count
        step = view.step
        if step is None:
            return self._total
        if step is not self._step:
            self._step, self._open = step, self._sizes.open(step)
        return self._total + self._open
