"""What the published document says in figures, beside the behaviours that have a number of their own."""

from __future__ import annotations

import json

from msgspec.structs import replace

from tenfold.core.meter.counters import BytePairCounter
from tenfold.core.meter.estimators import RECENT_REPORTS
from tests.designs.threshold.simulator import SIMULATIONS, Host, build_small_setup, run


def test_a_conversation_of_180k_becomes_less_than_2k_beside_its_system_prompt() -> None:
    (row,) = [each for each in SIMULATIONS if each.name == "200k_ToolHeavy"]
    ran = run(row.setup)
    (made,) = [outcome for outcome in ran.outcomes if outcome.status == "compacted"]
    assert made.reading_before is not None
    assert made.reading_after is not None
    assert made.reading_before.tokens > 140_000
    assert made.reading_after.tokens - row.setup.system / 4 * 2 < 2_000


def test_a_quarter_of_the_characters_is_too_little_for_structured_content() -> None:
    """1.5 to 2.2 times with OpenAI's vocabulary, and a quarter more with Claude's: less than the published 2 to 3."""
    rows = [
        {"id": n * 7_919, "name": f"item_{n}", "price": n * 3.17, "tags": ["a", "b"], "ok": True} for n in range(99)
    ]
    points = [{"hash": f"{n * 2_654_435_761:016x}", "x": [n, n + 1, n * 2.5]} for n in range(99)]
    for value in (rows, points):
        text = json.dumps(value, separators=(",", ":"))
        assert 1.5 <= BytePairCounter("o200k").count([text])[0] / (len(text) // 4) <= 2.6
    prose = "The quick brown fox jumps over the lazy dog near the river, and nobody minds it at all. " * 40
    assert BytePairCounter("o200k").count([prose])[0] / (len(prose) // 4) < 1.1


def test_one_unusual_report_does_not_distort_those_after_it() -> None:
    reports: list[float] = [1.2] * 6 + [9.0] + [1.2] * RECENT_REPORTS
    setup = replace(build_small_setup(len(reports), user=600, ratio=1.0), window=100_000)
    host = Host(setup)
    slopes = []
    for number, factor in enumerate(reports, 1):
        host.setup = replace(setup, report=lambda real, factor=factor: int(real * factor))
        host.run_turn(number)
        session = host.session
        host.plugin.before_model(host.context, {"system": "", "messages": list(host.contents)})
        reading = session.take_reading(window=100_000)
        slopes.append((reading.slope, reading.floor))
    assert max(slope for slope, _ in slopes) <= 5.0
    assert slopes[-1][1] == 0
    assert slopes[-1][0] <= 2.0, "it is forgotten"
