"""An independent, naive fold: what DESIGN sections 1, 2, 4 and 8 say a view is, in the most obvious way.

It shares no code with `tenfold.core.view`: it knows only the record types. Everything is recomputed from the root each
time, quadratically; that is the point. It predicts exactly what is said by originals and Blocks; of the repair texts it
predicts the place, role, origin, call id and what they must quote, not their wording.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from tenfold.core.record.block import OWN_BLOCK, Block, BlockPart, KeptOriginal, RangeRef, Replacement, Run
from tenfold.core.record.entry import Attempt, Entry, Pin, Retraction, get_message
from tenfold.core.record.message import Message, OpaquePart, ToolResult, get_text, get_tool_calls, get_tool_result


class Seen(Struct, frozen=True):
    """One message that must be shown. `message` is exact for original, kept and said ones, and quoted otherwise."""

    what: Literal["original", "kept", "said", "marker", "labelled", "aborted"]
    at: int
    message: Message | None = None
    call: str = ""
    of: int | None = None


class Tile(Struct, frozen=True):
    """A unit: positions `first` to `last` and what they show. `ref` is set for a replaced range."""

    first: int
    last: int
    seen: tuple[Seen, ...]
    ref: BlockPart | None = None


class Folded(Struct, frozen=True):
    """The prediction: closed units, the open step's first position and messages, live Blocks, what was refused, pins.

    `changed` is the position of the newest Block or retraction that did something, `undone` whether it was the latter.
    """

    tiles: tuple[Tile, ...]
    open_first: int | None
    open_seen: tuple[Seen, ...]
    live: tuple[int, ...]
    refused: tuple[int, ...]
    pins: frozenset[int]
    changed: int
    undone: bool
    attempts: tuple[int, ...]

    def get_seen(self) -> list[Seen]:
        """Every message that must be shown, in order."""
        return [one for tile in self.tiles for one in tile.seen] + list(self.open_seen)


def fold(entries: Sequence[Entry]) -> Folded:
    """The view of a whole path, predicted."""
    live: list[int] = []
    refused: list[int] = []
    pins: set[int] = set()
    changes: list[int] = []
    for position, entry in enumerate(entries):
        if isinstance(entry, Block):
            before = build_tiles(entries, live, until=position)
            if apply_block(before, entry, position) is None:
                refused.append(position)
            else:
                live.append(position)
                changes.append(position)
        elif isinstance(entry, Retraction):
            if not entry.block:
                changes.append(position)
            elif live and entries[live[-1]].id == entry.block:
                live.pop()
                changes.append(position)
            else:
                refused.append(position)
        elif isinstance(entry, Pin):
            pins = pins | {entry.position} if entry.pinned else pins - {entry.position}
    changed = changes[-1] if changes else -1
    last = find_groups(entries)[-1:]
    dangling = last[0] if last and not last[0][2] else None
    return Folded(
        tiles=tuple(build_tiles(entries, live, until=len(entries))),
        open_first=dangling[0] if dangling else None,
        open_seen=predict_step(entries, dangling) if dangling else (),
        live=tuple(live),
        refused=tuple(refused),
        pins=frozenset(pins),
        changed=changed,
        undone=changed >= 0 and isinstance(entries[changed], Retraction),
        attempts=tuple(p for p in range(changed + 1, len(entries)) if isinstance(entries[p], Attempt)),
    )


def build_tiles(entries: Sequence[Entry], live: Sequence[int], *, until: int) -> list[Tile]:
    """The closed units of the first `until` entries, with the live Blocks among them applied in order."""
    past = entries[:until]
    tiles = [Tile(g[0], g[1], predict_group(past, g)) for g in find_groups(past) if g[2]]
    for position in live:
        block = past[position]
        assert isinstance(block, Block)
        after = apply_block(tiles, block, position, entries=past)
        assert after is not None, "only Blocks that applied where they stand are live"
        tiles = after
    return tiles


def apply_block(tiles: list[Tile], block: Block, position: int, *, entries: Sequence[Entry] = ()) -> list[Tile] | None:
    """The tiles with the Block's replacements put in, one after the other; None if one of them does not fit."""
    for index, replacement in enumerate(block.replacements):
        if find_slice(tiles, replacement.first, replacement.last) != resolve_refs(replacement.covered_ranges, position):
            return None
        new = Tile(
            replacement.first,
            replacement.last,
            tuple(predict_replacement(entries, replacement, position)) if entries else (),
            BlockPart(position, index, replacement.first, replacement.last),
        )
        before = [t for t in tiles if t.last < replacement.first]
        after = [t for t in tiles if t.first > replacement.last]
        tiles = [*before, new, *after]
    return tiles


def find_slice(tiles: Sequence[Tile], first: int, last: int) -> list[RangeRef] | None:
    """What shows `first`..`last`: originals in the longest stretches, replaced ranges one by one. None if not whole."""
    inside = [t for t in tiles if t.first >= first and t.last <= last]
    if not inside or inside[0].first != first or inside[-1].last != last:
        return None
    refs: list[RangeRef] = []
    for tile in inside:
        if tile.ref is not None:
            refs.append(tile.ref)
        elif refs and isinstance(refs[-1], Run):
            refs[-1] = Run(refs[-1].first, tile.last)
        else:
            refs.append(Run(tile.first, tile.last))
    return refs


def resolve_refs(covers: Sequence[RangeRef], position: int) -> list[RangeRef]:
    """What a Block at `position` covers, with its own earlier replacements named by that position."""
    return [
        BlockPart(position, r.index, r.first, r.last) if isinstance(r, BlockPart) and r.block == OWN_BLOCK else r
        for r in covers
    ]


def predict_replacement(entries: Sequence[Entry], replacement: Replacement, position: int) -> list[Seen]:
    """What a replacement shows, in its order."""
    out: list[Seen] = []
    for show in replacement.shown_items:
        if isinstance(show, KeptOriginal):
            message = get_message(entries[show.position])
            out.append(Seen("kept", show.position, message, of=show.position))
        else:
            out.append(Seen("said", position, show.message, of=show.original_position))
    return out


Group = tuple[int, int, bool]
"""First position, last position, whether it is closed."""


def find_groups(entries: Sequence[Entry]) -> list[Group]:
    """Steps and single entries, in order: they tile the path. Only the last one can be open."""
    out: list[Group] = []
    first = 0
    while first < len(entries):
        last, closed = find_step_end(entries, first)
        out.append((first, last, closed))
        first = last + 1
    return out


def find_step_end(entries: Sequence[Entry], first: int) -> tuple[int, bool]:
    """How far the step goes that may begin at `first`, and whether it is closed there."""
    message = get_message(entries[first])
    if message is None or message.role != "assistant" or message.status != "ok":
        return first, True
    owed = [call.id for call in get_tool_calls(message)]
    if not owed and not has_named_items(message):
        return first, True
    only_calls = not has_named_items(message)
    for position in range(first + 1, len(entries)):
        later = get_message(entries[position])
        more = [call.id for call in get_tool_calls(later)] if later is not None and later.role == "assistant" else []
        is_whole = later is not None and later.status == "ok" and not has_named_items(later)
        if is_whole and more and only_calls and not set(owed) & set(more):
            owed += more
            continue
        if later is not None and (later.role == "assistant" or (not owed and later.role != "tool")):
            return position - 1, True
        only_calls = only_calls and later is None
        result = get_tool_result(later) if later is not None else None
        if result is not None and result.call_id in owed:
            owed.remove(result.call_id)
            if not owed and not has_named_items(message):
                return position, True
    return len(entries) - 1, False


def has_named_items(message: Message) -> bool:
    """Whether an answer only names some of its items: any result may be of one of those."""
    return any(isinstance(part, OpaquePart) and part.kind == "item_reference" for part in message.parts)


def predict_group(entries: Sequence[Entry], group: Group) -> tuple[Seen, ...]:
    """What an unreplaced group shows."""
    first, _, _ = group
    message = get_message(entries[first])
    if message is None:
        return ()
    if message.role == "assistant" and message.status != "ok":
        return (Seen("aborted", first, message),) if get_text(message) or get_tool_calls(message) else ()
    if message.role == "tool":
        return (Seen("labelled", first, message),)
    if message.role == "assistant" and (get_tool_calls(message) or has_named_items(message)):
        return predict_step(entries, group)
    return (Seen("original", first, message, of=first),)


def predict_step(entries: Sequence[Entry], group: Group) -> tuple[Seen, ...]:
    """A step: each calling answer with its results as they came and markers for calls that stay without, then what was
    interleaved."""
    first, last, closed = group
    present = [
        (position, m) for position in range(first, last + 1) if (m := get_message(entries[position])) is not None
    ]
    callers = [position for position, message in present if message.role == "assistant"]
    given: dict[int, list[Seen]] = {position: [] for position in callers}
    owed = {position: [call.id for call in get_tool_calls(get_sure(entries[position]))] for position in callers}
    between: list[Seen] = []
    for position, message in present:
        result = get_tool_result(message)
        if position in callers:
            continue
        if result is None:
            between.append(Seen("original", position, message, of=position))
            continue
        taker = next((p for p in callers if result.call_id in owed[p]), None)
        if taker is not None:
            owed[taker].remove(result.call_id)
        elif has_named_items(head := get_sure(entries[first])) and result.call_id not in {
            call.id for call in get_tool_calls(head)
        }:
            taker = first
        if taker is None:
            between.append(Seen("labelled", position, message))
        else:
            given[taker].append(Seen("original", position, message, of=position))
    out: list[Seen] = []
    for position in callers:
        out += [Seen("original", position, get_sure(entries[position]), of=position), *given[position]]
        if closed or between or position != callers[-1]:
            out += [Seen("marker", position, call=call) for call in owed[position]]
    return (*out, *between)


def get_sure(entry: Entry) -> Message:
    """The message of an entry that has one."""
    message = get_message(entry)
    assert message is not None
    return message


def expand_refs(entries: Sequence[Entry], refs: Sequence[RangeRef]) -> list[int]:
    """The positions of all originals under `refs`, walking down through what each replacement covers."""
    out: list[int] = []
    todo = list(reversed(refs))
    while todo:
        ref = todo.pop()
        if isinstance(ref, Run):
            out.extend(range(ref.first, ref.last + 1))
            continue
        block = entries[ref.block]
        assert isinstance(block, Block)
        todo.extend(reversed(resolve_refs(block.replacements[ref.index].covered_ranges, ref.block)))
    return out


def find_results(message: Message) -> list[ToolResult]:
    """All tool results a message holds, whatever its role."""
    return [p for p in message.parts if isinstance(p, ToolResult)]
