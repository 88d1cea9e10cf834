"""The stage that puts one summary over everything older than the newest messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.draft import Draft, DraftPiece, Goal
from tenfold.compaction.plan.recent_tail import TailSize, find_tail
from tenfold.compaction.plan.stages.condense import build_summary
from tenfold.core.record.block import Substitute
from tenfold.core.record.message import Message
from tenfold.core.view.units import MessageKey


class SummarizeOlderStage(Struct, frozen=True):
    """Replaces everything before the newest messages by one summary of at most `max_summary_tokens`, and the facts.

    The newest `keep_recent_messages` are kept as whole steps, as far as the target has a budget for them. The rest of
    them is summarized too. The writer reads what earlier stages shortened in its shorter form.
    """

    keep_recent_messages: int = 12
    max_summary_tokens: int = 8_000
    name: ClassVar[str] = "summarize-older"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Plans the summary. Changes nothing where nothing lies before the newest messages."""
        first, kept = draft.floor_end, draft.measure_kept()
        allotment = goal.summary_overhead + goal.facts_budget + min(goal.narrative_budget, self.max_summary_tokens)
        size = TailSize(self.keep_recent_messages, budget=goal.target - draft.count_fixed(kept) - allotment)
        start = find_tail(draft, size, first, kept=kept).start
        covered = draft.pieces[first:start]
        if not any(s.key not in draft.protected for p in covered for s in p.get_visible_messages()):
            return draft
        piece = build_summary(draft, covered, kept, allotment)
        return draft.with_piece(first, replace(piece, shortened_messages=_collect_shortened(covered)), until=start)


def _collect_shortened(covered: Sequence[DraftPiece]) -> tuple[tuple[MessageKey, Message], ...]:
    """Returns the shorter forms that earlier stages gave to messages, one for one."""
    out: list[tuple[MessageKey, Message]] = []
    for piece in covered:
        shown = piece.get_visible_messages()
        if piece.is_changed and len(piece.shown_items) == len(shown):
            pairs = zip(shown, piece.shown_items, strict=True)
            out += [
                (s.key, show.message) for s, show in pairs if isinstance(show, Substitute) and show.message != s.message
            ]
    return tuple(out)
