"""The page about scale shows what its script prints."""

from __future__ import annotations

from msgspec.structs import replace

from scripts.simulate_scale import BEGIN, END, PAGE, Assumptions, describe, render, simulate


def test_the_table_is_what_the_script_prints() -> None:
    shown = PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0]
    assert shown == render(), "run `python -m scripts.simulate_scale --write`"


def test_what_is_never_used_again_is_cold_after_a_while() -> None:
    """The simulation agrees with what can be reckoned by hand."""
    of = replace(Assumptions(), one_day=1.0, years=1.0, cold_days=73, entries=10, spread=0.5)
    load = simulate(1_000_000, of)
    assert abs(load.hot / load.sessions - 0.2) < 0.01, "73 of 365 days"
    assert abs((load.entries_hot + load.entries_cold) / load.sessions - 10) < 0.2
    assert abs(load.requests - 10 / 2 * 1_000_000 / (365 * 86_400)) < 0.01
    rows = dict(describe(load, of))
    assert rows["sessions that are hot"].startswith(f"{load.hot:,.0f} (")
