"""Law 5: every original entry stays reachable from the Block that covers it, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given

from tenfold.core.view.fold import View
from tenfold.formats import ParsedSession
from tests.laws import checks, recorded
from tests.laws.strategies import BLOCKS, LAW, TALK, Log, logs


@LAW
@given(logs(TALK + BLOCKS * 3, most=30))
def test_every_covered_original_is_found_through_covers(log: Log) -> None:
    checks.assert_originals_reachable(View, log)


@pytest.mark.costly(3)
def test_recorded_originals_are_found_through_nested_blocks(session: ParsedSession) -> None:
    checks.assert_originals_reachable(View, recorded.build_path_with_blocks(session))
