"""Law 12: every position lies in exactly one unit, or in what its replacements cover, or in the open step."""

from __future__ import annotations

from hypothesis import given

from tenfold.core.view.fold import View
from tests.laws import checks
from tests.laws.strategies import LAW, Log, logs


@LAW
@given(logs(most=30))
def test_units_and_covers_tile_the_path(log: Log) -> None:
    checks.assert_positions_tiled(View, log)


@LAW
@given(logs(most=14))
def test_exactly_whole_closed_units_may_be_replaced(log: Log) -> None:
    checks.assert_names_whole_ranges(View, log)
