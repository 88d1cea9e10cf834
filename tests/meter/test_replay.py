"""The figures the project promises for the calibrated Reading, on recorded runs with a provider's usage."""

from __future__ import annotations

import statistics
from functools import cache

import pytest

from bench.meter_replay import Miss, Request, folder, misses, runs, switched
from tenfold.meter.counters import Bpe, Characters4
from tenfold.meter.estimators import Estimator
from tests.sessions import needed

NAMES = ("pi", "claude-code", "openhands 11299", "openhands 10097")


@cache
def _runs() -> dict[str, list[Request]]:
    return runs(folder())


def recorded() -> dict[str, list[Request]]:
    needed()
    return _runs()


def size(miss: Miss) -> float:
    return abs(miss.error)


@pytest.mark.parametrize("name", NAMES)
def test_from_the_second_request_on_the_bpe_misses_by_under_1_percent_median_and_10_worst(name: str) -> None:
    found = [size(m) for m in misses(recorded()[name], Bpe()) if m.when != "first"]
    assert len(found) >= 49
    assert statistics.median(found) < 0.01
    assert max(found) < 0.10


def test_also_right_after_a_compaction() -> None:
    found = [size(m) for m in misses(recorded()["pi"], Bpe()) if m.when == "compacted"]
    assert len(found) == 2
    assert max(found) < 0.05


@pytest.mark.parametrize("name", NAMES)
def test_characters_come_close_as_well(name: str) -> None:
    found = [size(m) for m in misses(recorded()[name], Characters4()) if m.when != "first"]
    assert statistics.median(found) < 0.01
    assert max(found) < 0.15


def test_a_change_of_model_is_learned_from_its_first_report() -> None:
    found = misses(switched(recorded()["pi"], 1.3), Bpe())
    at = next(i for i, m in enumerate(found) if m.when == "switched")
    assert 0.15 < size(found[at]) < 0.30, "what a tokenizer nobody has seen will count cannot be known beforehand"
    assert max(size(m) for m in found[at + 1 :]) < 0.10


def test_the_published_ratio_is_worse_after_a_compaction() -> None:
    found = [size(m) for m in misses(recorded()["pi"], Bpe(), Estimator("ratio", 2.0)) if m.when == "compacted"]
    assert min(found) > 0.30
