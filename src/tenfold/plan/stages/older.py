"""The stage that puts one summary over everything older than the newest messages."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.plan.draft import Draft, Goal, Key, Piece
from tenfold.plan.stages.condense import after_floor, summarized
from tenfold.plan.stages.outputs import protected_from
from tenfold.record.block import Say
from tenfold.record.message import Message


class SummarizeOlder(Struct, frozen=True):
    """Replaces everything before the newest messages by one summary of at most `max_summary_tokens`, and the facts.

    The newest `protected_messages` are kept as whole steps, as far as the target has a budget for them. The rest of
    them is summarized too. The writer reads what earlier stages shortened in its shorter form.
    """

    protected: int = 12
    most: int = 8_000
    name: ClassVar[str] = "summarize-older"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Plans the summary. Changes nothing where nothing lies before the protected messages."""
        first = after_floor(draft)
        allotment = goal.frame + goal.facts + min(goal.narrative, self.most)
        kept = _held(draft, first)
        fixed = draft.rest + sum(p.tokens for p in draft.pieces[:first]) + sum(kept.values())
        last = self._cutoff(draft, first, goal.target - fixed - allotment, kept)
        covered = draft.pieces[first:last]
        if not any(s.key not in draft.held for p in covered for s in p.shown()):
            return draft
        piece = summarized(draft, covered, {}, allotment)
        return draft.swap(first, replace(piece, reads=_reads(covered)), until=last)

    def _cutoff(self, draft: Draft, first: int, room: int, kept: dict[Key, int]) -> int:
        """Returns where the protected messages begin: the newest ones, as many as the budget holds."""
        least = max(first, protected_from(draft, self.protected))
        index = len(draft.pieces)
        while index > least:
            piece = draft.pieces[index - 1]
            own = piece.tokens - sum(kept.get(s.key, 0) for s in piece.shown())
            if own > room:
                break
            room -= own
            index -= 1
        return index


def _held(draft: Draft, first: int) -> dict[Key, int]:
    """Returns the messages that stay on either side of the cutoff, with their tokens."""
    shown = [s for p in draft.pieces[first:] for s in p.shown() if s.key in draft.held]
    return dict(zip((s.key for s in shown), draft.sizer(shown), strict=True))


def _reads(covered: tuple[Piece, ...]) -> tuple[tuple[Key, Message], ...]:
    """Returns the shorter forms that earlier stages gave to messages, one for one."""
    out: list[tuple[Key, Message]] = []
    for piece in covered:
        shown = piece.shown()
        if piece.changed and len(piece.show) == len(shown):
            pairs = zip(shown, piece.show, strict=True)
            out += [(s.key, show.message) for s, show in pairs if isinstance(show, Say) and show.message != s.message]
    return tuple(out)
