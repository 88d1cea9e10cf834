"""The stage that puts one summary over everything older than the newest messages."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.plan.draft import Draft, DraftPiece, Goal
from tenfold.plan.stages.condense import build_summary_piece, find_floor_end
from tenfold.plan.stages.outputs import find_protected_start
from tenfold.record.block import Substitute
from tenfold.record.message import Message
from tenfold.view.units import MessageKey


class SummarizeOlderStage(Struct, frozen=True):
    """Replaces everything before the newest messages by one summary of at most `max_summary_tokens`, and the facts.

    The newest `protected_messages` are kept as whole steps, as far as the target has a budget for them. The rest of
    them is summarized too. The writer reads what earlier stages shortened in its shorter form.
    """

    protected_messages: int = 12
    max_summary_tokens: int = 8_000
    name: ClassVar[str] = "summarize-older"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Plans the summary. Changes nothing where nothing lies before the protected messages."""
        first = find_floor_end(draft)
        allotment = goal.summary_overhead + goal.facts_budget + min(goal.narrative_budget, self.max_summary_tokens)
        kept = _measure_protected(draft, first)
        fixed = draft.fixed_tokens + sum(p.tokens for p in draft.pieces[:first]) + sum(kept.values())
        last = self._find_cutoff(draft, first, goal.target - fixed - allotment, kept)
        covered = draft.pieces[first:last]
        if not any(s.key not in draft.protected for p in covered for s in p.get_visible_messages()):
            return draft
        piece = build_summary_piece(draft, covered, {}, allotment)
        return draft.with_piece(first, replace(piece, shortened_messages=_collect_shortened(covered)), until=last)

    def _find_cutoff(self, draft: Draft, first: int, budget: int, kept: dict[MessageKey, int]) -> int:
        """Returns where the protected messages begin: the newest ones, as many as the budget holds."""
        least = max(first, find_protected_start(draft, self.protected_messages))
        index = len(draft.pieces)
        while index > least:
            piece = draft.pieces[index - 1]
            own = piece.tokens - sum(kept.get(s.key, 0) for s in piece.get_visible_messages())
            if own > budget:
                break
            budget -= own
            index -= 1
        return index


def _measure_protected(draft: Draft, first: int) -> dict[MessageKey, int]:
    """Returns the messages that stay on either side of the cutoff, with their tokens."""
    shown = [s for p in draft.pieces[first:] for s in p.get_visible_messages() if s.key in draft.protected]
    return dict(zip((s.key for s in shown), draft.measure_visible(shown), strict=True))


def _collect_shortened(covered: tuple[DraftPiece, ...]) -> tuple[tuple[MessageKey, Message], ...]:
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
