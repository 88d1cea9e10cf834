"""Laws 1, 2, 3, 12 and 14 over every recorded session, cut at every index: no cut is a special one.

Each session as it was recorded, and with Blocks of all kinds, undos and refused Blocks put in on the way.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenfold.record.block import Block
from tenfold.record.entry import Entry, Retraction
from tenfold.record.message import Message, Text
from tenfold.transcripts import Recorded
from tenfold.view.path import Path
from tenfold.view.units import Shown
from tenfold.view.view import View
from tests.laws import checks, nearby, recorded
from tests.laws.nearby import WIRES, Units
from tests.laws.stretches import views

OFTEN = 4
"""Cuts from one check of a whole view to the next."""
MOST = 4
"""Cuts of a session at which the near check is held against the full one."""


def test_every_cut_of_a_recorded_session_keeps_the_laws(session: Recorded) -> None:
    keeps_the_laws(recorded.path_of(session))


def test_every_cut_of_a_recorded_session_with_blocks_keeps_the_laws(session: Recorded) -> None:
    keeps_the_laws(recorded.compacted(session))


def keeps_the_laws(log: Sequence[Entry]) -> None:
    """One walk over the log, every law at every cut."""
    sent: list[Shown] = []
    before, opened = View.empty(Path(())), View.empty(Path(()))
    for view in views(log):
        entry, shown = log[view.length - 1], list(view.shown())
        folds_alike(log, view, shown)
        if isinstance(entry, Block | Retraction):
            if isinstance(entry, Block):
                assert before.fits(entry) == (view.length - 1 in view.marks.live)
            if view.marks.changed == view.length - 1:
                sent, opened = [], view
            else:
                assert view.length - 1 in view.marks.stale
                assert shown == list(before.shown()), f"the refused entry {view.length - 1} changed the view"
        reopens(log, opened, view, shown)
        tiles(log, view)
        if view.step is None:
            assert shown[: len(sent)] == sent, f"entry {view.length - 1} changed what was sent before it"
            sent = shown
        nearby.allowed(view, fully(log, view))
        before = view


def folds_alike(log: Sequence[Entry], view: View, shown: list[Shown]) -> None:
    """Law 1: extended entry by entry is folded from the root."""
    fresh = View.of(Path(log[: view.length]))
    assert list(fresh.shown()) == shown
    assert (fresh.refs, fresh.marks) == (view.refs, view.marks)


def reopens(log: Sequence[Entry], changed: View, view: View, shown: list[Shown]) -> None:
    """Law 1: so is what the snapshot of the newest Block or retraction opens. `changed` is the view it was taken of."""
    if changed.length:
        opened = View.opened(changed.snapshot(), checks.lazy(log[: view.length]))
        assert list(opened.shown()) == shown
        assert (opened.refs, opened.marks.live, opened.marks.pins) == (view.refs, view.marks.live, view.marks.pins)


def tiles(log: Sequence[Entry], view: View) -> None:
    """Law 12: no position falls between, in view or under a Block."""
    ends = [(u.first, u.last) for u in view.units]
    if view.step is not None:
        ends.append((view.step.first, view.step.entries[-1][0]))
    checks.assert_tiled(ends, 0, view.length - 1)
    checks.assert_refs(log, view.refs, 0, view.length - 1)


def fully(log: Sequence[Entry], view: View) -> Sequence[str]:
    """The wires whose rules the whole view is held against: one at every fourth cut in turn, all where it changes.

    What is closed stays as it is until the next Block, so what the newest units do not show is found there at last.
    """
    around = log[view.length - 1 : view.length + 1]
    if len(around) < 2 or any(isinstance(e, Block | Retraction) for e in around):
        return WIRES
    return () if view.length % OFTEN else (WIRES[view.length // OFTEN % len(WIRES)],)


# -- the near check against the full one -------------------------------------------------------------------------------


def damaged(units: Units) -> list[Units]:
    """Views with something broken in their newest unit that has more than one message, or put behind it."""
    places = [n for n in range(max(0, len(units) - nearby.UNITS), len(units)) if len(units[n]) > 1]
    said = Message("user", (Text("meanwhile"),), "human")
    out: list[Units] = [[*units, (Message("assistant", (), "model"),), (said,)]]
    for n in places[-1:]:
        call, *rest = units[n]
        others = ((call, *rest[:-1]), (call, *rest, rest[-1]), (call, said, *rest), tuple(rest))
        out.extend([*units[:n], other, *units[n + 1 :]] for other in others)
    return out


def test_the_newest_units_break_the_same_rules_as_the_whole_view(session: Recorded) -> None:
    for log in (recorded.path_of(session), recorded.compacted(session)):
        at = set(recorded.cuts(log, most=MOST)[-2 * MOST :: 2])
        for view in views(log):
            if view.length in at:
                units = nearby.units_of(view)
                for wire in WIRES:
                    assert nearby.agree(units, wire) == 0
                    found = [nearby.agree(broken, wire) for broken in damaged(units)]
                    assert len(found) == 1 or sum(map(bool, found)) >= 2, f"{wire} takes the damage at {view.length}"
