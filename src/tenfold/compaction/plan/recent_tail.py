"""Where a recent tail begins: the one walk back from the newest message, which every stage that keeps a tail uses.

The open step belongs to the tail and counts first. Pieces are whole units, so a tail never separates a tool call from
its result. How large a tail is, `TailSize` says, in the unit that a stage's setting names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.plan.continuation import is_continuation
from tenfold.compaction.plan.draft import Draft, DraftPiece, Goal, is_summary_unit
from tenfold.core.record.block import Block
from tenfold.core.record.message import get_tool_calls
from tenfold.core.view.fold import View
from tenfold.core.view.units import MessageKey, VisibleMessage, get_step_messages

_UNLIMITED = 1 << 60
_NOTHING_KEPT: Mapping[MessageKey, int] = MappingProxyType({})


class TailSize(Struct, frozen=True):
    """How much of the end of a conversation stays. Each bound that is set holds.

    With `messages`, the tail is complete once it has that many. A piece that is partly among them belongs to it.
    With `tokens`, it is complete with the message that reaches them. Unless that message opens a piece, the tail begins
    with the next one, and is smaller. `budget` limits the tokens that pieces take besides what stays anyway. A piece
    above it ends the tail. But with `most_per_piece`, no piece uses up more than that, and a piece above the budget
    just stays outside.
    """

    messages: int = _UNLIMITED
    tokens: int = _UNLIMITED
    budget: int = _UNLIMITED
    most_per_piece: int | None = None


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
    kept: Mapping[MessageKey, int] = _NOTHING_KEPT,
    ends_before: Callable[[DraftPiece], bool] = lambda _: False,
    shorten: Callable[[DraftPiece], DraftPiece | None] = lambda _: None,
) -> Tail:
    """Finds the tail that begins at `first` or later.

    `kept` messages stay in view on either side, and cost no budget. The tail ends before the first piece of which
    `ends_before` is true. A piece above the budget is taken as `shorten` makes it, if that is within the budget.
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
        cost = piece.tokens - sum(kept.get(s.key, 0) for s in shown)
        if cost > budget:
            shorter = shorten(piece)
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


# -- the cut of `tail` -------------------------------------------------------------------------------------------------


class CutPoint(Struct, frozen=True):
    """Where the tail begins: the index of its first piece.

    `exchange_start` is the index of the piece that opens the exchange which the cut splits, None if it splits none.
    """

    index: int
    exchange_start: int | None = None


def find_cut_point(
    draft: Draft, tail_tokens: int, *, kept: Mapping[MessageKey, int], budget: int, largest: int
) -> CutPoint:
    """Finds where the newest `tail_tokens` begin, counting every visible message. `budget` limits those not `kept`.

    If the sum never gets that far, everything stays. An earlier summary is never part of the tail. If nothing visible
    would be left, the tail is the last visible piece, provided that it takes at most `largest`. That is the step with
    the last tool result, never the oldest message.
    """
    first = draft.floor_end
    size = TailSize(tokens=tail_tokens, budget=budget)
    index = find_tail(draft, size, first, kept=kept, ends_before=lambda p: p.stands_for_range).start
    last = next((i for i in reversed(range(len(draft.pieces))) if draft.pieces[i].get_visible_messages()), -1)
    if index > last >= first and draft.view.open_step is None:
        piece = draft.pieces[last]
        unkept = piece.tokens - sum(kept.get(s.key, 0) for s in piece.get_visible_messages())
        if unkept > largest or piece.stands_for_range:
            return CutPoint(len(draft.pieces))
        index = last
    exchange = _find_split_exchange(draft, index, first)
    while index > first and _is_silent(draft, draft.pieces[index - 1]):
        index -= 1
    return CutPoint(index, exchange)


def has_new_messages(draft: Draft, pieces: Iterable[DraftPiece]) -> bool:
    """Whether a summary of these pieces would say something new: a message that is not protected, nor summarized."""
    return any(s.key not in draft.protected for p in pieces if not p.stands_for_range for s in p.get_visible_messages())


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
        if piece.stands_for_range:
            return None
    return None


def _is_exchange_start(piece: DraftPiece) -> bool:
    """Whether a piece opens an exchange: words of a user or a program, a user's command, a branch summary."""
    shown = piece.get_visible_messages()
    if not shown or shown[0].message.role != "user":
        return False
    return shown[0].is_original or (piece.units[0].block_part is not None and shown[0].original_position is not None)


def _is_silent(draft: Draft, piece: DraftPiece) -> bool:
    """Whether a piece shows nothing and is no Block, which belongs to what is summarized."""
    return not piece.get_visible_messages() and not isinstance(draft.view.path.get_entry(piece.first), Block)


# -- tails that are counted in entries ---------------------------------------------------------------------------------

EntryKind = Literal["text", "call", "result"]
"""An entry is a message, or the results of one step together. System messages and continuations are none."""


def find_entry_split(kinds: Sequence[EntryKind], index: int) -> int:
    """Returns where a list of entries may be split so that no result loses its call: at or near `index`.

    Walks back while a call or a result stands there. If that reaches the beginning, walks forward past the call and its
    results. If that reaches the end, goes back to the call alone. Returns the length of the list if it is all one step,
    and an index outside of the list unchanged.
    """
    if index <= 0 or index >= len(kinds):
        return index
    at = index
    while at > 0 and kinds[at] != "text":
        at -= 1
    if at > 0:
        return at
    at = _skip_results(kinds, index + (kinds[index] == "call"))
    if at < len(kinds):
        return at
    at = index
    while at > 0 and kinds[at] == "result":
        at -= 1
    return at or len(kinds)


def _skip_results(kinds: Sequence[EntryKind], index: int) -> int:
    """Returns the first index from `index` on that is no result."""
    while 0 < index < len(kinds) and kinds[index] == "result":
        index += 1
    return index


def find_entry_tails(draft: Draft, counts: Iterable[int], least: int) -> list[int]:
    """Returns the indexes of the pieces where tails of about so many entries begin, in this order.

    Only entries after the newest summary count. Last comes the tail of `least` entries, which may begin with a call.
    Tails that would hold all entries or none are left out.
    """
    start = _find_summary_end(draft)
    entries = list(_list_entries(p.get_visible_messages() for p in draft.pieces[start:]))
    kinds = [kind for kind, _ in entries]
    splits = [find_entry_split(kinds, len(kinds) - count) for count in counts]
    splits.append(_skip_results(kinds, len(kinds) - least))
    return [start + entries[at][1] for at in dict.fromkeys(splits) if 0 < at < len(entries)]


def count_entries_since(view: View, *, limit: int) -> int:
    """Counts the entries after the newest summary, no further than one more than `limit`.

    It goes by what the view shows, so it is right after a rewind and on every branch.
    """
    open_messages = get_step_messages(view.open_step, closing=False) if view.open_step is not None else ()
    units = view.units
    index, number = len(units), len(list(_list_entries([open_messages])))
    while index and number <= limit:
        index -= 1
        if is_summary_unit(view, units[index]):
            break
        number += len(list(_list_entries([units[index].visible_messages])))
    return number


def _find_summary_end(draft: Draft) -> int:
    """Returns the index after the newest summary among the pieces. What it covers no longer counts."""
    for index in reversed(range(draft.floor_end, len(draft.pieces))):
        if any(is_summary_unit(draft.view, unit) for unit in draft.pieces[index].units):
            return index + 1
    return draft.floor_end


def _list_entries(groups: Iterable[Sequence[VisibleMessage]]) -> Iterator[tuple[EntryKind, int]]:
    """Yields the entries of groups of messages, each with its group's number."""
    for number, group in enumerate(groups):
        before: EntryKind = "text"
        for shown in group:
            message = shown.message
            if message.role == "system" or is_continuation(message):
                continue
            kind: EntryKind = "call" if get_tool_calls(message) else "text"
            if message.role == "tool":
                kind = "result"
            if not kind == before == "result":
                yield kind, number
            before = kind
