"""When `tail` compacts, and where it cuts: one summary stands for everything before a recent tail.

The reserve and the tokens to keep say how large the tail is. A cut inside an exchange is marked
(`DraftPiece.cut_positions`), so that the writer can separate the older part of that exchange from the history before
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.draft import MINIMAL_SUMMARY_TOKENS, Draft, DraftPiece, Goal
from tenfold.compaction.plan.recent_tail import TailSize, find_tail
from tenfold.compaction.plan.stages.condense import build_summary
from tenfold.compaction.trigger.limits import Limits, clamp_limits, divide_window
from tenfold.core.record.block import Block
from tenfold.core.record.token_reading import NO_TOKENS, Counted
from tenfold.core.view.units import MessageKey


class CutSizes(Struct, frozen=True):
    """How many tokens the tail may have, and the text of the summary.

    `ceiling` is how far a last step may take the view above the target, rather than be summarized unseen: four fifths
    of the trigger, 0 where the caller named the target.
    """

    tail: Counted
    text: Counted
    ceiling: Counted = NO_TOKENS


class ReserveBudgets(Struct, frozen=True):
    """The newest `keep_recent_tokens` stay, and a summary takes at most 0.8 of `reserve_tokens`.

    The published numbers are upper bounds for large windows, and are clamped in smaller ones.
    """

    reserve_tokens: int = 8_192
    keep_recent_tokens: int = 16_384

    def get_reserve(self, window: int) -> int:
        """Returns the reserve in this window: at most half of it."""
        return min(self.reserve_tokens, window // 2)

    def get_tail_tokens(self, window: int, floor: int) -> int:
        """Returns the recent tail in this window: at most half of what reserve and floor leave."""
        return min(self.keep_recent_tokens, max(0, window - self.get_reserve(window) - floor) // 2)

    def get_summary_budget(self, window: int, floor: int) -> int:
        """Returns the summary's budget: 0.8 of the reserve, at most half of what reserve, floor and tail leave."""
        rest = window - self.get_reserve(window) - floor - self.get_tail_tokens(window, floor)
        return min(int(0.8 * self.get_reserve(window)), max(0, rest) // 2)

    def get_target(self, window: int, floor: int) -> int:
        """Returns what a compaction aims at: floor + 4/3 x (tail + summary). A third is for facts."""
        return floor + (self.get_tail_tokens(window, floor) + self.get_summary_budget(window, floor)) * 4 // 3

    def find_sizes(self, goal: Goal, floor: int) -> CutSizes:
        """Finds the sizes for a goal. `floor` is what is sent besides the view, in tokens.

        Sizes of the window are converted to the counter's tokens, as the target was; not where the caller named the
        target.
        """
        window = goal.window
        if window is None:
            return CutSizes(Counted(self.keep_recent_tokens), Counted(int(0.8 * self.reserve_tokens)))
        ceiling = (window - self.get_reserve(window)) * 4 // 5
        aim = max(1, min(self.get_target(window, 0), ceiling))
        scale = 1.0 if goal.exact else min(1.0, goal.target / aim)
        return CutSizes(
            Counted(int(self.get_tail_tokens(window, floor) * scale)),
            Counted(self.get_summary_budget(window, floor)),
            NO_TOKENS if goal.exact else Counted(int(ceiling * scale)),
        )


class ReserveTrigger(Struct, frozen=True):
    """Keeps the reserve of its budgets free."""

    budgets: ReserveBudgets

    def get_limits(self, window: int, *, output_reserve: int, floor: int) -> Limits:
        """Triggers above window - reserve, not at it. Aims at what the budgets need."""
        soft, target = window - self.budgets.get_reserve(window), self.budgets.get_target(window, floor)
        parts = divide_window(window, output_reserve)
        return clamp_limits(parts, soft=soft, target=target, inclusive=False)


PREFIX_SHARE = 5 / 8
"""The budget for the start of a split exchange, relative to that for the history: 0.5 to 0.8 of the reserve."""


class CutStage(Struct, frozen=True):
    """Summarizes what lies before the newest tokens to keep. Protected messages stay before the summary.

    The tail shrinks where the target leaves less. A last step that is larger may take the view up to the ceiling.
    """

    budgets: ReserveBudgets = ReserveBudgets()
    name: ClassVar[str] = "cut"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Plans one summary over everything before the cut. Changes nothing where nothing new lies there."""
        first, kept = draft.floor_end, draft.measure_kept()
        sizes = self.budgets.find_sizes(goal, draft.floor)
        narrative = min(goal.narrative_budget, sizes.text)
        least = min(narrative, MINIMAL_SUMMARY_TOKENS)
        available = goal.target - draft.count_fixed(kept) - goal.summary_overhead - goal.facts_budget
        largest_summary = available + max(NO_TOKENS, sizes.ceiling - goal.target)
        cut = find_cut_point(
            draft, sizes.tail, kept=kept, budget=available - narrative, largest=largest_summary - least
        )
        covered = draft.pieces[first : cut.index]
        if not has_new_messages(draft, covered):
            return draft
        tail = draft.pieces[cut.index :]
        unkept = sum(p.tokens - sum(kept.get(s.key, 0) for s in p.get_visible_messages()) for p in tail)
        narrative = max(least, min(narrative, largest_summary - unkept))
        stays = draft.reading.to_provider_part(sum((p.tokens for p in tail), draft.fixed_tokens - draft.floor))
        piece = build_summary(draft, covered, kept, goal.summary_overhead + goal.facts_budget + narrative)
        piece = replace(piece, reason=f"{piece.reason}; a tail of {stays:,} tokens stays")
        out = draft.with_piece(first, piece, until=cut.index)
        if cut.exchange_start is None:
            return out
        return _with_prefix_budget(out, goal, first, draft.pieces[cut.exchange_start].first)


def _with_prefix_budget(draft: Draft, goal: Goal, index: int, exchange_start: int) -> Draft:
    """Marks the text at `index` to be written in two parts, and adds as much budget as the target leaves."""
    piece = draft.pieces[index]
    narrative = piece.summary_budget - goal.summary_overhead - goal.facts_budget
    more = max(NO_TOKENS, min(Counted(int(narrative * PREFIX_SHARE)), goal.target - draft.tokens))
    wider = piece.with_more_budget(more, f"{piece.reason}; the exchange at {exchange_start} is split")
    return draft.with_piece(index, replace(wider, cut_positions=(exchange_start,)))


# -- where the tail begins ---------------------------------------------------------------------------------------------


class CutPoint(Struct, frozen=True):
    """Where the tail begins: the index of its first piece.

    `exchange_start` is the index of the piece that opens the exchange which the cut splits, None if it splits none.
    """

    index: int
    exchange_start: int | None = None


def find_cut_point(
    draft: Draft, tail_tokens: Counted, *, kept: Mapping[MessageKey, Counted], budget: Counted, largest: Counted
) -> CutPoint:
    """Finds where the newest `tail_tokens` begin, counting every visible message. `budget` limits those not `kept`.

    If the sum never gets that far, everything stays. An earlier summary is never part of the tail. If nothing visible
    would be left, the tail is the last visible piece, provided that it takes at most `largest`. That is the step with
    the last tool result, never the oldest message.
    """
    first = draft.floor_end
    size = TailSize(tokens=tail_tokens, budget=budget)
    index = find_tail(draft, size, first, kept=kept, ends_before=_has_replaced_range).start
    last = next((i for i in reversed(range(len(draft.pieces))) if draft.pieces[i].get_visible_messages()), -1)
    if index > last >= first and draft.view.open_step is None:
        piece = draft.pieces[last]
        unkept = piece.tokens - sum(kept.get(s.key, 0) for s in piece.get_visible_messages())
        if unkept > largest or _has_replaced_range(piece):
            return CutPoint(len(draft.pieces))
        index = last
    exchange = _find_split_exchange(draft, index, first)
    while index > first and _is_silent(draft, draft.pieces[index - 1]):
        index -= 1
    return CutPoint(index, exchange)


def has_new_messages(draft: Draft, pieces: Iterable[DraftPiece]) -> bool:
    """Whether a summary of these pieces would say something new: a message that is not protected, nor summarized."""
    return any(
        s.key not in draft.protected for p in pieces if not _has_replaced_range(p) for s in p.get_visible_messages()
    )


def _find_split_exchange(draft: Draft, index: int, first: int) -> int | None:
    """Returns the piece that opens the exchange which a cut at `index` splits.

    None if the cut opens an exchange itself, if no opening is found after an earlier summary, or if only protected
    messages of the exchange would be summarized.
    """
    if index < len(draft.pieces) and _is_exchange_start(draft.pieces[index]):
        return None
    for each in reversed(range(first, min(index, len(draft.pieces)))):
        piece = draft.pieces[each]
        if _is_exchange_start(piece):
            return each if has_new_messages(draft, draft.pieces[each:index]) else None
        if _has_replaced_range(piece):
            return None
    return None


def _is_exchange_start(piece: DraftPiece) -> bool:
    """Whether a piece opens an exchange: words of a user or a program, a user's command, a branch summary."""
    shown = piece.get_visible_messages()
    if not shown or shown[0].message.role != "user":
        return False
    return shown[0].is_original or (piece.units[0].block_part is not None and shown[0].original_position is not None)


def _has_replaced_range(piece: DraftPiece) -> bool:
    """Whether a Block shows something in a piece for a whole range: a summary, but also a line or a marker."""
    return any(not s.is_original and s.original_position is None for s in piece.get_visible_messages())


def _is_silent(draft: Draft, piece: DraftPiece) -> bool:
    """Whether a piece shows nothing and is no Block, which belongs to what is summarized."""
    return not piece.get_visible_messages() and not isinstance(draft.view.path.get_entry(piece.first), Block)
