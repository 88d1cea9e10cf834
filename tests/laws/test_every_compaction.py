"""Laws 1 to 6 and 9 to 14 over every recorded session, compacted to a tenth at every index of it.

Up to `LONG` entries as it was recorded; what fails, is cancelled or replayed costs several compactions, so that is done
up to `SHORT` entries, and in turns: two indexes fail, the next two are replayed. A longer one is cut at every index of
the path that it has when it is compacted on its way, as a session is that goes on so long (the costly part at some),
and as it was recorded at some. `make test` takes one index in five of these, another one in each session. A thorough
run cuts all of them at every index both ways, which takes half an hour on one core (decision 0009).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Container, Iterator
from functools import partial

import pytest
from msgspec.structs import replace

from tenfold.core.record.block import Block
from tenfold.core.view.fold import View
from tests.laws import checks, compactions, conversations
from tests.laws.compactions import AFTERWARDS, Desk
from tests.laws.nearby import WIRES
from tests.laws.recorded import build_compacted_path, choose_cuts, get_path
from tests.laws.strategies import Log
from tests.laws.stretches import Stretch, iterate_views
from tests.thorough import IS_THOROUGH, is_taken

pytestmark = pytest.mark.costly(18)

LEAVES = (1, 2, 5, 12)
"""How many entries later a Block is tried again."""

LONG, SHORT = 200, 64
SOME, FEW = 16, 3
"""Cuts of a longer session as it was recorded."""
ONE_IN = 5
"""Indexes of which `make test` takes one: odd, so that the cuts fall on every place of a step."""

Planned = tuple[View, Block]


def choose_paths(
    stretch: Stretch, *, most: int, spread: int, lived_cuts: Callable[[Log], Container[int]]
) -> list[tuple[Log, Container[int]]]:
    """The paths to cut, each with the lengths to cut it at."""
    log = get_path(stretch.session)
    if len(log) <= most:
        return [(log, range(len(log) + 1))]
    on_its_way = build_compacted_path(stretch.session)
    if IS_THOROUGH:
        return [(path, range(len(path) + 1)) for path in (log, on_its_way)]
    return [(log, choose_cuts(log, most=spread)), (on_its_way, lived_cuts(on_its_way))]


def test_every_cut_of_a_recorded_session_compacts_by_the_laws(stretch: Stretch) -> None:
    for log, at in choose_paths(stretch, most=LONG, spread=SOME, lived_cuts=lambda path: range(len(path) + 1)):
        desk = Desk.from_log(log, conversations.make_policy())
        planned: deque[Planned] = deque()
        for view in iterate_views(log):
            if isinstance(log[view.length - 1], Block):
                planned.clear()
            for after, block in planned:
                if view.length - block.time in LEAVES:
                    compactions.assert_fits_later(view, after, block)
            if planned and view.length - planned[0][1].time >= LEAVES[-1]:
                planned.popleft()
            if view.length in at and is_cut_here(stretch, view) and (made := judge_cut(desk, view)) is not None:
                planned.append(made)


def is_cut_here(stretch: Stretch, view: View) -> bool:
    """Tells whether this part of the session judges the cut after the view."""
    return stretch.has_cut(view.length) and is_taken(stretch.name, view.length // stretch.count, ONE_IN)


def judge_cut(desk: Desk, view: View) -> Planned | None:
    """One cut: compacts what stands before it, and gives the Block with its view, if there is one."""
    size = conversations.count_tokens(view.get_messages())
    compactions.assert_ends_without_block(desk, view, size)
    call = compactions.build_tenth_call(size)
    verdict = desk.get_result(view, call)
    block = verdict.entry
    if verdict.outcome.status != "compacted":
        assert verdict.outcome.status == "nothing"
        compactions.assert_view_unchanged(view, verdict, attempt=verdict.entry is not None)
        return None
    assert isinstance(block, Block)
    after = desk.append_block(view, block)
    log = (*desk.log[: view.length], block)
    compactions.assert_shrinks(view, after, verdict)
    compactions.assert_allowed(after)
    checks.assert_view_tiled(after, log)
    compactions.assert_reachable(desk, after, block)
    compactions.assert_reopens(desk, after, block)
    compactions.assert_repeat_does_nothing(desk, after, call)
    compactions.assert_undo_restores(view, after, block)
    compactions.assert_second_block_refused(after, block)
    later = [e for e in desk.log[view.length : view.length + AFTERWARDS] if not isinstance(e, Block)]
    compactions.assert_goes_on(after, later, WIRES[view.length % len(WIRES)])
    return after, block


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    """One event loop for all cuts of a test."""
    with asyncio.Runner() as runner:
        yield runner


def test_what_comes_to_nothing_and_what_is_replayed_wherever_a_session_is_cut(
    stretch: Stretch, loop: asyncio.Runner
) -> None:
    for log, at in choose_paths(stretch, most=SHORT, spread=FEW, lived_cuts=partial(choose_cuts, most=SOME)):
        desk = Desk.from_log(log, conversations.make_policy(models=("broken",), on_failure="abort"))
        telling = replace(desk, policy=conversations.make_policy(models=("echo",)))
        for view in iterate_views(log):
            if view.length in at and is_cut_here(stretch, view):
                call = compactions.build_tenth_call(conversations.count_tokens(view.get_messages()))
                if IS_THOROUGH or view.length % 4 < 2:
                    compactions.assert_failures_harmless(desk, view, call)
                if IS_THOROUGH or view.length % 4 >= 2:
                    compactions.assert_replays(telling, view, call, loop)
