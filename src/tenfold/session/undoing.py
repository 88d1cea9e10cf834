"""Plans an undo: which Blocks go, which of the newer ones stay, and what the view is afterwards.

A retraction takes back the newest Block, so an older one is undone by retracting every Block down to it, and appending
copies of those that do not build on it. All of it is one append.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.block import OWN_BLOCK, Block, BlockPart, RangeRef, Slot
from tenfold.core.record.entry import Entry, Retraction
from tenfold.core.view.fold import View
from tenfold.errors import NotFoundError, UsageError


class UndoPlan(Struct, frozen=True):
    """What an undo will do. `undone` are the ids of the Blocks that go, the one that was named first.

    `entries` are to be appended at the leaf, as one append. `copied` are the ids of the newer Blocks that stay in
    force, as copies with new ids. `view` is what the model sees afterwards.
    """

    undone: tuple[str, ...]
    copied: tuple[str, ...]
    entries: tuple[Entry, ...]
    view: View


def plan_undo(
    view: View, block: str, *, leaf: str | None, new_id: Callable[[], str], now: Callable[[], int]
) -> UndoPlan:
    """Plans the undo of the Block whose id begins with `block`, "" for the newest.

    Newer Blocks that cover what this one shows, or merge its batches, are undone with it. Raises `UsageError` if no
    Block is in force, and `NotFoundError` unless exactly one of those in force has such an id.
    """
    live = [(position, view.path.get_block(position)) for position in view.state.live_blocks]
    if not live:
        raise UsageError("there is nothing to undo: no compaction is in force on this path")
    found = [number for number, (_, each) in enumerate(live) if each.id.startswith(block)] if block else [len(live) - 1]
    if len(found) != 1:
        raise NotFoundError(
            f"compactions in force with an id that begins with {block!r}: {len(found)}, and it must be one of "
            f"{', '.join(each.id for _, each in live)}"
        )
    retracted = live[found[0] :]
    draft = _Draft(view, leaf, new_id, now)
    for _, each in reversed(retracted):
        draft.append(Retraction(new_id(), draft.leaf, "", now(), each.id))
    gone, copied = [retracted[0]], list[str]()
    positions: dict[int, int] = {}
    for position, each in retracted[1:]:
        facts = view.list_block_facts(position)  # those of a Block that goes are in view again, and are found again
        copy = replace(_shift(each, positions), facts=facts, ended_facts=None)
        is_free = {where for where, _ in gone}.isdisjoint(_find_foundations(each))
        if is_free and (new := draft.append_block(copy)) is not None:
            positions[position] = new
            copied.append(each.id)
        else:
            gone.append((position, each))
    if copied:  # a Block is the last entry now, and nothing would say that one was undone
        draft.append(Retraction(new_id(), draft.leaf, "", now(), ""))
    return UndoPlan(tuple(each.id for _, each in gone), tuple(copied), tuple(draft.entries), draft.view)


def has_newer_rules(view: View) -> bool:
    """Tells whether the user has added or dropped a rule since the newest Block, which therefore does not show it.

    Compacting that Block's view again would show it only where the view has outgrown the target. The originals do.
    """
    live = view.state.live_blocks
    return bool(live) and any(position > live[-1] for position in view.state.rule_settings)


class _Draft:
    """A view on a path of its own, on which the entries of the plan are tried."""

    def __init__(self, view: View, leaf: str | None, new_id: Callable[[], str], now: Callable[[], int]) -> None:
        self.leaf, self.new_id, self.now = leaf, new_id, now
        self.entries: list[Entry] = []
        self.view = view.fork()

    def append(self, entry: Entry) -> None:
        self.view.path.append(entry)
        self.view = self.view.extend([entry])
        self.entries.append(entry)
        self.leaf = entry.id

    def append_block(self, block: Block) -> int | None:
        """Appends a Block with a new id. Returns its position, None if it does not fit here."""
        newest = self.view.find_newest_block()
        block = replace(
            block, id=self.new_id(), parent=self.leaf, previous_block=newest.id if newest is not None else None
        )
        if not self.view.can_append(block):
            return None
        position = self.view.length
        self.append(block)
        return position


def _find_foundations(block: Block) -> set[int]:
    """Finds the positions of the Blocks that a Block builds on: whose replacements or batches it names."""
    parts = {ref.block for each in block.replacements for ref in each.covered_ranges if isinstance(ref, BlockPart)}
    slots = {slot.block for slot in (*block.top_batches, *(s for batch in block.batches for s in batch.sources))}
    return (parts | slots) - {OWN_BLOCK}


def _shift(block: Block, positions: Mapping[int, int]) -> Block:
    """Returns a Block with the new positions of the Blocks that it builds on."""

    def shift_ref(ref: RangeRef) -> RangeRef:
        return replace(ref, block=positions.get(ref.block, ref.block)) if isinstance(ref, BlockPart) else ref

    def shift_slots(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
        return tuple(Slot(positions.get(slot.block, slot.block), slot.index) for slot in slots)

    replacements = tuple(
        replace(each, covered_ranges=tuple(map(shift_ref, each.covered_ranges))) for each in block.replacements
    )
    batches = tuple(replace(batch, sources=shift_slots(batch.sources)) for batch in block.batches)
    return replace(block, replacements=replacements, batches=batches, top_batches=shift_slots(block.top_batches))
