"""Where a recent tail begins: the one walk back from the newest message, which every stage that keeps a tail uses.

The open step belongs to the tail and counts first. Pieces are whole units, so a tail never separates a tool call from
its result. How large a tail is, `TailSize` says, in the unit that a stage's setting names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.draft import Draft, DraftPiece, Goal
from tenfold.core.record.token_reading import NO_TOKENS, Counted
from tenfold.core.view.fold import View
from tenfold.core.view.units import MessageKey, get_step_messages

_UNLIMITED = Counted(1 << 60)
_NOTHING_KEPT: Mapping[MessageKey, Counted] = MappingProxyType({})


class TailSize(Struct, frozen=True):
    """How much of the end of a conversation stays. Each bound that is set holds.

    With `messages`, the tail is complete once it has that many. A piece that is partly among them belongs to it.
    With `tokens`, it is complete with the message that reaches them. Unless that message opens a piece, the tail begins
    with the next one, and is smaller. `budget` limits the tokens that pieces take besides what stays anyway. A piece
    above it ends the tail. But with `most_per_piece`, no piece uses up more than that, and a piece above the budget
    just stays outside.
    """

    messages: int = _UNLIMITED
    tokens: Counted = _UNLIMITED
    budget: Counted = _UNLIMITED
    most_per_piece: Counted | None = None


class Tail(Struct, frozen=True):
    """A recent tail. `start` is the index of its first piece, and `oversized` are pieces after it that stay outside.

    `draft` has the pieces as they are in the tail: those that were shortened to fit are shorter.
    """

    draft: Draft
    start: int
    oversized: tuple[int, ...] = ()


def find_tail(
    draft: Draft,
    size: TailSize,
    first: int = 0,
    *,
    kept: Mapping[MessageKey, Counted] = _NOTHING_KEPT,
    ends_before: Callable[[DraftPiece], bool] = lambda _: False,
    shorten: Callable[[DraftPiece, int], DraftPiece | None] = lambda _, __: None,
) -> Tail:
    """Finds the tail that begins at `first` or later.

    `kept` messages stay in view on either side, and cost no budget. The tail ends before the first piece of which
    `ends_before` is true. A piece above the budget is taken as `shorten(piece, budget)` makes it, if that is within it.
    """
    pieces, oversized = list(draft.pieces), []
    messages, budget = size.messages - count_open_messages(draft.view), size.budget
    tokens = size.tokens - (draft.fixed_tokens - draft.floor)
    index = len(pieces)
    while index > first and messages > 0 and tokens > 0:
        piece = pieces[index - 1]
        shown = piece.get_visible_messages()
        if ends_before(piece):
            break
        cost = piece.tokens - sum((kept.get(s.key, NO_TOKENS) for s in shown), NO_TOKENS)
        if cost > budget:
            shorter = shorten(piece, budget)
            if shorter is not None and shorter.tokens <= budget:
                cost += shorter.tokens - piece.tokens
                piece = shorter
            elif size.most_per_piece is None:
                break
            else:
                oversized.append(index - 1)
        tokens -= piece.tokens
        if shown and tokens + sum(piece.sizes[:1]) <= 0:
            break
        index -= 1
        pieces[index] = piece
        messages -= len(shown)
        budget -= cost if size.most_per_piece is None else min(cost, size.most_per_piece)
    return Tail(replace(draft, pieces=tuple(pieces)), index, tuple(reversed(oversized)))


def count_open_messages(view: View) -> int:
    """Counts the messages of the open step."""
    return len(get_step_messages(view.open_step, closing=False)) if view.open_step is not None else 0


def find_outside_tail(draft: Draft, goal: Goal) -> list[int]:
    """Returns the indexes of the pieces that may be elided, oldest first: all but the recent `goal.tail_budget` tokens.

    A piece larger than the budget left is not protected, and uses up at most half of the tail. So one giant output does
    not leave everything before it without protection.
    """
    size = TailSize(budget=goal.tail_budget - draft.fixed_tokens, most_per_piece=goal.tail_budget // 2)
    tail = find_tail(draft, size)
    return [*range(tail.start), *tail.oversized]
