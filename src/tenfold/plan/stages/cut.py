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

from tenfold.plan.draft import MINIMAL_SUMMARY, Draft, Goal, Piece
from tenfold.plan.stages.condense import after_floor, summarized
from tenfold.record.block import Block
from tenfold.trigger.triggers import Reserve
from tenfold.view.units import Shown

PREFIX_SHARE = 5 / 8
"""The budget for the start of a split exchange, relative to that for the history: 0.5 to 0.8 of the reserve."""


class CutPoint(Struct, frozen=True):
    """Where the tail begins: the index of its first piece.

    `exchange_start` is the index of the piece that opens the exchange which the cut splits, None if it splits none.
    """

    index: int
    turn: int | None = None


class Cut(Struct, frozen=True):
    """Summarizes what lies before the newest `reserve.keep_recent_tokens`. Protected messages stay before the summary.

    The published sizes are clamped to the window, and the tail shrinks where the target leaves less.
    """

    sizes: Reserve = Reserve()
    name: ClassVar[str] = "cut"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """Plans one summary over everything before the cut. Changes nothing where nothing new lies there."""
        first = after_floor(draft)
        protected = sum(size for p in draft.pieces[first:] for s, size in _weighed(draft, p) if s.key in draft.held)
        fixed = sum(p.tokens for p in draft.pieces[:first]) + draft.rest + protected
        narrative = min(goal.narrative, self._most(draft, goal))
        least = min(narrative, MINIMAL_SUMMARY)
        budget = goal.target - fixed - goal.frame - goal.facts - narrative
        largest_summary = budget + narrative + self._spare(goal)
        cut = cut_point(draft, self._keep(draft, goal), room=budget, largest=largest_summary - least)
        covered = draft.pieces[first : cut.index]
        if not any(_fresh(draft, p) for p in covered):
            return draft
        tail = sum(_free(draft, p) for p in draft.pieces[cut.index :])
        narrative = max(least, min(narrative, largest_summary - tail))
        piece = summarized(draft, covered, {}, goal.frame + goal.facts + narrative)
        stays = sum(p.tokens for p in draft.pieces[cut.index :]) + draft.rest - draft.floor
        piece = replace(piece, why=f"{piece.why}; a tail of {stays:,} tokens stays")
        out = draft.swap(first, piece, until=cut.index)
        return out if cut.turn is None else _with_prefix(out, goal, first, draft.pieces[cut.turn].first)

    def _keep(self, draft: Draft, goal: Goal) -> int:
        if goal.window is None:
            return self.sizes.keep_recent_tokens
        return int(self.sizes.keep_recent(goal.window, draft.floor) * self._scale(goal))

    def _most(self, draft: Draft, goal: Goal) -> int:
        if goal.window is None:
            return int(0.8 * self.sizes.reserve_tokens)
        return self.sizes.summary(goal.window, draft.floor)

    def _spare(self, goal: Goal) -> int:
        """Returns how far a last step may take the view above the target, rather than be summarized unseen.

        Up to four fifths of the trigger; 0 where the caller named the target.
        """
        if goal.window is None or goal.exact:
            return 0
        soft = self.sizes.limits(goal.window, output_reserve=0, floor=0).soft
        return max(0, int(soft * 4 // 5 * self._scale(goal)) - goal.target)

    def _scale(self, goal: Goal) -> float:
        """Converts window tokens to the counter's tokens, as was done for the trigger's target."""
        if goal.window is None or goal.exact:
            return 1.0
        return min(1.0, goal.target / self.sizes.limits(goal.window, output_reserve=0, floor=0).target)


class CutAt(Struct, frozen=True):
    """Summarizes what lies before the entry at `position`: for a summary that exists already and has its own size."""

    position: int
    name: ClassVar[str] = "cut-at"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:  # noqa: ARG002 - the place is given, no size decides
        """Plans one summary over everything before the position. Changes nothing where no piece begins there."""
        first = after_floor(draft)
        starts = [p.first for p in draft.pieces]
        if draft.view.step is not None:
            starts.append(draft.view.step.first)
        if self.position not in starts or starts.index(self.position) <= first:
            return draft
        until = starts.index(self.position)
        piece = summarized(draft, draft.pieces[first:until], {}, 1)
        return draft.swap(first, piece, until=until)


def cut_point(draft: Draft, keep: int, *, room: int, largest: int) -> CutPoint:
    """Finds where the newest `tail_tokens` begin, counting every visible message. `budget` limits the unprotected ones.

    If nothing visible would be left, the tail is the last visible piece, provided that it takes at most `largest`. That
    is the step with the last tool result, never the oldest message.
    """
    first = after_floor(draft)
    index = _reached(draft, keep, room, first)
    last = next((i for i in reversed(range(len(draft.pieces))) if draft.pieces[i].shown()), -1)
    if index > last >= first and draft.view.step is None:
        if _free(draft, draft.pieces[last]) > largest or _summarises(draft.pieces[last]):
            return CutPoint(len(draft.pieces))
        index = last
    turn = _turn(draft, index, first)
    while index > first and not draft.pieces[index - 1].shown() and not _is_block(draft, draft.pieces[index - 1]):
        index -= 1
    return CutPoint(index, turn)


def _reached(draft: Draft, keep: int, room: int, first: int) -> int:
    """Finds the first piece of the tail: walks back to the message with which the sum reaches `tail_tokens`.

    The cut lies there if that message opens a piece, else at the next piece, so the tail may be smaller. If the sum
    never gets that far, everything stays. An earlier summary is never part of the tail.
    """
    total, unprotected = draft.rest - draft.floor, 0
    if total >= keep:
        return len(draft.pieces)
    for index in reversed(range(first, len(draft.pieces))):
        piece = draft.pieces[index]
        if _summarises(piece):
            return index + 1
        for number, (shown, size) in reversed(list(enumerate(_weighed(draft, piece)))):
            total += size
            unprotected += size if shown.key not in draft.held else 0
            if unprotected > room or (total >= keep and number):
                return index + 1
            if total >= keep:
                return index
    return first


def _turn(draft: Draft, index: int, first: int) -> int | None:
    """Returns the piece that opens the exchange which a cut at `index` splits.

    None if the cut opens an exchange itself, if no opening is found after an earlier summary, or if only protected
    messages of the exchange would be summarized.
    """
    if index < len(draft.pieces) and _opens(draft.pieces[index]):
        return None
    for each in reversed(range(first, min(index, len(draft.pieces)))):
        piece = draft.pieces[each]
        if _opens(piece):
            return each if any(_fresh(draft, p) for p in draft.pieces[each:index]) else None
        if _summarises(piece):
            return None
    return None


def _opens(piece: Piece) -> bool:
    """Whether a piece opens an exchange: words of a user or a program, a user's command, a branch summary."""
    shown = piece.shown()
    if not shown or shown[0].message.role != "user":
        return False
    return shown[0].original or (piece.units[0].ref is not None and shown[0].of is not None)


def _summarises(piece: Piece) -> bool:
    """Whether a piece shows an earlier compaction's summary, which is updated and not summarized again."""
    return any(not s.original and s.of is None for s in piece.shown())


def _fresh(draft: Draft, piece: Piece) -> bool:
    return not _summarises(piece) and any(s.key not in draft.held for s in piece.shown())


def _weighed(draft: Draft, piece: Piece) -> list[tuple[Shown, int]]:
    return list(zip(piece.shown(), piece.sizes if not piece.changed else draft.sizer(piece.shown()), strict=True))


def _free(draft: Draft, piece: Piece) -> int:
    """Counts the tokens of a piece without its protected messages, which stay in view anyway."""
    return sum(size for shown, size in _weighed(draft, piece) if shown.key not in draft.held)


def _is_block(draft: Draft, piece: Piece) -> bool:
    return piece.units[0].ref is None and isinstance(draft.view.path.at(piece.first), Block)


def _with_prefix(draft: Draft, goal: Goal, index: int, turn: int) -> Draft:
    """Marks the text at `index` to be written in two parts, and adds as much budget as the target leaves."""
    piece = draft.pieces[index]
    narrative = piece.allotment - goal.frame - goal.facts
    more = max(0, min(int(narrative * PREFIX_SHARE), goal.target - draft.tokens))
    sizes = (*piece.sizes[:-1], piece.sizes[-1] + more)
    tokens = piece.tokens + more
    wider = replace(piece, sizes=sizes, tokens=tokens, allotment=piece.allotment + more, cuts=(turn,))
    return draft.swap(index, replace(wider, why=f"{piece.why}; the exchange at {turn} is split"))
