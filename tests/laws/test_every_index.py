"""Laws 1, 2 and 12 over every recorded session, cut at every index: no cut is a special one."""

from __future__ import annotations

from itertools import pairwise

from tenfold.transcripts import Recorded
from tenfold.view.path import Path
from tenfold.view.view import View
from tests.laws.recorded import path_of


def test_every_cut_of_a_recorded_session_folds_alike_extends_and_tiles(session: Recorded) -> None:
    entries = path_of(session)
    whole = Path(entries)
    view = View.empty(whole)
    sent: list[tuple[int, int, int]] = []
    for length, entry in enumerate(entries, 1):
        view = view.extend([entry])
        keys = [s.key for s in view.shown()]
        fresh = View.of(Path(entries[:length]))
        assert [s.key for s in fresh.shown()] == keys
        assert fresh.refs == view.refs
        spans = [(u.first, u.last) for u in view.units]
        if view.step is not None:
            spans.append((view.step.first, view.step.entries[-1][0]))
        else:
            assert keys[: len(sent)] == sent, f"entry {length - 1} changed what was sent before it"
            sent = keys
        assert (spans[0][0], spans[-1][1]) == (0, length - 1)
        assert all(right[0] == left[1] + 1 for left, right in pairwise(spans))
