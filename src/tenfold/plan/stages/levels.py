"""The three levels of the preset `blocks` for a list without a session: cut outputs, lines, drop the middle.

In the design, each level is measured after the other and the first that fits wins. Stages of a plan do the same. The
levels count messages, as the design does, and are extended to whole steps.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.plan.draft import Draft, Goal, to_shown_item
from tenfold.plan.stages.condense import find_floor_end
from tenfold.plan.stages.outputs import find_protected_start
from tenfold.plan.stages.overlay import cut_outputs, find_runs, find_steps, join_pieces, replace_with_lines
from tenfold.record.block import ShownItem, Substitute
from tenfold.record.message import Message, Text

FIT_MARKER = "[Context compacted: {} messages removed to fit context window]"
REMOVED_MARKER = "[Context compacted: {} messages removed]"
"""The markers of the third level: with the first messages kept before the marker, and without."""
DROP_BETWEEN = "drop-between"
_UNLIMITED = 1 << 60


class CutOutputsStage(Struct, frozen=True):
    """Level 1: every text of every tool output is cut to its first and last lines."""

    lines: int = 50
    name: ClassVar[str] = "cut-outputs"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:  # noqa: ARG002 - the level is all or nothing, whatever the goal
        """Cuts all outputs, because the design's levels are all or nothing."""
        pieces = tuple(cut_outputs(draft, index, self.lines) for index in range(len(draft.pieces)))
        return replace(draft, pieces=pieces)


class EarlierLinesStage(Struct, frozen=True):
    """Level 2: each step before the last `keep_recent` messages becomes a line. User messages stay."""

    keep_recent: int = 10
    name: ClassVar[str] = "earlier-lines"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:  # noqa: ARG002 - the level is all or nothing, whatever the goal
        """Extends the recent messages to a whole step, so that no tool result loses its call."""
        until = find_protected_start(draft, self.keep_recent)
        earlier = [step for run in find_runs(draft) for step in find_steps(draft, run) if step.stop <= until]
        return replace_with_lines(draft, earlier, _UNLIMITED)


class DropBetweenStage(Struct, frozen=True):
    """Level 3: keeps the first `keep_first` messages, a marker, and the last `keep_recent`.

    Where that does not fit, keeps the newest messages that fit.
    """

    keep_first: int = 2
    keep_recent: int = 10
    name: ClassVar[str] = DROP_BETWEEN
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Drops the middle. Protected messages stay in view, and the marker's tokens count too."""
        floor = find_floor_end(draft)
        first, last = find_first_end(draft, floor, self.keep_first), find_protected_start(draft, self.keep_recent)
        if first < last:
            tried = _drop_range(draft, first, last, FIT_MARKER)
            if tried.tokens <= goal.stage_target:
                return tried
        protected_tokens = sum(
            size
            for p in draft.pieces[floor:]
            for s, size in zip(p.get_visible_messages(), draft.measure_visible(p.get_visible_messages()), strict=True)
            if s.key in draft.protected
        )
        marker = draft.measure_messages(
            [_build_marker(REMOVED_MARKER, sum(len(p.get_visible_messages()) for p in draft.pieces))]
        )[0]
        budget = (
            goal.stage_target
            - draft.fixed_tokens
            - sum(p.tokens for p in draft.pieces[:floor])
            - protected_tokens
            - marker
        )
        last = len(draft.pieces)
        while last > floor and draft.pieces[last - 1].tokens <= budget:
            last -= 1
            budget -= draft.pieces[last].tokens
        return _drop_range(draft, floor, last, REMOVED_MARKER)


def find_first_end(draft: Draft, floor: int, messages: int) -> int:
    """Returns the piece after the first `messages` messages behind the floor, extended to a whole piece."""
    index = floor
    while index < len(draft.pieces) and messages > 0:
        messages -= len(draft.pieces[index].get_visible_messages())
        index += 1
    return index


def _build_marker(text: str, count: int) -> Message:
    return Message("user", (Text(text.format(count)),), "tenfold")


def _drop_range(draft: Draft, first: int, last: int, text: str) -> Draft:
    covered = draft.pieces[first:last]
    kept = [s for p in covered for s in p.get_visible_messages() if s.key in draft.protected]
    count = sum(len(p.get_visible_messages()) for p in covered) - len(kept)
    if count < 1:
        return draft
    marker = _build_marker(text, count)
    show: tuple[ShownItem, ...] = (*(to_shown_item(s) for s in kept), Substitute(marker))
    sizes = (*draft.measure_visible(kept), *draft.measure_messages([marker]))
    return draft.with_piece(
        first, join_pieces(covered, DROP_BETWEEN, show, sizes, f"{count:,} messages by a marker"), until=last
    )
