"""The stage of the preset `tail`: one summary over everything before a recent tail that is measured in tokens.

It looks for the cut from the newest message backwards. Pieces are whole steps, so a cut never separates a tool call
from its result, and is never made while a call is open. A cut inside an exchange is marked
(`DraftPiece.cut_positions`), so that the writer can separate the older part of that exchange from the history before
it.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct
from msgspec.structs import replace

from tenfold.plan.draft import MINIMAL_SUMMARY_TOKENS, Draft, DraftPiece, Goal
from tenfold.plan.stages.condense import build_summary_piece, find_floor_end
from tenfold.record.block import Block
from tenfold.trigger.limits import ReserveTrigger
from tenfold.view.units import VisibleMessage

PREFIX_SHARE = 5 / 8
"""The budget for the start of a split exchange, relative to that for the history: 0.5 to 0.8 of the reserve."""


class CutPoint(Struct, frozen=True):
    """Where the tail begins: the index of its first piece.

    `exchange_start` is the index of the piece that opens the exchange which the cut splits, None if it splits none.
    """

    index: int
    exchange_start: int | None = None


class CutStage(Struct, frozen=True):
    """Summarizes what lies before the newest `reserve.keep_recent_tokens`. Protected messages stay before the summary.

    The published sizes are clamped to the window, and the tail shrinks where the target leaves less.
    """

    reserve: ReserveTrigger = ReserveTrigger()
    name: ClassVar[str] = "cut"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Plans one summary over everything before the cut. Changes nothing where nothing new lies there."""
        first = find_floor_end(draft)
        protected = sum(
            size for p in draft.pieces[first:] for s, size in _pair_with_tokens(draft, p) if s.key in draft.protected
        )
        fixed = sum(p.tokens for p in draft.pieces[:first]) + draft.fixed_tokens + protected
        narrative = min(goal.narrative_budget, self._get_narrative_limit(draft, goal))
        least = min(narrative, MINIMAL_SUMMARY_TOKENS)
        budget = goal.target - fixed - goal.summary_overhead - goal.facts_budget - narrative
        largest_summary = budget + narrative + self._get_overshoot(goal)
        cut = find_cut_point(draft, self._get_tail_tokens(draft, goal), budget=budget, largest=largest_summary - least)
        covered = draft.pieces[first : cut.index]
        if not any(_has_new_messages(draft, p) for p in covered):
            return draft
        tail = sum(_count_unprotected(draft, p) for p in draft.pieces[cut.index :])
        narrative = max(least, min(narrative, largest_summary - tail))
        piece = build_summary_piece(draft, covered, {}, goal.summary_overhead + goal.facts_budget + narrative)
        stays = sum(p.tokens for p in draft.pieces[cut.index :]) + draft.fixed_tokens - draft.floor
        piece = replace(piece, reason=f"{piece.reason}; a tail of {stays:,} tokens stays")
        out = draft.with_piece(first, piece, until=cut.index)
        return (
            out
            if cut.exchange_start is None
            else _with_prefix_budget(out, goal, first, draft.pieces[cut.exchange_start].first)
        )

    def _get_tail_tokens(self, draft: Draft, goal: Goal) -> int:
        if goal.window is None:
            return self.reserve.keep_recent_tokens
        return int(self.reserve.get_tail_tokens(goal.window, draft.floor) * self._get_counter_scale(goal))

    def _get_narrative_limit(self, draft: Draft, goal: Goal) -> int:
        if goal.window is None:
            return int(0.8 * self.reserve.reserve_tokens)
        return self.reserve.get_summary_budget(goal.window, draft.floor)

    def _get_overshoot(self, goal: Goal) -> int:
        """Returns how far a last step may take the view above the target, rather than be summarized unseen.

        Up to four fifths of the trigger; 0 where the caller named the target.
        """
        if goal.window is None or goal.exact:
            return 0
        soft = self.reserve.get_limits(goal.window, output_reserve=0, floor=0).soft
        return max(0, int(soft * 4 // 5 * self._get_counter_scale(goal)) - goal.target)

    def _get_counter_scale(self, goal: Goal) -> float:
        """Converts window tokens to the counter's tokens, as was done for the trigger's target."""
        if goal.window is None or goal.exact:
            return 1.0
        return min(1.0, goal.target / self.reserve.get_limits(goal.window, output_reserve=0, floor=0).target)


class CutAtStage(Struct, frozen=True):
    """Summarizes what lies before the entry at `position`: for a summary that exists already and has its own size."""

    position: int
    name: ClassVar[str] = "cut-at"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:  # noqa: ARG002 - the place is given, no size decides
        """Plans one summary over everything before the position. Changes nothing where no piece begins there."""
        first = find_floor_end(draft)
        starts = [p.first for p in draft.pieces]
        if draft.view.open_step is not None:
            starts.append(draft.view.open_step.first)
        if self.position not in starts or starts.index(self.position) <= first:
            return draft
        until = starts.index(self.position)
        piece = build_summary_piece(draft, draft.pieces[first:until], {}, 1)
        return draft.with_piece(first, piece, until=until)


def find_cut_point(draft: Draft, tail_tokens: int, *, budget: int, largest: int) -> CutPoint:
    """Finds where the newest `tail_tokens` begin, counting every visible message. `budget` limits the unprotected ones.

    If nothing visible would be left, the tail is the last visible piece, provided that it takes at most `largest`. That
    is the step with the last tool result, never the oldest message.
    """
    first = find_floor_end(draft)
    index = _find_tail_start(draft, tail_tokens, budget, first)
    last = next((i for i in reversed(range(len(draft.pieces))) if draft.pieces[i].get_visible_messages()), -1)
    if index > last >= first and draft.view.open_step is None:
        if _count_unprotected(draft, draft.pieces[last]) > largest or _has_summary(draft.pieces[last]):
            return CutPoint(len(draft.pieces))
        index = last
    turn = _find_split_exchange(draft, index, first)
    while (
        index > first
        and not draft.pieces[index - 1].get_visible_messages()
        and not _is_block(draft, draft.pieces[index - 1])
    ):
        index -= 1
    return CutPoint(index, turn)


def _find_tail_start(draft: Draft, tail_tokens: int, budget: int, first: int) -> int:
    """Finds the first piece of the tail: walks back to the message with which the sum reaches `tail_tokens`.

    The cut lies there if that message opens a piece, else at the next piece, so the tail may be smaller. If the sum
    never gets that far, everything stays. An earlier summary is never part of the tail.
    """
    total, unprotected = draft.fixed_tokens - draft.floor, 0
    if total >= tail_tokens:
        return len(draft.pieces)
    for index in reversed(range(first, len(draft.pieces))):
        piece = draft.pieces[index]
        if _has_summary(piece):
            return index + 1
        for number, (shown, size) in reversed(list(enumerate(_pair_with_tokens(draft, piece)))):
            total += size
            unprotected += size if shown.key not in draft.protected else 0
            if unprotected > budget or (total >= tail_tokens and number):
                return index + 1
            if total >= tail_tokens:
                return index
    return first


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
            return each if any(_has_new_messages(draft, p) for p in draft.pieces[each:index]) else None
        if _has_summary(piece):
            return None
    return None


def _is_exchange_start(piece: DraftPiece) -> bool:
    """Whether a piece opens an exchange: words of a user or a program, a user's command, a branch summary."""
    shown = piece.get_visible_messages()
    if not shown or shown[0].message.role != "user":
        return False
    return shown[0].is_original or (piece.units[0].block_part is not None and shown[0].original_position is not None)


def _has_summary(piece: DraftPiece) -> bool:
    """Whether a piece shows an earlier compaction's summary, which is updated and not summarized again."""
    return any(not s.is_original and s.original_position is None for s in piece.get_visible_messages())


def _has_new_messages(draft: Draft, piece: DraftPiece) -> bool:
    return not _has_summary(piece) and any(s.key not in draft.protected for s in piece.get_visible_messages())


def _pair_with_tokens(draft: Draft, piece: DraftPiece) -> list[tuple[VisibleMessage, int]]:
    return list(
        zip(
            piece.get_visible_messages(),
            piece.sizes if not piece.is_changed else draft.measure_visible(piece.get_visible_messages()),
            strict=True,
        )
    )


def _count_unprotected(draft: Draft, piece: DraftPiece) -> int:
    """Counts the tokens of a piece without its protected messages, which stay in view anyway."""
    return sum(size for shown, size in _pair_with_tokens(draft, piece) if shown.key not in draft.protected)


def _is_block(draft: Draft, piece: DraftPiece) -> bool:
    return piece.units[0].block_part is None and isinstance(draft.view.path.get_entry(piece.first), Block)


def _with_prefix_budget(draft: Draft, goal: Goal, index: int, exchange_start: int) -> Draft:
    """Marks the text at `index` to be written in two parts, and adds as much budget as the target leaves."""
    piece = draft.pieces[index]
    narrative = piece.summary_budget - goal.summary_overhead - goal.facts_budget
    more = max(0, min(int(narrative * PREFIX_SHARE), goal.target - draft.tokens))
    sizes = (*piece.sizes[:-1], piece.sizes[-1] + more)
    tokens = piece.tokens + more
    wider = replace(
        piece, sizes=sizes, tokens=tokens, summary_budget=piece.summary_budget + more, cut_positions=(exchange_start,)
    )
    return draft.with_piece(index, replace(wider, reason=f"{piece.reason}; the exchange at {exchange_start} is split"))
