"""The stage of `clip`: everything before the kept tail becomes one archive of batches, at the head of the view."""

from __future__ import annotations

import re
from typing import ClassVar

from msgspec import Struct

from tenfold.plan.draft import TO_BE_WRITTEN, Draft, Goal, Piece, as_show
from tenfold.plan.stages.condense import BATCHES, after_floor, becomes, replacement
from tenfold.record.block import Say, Show
from tenfold.record.message import Message, calls_of, text_of
from tenfold.view.units import Shown
from tenfold.wire.marks import summary_text

LEAST_TEXT = 50
"""Tokens for the archive's first line and the line that says what is omitted."""


class ImportanceScoringConfig(Struct, frozen=True):
    """How important a message is: by its role, its age, and what it says. A tool's message counts like a user's.

    `keywords` match whole words only, so `fix` is not found in `prefix`.
    """

    system: float = 10.0
    user: float = 5.0
    assistant: float = 3.0
    decay: float = 0.95
    question: float = 2.0
    tool_calls: float = 4.0
    keyword: float = 1.5
    per_hundred_characters: float = 1.0
    most_for_length: float = 3.0
    keywords: tuple[str, ...] = ("error", "fail", "bug", "fix", "decision", "agreed", "constraint", "requirement")

    def score(self, message: Message, index: int, total: int) -> float:
        """Returns the score of the message at `index` of `total`."""
        text = text_of(message)
        weight = {"system": self.system, "assistant": self.assistant}.get(message.role, self.user)
        words = (rf"\b{re.escape(word)}\b" for word in dict.fromkeys(self.keywords))
        found = sum(1 for word in words if re.search(word, text, re.IGNORECASE))
        return (
            weight * self.decay ** (total - 1 - index)
            + (self.question if "?" in text else 0.0)
            + (self.tool_calls if calls_of(message) else 0.0)
            + self.keyword * found
            + min(len(text) / 100 * self.per_hundred_characters, self.most_for_length)
        )


class Fold(Struct, frozen=True):
    """Covers everything but the newest `keep_recent` messages, as whole units and as far as these fit the target.

    With `scoring`, the most important covered units stay verbatim, in order, within `goal.user_budget`.
    """

    keep_recent: int = 5
    scoring: ImportanceScoringConfig | None = None
    name: ClassVar[str] = "fold"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Plans one archive over all that is covered. Changes nothing where nothing new was said since the last one."""
        first = after_floor(draft)
        allotment = max(goal.summary, goal.frame + LEAST_TEXT)
        covered = draft.pieces[first : self._cut(draft, goal, first, allotment)]
        stays = self._important(covered, goal)
        fresh = (s for p in covered if not _told(p) and p.first not in stays for s in p.shown())
        if all(s.key in draft.held for s in fresh):
            return draft
        kept = [s for p in covered for s in p.shown() if s.key in draft.held or p.first in stays]
        show: tuple[Show, ...] = (Say(TO_BE_WRITTEN), *(as_show(s) for s in kept))
        sizes = (allotment, *draft.sizer(kept))
        levels = [replacement(draft, u.ref).level for p in covered for u in p.units if u.ref is not None]
        piece = Piece(
            tuple(u for p in covered for u in p.units),
            sum(p.before for p in covered),
            sum(sizes),
            sizes,
            BATCHES,
            show,
            becomes(covered, len(kept), "the archive"),
            allotment=allotment,
            level=max(levels, default=-1) + 1,
        )
        return draft.swap(first, piece, until=first + len(covered))

    def _cut(self, draft: Draft, goal: Goal, first: int, allotment: int) -> int:
        """Returns the index where the kept tail begins."""
        protected_tokens = sum(draft.sizer([s for p in draft.pieces[first:] for s in p.shown() if s.key in draft.held]))
        budget = goal.target - sum(p.tokens for p in draft.pieces[:first]) - draft.rest - allotment - protected_tokens
        count = len(list(draft.view.shown())) - sum(len(p.shown()) for p in draft.pieces)
        index = len(draft.pieces)
        while index > first and count < self.keep_recent:
            piece = draft.pieces[index - 1]
            own = sum(draft.sizer([s for s in piece.shown() if s.key in draft.held]))
            if _told(piece) or piece.tokens - own > budget:
                break
            index -= 1
            count += len(piece.shown())
            budget -= piece.tokens - own
        return index

    def _important(self, covered: tuple[Piece, ...], goal: Goal) -> frozenset[int]:
        """Returns the first positions of the units that stay verbatim."""
        if self.scoring is None:
            return frozenset()
        shown = [(p, s) for p in covered for s in p.shown()]
        best: dict[int, float] = {}
        for index, (piece, each) in enumerate(shown):
            if each.original and piece.units[0].ref is None and not piece.held:
                best[piece.first] = max(best.get(piece.first, 0.0), self.scoring.score(each.message, index, len(shown)))
        tokens = {p.first: p.tokens for p in covered}
        budget, stays = goal.users, set[int]()
        for first in sorted(best, key=lambda at: -best[at]):
            if tokens[first] <= budget:
                budget -= tokens[first]
                stays.add(first)
        return frozenset(stays)


def _told(piece: Piece) -> bool:
    """Whether a piece shows an archive, or another summary."""
    return any(_summary(shown) for shown in piece.shown())


def _summary(shown: Shown) -> bool:
    return shown.message.origin == "tenfold" and summary_text(text_of(shown.message)) is not None
