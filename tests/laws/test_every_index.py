"""Laws 1, 2, 3, 12 and 14 over every recorded session, cut at every index: no cut is a special one.

Each session as it was recorded, and with Blocks of all kinds, undos and refused Blocks put in on the way.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tenfold.core.record.block import Block
from tenfold.core.record.entry import Entry, Retraction
from tenfold.core.record.message import Message, Text
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.core.view.units import VisibleMessage
from tenfold.formats import ParsedSession
from tests.laws import checks, nearby, recorded
from tests.laws.nearby import WIRES, Units
from tests.laws.stretches import iterate_views
from tests.thorough import is_taken

pytestmark = pytest.mark.costly(20)

OFTEN = 4
"""Cuts from one check of a whole view to the next."""
LONG, ONE_IN = 400, 5
"""Of a log longer than this, one index in so many is folded from the root again: each takes as long as the log."""
MOST = 4
"""Cuts of a session at which the near check is held against the full one."""


def test_every_cut_of_a_recorded_session_keeps_the_laws(session: ParsedSession) -> None:
    assert_keeps_laws(recorded.get_path(session))


def test_every_cut_of_a_recorded_session_with_blocks_keeps_the_laws(session: ParsedSession) -> None:
    assert_keeps_laws(recorded.build_path_with_blocks(session))


def assert_keeps_laws(log: Sequence[Entry]) -> None:
    """One walk over the log, every law at every cut."""
    sent: list[VisibleMessage] = []
    before, opened = View.build_empty(Path(())), View.build_empty(Path(()))
    for view in iterate_views(log):
        entry, shown = log[view.length - 1], list(view.get_visible_messages())
        if len(log) <= LONG or is_taken("", view.length, ONE_IN):
            assert_folds_alike(log, view, shown)
        if isinstance(entry, Block | Retraction):
            if isinstance(entry, Block):
                assert before.can_append(entry) == (view.length - 1 in view.state.live_blocks)
            if view.state.last_change == view.length - 1:
                sent, opened = [], view
            else:
                assert view.length - 1 in view.state.stale_entries
                assert shown == list(before.get_visible_messages()), (
                    f"the refused entry {view.length - 1} changed the view"
                )
        assert_reopens(log, opened, view, shown)
        checks.assert_view_tiled(view, log)
        if view.open_step is None:
            assert shown[: len(sent)] == sent, f"entry {view.length - 1} changed what was sent before it"
            sent = shown
        nearby.assert_allowed(view, choose_full_wires(log, view))
        before = view


def assert_folds_alike(log: Sequence[Entry], view: View, shown: list[VisibleMessage]) -> None:
    """Law 1: extended entry by entry is folded from the root."""
    fresh = View.from_path(Path(log[: view.length]))
    assert list(fresh.get_visible_messages()) == shown
    assert (fresh.range_refs, fresh.state) == (view.range_refs, view.state)


def assert_reopens(log: Sequence[Entry], changed: View, view: View, shown: list[VisibleMessage]) -> None:
    """Law 1: so is what the snapshot of the newest Block or retraction opens. `changed` is the view it was taken of."""
    if changed.length:
        opened = View.from_snapshot(changed.to_snapshot(), checks.build_lazy_path(log[: view.length]))
        assert list(opened.get_visible_messages()) == shown
        assert (opened.range_refs, opened.state.live_blocks, opened.state.pins) == (
            view.range_refs,
            view.state.live_blocks,
            view.state.pins,
        )


def choose_full_wires(log: Sequence[Entry], view: View) -> Sequence[str]:
    """The wires whose rules the whole view is held against: one at every fourth cut in turn, all where it changes.

    What is closed stays as it is until the next Block, so what the newest units do not show is found there at last.
    """
    around = log[view.length - 1 : view.length + 1]
    if len(around) < 2 or any(isinstance(e, Block | Retraction) for e in around):
        return WIRES
    return () if view.length % OFTEN else (WIRES[view.length // OFTEN % len(WIRES)],)


# -- the near check against the full one -------------------------------------------------------------------------------


def damage_units(units: Units) -> list[Units]:
    """Views with something broken in their newest unit that has more than one message, or put behind it."""
    places = [n for n in range(max(0, len(units) - nearby.UNITS), len(units)) if len(units[n]) > 1]
    said = Message("user", (Text("meanwhile"),), "human")
    out: list[Units] = [[*units, (Message("assistant", (), "model"),), (said,)]]
    for n in places[-1:]:
        call, *rest = units[n]
        others = ((call, *rest[:-1]), (call, *rest, rest[-1]), (call, said, *rest), tuple(rest))
        out.extend([*units[:n], other, *units[n + 1 :]] for other in others)
    return out


def test_the_newest_units_break_the_same_rules_as_the_whole_view(session: ParsedSession) -> None:
    for log in (recorded.get_path(session), recorded.build_path_with_blocks(session)):
        at = set(recorded.choose_cuts(log, most=MOST)[-2 * MOST :: 2])
        for view in iterate_views(log):
            if view.length in at:
                units = nearby.get_unit_messages(view)
                for wire in WIRES:
                    assert nearby.compare_checks(units, wire) == 0
                    found = [nearby.compare_checks(broken, wire) for broken in damage_units(units)]
                    assert len(found) == 1 or sum(map(bool, found)) >= 2, f"{wire} takes the damage at {view.length}"
