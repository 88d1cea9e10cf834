"""Measures how long an agent's calls wait for Tenfold, with and without a summary prepared in the background."""

from __future__ import annotations

import statistics

from tenfold_yardstick.speed import SUMMARY_WAYS
from tenfold_yardstick.waits import TimedRun, make_summarizer, measure_waits
from yardstick.bench.speed import read_corpus


def main() -> None:
    """Measures one run of each kind."""
    run = TimedRun()
    print(
        f"{run.steps + 1} calls of an agent in a window of {run.window:,} tokens, policy tenfold\n"
        f"its model takes {run.call_seconds * 1_000:.0f} ms, the one that writes a summary "
        f"{run.summary_seconds * 1_000:.0f} ms\n"
        "milliseconds that a call waits for Tenfold\n"
    )
    print(
        f"{'summary written':28} {'other calls, median':>20} {'p99':>6} {'compactions':>12} {'median':>8} {'most':>8}"
    )
    base = 0.0
    for name, (writes, background) in SUMMARY_WAYS.items():
        summarizer = make_summarizer(run) if writes else None
        waited = measure_waits(read_corpus(), run, summarizer, is_prepared=background)
        quiet = sorted(1_000 * took for took, compacted in waited if not compacted)
        full = sorted(1_000 * took for took, compacted in waited if compacted)
        middle = statistics.median(full)
        base = base or full[-1]
        print(
            f"{name:28} {statistics.median(quiet):20.1f} {quiet[int(len(quiet) * 0.99)]:6.1f} {len(full):12} "
            f"{middle:8.1f} {full[-1]:8.1f}   {base / full[-1]:.1f} x less than the first"
        )


if __name__ == "__main__":
    main()
