"""The stage of `clip`: everything before the kept tail becomes one archive of batches, at the head of the view."""

from __future__ import annotations

import re
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.draft import UNWRITTEN_SUMMARY, Draft, DraftPiece, Goal, join_pieces
from tenfold.compaction.plan.recent_tail import TailSize, find_tail
from tenfold.compaction.plan.stages.condense import describe_change
from tenfold.core.record.block import Substitute
from tenfold.core.record.message import Message, get_text, get_tool_calls
from tenfold.core.record.token_reading import NO_TOKENS

BATCHES = "batches"
"""The kind of a replacement by an archive of batches."""
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
    """Covers everything but the newest `keep_recent_messages`, as whole units and as far as these fit the target.

    With `scoring`, the most important covered units stay verbatim, in order, within `goal.user_budget`.
    """

    keep_recent_messages: int = 5
    scoring: ImportanceScoringConfig | None = None
    name: ClassVar[str] = "fold"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Plans one archive over all that is covered. Changes nothing where nothing new was said since the last one."""
        first, kept = draft.floor_end, draft.measure_kept()
        size = TailSize(self.keep_recent_messages)
        start = find_tail(draft, size, first, kept=kept, ends_before=lambda piece: piece.has_summary_text).start
        least = sum(
            (piece.tokens for piece in draft.pieces[first:start]), NO_TOKENS
        )  # an archive of this size would save nothing
        allotment = max(min(goal.summary_budget, least - 1), goal.summary_overhead + MIN_ARCHIVE_TOKENS)
        size = replace(size, budget=goal.target - draft.count_fixed(kept) - allotment)
        start = find_tail(draft, size, first, kept=kept, ends_before=lambda piece: piece.has_summary_text).start
        covered = draft.pieces[first:start]
        stays = self._choose_important(covered, goal)
        fresh = (s for p in covered if not (p.has_summary_text or p.first in stays) for s in p.get_visible_messages())
        if all(s.key in draft.protected for s in fresh):
            return draft
        items = draft.measure_items(
            [s for p in covered for s in p.get_visible_messages() if s.key in draft.protected or p.first in stays]
        )
        reason = describe_change(covered, len(items), "the archive")
        piece = join_pieces(covered, [(Substitute(UNWRITTEN_SUMMARY), allotment), *items], BATCHES, reason)
        return draft.with_piece(first, piece, until=start)

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
