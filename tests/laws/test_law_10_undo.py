"""Law 10: the view after undo equals the fold of the same path without that Block."""

from __future__ import annotations

import pytest
from hypothesis import given

from tenfold.core.view.fold import View
from tenfold.formats import ParsedSession
from tests.laws import checks, conversations, recorded
from tests.laws.strategies import BLOCKS, ENGINE, LAW, TALK, Log, logs


@LAW
@given(logs())
def test_undo_gives_the_fold_without_the_block(log: Log) -> None:
    checks.assert_blocks_undoable(View, log)


@LAW
@given(logs(TALK + BLOCKS * 3))
def test_undoing_all_of_many_nested_blocks_gives_each_state_back(log: Log) -> None:
    checks.assert_blocks_undoable(View, log)


@ENGINE
@given(conversations.compacted_logs())
def test_what_the_engine_did_is_undone_block_by_block(log: Log) -> None:
    checks.assert_blocks_undoable(View, log)


def test_recorded_sessions_come_back_from_a_tenth_byte_for_byte(session: ParsedSession) -> None:
    done = recorded.compact_to_tenth(session)
    compacted = done.outcome.status == "compacted"
    log = tuple(done.session.view.path.get_entries(0, done.session.view.length - 1))
    again = conversations.open_session(log)
    if compacted:
        again.undo()
    assert conversations.encode_view(again) == [checks.BYTES.encode(m) for m in done.before]


@pytest.mark.costly(3)
def test_recorded_sessions_come_back_block_by_block(session: ParsedSession) -> None:
    checks.assert_blocks_undoable(View, recorded.build_path_with_blocks(session))
