"""The stage of the preset `tail`: one summary over everything before a recent tail that is measured in tokens.

Where the tail begins, `plan.recent_tail.find_cut_point` finds. A cut inside an exchange is marked
(`DraftPiece.cut_positions`), so that the writer can separate the older part of that exchange from the history before
it.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.draft import MINIMAL_SUMMARY_TOKENS, Draft, Goal
from tenfold.compaction.plan.recent_tail import find_cut_point, has_new_messages
from tenfold.compaction.plan.stages.condense import build_summary

PREFIX_SHARE = 5 / 8
"""The budget for the start of a split exchange, relative to that for the history: 0.5 to 0.8 of the reserve."""


class CutStage(Struct, frozen=True):
    """Summarizes what lies before the newest `goal.tail_budget` tokens. Protected messages stay before the summary.

    The tail shrinks where the target leaves less. A last step that is larger may take the view up to `goal.ceiling`.
    """

    name: ClassVar[str] = "cut"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Plans one summary over everything before the cut. Changes nothing where nothing new lies there."""
        first, kept = draft.floor_end, draft.measure_kept()
        narrative = goal.narrative_budget if goal.text_limit is None else min(goal.narrative_budget, goal.text_limit)
        least = min(narrative, MINIMAL_SUMMARY_TOKENS)
        available = goal.target - draft.count_fixed(kept) - goal.summary_overhead - goal.facts_budget
        largest_summary = available + max(0, goal.ceiling - goal.target)
        cut = find_cut_point(
            draft, goal.tail_budget, kept=kept, budget=available - narrative, largest=largest_summary - least
        )
        covered = draft.pieces[first : cut.index]
        if not has_new_messages(draft, covered):
            return draft
        tail = draft.pieces[cut.index :]
        unkept = sum(p.tokens - sum(kept.get(s.key, 0) for s in p.get_visible_messages()) for p in tail)
        narrative = max(least, min(narrative, largest_summary - unkept))
        stays = draft.reading.convert_part(sum(p.tokens for p in tail) + draft.fixed_tokens - draft.floor)
        piece = build_summary(draft, covered, kept, goal.summary_overhead + goal.facts_budget + narrative)
        piece = replace(piece, reason=f"{piece.reason}; a tail of {stays:,} tokens stays")
        out = draft.with_piece(first, piece, until=cut.index)
        if cut.exchange_start is None:
            return out
        return _with_prefix_budget(out, goal, first, draft.pieces[cut.exchange_start].first)


class CutAtStage(Struct, frozen=True):
    """Summarizes what lies before the entry at `position`: for a summary that exists already and has its own size."""

    position: int
    name: ClassVar[str] = "cut-at"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:  # noqa: ARG002 - the place is given, no size decides
        """Plans one summary over everything before the position. Changes nothing where no piece begins there."""
        first = draft.floor_end
        starts = [p.first for p in draft.pieces]
        if draft.view.open_step is not None:
            starts.append(draft.view.open_step.first)
        if self.position not in starts or starts.index(self.position) <= first:
            return draft
        until = starts.index(self.position)
        piece = build_summary(draft, draft.pieces[first:until], draft.protected, 1)
        return draft.with_piece(first, piece, until=until)


def _with_prefix_budget(draft: Draft, goal: Goal, index: int, exchange_start: int) -> Draft:
    """Marks the text at `index` to be written in two parts, and adds as much budget as the target leaves."""
    piece = draft.pieces[index]
    narrative = piece.summary_budget - goal.summary_overhead - goal.facts_budget
    more = max(0, min(int(narrative * PREFIX_SHARE), goal.target - draft.tokens))
    wider = piece.with_more_budget(more, f"{piece.reason}; the exchange at {exchange_start} is split")
    return draft.with_piece(index, replace(wider, cut_positions=(exchange_start,)))
