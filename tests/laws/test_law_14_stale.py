"""Law 14: a Block planned at a leaf fits every later leaf reached by messages only; a stale one is refused."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from tenfold.core.view.fold import View
from tests.laws import checks, strategies
from tests.laws.strategies import BLOCKS, LAW, STALE, TALK, Log, Move, logs, talk


@LAW
@given(
    logs(),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=3),
    talk(most=10),
)
def test_a_planned_block_fits_after_any_messages(
    log: Log, wanted: list[tuple[int, int, int]], later: list[Move]
) -> None:
    block = strategies.build_legal_block(log, wanted)
    assume(block is not None)
    assert block is not None
    checks.assert_fits_later_leaves(View, log, block, strategies.play(later, log)[len(log) :])


@LAW
@given(logs(), st.integers(0, 7), st.integers(0, 7), talk(most=10))
def test_a_block_over_its_own_batches_fits_after_any_messages(log: Log, a: int, b: int, later: list[Move]) -> None:
    block = strategies.build_clip_block(log, a, b, 1 + b % 6)
    assume(block is not None)
    assert block is not None
    checks.assert_fits_later_leaves(View, log, block, strategies.play(later, log)[len(log) :])


@LAW
@given(logs(TALK + BLOCKS * 2 + STALE * 3))
def test_a_stale_block_is_refused_and_changes_nothing(log: Log) -> None:
    checks.assert_refuses_stale_blocks(View, log)


@LAW
@given(logs(TALK + BLOCKS * 2, most=14), st.integers(0, 7), st.integers(0, 7))
def test_after_a_newer_block_over_the_same_range_the_older_plan_is_refused(log: Log, a: int, b: int) -> None:
    planned = strategies.build_legal_block(log, [(a, b, 1)])
    rival = strategies.build_legal_block(log, [(a, b, 0)])
    assume(planned is not None)
    assert planned is not None
    assert rival is not None
    view = checks.fold_from_root(View, [*log, rival])
    assert not view.can_append(planned)
    both = checks.fold_from_root(View, [*log, rival, planned])
    assert both.get_messages() == view.get_messages()
    assert both.state.live_blocks == view.state.live_blocks
