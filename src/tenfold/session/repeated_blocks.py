"""Which Blocks a branch keeps that cover what follows a message that the host has changed.

A branch begins before the changed message, and all that follows is appended to it again. A Block that hides none of
what was changed would hide and say the same there, so it is appended again too, unless the edit concerns it: it quotes
words that are gone, or leaves out a fact that was in view in the message, and is there no more.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.facts.section import is_must_keep
from tenfold.compaction.summarize.visible_text import get_words, is_fact_in
from tenfold.core.record.block import Block, BlockPart, FactRef, KeptOriginal, RangeRef, Replacement, Run, ShownItem
from tenfold.core.record.entry import Entry, MessageEntry, get_message
from tenfold.core.record.fact import Fact
from tenfold.core.record.message import Message, get_tool_calls
from tenfold.core.text.excerpts import collapse_spaces
from tenfold.core.view.fold import View
from tenfold.core.wire.fingerprint import fingerprint_message
from tenfold.session.host_lists import KeyLookup, has_only_earlier_ranges, is_same_message
from tenfold.store.purge import find_distinctive_pieces


class RepeatedBlock(Struct, frozen=True):
    """A Block at `position` of the path that was left.

    `originals` are the positions of the messages between there and where the branch begins.
    """

    position: int
    block: Block
    originals: tuple[int, ...]


def find_repeated_blocks(
    view: View, start: int, messages: Sequence[Message], get_key: KeyLookup
) -> Iterator[RepeatedBlock]:
    """Finds the live Blocks that a branch keeps which begins before position `start`, oldest first.

    `messages` are those of the branch. Each is compared with the one that has its place on the path, so where one was
    added or taken out, all that follow are changed. What `find_carried_entries` finds is not among these.
    """
    path = view.path
    originals = [at for at in range(start, path.length) if get_message(path.get_entry(at)) is not None]
    edits: dict[int, tuple[Entry, Message]] = {}
    for at, new in zip(originals, messages, strict=False):
        entry = path.get_entry(at)
        old = get_message(entry)
        if old is not None and not is_same_message(entry, get_key(at, old), fingerprint_message(new)):
            edits[at] = entry, new
    later = (position for position in view.state.live_blocks if position >= start)
    for position in dropwhile(lambda position: has_only_earlier_ranges(path.get_entry(position), start), later):
        block, count = path.get_entry(position), bisect_left(originals, position)
        if not isinstance(block, Block) or block.top_batches or count > len(messages):
            return
        earlier = {at: edit for at, edit in edits.items() if at < position}
        facts = [f for f in view.list_block_facts(position) if f.position not in earlier and is_must_keep(f)]
        if any(_is_concerned(block, at, *edit, facts) for at, edit in earlier.items()):
            return
        yield RepeatedBlock(position, block, tuple(originals[:count]))


def move_block(block: Block, positions: Mapping[int, int]) -> Block:
    """Returns a Block as it is appended to a branch. `positions` are those there, by those on the path that was left.

    The positions of its facts stay.
    """
    known = sorted(positions)
    first = known[0] if known else sys.maxsize

    def move_up(position: int) -> int:
        at = bisect_left(known, position)
        return position if position < first or at == len(known) else positions[known[at]]

    def move_down(position: int) -> int:
        return position if position < first else positions[known[bisect_right(known, position) - 1]]

    def move_ref(ref: RangeRef) -> RangeRef:
        ends = move_up(ref.first), move_down(ref.last)
        return Run(*ends) if isinstance(ref, Run) else BlockPart(positions.get(ref.block, ref.block), ref.index, *ends)

    def move_item(item: ShownItem) -> ShownItem:
        if isinstance(item, KeptOriginal):
            return KeptOriginal(move_up(item.position))
        at = item.original_position
        return item if at is None else replace(item, original_position=move_up(at))

    def move_replacement(each: Replacement) -> Replacement:
        covered, shown = tuple(map(move_ref, each.covered_ranges)), tuple(map(move_item, each.shown_items))
        return replace(
            each, first=move_up(each.first), last=move_down(each.last), covered_ranges=covered, shown_items=shown
        )

    ended = block.ended_facts
    return replace(
        block,
        replacements=tuple(map(move_replacement, block.replacements)),
        ended_facts=ended and tuple(FactRef(positions.get(ref.block, ref.block), ref.index) for ref in ended),
    )


def _is_concerned(block: Block, at: int, entry: Entry, new: Message, facts: Sequence[Fact]) -> bool:
    """Tells whether a Block would hide or say something else, had the message at a position been the new one.

    What the Block covers and shows as it is may change, except for a call, whose result it may hide. `facts` are those
    of other messages which have to be in view.
    """
    if not isinstance(entry, MessageEntry):
        return True
    old = entry.message
    kept = {item.position for each in block.replacements for item in each.shown_items if isinstance(item, KeptOriginal)}
    is_shown = at in kept and not get_tool_calls(old) and not get_tool_calls(new)
    if not is_shown and any(each.first <= at <= each.last for each in block.replacements):
        return True
    quoting = replace(block, facts=(), reason="", notes=())
    if find_distinctive_pieces(entry, [quoting], [replace(entry, message=new)]):
        return True
    before, after = (collapse_spaces(get_words(message)) for message in (old, new))
    return any(is_fact_in(fact, before) and not is_fact_in(fact, after) for fact in facts)
