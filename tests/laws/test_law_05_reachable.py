"""Law 5: every original entry stays reachable from the Block that covers it, byte for byte."""

from __future__ import annotations

from hypothesis import given

from tenfold.transcripts import Recorded
from tenfold.view.view import View
from tests.laws import checks, recorded
from tests.laws.strategies import BLOCKS, LAW, TALK, Log, logs


@LAW
@given(logs(TALK + BLOCKS * 3, most=30))
def test_every_covered_original_is_found_through_covers(log: Log) -> None:
    checks.reaches_every_original(View, log)


def test_recorded_originals_are_found_through_nested_blocks(session: Recorded) -> None:
    checks.reaches_every_original(View, recorded.compacted(session))
