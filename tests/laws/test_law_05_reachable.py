"""Law 5: every original entry stays reachable from the Block that covers it, byte for byte."""

from __future__ import annotations

from hypothesis import given

from tenfold.core.record.block import Block
from tenfold.core.record.entry import get_message
from tenfold.core.view.fold import View
from tenfold.formats import ParsedSession
from tests.laws import checks, conversations, recorded
from tests.laws.strategies import BLOCKS, ENGINE, LAW, TALK, Log, logs


@LAW
@given(logs(TALK + BLOCKS * 3, most=30))
def test_every_covered_original_is_found_through_covers(log: Log) -> None:
    checks.assert_originals_reachable(View, log)


@ENGINE
@given(conversations.compacted_logs())
def test_what_the_engine_covered_is_found_through_covers(log: Log) -> None:
    checks.assert_originals_reachable(View, log)


def test_recorded_originals_expand_from_the_block_that_covers_them(session: ParsedSession) -> None:
    opened = recorded.compact_to_tenth(session).session
    log = recorded.get_path(session)
    for position in opened.view.state.live_blocks:
        block = opened.view.path.get_entry(position)
        assert isinstance(block, Block)
        lines = opened.expand(block.id, deep=True)
        covered = {p for r in block.replacements for p in range(r.first, r.last + 1)}
        expected = [(p, log[p].id, m) for p in sorted(covered) if (m := get_message(log[p])) is not None]
        assert [(line.position, line.entry, line.message) for line in lines] == expected
        assert all(line.original for line in lines)


def test_recorded_originals_are_found_through_nested_blocks(session: ParsedSession) -> None:
    checks.assert_originals_reachable(View, recorded.build_path_with_blocks(session))
