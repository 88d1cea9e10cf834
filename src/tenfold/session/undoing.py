"""Plans an undo: which Blocks go, which of the newer ones stay, and what the view is afterwards.

A retraction takes back the newest Block, so an older one is undone by retracting every Block down to it, and appending
copies of those that do not build on it. All of it is one append.

A compaction that starts anew from the originals sets the Blocks in force aside. Its undo brings them back, as copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.block import OWN_BLOCK, Block, BlockPart, RangeRef, Slot
from tenfold.core.record.entry import SET_ASIDE, Attempt, Entry, Retraction, Setting
from tenfold.core.view.fold import View
from tenfold.errors import NotFoundError, UsageError

BlockPlanner = Callable[[View, str | None, Callable[[], str], Callable[[], int]], tuple[Entry, ...]]
"""Returns entries to append at a leaf."""


class UndoPlan(Struct, frozen=True):
    """What an undo will do. `undone` are the ids of the Blocks that go, the one that was named first.

    `entries` are to be appended at the leaf, as one append. `copied` are the ids of the newer Blocks that stay in
    force, as copies with new ids. `restored` are the ids of those that the undone Block had set aside, which are in
    force again as copies. `view` is what the model sees afterwards.
    """

    undone: tuple[str, ...]
    copied: tuple[str, ...]
    restored: tuple[str, ...]
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
    restored = draft.restore(_find_set_aside(view, retracted[0][0]))
    for position, each in retracted[1:]:
        facts = view.list_block_facts(position)  # those of a Block that goes are in view again, and are found again
        copy = replace(_shift(each, positions), facts=facts, ended_facts=None)
        is_free = {where for where, _ in gone}.isdisjoint(_find_foundations(each))
        if is_free and (new := draft.append_block(copy)) is not None:
            positions[position] = new
            copied.append(each.id)
        else:
            gone.append((position, each))
    if copied or restored:  # a Block is the last entry now, and nothing would say that one was undone
        draft.append(Retraction(new_id(), draft.leaf, "", now(), ""))
    undone = tuple(each.id for _, each in gone)
    return UndoPlan(undone, tuple(copied), restored, tuple(draft.entries), draft.view)


def plan_setting_aside(
    view: View, leaf: str | None, new_id: Callable[[], str], now: Callable[[], int]
) -> tuple[Entry, ...]:
    """Returns the entries that retract all Blocks in force for a compaction of the originals. None if there is none."""
    live = view.state.live_blocks
    draft = _Draft(view, leaf, new_id, now)
    for position in reversed(live):
        draft.append(Retraction(new_id(), draft.leaf, "", now(), view.path.get_block(position).id))
    if live:
        draft.append(Setting(new_id(), draft.leaf, "", now(), SET_ASIDE, " ".join(map(str, live))))
    return tuple(draft.entries)


def plan_restoring(
    view: View, leaf: str | None, new_id: Callable[[], str], now: Callable[[], int]
) -> tuple[Entry, ...]:
    """Returns the entries that bring back what was set aside for a compaction that did not come about."""
    draft = _Draft(view, leaf, new_id, now)
    draft.restore(_find_set_aside(view, view.length))
    return tuple(draft.entries)


def has_newer_rules(view: View) -> bool:
    """Tells whether the user has added or dropped a rule since the newest Block, which therefore does not show it.

    Compacting that Block's view again would show it only where the view has outgrown the target. The originals do.
    A copy of a Block is as old as the Block.
    """
    live = view.state.live_blocks
    made = view.path.get_block(live[-1]).time if live else 0

    def is_newer(position: int) -> bool:
        rule = view.path.get_entry(position)
        return position > live[-1] or (isinstance(rule, Setting) and rule.time is not None and rule.time > made)

    return bool(live) and any(map(is_newer, view.state.rule_settings))


def _find_set_aside(view: View, end: int) -> list[tuple[int, Block]]:
    """Finds what was set aside for the Block at `end`: the newest entry before it that is no try or note says it."""
    for position in range(end - 1, -1, -1):
        match view.path.get_entry(position):
            case Setting(key=key, value=value) if key == SET_ASIDE:
                return [(at, view.path.get_block(at)) for at in map(int, value.split())]
            case Setting() | Attempt():
                continue
            case _:
                break
    return []


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

    def restore(self, blocks: Sequence[tuple[int, Block]]) -> tuple[str, ...]:
        """Appends copies of Blocks that were set aside together, as far as they fit. Returns the ids of those."""
        positions: dict[int, int] = {}
        restored = list[str]()
        for position, block in blocks:
            ended = block.ended_facts and tuple(
                replace(ref, block=positions.get(ref.block, ref.block)) for ref in block.ended_facts
            )
            new = self.append_block(replace(_shift(block, positions), ended_facts=ended))
            if new is None:
                break
            positions[position] = new
            restored.append(block.id)
        return tuple(restored)


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
