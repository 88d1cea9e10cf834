"""The figures the project promises for the calibrated Reading, on recorded runs with a provider's usage."""

from __future__ import annotations

import statistics
from functools import cache

import pytest

from tenfold.core.meter.counters import BytePairCounter, CharacterCounter, Counter
from tenfold.designs.threshold.estimator import RatioEstimator
from tests.sessions import require_sessions
from yardstick.bench.error_bounds import is_held, read_requests
from yardstick.bench.meter_replay import Miss, RecordedRequest, find_folder, find_misses, read_runs, switch_model

NAMES = ("pi", "claude-code", "openhands 11299", "openhands 10097")


@cache
def _read_cached_runs() -> dict[str, list[RecordedRequest]]:
    return read_runs(find_folder())


def get_runs() -> dict[str, list[RecordedRequest]]:
    require_sessions()
    return _read_cached_runs()


def get_error_size(miss: Miss) -> float:
    return abs(miss.error)


@pytest.mark.parametrize("name", NAMES)
def test_from_the_second_request_on_the_bpe_misses_by_under_1_percent_median_and_10_worst(name: str) -> None:
    found = [get_error_size(m) for m in find_misses(get_runs()[name], BytePairCounter()) if m.when != "first"]
    assert len(found) >= 49
    assert statistics.median(found) < 0.01
    assert max(found) < 0.10


def test_also_right_after_a_compaction() -> None:
    found = [get_error_size(m) for m in find_misses(get_runs()["pi"], BytePairCounter()) if m.when == "compacted"]
    assert len(found) == 2
    assert max(found) < 0.05


@pytest.mark.parametrize("name", NAMES)
def test_characters_come_close_as_well(name: str) -> None:
    found = [get_error_size(m) for m in find_misses(get_runs()[name], CharacterCounter()) if m.when != "first"]
    assert statistics.median(found) < 0.01
    assert max(found) < 0.15


def test_a_change_of_model_is_learned_from_its_first_report() -> None:
    found = find_misses(switch_model(get_runs()["pi"], 1.3), BytePairCounter())
    at = next(i for i, m in enumerate(found) if m.when == "switched")
    assert 0.15 < get_error_size(found[at]) < 0.30, (
        "what a tokenizer nobody has seen will count cannot be known beforehand"
    )
    assert max(get_error_size(m) for m in found[at + 1 :]) < 0.10


def test_the_published_ratio_is_worse_after_a_compaction() -> None:
    found = [
        get_error_size(m)
        for m in find_misses(get_runs()["pi"], BytePairCounter(), RatioEstimator(2.0))
        if m.when == "compacted"
    ]
    assert min(found) > 0.30


@pytest.mark.parametrize("counter", [BytePairCounter(), CharacterCounter()], ids=["o200k", "chars4"])
def test_the_interval_holds_what_was_reported_for_19_of_20_requests(counter: Counter) -> None:
    later = [r for requests in get_runs().values() for r in read_requests(requests, counter) if not r.is_first]
    assert len(later) > 700
    assert sum(is_held(r.reading, r.reported) for r in later) / len(later) > 0.95
    learned = [r for r in later if r.is_learned]
    assert sum(is_held(r.without_report, r.reported) for r in learned) / len(learned) > 0.95
    widths = [(r.reading.high - r.reading.low) / r.reported for r in later]
    assert statistics.median(widths) < 0.02, "an interval that holds everything would say nothing"


def test_the_interval_holds_what_was_reported_right_after_a_compaction() -> None:
    for counter in (BytePairCounter(), CharacterCounter()):
        read = list(read_requests(get_runs()["pi"], counter))
        after = [r for r in read if r.reading.source == "calibrated"]
        assert len(after) == 2
        assert all(is_held(r.reading, r.reported) for r in after)
