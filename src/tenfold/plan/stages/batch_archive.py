"""The stage of `clip`: everything before the kept tail becomes one archive of batches, at the head of the view."""

from __future__ import annotations

import re
from typing import ClassVar

from msgspec import Struct

from tenfold.plan.draft import UNWRITTEN_SUMMARY, Draft, DraftPiece, Goal, to_shown_item
from tenfold.plan.stages.condense import BATCHES, describe_change, find_floor_end, get_replacement
from tenfold.record.block import ShownItem, Substitute
from tenfold.record.message import Message, get_text, get_tool_calls
from tenfold.view.units import VisibleMessage
from tenfold.wire.marks import extract_summary_text

MIN_ARCHIVE_TOKENS = 50
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
        text = get_text(message)
        weight = {"system": self.system, "assistant": self.assistant}.get(message.role, self.user)
        words = (rf"\b{re.escape(word)}\b" for word in dict.fromkeys(self.keywords))
        found = sum(1 for word in words if re.search(word, text, re.IGNORECASE))
        return (
            weight * self.decay ** (total - 1 - index)
            + (self.question if "?" in text else 0.0)
            + (self.tool_calls if get_tool_calls(message) else 0.0)
            + self.keyword * found
            + min(len(text) / 100 * self.per_hundred_characters, self.most_for_length)
        )


class FoldStage(Struct, frozen=True):
    """Covers everything but the newest `keep_recent` messages, as whole units and as far as these fit the target.

    With `scoring`, the most important covered units stay verbatim, in order, within `goal.user_budget`.
    """

    keep_recent: int = 5
    scoring: ImportanceScoringConfig | None = None
    name: ClassVar[str] = "fold"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Plans one archive over all that is covered. Changes nothing where nothing new was said since the last one."""
        first = find_floor_end(draft)
        allotment = max(goal.summary_budget, goal.summary_overhead + MIN_ARCHIVE_TOKENS)
        covered = draft.pieces[first : self._find_tail_start(draft, goal, first, allotment)]
        stays = self._choose_important(covered, goal)
        fresh = (s for p in covered if not _has_summary(p) and p.first not in stays for s in p.get_visible_messages())
        if all(s.key in draft.protected for s in fresh):
            return draft
        kept = [s for p in covered for s in p.get_visible_messages() if s.key in draft.protected or p.first in stays]
        show: tuple[ShownItem, ...] = (Substitute(UNWRITTEN_SUMMARY), *(to_shown_item(s) for s in kept))
        sizes = (allotment, *draft.measure_visible(kept))
        levels = [
            get_replacement(draft, u.block_part).level for p in covered for u in p.units if u.block_part is not None
        ]
        piece = DraftPiece(
            tuple(u for p in covered for u in p.units),
            sum(p.tokens_before for p in covered),
            sum(sizes),
            sizes,
            BATCHES,
            show,
            describe_change(covered, len(kept), "the archive"),
            summary_budget=allotment,
            level=max(levels, default=-1) + 1,
        )
        return draft.with_piece(first, piece, until=first + len(covered))

    def _find_tail_start(self, draft: Draft, goal: Goal, first: int, allotment: int) -> int:
        """Returns the index where the kept tail begins."""
        protected_tokens = sum(
            draft.measure_visible(
                [s for p in draft.pieces[first:] for s in p.get_visible_messages() if s.key in draft.protected]
            )
        )
        budget = (
            goal.target
            - sum(p.tokens for p in draft.pieces[:first])
            - draft.fixed_tokens
            - allotment
            - protected_tokens
        )
        count = len(list(draft.view.get_visible_messages())) - sum(len(p.get_visible_messages()) for p in draft.pieces)
        index = len(draft.pieces)
        while index > first and count < self.keep_recent:
            piece = draft.pieces[index - 1]
            own = sum(draft.measure_visible([s for s in piece.get_visible_messages() if s.key in draft.protected]))
            if _has_summary(piece) or piece.tokens - own > budget:
                break
            index -= 1
            count += len(piece.get_visible_messages())
            budget -= piece.tokens - own
        return index

    def _choose_important(self, covered: tuple[DraftPiece, ...], goal: Goal) -> frozenset[int]:
        """Returns the first positions of the units that stay verbatim."""
        if self.scoring is None:
            return frozenset()
        shown = [(p, s) for p in covered for s in p.get_visible_messages()]
        best: dict[int, float] = {}
        for index, (piece, each) in enumerate(shown):
            if each.is_original and piece.units[0].block_part is None and not piece.protected_reason:
                best[piece.first] = max(best.get(piece.first, 0.0), self.scoring.score(each.message, index, len(shown)))
        tokens = {p.first: p.tokens for p in covered}
        budget, stays = goal.user_budget, set[int]()
        for first in sorted(best, key=lambda at: -best[at]):
            if tokens[first] <= budget:
                budget -= tokens[first]
                stays.add(first)
        return frozenset(stays)


def _has_summary(piece: DraftPiece) -> bool:
    """Whether a piece shows an archive, or another summary."""
    return any(_is_summary(shown) for shown in piece.get_visible_messages())


def _is_summary(shown: VisibleMessage) -> bool:
    return shown.message.origin == "tenfold" and extract_summary_text(get_text(shown.message)) is not None
