"""Law 10: the view after undo equals the fold of the same path without that Block."""

from __future__ import annotations

import pytest
from hypothesis import given

from tenfold.core.view.fold import View
from tenfold.formats import ParsedSession
from tests.laws import checks, recorded
from tests.laws.strategies import BLOCKS, LAW, TALK, Log, logs


@LAW
@given(logs() | logs(TALK + BLOCKS * 3))
def test_undo_gives_the_fold_without_the_block(log: Log) -> None:
    checks.assert_blocks_undoable(View, log)


@pytest.mark.costly(3)
def test_recorded_sessions_come_back_block_by_block(session: ParsedSession) -> None:
    checks.assert_blocks_undoable(View, recorded.build_path_with_blocks(session))
