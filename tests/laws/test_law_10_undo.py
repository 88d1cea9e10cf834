"""Law 10: the view after undo equals the fold of the same path without that Block."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.core.record.block import Block
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.formats import ParsedSession
from tenfold.session.undoing import plan_undo
from tests.laws import checks, recorded
from tests.laws.strategies import BLOCKS, LAW, TALK, Log, logs


@LAW
@given(logs() | logs(TALK + BLOCKS * 3))
def test_undo_gives_the_fold_without_the_block(log: Log) -> None:
    checks.assert_blocks_undoable(View, log)


@pytest.mark.costly(3)
def test_recorded_sessions_come_back_block_by_block(session: ParsedSession) -> None:
    checks.assert_blocks_undoable(View, recorded.build_path_with_blocks(session))


@LAW
@given(logs(TALK + BLOCKS * 3), st.integers(0, 50))
def test_any_block_is_undone_as_if_it_had_never_been_appended(log: Log, chosen: int) -> None:
    """What builds on it goes with it: all that the fold of the path without it refuses, and nothing else."""
    view = View.from_path(Path(log))
    live = view.state.live_blocks
    if not live:
        return
    undone = live[chosen % len(live)]
    bare = View.from_path(Path(put_placeholders(log, {*range(len(log))} - ({*live} - {undone}))))
    numbers = count()
    plan = plan_undo(view, log[undone].id, leaf=log[-1].id, new_id=lambda: f"new-{next(numbers)}", now=lambda: 1)
    after = View.from_path(Path([*log, *plan.entries]))
    assert after.get_messages() == bare.get_messages() == plan.view.get_messages()
    assert after.state.undone
    assert not set(after.state.stale_entries) - set(view.state.stale_entries)
    gone = [position for position in live if position not in bare.state.live_blocks]
    assert set(plan.undone) == {log[position].id for position in gone}
    assert plan.undone[0] == log[undone].id
    assert list(plan.copied) == [log[at].id for at in live if at > undone and at not in gone]


def put_placeholders(log: Log, replaced: set[int]) -> Log:
    """The path with silent entries in place of the Blocks at these positions, and of every retraction."""
    return tuple(
        checks.make_placeholder(entry) if at in replaced and not checks.is_kept(entry, at, ()) else entry
        for at, entry in enumerate(log)
    )


@pytest.mark.costly(3)
def test_the_facts_of_what_stays_are_kept(session: ParsedSession) -> None:
    log = recorded.build_path_with_blocks(session)
    view = View.from_path(Path(log))
    numbers = count()
    for position in view.state.live_blocks[:3]:
        plan = plan_undo(view, log[position].id, leaf=log[-1].id, new_id=lambda: f"new-{next(numbers)}", now=lambda: 1)
        copies = [entry for entry in plan.entries if isinstance(entry, Block)]
        if copies:
            assert set(plan.view.list_block_facts()) == set(view.list_block_facts())
