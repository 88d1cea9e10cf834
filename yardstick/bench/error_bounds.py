"""Measures how far token counts are off, over recorded runs with usage: the figures behind the bounds of a Reading.

    PYTHONPATH=src:. python yardstick/bench/error_bounds.py [FOLDER]

FOLDER holds the sessions (default: TENFOLD_SESSIONS, or else ../shared/data). For each counter, three cases are
measured:

- What came since a report: the error of the next request, as a share of what came, and how many errors lie within the
  bounds that `meter/reading.py` uses.
- Without a report: each request is read as if the reports before it had expired, as they do after a compaction.
- Without any usage: the growth of the reports over that of the count, over stretches of 10,000 counted tokens.

At the end, how many of all requests the interval of their Reading holds.
"""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Iterator, Sequence

from msgspec import Struct

from tenfold.core.meter.counters import BytePairCounter, CharacterCounter, Counter
from tenfold.core.meter.estimators import MIN_GROWTH, Calibration, expire_reports, record_usage
from tenfold.core.meter.reading import GROWTH_SHARE, GROWTH_TOKENS, AnchoredEstimator
from tenfold.core.record.token_reading import Counted, Reading
from yardstick.bench.meter_replay import RecordedRequest, estimate_requests, find_folder, read_runs

STRETCH = 10_000


class ReadRequest(Struct, frozen=True):
    """A request of a recorded run: what was read before it, with and without the last report, and what was reported.

    `since` is what came since the last report, by our count. `is_learned` says that the slope was learned already.
    """

    reading: Reading
    without_report: Reading
    estimate: int
    reported: int
    since: int
    is_learned: bool
    is_first: bool


def read_requests(requests: Sequence[RecordedRequest], counter: Counter) -> Iterator[ReadRequest]:
    """Yields the requests of a run, each read before its own report is learned."""
    calibration = Calibration()
    for request, estimate in zip(requests, estimate_requests(requests, counter), strict=True):
        usage, name = request.usage, counter.name
        if request.compacted:
            calibration = expire_reports(calibration)
        if request.status != "ok" or usage.prompt <= 0:
            continue
        row = calibration.find_model(usage.model, name)
        reading, without_report = (
            AnchoredEstimator().read(Counted(estimate), known, model=usage.model, window=None, counter=name)
            for known in (calibration, expire_reports(calibration))
        )
        since = reading.tokens - row.last_reported if row is not None and row.fresh else 0
        is_learned = row is not None and row.estimate_growth >= MIN_GROWTH
        yield ReadRequest(reading, without_report, estimate, usage.prompt, since, is_learned, row is None)
        calibration = record_usage(calibration, usage, Counted(estimate), name, status=request.status)


def is_held(reading: Reading, reported: int) -> bool:
    """Whether the interval of a Reading holds what was reported."""
    return reading.low <= reported <= reading.high


def measure_stretches(requests: Sequence[ReadRequest]) -> list[float]:
    """Returns the reported tokens for each counted one, for each stretch of `STRETCH` counted tokens."""
    found: list[float] = []
    counted = reported = 0
    for before, after in itertools.pairwise(requests):
        if after.reading.source == "reported" and after.estimate > before.estimate:
            counted += after.estimate - before.estimate
            reported += after.reported - before.reported
        if counted >= STRETCH:
            found.append(reported / counted)
            counted = reported = 0
    return found


def format_quantiles(values: Sequence[float]) -> str:
    """Formats the smallest and largest value, the middle 95 % and the median."""
    if len(values) < 2:
        return "-"
    cuts = statistics.quantiles(values, n=40, method="inclusive")
    return f"{min(values):+8.3f} {cuts[0]:+8.3f} {cuts[19]:+8.3f} {cuts[38]:+8.3f} {max(values):+8.3f}"


def main() -> None:
    """Prints the tables."""
    runs = read_runs(find_folder(sys.argv[1] if len(sys.argv) > 1 else ""))
    for counter in (BytePairCounter("o200k"), CharacterCounter()):
        print_counter(runs, counter)


def print_counter(runs: dict[str, list[RecordedRequest]], counter: Counter) -> None:
    """Prints the tables of one counter."""
    read = {name: list(read_requests(requests, counter)) for name, requests in runs.items()}
    columns = f"{'n':>5} {'least':>8} {'2.5 %':>8} {'median':>8} {'97.5 %':>8} {'most':>8}"
    print(f"{counter.name}: error of the count of what came since the report, as a share of it")
    print(f"  {'run':18} {columns}")
    everything = [r for requests in read.values() for r in requests]
    for name, requests in read.items():
        shares = [(r.reported - r.reading.tokens) / r.since for r in requests if r.since > 0]
        print(f"  {name:18} {len(shares):5} {format_quantiles(shares)}")
    grown = [r for r in everything if r.reading.source == "reported"]
    held = sum(abs(r.reported - r.reading.tokens) <= GROWTH_SHARE * abs(r.since) + GROWTH_TOKENS for r in grown)
    print(f"  within {GROWTH_SHARE:g} of it and {GROWTH_TOKENS} tokens: {held / len(grown):.1%} of {len(grown)}\n")

    print(f"{counter.name}: error of floor + slope x estimate, as a share of it, once the slope is learned")
    print(f"  {'run':18} {columns}")
    for name, requests in read.items():
        errors = [r.reported / r.without_report.tokens - 1 for r in requests if r.is_learned]
        print(f"  {name:18} {len(errors):5} {format_quantiles(errors)}")
    learned = [r for r in everything if r.is_learned]
    held = sum(is_held(r.without_report, r.reported) for r in learned)
    print(f"  within the bounds: {held / len(learned):.1%} of {len(learned)}\n")

    print(f"{counter.name}: reported tokens for each counted one, in stretches of {STRETCH:,} counted tokens")
    print(f"  {'run':18} {columns}")
    for name, requests in read.items():
        ratios = measure_stretches(requests)
        print(f"  {name:18} {len(ratios):5} {format_quantiles(ratios)}")
    later = [r for r in everything if not r.is_first]
    held = sum(is_held(r.reading, r.reported) for r in later)
    print(f"  all requests but the first of a run: their interval holds {held / len(later):.1%} of {len(later)}\n")


if __name__ == "__main__":
    main()
