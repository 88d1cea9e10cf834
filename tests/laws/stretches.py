"""Every recorded session cut at every index, in parts that take about as long as each other.

A part folds the whole session, which is cheap, and judges every n-th cut of it: so all cuts are judged, each in one
part, and the parts can run side by side. The longest session comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from msgspec import Struct

from tenfold.core.record.entry import Entry
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.formats import ParsedSession
from tests import sessions

COSTLY = 100_000
"""Entries squared that one part may hold: what is done at a cut costs in proportion to what stands before it."""


class Stretch(Struct, frozen=True):
    """One part of a session: of `count` parts the one that judges the cuts `number`, `number + count` and so on."""

    session: ParsedSession
    name: str
    number: int = 0
    count: int = 1

    def has_cut(self, length: int) -> bool:
        """Whether the cut after `length` entries is one of this part's."""
        return length % self.count == self.number


def build_params() -> list[object]:
    """`pytest.param`s, one a part, with ids like `pi/file.jsonl#0-3`. Without the folder: one that skips or fails."""
    out: list[object] = []
    for param in sessions.build_params():
        assert isinstance(param, type(pytest.param()))
        (session,) = param.values
        if not isinstance(session, ParsedSession):
            out.append(param)
            continue
        count = 1 + len(session.entries) ** 2 // COSTLY
        names = [f"{param.id}-{n}" if count > 1 else param.id for n in range(count)]
        out.extend(pytest.param(Stretch(session, str(param.id), n, count), id=name) for n, name in enumerate(names))
    return out


def iterate_views(log: Sequence[Entry]) -> Iterator[View]:
    """The view after each entry, extended one by one along one path that holds the whole log."""
    view = View.build_empty(Path(log))
    for entry in log:
        view = view.extend([entry])
        yield view
