"""The three levels of the preset `blocks` for a list without a session: cut outputs, lines, drop the middle.

In the design, each level is measured after the other and the first that fits wins. Stages of a plan do the same. The
levels count messages, as the design does, and are extended to whole steps.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.plan.draft import Draft, Goal, as_show
from tenfold.plan.stages.condense import after_floor
from tenfold.plan.stages.outputs import protected_from
from tenfold.plan.stages.overlay import cut_outputs, lined, loops, over, steps_of
from tenfold.record.block import Say, Show
from tenfold.record.message import Message, Text

TO_FIT = "[Context compacted: {} messages removed to fit context window]"
REMOVED = "[Context compacted: {} messages removed]"
"""The markers of the third level: with the first messages kept before the marker, and without."""
DROPPED = "drop-between"
_NO_BUDGET = 1 << 60


class CutOutputs(Struct, frozen=True):
    """Level 1: every text of every tool output is cut to its first and last lines."""

    lines: int = 50
    name: ClassVar[str] = "cut-outputs"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:  # noqa: ARG002 - the level is all or nothing, whatever the goal
        """Cuts all outputs, because the design's levels are all or nothing."""
        pieces = tuple(cut_outputs(draft, index, self.lines) for index in range(len(draft.pieces)))
        return replace(draft, pieces=pieces)


class EarlierLines(Struct, frozen=True):
    """Level 2: each step before the last `keep_recent` messages becomes a line. User messages stay."""

    keep_recent: int = 10
    name: ClassVar[str] = "earlier-lines"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:  # noqa: ARG002 - the level is all or nothing, whatever the goal
        """Extends the recent messages to a whole step, so that no tool result loses its call."""
        until = protected_from(draft, self.keep_recent)
        earlier = [step for run in loops(draft) for step in steps_of(draft, run) if step.stop <= until]
        return lined(draft, earlier, _NO_BUDGET)


class DropBetween(Struct, frozen=True):
    """Level 3: keeps the first `keep_first` messages, a marker, and the last `keep_recent`.

    Where that does not fit, keeps the newest messages that fit.
    """

    keep_first: int = 2
    keep_recent: int = 10
    name: ClassVar[str] = DROPPED
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Drops the middle. Protected messages stay in view, and the marker's tokens count too."""
        floor = after_floor(draft)
        first, last = first_until(draft, floor, self.keep_first), protected_from(draft, self.keep_recent)
        if first < last:
            tried = _dropped(draft, first, last, TO_FIT)
            if tried.tokens <= goal.stop:
                return tried
        protected_tokens = sum(
            size
            for p in draft.pieces[floor:]
            for s, size in zip(p.shown(), draft.sizer(p.shown()), strict=True)
            if s.key in draft.held
        )
        marker = draft.weigh([_marker(REMOVED, sum(len(p.shown()) for p in draft.pieces))])[0]
        budget = goal.stop - draft.rest - sum(p.tokens for p in draft.pieces[:floor]) - protected_tokens - marker
        last = len(draft.pieces)
        while last > floor and draft.pieces[last - 1].tokens <= budget:
            last -= 1
            budget -= draft.pieces[last].tokens
        return _dropped(draft, floor, last, REMOVED)


def first_until(draft: Draft, floor: int, messages: int) -> int:
    """Returns the piece after the first `messages` messages behind the floor, extended to a whole piece."""
    index = floor
    while index < len(draft.pieces) and messages > 0:
        messages -= len(draft.pieces[index].shown())
        index += 1
    return index


def _marker(text: str, count: int) -> Message:
    return Message("user", (Text(text.format(count)),), "tenfold")


def _dropped(draft: Draft, first: int, last: int, text: str) -> Draft:
    covered = draft.pieces[first:last]
    kept = [s for p in covered for s in p.shown() if s.key in draft.held]
    count = sum(len(p.shown()) for p in covered) - len(kept)
    if count < 1:
        return draft
    marker = _marker(text, count)
    show: tuple[Show, ...] = (*(as_show(s) for s in kept), Say(marker))
    sizes = (*draft.sizer(kept), *draft.weigh([marker]))
    return draft.swap(first, over(covered, DROPPED, show, sizes, f"{count:,} messages by a marker"), until=last)
