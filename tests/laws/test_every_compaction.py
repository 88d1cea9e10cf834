"""Laws 1 to 6 and 10 to 14 over every recorded session, compacted to a tenth at every index of it.

Failed, cancelled and replayed compactions cost one or two whole ones each: sessions of up to `SHORT` entries are cut at
every index as they were recorded. Longer ones are so at some, and at every index while they are compacted on their way,
as a session is that goes on so long. With `TENFOLD_EVERY_CUT` in the environment each is cut at every index as it was
recorded too, which takes 22 minutes on two cores (decision 0009).
"""

from __future__ import annotations

import os
from collections import deque

from msgspec.structs import replace

from tenfold.record.block import Block
from tenfold.view.view import View
from tests.laws import compactions, conversations
from tests.laws.compactions import AFTERWARDS, Desk
from tests.laws.nearby import WIRES
from tests.laws.recorded import cuts, lived, path_of
from tests.laws.stretches import Stretch, views

LEAVES = (1, 2, 5, 12)
"""How many entries later a Block is tried again."""

SHORT = 64
EVERY = "TENFOLD_EVERY_CUT"

Planned = tuple[View, Block]


def test_every_cut_of_a_recorded_session_compacts_by_the_laws(stretch: Stretch) -> None:
    log = path_of(stretch.session)
    desk = compactions.desk_for(log, conversations.policy())
    planned: deque[Planned] = deque()
    for view in views(log):
        for after, block in planned:
            if view.length - block.time in LEAVES:
                compactions.fits_later(view, after, block)
        if planned and view.length - planned[0][1].time >= LEAVES[-1]:
            planned.popleft()
        if stretch.judges(view.length) and (made := judged(desk, view)) is not None:
            planned.append(made)


def judged(desk: Desk, view: View) -> Planned | None:
    """One cut: compacts what stands before it, and gives the Block with its view, if there is one."""
    size = conversations.tokens(view.messages())
    compactions.ends_without_a_block(desk, view, size)
    call = compactions.tenth_of(size)
    verdict = desk.verdict(view, call)
    block = verdict.entry
    if verdict.outcome.status != "compacted":
        assert verdict.outcome.status == "nothing"
        compactions.leaves_the_view(view, verdict, attempt=verdict.entry is not None)
        return None
    assert isinstance(block, Block)
    after = desk.branch(view, block)
    log = (*desk.log[: view.length], block)
    compactions.shrinks(view, after, verdict)
    compactions.allowed(after)
    compactions.tiled(after, log)
    compactions.reachable(desk, after, block)
    compactions.reopens(desk, after, block)
    compactions.asked_again(desk, after, call)
    compactions.undoes(view, after, block)
    compactions.refused(after, block)
    later = desk.log[view.length : view.length + AFTERWARDS]
    compactions.goes_on(after, later, WIRES[view.length % len(WIRES)])
    return after, block


def test_what_comes_to_nothing_and_what_is_replayed_wherever_a_session_is_cut(stretch: Stretch) -> None:
    log = path_of(stretch.session)
    desk = compactions.desk_for(log, conversations.policy(models=("broken",), on_failure="abort"))
    telling = replace(desk, policy=conversations.policy(models=("echo",)))
    offline = replace(desk, policy=conversations.policy())
    at = range(len(log) + 1) if len(log) <= SHORT or EVERY in os.environ else cuts(log)
    for view in views(log):
        if view.length in at and stretch.judges(view.length):
            fails_and_replays(desk, telling, view)
    for number, view in enumerate(lived(log, offline) if len(log) > SHORT else ()):
        if stretch.judges(number):
            fails_and_replays(desk, telling, view)


def fails_and_replays(desk: Desk, telling: Desk, view: View) -> None:
    """Laws 9 and 11 at one cut."""
    call = compactions.tenth_of(conversations.tokens(view.messages()))
    compactions.comes_to_nothing(desk, view, call)
    compactions.replays(telling, view, call)
