"""Measures how many tokens a view takes, how sure we are, and out of which window. Costs O(new messages).

`TokenCache` remembers the tokens of each visible message. `RunningTotal` keeps their sum along a growing view.
An `Estimator` corrects the sum by what the provider reported. Deciding is the job of `trigger`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.meter.counters import (
    Counter,
    ErrorBounds,
    find_bounds,
    find_family,
    get_family_factor,
    has_media,
    is_own_vocabulary,
    measure_messages,
    measure_with_media,
)
from tenfold.core.meter.estimators import MIN_GROWTH, Calibration, ModelCalibration
from tenfold.core.meter.media_counts import NO_MEDIA, MediaTokens
from tenfold.core.record.token_reading import NO_TOKENS, Counted, Evidence, ProviderTokens, Reading, ReadingSource
from tenfold.core.view.fold import View
from tenfold.core.view.units import MessageKey, OpenStep, Unit, VisibleMessage, get_step_messages

_UNKNOWN_MEDIA: tuple[Evidence, ...] = ("media of unknown size",)
GROWTH_SHARE = 0.5
GROWTH_TOKENS = 200
"""How far the count of what came since the last report may be off, as a share of it and in tokens. Measured over the
recorded requests of four runs: 97.1 % lie within (o200k; 96.2 % with characters / 4). See
`yardstick/bench/error_bounds.py`.
"""
CALIBRATED_BOUNDS = ErrorBounds(0.03, 0.06)
CALIBRATED_CHARACTERS_BOUNDS = ErrorBounds(0.03, 0.12)
"""How far floor + slope x estimate may be off. Measured over the same requests, each as if the reports before it had
expired: 98.2 % lie within (o200k; 99.9 % with characters / 4), and so do the two that followed a real compaction.
"""


class Estimator(Protocol):
    """How a count is corrected towards what the provider would report. A policy has one: see `AnchoredEstimator`."""

    @property
    def covers_overhead(self) -> bool:
        """Whether it corrects a count of everything that is sent, system prompt and tools included.

        Then these stay in the count once usage is reported, and the floor of a Reading is what no count sees. For any
        other estimator the reports hold them.
        """
        ...

    def get_factor(self, model: str, counter: str) -> float:
        """Returns how many of the provider's tokens one of the counter's is taken for while no usage is known."""
        ...

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
        """Builds the Reading of a view whose messages count `estimate` tokens by `counter`.

        With `counter` "", the model's newest report counts, whatever counter it was filed under. `media` is what of
        the estimate is not text, for the bounds.
        """
        ...


class AnchoredEstimator(Struct, frozen=True):
    """Reads floor + slope x estimate, both as the reports have taught.

    `factor` is the correction while no usage is known. None takes the factor of the model's family and the counter.
    """

    factor: float | None = None
    covers_overhead: ClassVar[bool] = False

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
        factor = self.get_factor(model, counter)
        if row is None:
            other = calibration.find_other_model(model, counter)
            if other is None:
                reading = build_corrected(estimate * factor, "estimated", window, factor, 0, estimate)
                return add_family_bounds(reading, model, counter, media)
            reading = _read_by_other_model(estimate, other, self.get_factor(other.model, counter), factor, window)
            return _with_bounds(reading, reading.slope, find_bounds(model, counter), media, ("earlier usage",))
        seen = calibration.find_seen(model, counter)
        reading = _read_by_reports(estimate, row, factor, 0.0 if seen is None else seen.least_slope, window, media)
        if seen is not None and _has_impossible_surplus(reading, row.last_overhead):
            plain = build_plain_reading(estimate, window, slope=factor, beside=row.last_overhead)
            return add_family_bounds(plain, model, counter, media)
        if seen is None or seen.is_believed:
            return reading
        return raise_reading(reading, factor, beside=row.last_overhead)  # the older reports may be as wrong


def _has_impossible_surplus(reading: Reading, overhead: Counted) -> bool:
    """Tells whether reports show more beside what we count than fits the window: no such request can be answered."""
    surplus = max(reading.floor, reading.tokens - reading.slope * reading.estimate) - reading.slope * overhead
    return reading.window is not None and surplus > reading.window


def build_plain_reading(
    estimate: Counted, window: int | None = None, *, slope: float = 1.0, beside: Counted = NO_TOKENS
) -> Reading:
    """Builds the Reading that takes each estimated token for `slope`, without what was learned otherwise.

    With 1.0 it is the plain count, as for an explicit target, and no estimate of what a provider counts: it has no
    bounds. `beside` is our count of what the request holds besides the view.
    """
    floor = round(slope * beside)
    return build_corrected(floor + round(slope * estimate), "estimated", window, slope, floor, estimate)


def raise_reading(reading: Reading, least_slope: float, *, beside: Counted = NO_TOKENS) -> Reading:
    """Returns the Reading, no smaller than `least_slope` for each of our tokens, as a refusal has shown (0: none).

    `beside` is our count of what the request holds besides the view.
    """
    least = build_plain_reading(reading.estimate, reading.window, slope=least_slope, beside=beside)
    if reading.tokens >= least.tokens:
        return reading
    return replace(reading, tokens=least.tokens, slope=least_slope, floor=least.floor, source="estimated", below=0)


def _read_by_reports(
    estimate: Counted, row: ModelCalibration, factor: float, least: float, window: int | None, media: MediaTokens
) -> Reading:
    """Reads the size by what the model has reported under a counter."""
    slope = row.compute_slope(factor, least)
    floor = row.compute_floor(slope)
    if row.fresh:
        tokens = row.last_reported + slope * (estimate - row.last_estimate)
        reading = build_corrected(max(0, tokens), "reported", window, slope, floor, estimate)
        return add_growth_bounds(reading, row, media)
    reading = build_corrected(floor + slope * estimate, "calibrated", window, slope, floor, estimate)
    if row.estimate_growth < MIN_GROWTH:  # the slope is still the family's factor
        bounds = find_bounds(row.model, row.counter)
    else:
        bounds = CALIBRATED_CHARACTERS_BOUNDS if row.counter == "chars4" else CALIBRATED_BOUNDS
    return _with_bounds(reading, slope, bounds, media, ("earlier usage",))


def _read_by_other_model(
    estimate: Counted, other: ModelCalibration, other_factor: float, factor: float, window: int | None
) -> Reading:
    """Reads the size for a model that has not reported yet.

    Takes the floor and slope of another model, converted by the factors of both families.
    """
    slope = other.compute_slope(other_factor)
    conversion = factor / other_factor
    floor = other.compute_floor(slope) * conversion
    tokens = floor + slope * conversion * estimate
    return build_corrected(tokens, "estimated", window, slope * conversion, floor, estimate)


def build_corrected(
    tokens: float, source: ReadingSource, window: int | None, slope: float, floor: float, estimate: Counted
) -> Reading:
    """Builds a Reading of what an estimator takes for the provider's count, rounded to whole tokens."""
    whole = None if window is None else ProviderTokens(window)
    return Reading(ProviderTokens(round(tokens)), source, whole, slope, ProviderTokens(round(floor)), estimate)


def add_family_bounds(reading: Reading, model: str, counter: str, media: MediaTokens) -> Reading:
    """Bounds a Reading without a report: by how far the factor of the model's family has been off."""
    evidence: Evidence = (
        "tokenizer of the family" if find_family(model).factor == 1.0 else "tokenizer of another family"
    )
    if counter == "chars4":
        evidence = "characters / 4"
    elif not is_own_vocabulary(counter):
        evidence = "counter of the caller"
    factor = get_family_factor(model, counter)
    return _with_bounds(reading, factor, find_bounds(model, counter), media, (evidence,))


def _with_bounds(
    reading: Reading, slope: float, bounds: ErrorBounds, media: MediaTokens, evidence: tuple[Evidence, ...]
) -> Reading:
    """Bounds the text by shares of it, and what is not text by its own bounds, which no slope corrects."""
    text = reading.floor + slope * (reading.estimate - media.counted_tokens)
    low, high = text * (1 - bounds.below) + media.low, text * (1 + bounds.above) + media.high
    return _with_interval(reading, low, high, (*evidence, *_UNKNOWN_MEDIA[: media.unknown_parts]))


def add_growth_bounds(reading: Reading, row: ModelCalibration, media: MediaTokens) -> Reading:
    """Bounds a Reading with a report: only what came since can be off, and of the media at most as much as came."""
    since = reading.tokens - row.last_reported
    error = GROWTH_SHARE * abs(since) + GROWTH_TOKENS if since else 0
    share = min(1.0, max(0, reading.estimate - row.last_estimate) / media.counted_tokens) if media.tokens else 0.0
    low = reading.tokens - error - share * (media.tokens - media.low)
    high = reading.tokens + error + share * (media.high - media.tokens)
    evidence: tuple[Evidence, ...] = ("reported usage", "count since the report") if since else ("reported usage",)
    if since > 0:  # what is only added to a request makes it no smaller
        low = max(low, row.last_reported)
    unknown = _UNKNOWN_MEDIA[: media.unknown_parts] if share else ()
    return _with_interval(reading, low, high, (*evidence, *unknown))


def _with_interval(reading: Reading, low: float, high: float, evidence: tuple[Evidence, ...]) -> Reading:
    below, above = max(0, round(reading.tokens - low)), max(0, round(high - reading.tokens))
    return replace(reading, below=ProviderTokens(below), above=ProviderTokens(above), evidence=evidence)


class TokenCache:
    """Tokens of visible messages by `VisibleMessage.key`, counted once. One cache per counter and path."""

    __slots__ = ("_media", "_stored", "_tokens", "counter")

    def __init__(self, counter: Counter) -> None:
        self.counter = counter
        self._tokens: dict[MessageKey, Counted] = {}
        self._stored: dict[MessageKey, Counted] = {}
        self._media: dict[MessageKey, MediaTokens] = {}

    def add(self, key: MessageKey, tokens: Counted) -> None:
        """Adds a stored count, so that the message is not counted again.

        A message with images or files is: its stored count may be by the rules of another model.
        """
        self._stored[key] = tokens

    def measure(self, shown: Sequence[VisibleMessage]) -> list[Counted]:
        """Returns the tokens of each message, in order. Counts the missing ones in one batch."""
        known = self._tokens
        missing: list[VisibleMessage] = []
        for each in shown:
            if each.key not in known:
                stored = self._stored.get(each.key)
                if stored is None or has_media(each.message):
                    missing.append(each)
                else:
                    known[each.key] = stored
        if missing:
            sizes = measure_with_media([s.message for s in missing], self.counter)
            for each, (tokens, media) in zip(missing, sizes, strict=True):
                known[each.key] = tokens
                if media is not NO_MEDIA:
                    self._media[each.key] = media
        return [known[s.key] for s in shown]

    def sum_media(self, shown: Sequence[VisibleMessage]) -> MediaTokens:
        """Returns what of messages that are measured already is not text."""
        if not self._media:
            return NO_MEDIA
        return sum((self._media[s.key] for s in shown if s.key in self._media), NO_MEDIA)

    def measure_open_step(self, step: OpenStep) -> Counted:
        """Returns the tokens of a step that is still open.

        Markers for unanswered calls are counted each time, because the call that a marker stands for may change until
        the step closes.
        """
        shown = get_step_messages(step, closing=False)
        steady = [s for s in shown if not s.is_missing_result]
        total = sum(self.measure(steady), NO_TOKENS)
        if len(steady) < len(shown):
            total += sum(measure_messages([s.message for s in shown if s.is_missing_result], self.counter), NO_TOKENS)
        return total

    def fork(self, length: int) -> TokenCache:
        """Returns a cache of the first `length` positions, for a path that shares only those.

        Another thread may be measuring with this one: it is copied at once, and then gone through.
        """
        twin = TokenCache(self.counter)
        twin._tokens = {key: tokens for key, tokens in self._tokens.copy().items() if key[0] < length}
        twin._stored = {key: tokens for key, tokens in self._stored.copy().items() if key[0] < length}
        twin._media = {key: media for key, media in self._media.copy().items() if key[0] < length}
        return twin


class RunningTotal:
    """The running estimate of a view. Each call costs O(what is new since the last call)."""

    __slots__ = ("_cache", "_media", "_open_media", "_open_tokens", "_step", "_total", "_unit_count", "_units")

    def __init__(self, cache: TokenCache) -> None:
        self._cache = cache
        self._units: list[Unit] | None = None
        self._unit_count = 0
        self._total = NO_TOKENS
        self._media = NO_MEDIA
        self._step: OpenStep | None = None
        self._open_tokens = NO_TOKENS
        self._open_media = NO_MEDIA

    def measure_media(self, view: View) -> MediaTokens:
        """Returns what of the messages in view is not text, with its bounds."""
        self(view)
        return self._media if view.open_step is None else self._media + self._open_media

    def __call__(self, view: View) -> Counted:
        """Returns the uncorrected tokens of all messages in view. After a Block or an undo it adds up again."""
        units, count = view.closed_units
        if units is not self._units or count < self._unit_count:
            self._units, self._unit_count, self._total, self._media = units, 0, NO_TOKENS, NO_MEDIA
        if count > self._unit_count:
            shown = [each for unit in units[self._unit_count : count] for each in unit.visible_messages]
            self._total += sum(self._cache.measure(shown), NO_TOKENS)
            self._media += self._cache.sum_media(shown)
            self._unit_count = count
        step = view.open_step
        if step is None:
            return self._total
        if step is not self._step:
            self._step, self._open_tokens = step, self._cache.measure_open_step(step)
            self._open_media = self._cache.sum_media(get_step_messages(step, closing=False))
        return self._total + self._open_tokens
