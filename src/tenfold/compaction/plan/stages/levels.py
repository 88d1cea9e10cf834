"""The three levels of the preset `blocks` for a list without a session: cut outputs, lines, drop the middle.

In the design, each level is measured after the other and the first that fits wins. Stages of a plan do the same. The
levels count messages, as the design does, and are extended to whole steps.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.draft import Draft, Goal, join_pieces
from tenfold.compaction.plan.recent_tail import TailSize, find_tail
from tenfold.compaction.plan.stages.condense import count_messages
from tenfold.compaction.plan.stages.overlay import cut_outputs, find_runs, find_steps, replace_with_lines
from tenfold.compaction.plan.stubs import FIT_MARKER, REMOVED_MARKER, build_marker

DROP_BETWEEN = "drop-between"
_UNLIMITED = 1 << 60


class CutOutputsStage(Struct, frozen=True):
    """Level 1: every text of every tool output is cut to its first and last lines."""

    lines: int = 50
    name: ClassVar[str] = "cut-outputs"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:  # noqa: ARG002 - the level is all or nothing, whatever the goal
        """Cuts all outputs, because the design's levels are all or nothing."""
        return replace(draft, pieces=tuple(cut_outputs(draft, piece, self.lines) for piece in draft.pieces))


class EarlierLinesStage(Struct, frozen=True):
    """Level 2: each step before the last `keep_recent_messages` becomes a line. User messages stay."""

    keep_recent_messages: int = 10
    name: ClassVar[str] = "earlier-lines"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:  # noqa: ARG002 - the level is all or nothing, whatever the goal
        """Extends the recent messages to a whole step, so that no tool result loses its call."""
        start = find_tail(draft, TailSize(self.keep_recent_messages)).start
        earlier = [step for run in find_runs(draft) for step in find_steps(draft, run) if step.stop <= start]
        return replace_with_lines(draft, earlier, _UNLIMITED)


class DropBetweenStage(Struct, frozen=True):
    """Level 3: keeps the first `keep_first_messages`, a marker, and the last `keep_recent_messages`.

    Where that does not fit, keeps the newest messages that fit.
    """

    keep_first_messages: int = 2
    keep_recent_messages: int = 10
    name: ClassVar[str] = DROP_BETWEEN
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Drops the middle. Protected messages stay in view, and the marker's tokens count too."""
        floor = draft.floor_end
        first = find_first_end(draft, floor, self.keep_first_messages)
        start = find_tail(draft, TailSize(self.keep_recent_messages)).start
        if first < start:
            tried = _drop_range(draft, first, start, FIT_MARKER)
            if tried.tokens <= goal.stage_target:
                return tried
        _, marker = draft.measure_substitute(build_marker(REMOVED_MARKER.format(count_messages(draft.pieces))))
        budget = goal.stage_target - draft.count_fixed(draft.measure_kept()) - marker
        return _drop_range(draft, floor, find_tail(draft, TailSize(budget=budget), floor).start, REMOVED_MARKER)


def find_first_end(draft: Draft, floor: int, messages: int) -> int:
    """Returns the piece after the first `messages` messages behind the floor, extended to a whole piece."""
    index = floor
    while index < len(draft.pieces) and messages > 0:
        messages -= len(draft.pieces[index].get_visible_messages())
        index += 1
    return index


def _drop_range(draft: Draft, first: int, last: int, text: str) -> Draft:
    covered = draft.pieces[first:last]
    kept = [s for p in covered for s in p.get_visible_messages() if s.key in draft.protected]
    count = count_messages(covered) - len(kept)
    if count < 1:
        return draft
    items = [*draft.measure_items(kept), draft.measure_substitute(build_marker(text.format(count)))]
    piece = join_pieces(covered, items, DROP_BETWEEN, f"{count:,} messages by a marker")
    return draft.with_piece(first, piece, until=last)
