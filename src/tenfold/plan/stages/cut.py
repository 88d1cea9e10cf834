"""The stage of the preset `tail`: one summary over everything before a recent tail that is measured in tokens.

The cut is looked for from the newest message backwards. Pieces are whole steps, so a cut never parts a call from its
result, and is never made while a call is open. A cut inside an exchange says so (`Piece.cuts`), so that the part of
the exchange that goes can be told apart from the history before it.
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
"""The room for the beginning of a split exchange, against that for the history: 0.5 to 0.8 of the reserve."""


class CutPoint(Struct, frozen=True):
    """Where the tail begins: the index of its first piece.

    `turn` is the index of the piece that opens the exchange which the cut splits, None where it splits none.
    """

    index: int
    turn: int | None = None


class Cut(Struct, frozen=True):
    """Summarises what lies before the newest `sizes.keep_recent_tokens`; held messages stay before the summary.

    The published sizes are clamped to the window, and the tail shrinks where the target leaves less.
    """

    sizes: Reserve = Reserve()
    name: ClassVar[str] = "cut"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:
        """One summary over all before the cut; the same draft where nothing there is left to summarise."""
        first = after_floor(draft)
        held = sum(size for p in draft.pieces[first:] for s, size in _weighed(draft, p) if s.key in draft.held)
        fixed = sum(p.tokens for p in draft.pieces[:first]) + draft.rest + held
        narrative = min(goal.narrative, self._most(draft, goal))
        least = min(narrative, MINIMAL_SUMMARY)
        room = goal.target - fixed - goal.frame - goal.facts - narrative
        most = room + narrative + self._spare(goal)
        cut = cut_point(draft, self._keep(draft, goal), room=room, largest=most - least)
        covered = draft.pieces[first : cut.index]
        if not any(_fresh(draft, p) for p in covered):
            return draft
        tail = sum(_free(draft, p) for p in draft.pieces[cut.index :])
        narrative = max(least, min(narrative, most - tail))
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
        """How far above the target a last step may take the view rather than be summarised unseen.

        Up to four fifths of the trigger; nothing where the caller named the target.
        """
        if goal.window is None or goal.exact:
            return 0
        soft = self.sizes.limits(goal.window, output_reserve=0, floor=0).soft
        return max(0, int(soft * 4 // 5 * self._scale(goal)) - goal.target)

    def _scale(self, goal: Goal) -> float:
        """What a token of the window is in the counter's tokens: the trigger's target was converted in the same way."""
        if goal.window is None or goal.exact:
            return 1.0
        return min(1.0, goal.target / self.sizes.limits(goal.window, output_reserve=0, floor=0).target)


class CutAt(Struct, frozen=True):
    """Summarises what lies before the entry at `position`: for a summary that is at hand, and whose size is its own."""

    position: int
    name: ClassVar[str] = "cut-at"
    structural: ClassVar[bool] = False

    def apply(self, draft: Draft, goal: Goal) -> Draft:  # noqa: ARG002 - the place is given, no size decides
        """One summary over all before the position; the same draft where no piece begins there."""
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
    """Where the newest `keep` tokens begin, every visible message weighed; `room` bounds what of them is not held.

    Where nothing visible would be left of the tail, it is the last visible piece if that takes at most `largest`: the
    call that owns the last result, not the oldest message.
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
    """The first piece of the tail: walks back to the message with which the sum reaches `keep`.

    The cut is there if that message opens a piece, else at the next piece, so the tail may be smaller than `keep`.
    Where the sum never reaches it, everything stays. An earlier summary is never part of the tail.
    """
    seen, taken = draft.rest - draft.floor, 0
    if seen >= keep:
        return len(draft.pieces)
    for index in reversed(range(first, len(draft.pieces))):
        piece = draft.pieces[index]
        if _summarises(piece):
            return index + 1
        for number, (shown, size) in reversed(list(enumerate(_weighed(draft, piece)))):
            seen += size
            taken += size if shown.key not in draft.held else 0
            if taken > room or (seen >= keep and number):
                return index + 1
            if seen >= keep:
                return index
    return first


def _turn(draft: Draft, index: int, first: int) -> int | None:
    """The piece that opens the exchange which a cut at `index` splits.

    None where the cut opens one itself, where none is found after an earlier summary, or where nothing of the exchange
    would go but what is held.
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
    """Whether a piece opens an exchange: what a user or a program says, a command the user ran, a branch summary."""
    shown = piece.shown()
    if not shown or shown[0].message.role != "user":
        return False
    return shown[0].original or (piece.units[0].ref is not None and shown[0].of is not None)


def _summarises(piece: Piece) -> bool:
    """Whether a summary of an earlier compaction stands in a piece: it is updated, and no message to summarise."""
    return any(not s.original and s.of is None for s in piece.shown())


def _fresh(draft: Draft, piece: Piece) -> bool:
    return not _summarises(piece) and any(s.key not in draft.held for s in piece.shown())


def _weighed(draft: Draft, piece: Piece) -> list[tuple[Shown, int]]:
    return list(zip(piece.shown(), piece.sizes if not piece.changed else draft.sizer(piece.shown()), strict=True))


def _free(draft: Draft, piece: Piece) -> int:
    """Tokens of a piece without its held messages, which stay in view either way."""
    return sum(size for shown, size in _weighed(draft, piece) if shown.key not in draft.held)


def _is_block(draft: Draft, piece: Piece) -> bool:
    return piece.units[0].ref is None and isinstance(draft.view.path.at(piece.first), Block)


def _with_prefix(draft: Draft, goal: Goal, index: int, turn: int) -> Draft:
    """The draft with the text at `index` to be written in two parts, and as much more room as the target leaves."""
    piece = draft.pieces[index]
    narrative = piece.allotment - goal.frame - goal.facts
    more = max(0, min(int(narrative * PREFIX_SHARE), goal.target - draft.tokens))
    sizes = (*piece.sizes[:-1], piece.sizes[-1] + more)
    tokens = piece.tokens + more
    wider = replace(piece, sizes=sizes, tokens=tokens, allotment=piece.allotment + more, cuts=(turn,))
    return draft.swap(index, replace(wider, why=f"{piece.why}; the exchange at {turn} is split"))
