"""What a conversation learns of its provider beside usage: that a report was wrong, and a request too long."""

from __future__ import annotations

from tenfold.core.meter.estimators import MAX_SLOPE, Calibration
from tenfold.core.record.token_reading import Reading


class ProviderLessons:
    """The lessons of one conversation, by model. They are kept in memory: a refusal teaches them again."""

    def __init__(self) -> None:
        self._least_slopes: dict[str, float] = {}
        self._said_doubts: set[str] = set()

    def get_least_slope(self, model: str) -> float:
        """Returns how many tokens the provider counts at least for one of ours, 0 if it refused nothing."""
        return self._least_slopes.get(model, 0.0)

    def record_refusal(self, model: str, reading: Reading, limit: int) -> None:
        """Learns that a request of this Reading takes more than `limit` tokens.

        Reports may say otherwise, and be wrong by less than our count can tell.
        """
        if reading.tokens <= limit:
            slope = (limit + 1) / max(1, reading.estimate)
            self._least_slopes[model] = min(MAX_SLOPE, max(slope, self.get_least_slope(model)))

    def take_doubt(self, calibration: Calibration, model: str, counter: str) -> str:
        """Says why a report of usage is not believed, once for each model. "" if all are, and afterwards."""
        seen = calibration.find_seen(model, counter)
        if seen is None or not seen.doubts or model in self._said_doubts:
            return ""
        self._said_doubts.add(model)
        return seen.explain()
