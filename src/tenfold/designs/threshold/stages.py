"""Stages that put the whole conversation, or all but its newest entries, behind one summary and a continuation.

The continuation is a message of its own that stays in view with the Block. It says that the conversation was compacted,
and quotes the user's current request word for word, secrets aside, so that it need not be searched for in the summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from tenfold.compaction.plan.draft import SUMMARY, UNWRITTEN_SUMMARY, Draft, DraftPiece, Goal, join_pieces
from tenfold.compaction.plan.protected import build_continuation, extract_request, find_request, is_continuation
from tenfold.compaction.plan.stubs import cut_request, render_read_hint
from tenfold.core.record.block import Substitute
from tenfold.core.record.message import Message, Text
from tenfold.core.record.token_reading import NO_TOKENS, Counted
from tenfold.core.text.redaction import redact
from tenfold.core.view.units import VisibleMessage
from tenfold.designs.threshold.trigger import find_entry_tails, get_text_limit

CONTINUATION_KIND = "continuation"
"""The kind of a replacement that shows a recent entry again. The last such entry has the continuation after it; earlier
ones lose an older continuation.
"""
_MIN_SUMMARY_TOKENS = 30
"""Tokens below which no summary is planned: it would say nothing that the facts do not."""


class WholeConversationStage(Struct, frozen=True):
    """Turns everything that is closed into two messages: a summary, and the continuation.

    Pinned messages stay before them. A request with more than text in it stays as well, between the two.
    """

    name: ClassVar[str] = "whole-conversation"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Plans one summary over all closed units after the system prompt, within the limit of its text."""
        return _summarize_until(draft, goal, len(draft.pieces))


class KeepRecentStage(Struct, frozen=True):
    """Turns all but the newest entries into a summary. The continuation stands after the entries that stay.

    A tool result and its call are never separated. `max_entries` is how many entries may follow a summary; three tenths
    of them stay, at least `min_entries`. While that is too large for the trigger, it tries half as many, `attempts`
    times in all. Then it tries just the last steps, in case a long run of steps made all of these too large. After that
    nothing stays.
    """

    max_entries: int = 20
    attempts: int = 3
    min_entries: int = 3
    name: ClassVar[str] = "keep-recent"
    structural: ClassVar[bool] = False

    @property
    def keep_recent_entries(self) -> int:
        """How many entries stay at first."""
        return max(self.min_entries, self.max_entries * 30 // 100)

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Takes the first try that leaves a fifth free below the size from which the trigger acts again."""
        counts = [self.keep_recent_entries]
        for _ in range(1, self.attempts):
            counts.append(max(self.min_entries, counts[-1] // 2))
        for start in find_entry_tails(draft, counts, self.min_entries):
            tried = _summarize_until(draft, goal, start)
            if tried.tokens <= _get_limit(draft, goal) and tried.pieces != draft.pieces:
                return tried
        return _summarize_until(draft, goal, len(draft.pieces))


# -- what replaces them ------------------------------------------------------------------------------------------------


def _summarize_until(draft: Draft, goal: Goal, end: int) -> Draft:
    """Puts the pieces before `end` behind one summary, and the continuation after the last closed entry."""
    first = draft.floor_end
    covered = draft.pieces[first:end]
    messages = [s for p in covered for s in p.get_visible_messages()]
    request = find_request(draft.view)
    is_long_request = any(piece.is_changed for piece in covered)  # alone too large, so its excerpt stands there already
    if not is_long_request and not any(s is not request and not is_continuation(s.message) for s in messages):
        return draft
    request_key, position = (request.key, request.original_position) if request is not None else (None, None)
    before = draft.measure_items([s for s in messages if s.key in draft.protected and s.key != request_key])
    after = draft.measure_items(
        [s for s in messages if s.key == request_key and s.is_original and not _has_only_text(s.message)]
    )
    continuation = draft.measure_substitute(_fit_continuation(draft, goal, request), position)
    other_tokens = sum((size for _, size in (*before, *after, continuation)), NO_TOKENS)
    budget = _get_summary_budget(draft, goal, covered, other_tokens)
    items = [*before, (Substitute(UNWRITTEN_SUMMARY), budget), *after]
    last = next((i for i in reversed(range(end, len(draft.pieces))) if draft.pieces[i].get_visible_messages()), None)
    if last is None:
        items.append(continuation)
    else:
        for index in range(end, last + 1):
            draft = draft.with_piece(index, _without_continuation(draft, draft.pieces[index]))
        moved = [*draft.pieces[last].get_sized_items(), continuation]
        why = "stays, with the continuation after it"
        draft = draft.with_piece(last, draft.pieces[last].with_items(moved, CONTINUATION_KIND, why))
    reason = f"{len(messages):,} messages by one summary and a continuation"
    reason += f", {len(before)} of them kept" if before else ""
    return draft.with_piece(first, join_pieces(covered, items, SUMMARY, reason), until=end)


def _has_only_text(message: Message) -> bool:
    return all(isinstance(part, Text) for part in message.parts)


def _without_continuation(draft: Draft, piece: DraftPiece) -> DraftPiece:
    """Returns a piece that stays, without an older continuation, which the new one replaces."""
    shown = piece.get_visible_messages()
    stays = [s for s in shown if not is_continuation(s.message)]
    if len(stays) == len(shown):
        return piece
    return piece.with_items(draft.measure_items(stays), CONTINUATION_KIND, "stays, without the older continuation")


def _get_summary_budget(draft: Draft, goal: Goal, covered: Sequence[DraftPiece], other_tokens: Counted) -> Counted:
    """Returns the summary's budget: its text at most halves what it covers, and keeps the view within the limit.

    Together with what stands beside it, the summary takes at most three quarters of what it covers, so that a Block is
    worth it.
    """
    inside = sum((p.tokens for p in covered), NO_TOKENS)
    fixed = goal.summary_overhead + goal.facts_budget
    available = min(_get_limit(draft, goal) - (draft.tokens - inside), inside * 3 // 4) - other_tokens - fixed
    most = goal.narrative_budget if goal.window is None else get_text_limit(goal.window)
    return fixed + max(_MIN_SUMMARY_TOKENS, min(most, inside // 2, available))


def _get_limit(draft: Draft, goal: Goal) -> Counted:
    """Returns the size to stay under: the caller's target, or four fifths of what triggers again."""
    return goal.target if goal.exact else (draft.limit or goal.target) * 4 // 5


# -- the continuation --------------------------------------------------------------------------------------------------


def _fit_continuation(draft: Draft, goal: Goal, request: VisibleMessage | None) -> Message:
    """Builds the continuation with the request in it: whole up to a quarter of the target, else head and tail.

    It says how much is left out, and where to read it.
    """
    if request is None:
        return build_continuation("")
    text = redact(extract_request(request.message) or _join_text(request.message))
    most = max(goal.target // 4, draft.measure_messages([build_continuation("")])[0] + _MIN_SUMMARY_TOKENS)

    def can_fit(request_text: str) -> bool:
        return draft.measure_messages([build_continuation(request_text)])[0] <= most

    if can_fit(text):
        return build_continuation(text)
    at = request.original_position
    hint = render_read_hint(goal.recall, draft.view.path.get_entry(at).id) if at is not None else ""
    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if can_fit(cut_request(text, middle, hint)) else (low, middle)
    return build_continuation(cut_request(text, low, hint))


def _join_text(message: Message) -> str:
    return "\n".join(part.text for part in message.parts if isinstance(part, Text))
