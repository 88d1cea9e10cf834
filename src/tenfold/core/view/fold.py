"""The view: what the model sees, as a pure fold of a path through its Blocks.

`View.from_path` folds from the root, `View.from_snapshot` starts from the newest snapshot. Both give the same view. A
View is a value. Extending the newest one costs O(new entries): all views share one list of closed units, which is only
ever appended to, and each View remembers how many of them are its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.block import (
    OWN_BLOCK,
    Block,
    BlockPart,
    KeptOriginal,
    RangeRef,
    Replacement,
    Run,
    find_fact_changes,
    fold_facts,
)
from tenfold.core.record.entry import (
    AUTO_COMPACTION,
    Attempt,
    Entry,
    Pin,
    Retraction,
    Setting,
    get_message,
    is_auto_setting,
    is_rule_setting,
)
from tenfold.core.record.fact import Fact
from tenfold.core.record.message import Message
from tenfold.core.view.path import Path
from tenfold.core.view.units import (
    OpenStep,
    Unit,
    VisibleMessage,
    build_block_key,
    build_original,
    close_step,
    get_step_messages,
    scan_entries,
)
from tenfold.errors import StaleBlock

_get_first = attrgetter("first")
MAX_FACT_BLOCKS = 32
"""How many live Blocks are read for their facts, at most."""


class Snapshot(Struct, frozen=True, array_like=True):
    """What is in view right after a Block or retraction. It is derived data, and can be recomputed from the log.

    `length` entries were folded, and the Block or retraction is the last of them. `range_refs` cover these positions
    without gaps. `live_blocks` are the positions of live Blocks, oldest first, `pins` the pinned positions. `undone` is
    True after a retraction, False after a Block. `meter_state` is the token calibration by model, as
    `encode_calibration` writes it. `rule_settings` are the positions of the settings that add or drop a rule. With
    `is_auto_off` the user has switched automatic compaction off.
    """

    length: int
    range_refs: tuple[RangeRef, ...]
    live_blocks: tuple[int, ...]
    pins: tuple[int, ...]
    undone: bool = False
    meter_state: bytes = b""
    rule_settings: tuple[int, ...] = ()
    is_auto_off: bool = False


class FoldState(Struct, frozen=True):
    """What the fold tracks besides messages.

    `live_blocks` are the positions of live Blocks, oldest first. `stale_entries` are Blocks and retractions that did
    not apply. `last_change` is the position of the newest Block or retraction (-1: none), and `undone` says whether it
    was a retraction. `attempts` are the positions of the attempts after it. `rule_settings` are the positions of the
    settings that add or drop a rule. With `is_auto_off` the user has switched automatic compaction off.
    """

    live_blocks: tuple[int, ...] = ()
    pins: frozenset[int] = frozenset()
    stale_entries: tuple[int, ...] = ()
    last_change: int = -1
    undone: bool = False
    attempts: tuple[int, ...] = ()
    rule_settings: tuple[int, ...] = ()
    is_auto_off: bool = False


class View:
    """What the model sees of a conversation: the messages of the log, with summaries in place of what Blocks hide.

    A session has one as `session.view`; `get_messages` lists what is in it. To compute one yourself, begin with
    `View.from_path` or `View.from_snapshot`, then `extend` it.
    """

    __slots__ = ("_unit_count", "_units", "length", "open_step", "path", "range_refs", "state")

    def __init__(  # noqa: PLR0913, PLR0917 - the whole state of a fold, given by the fold alone
        self,
        path: Path,
        length: int,
        refs: tuple[RangeRef, ...],
        units: list[Unit],
        count: int,
        step: OpenStep | None,
        marks: FoldState,
    ) -> None:
        self.path, self.length, self.range_refs, self._units, self._unit_count = path, length, refs, units, count
        self.open_step, self.state = step, marks

    def __repr__(self) -> str:
        return f"<View: {self.describe_size()}>"

    def describe_size(self) -> str:
        """Says how much is in view, of how many entries, and how many compactions are in force."""
        shown, blocks = sum(1 for _ in self.get_visible_messages()), len(self.state.live_blocks)
        messages = f"{shown:,} message{'s' * (shown != 1)} in view"
        entries = f"{self.length:,} {'entry' if self.length == 1 else 'entries'}"
        compactions = [f"{blocks:,} compaction{'s' * (blocks != 1)} in force"] if blocks else []
        return ", ".join([messages, entries, *compactions])

    @classmethod
    def build_empty(cls, path: Path) -> View:
        """Returns the view before the first entry of the path."""
        return cls(path, 0, (), [], 0, None, FoldState())

    @classmethod
    def from_path(cls, path: Path) -> View:
        """Folds the whole path."""
        start = cls.build_empty(path)
        return start.extend(path.get_entries(0, path.length - 1)) if path.length else start

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot, path: Path, *, include_later: bool = True) -> View:
        """Folds the path, starting from a snapshot of its first `snapshot.length` entries.

        With `include_later` False, only those entries are folded, and the caller extends the view.
        """
        marks = FoldState(
            snapshot.live_blocks,
            frozenset(snapshot.pins),
            last_change=snapshot.length - 1,
            undone=snapshot.undone,
            rule_settings=snapshot.rule_settings,
            is_auto_off=snapshot.is_auto_off,
        )
        start = cls(path, snapshot.length, snapshot.range_refs, [], 0, None, marks)._rebuild_units(
            snapshot.range_refs, {}
        )
        if not include_later or path.length == snapshot.length:
            return start
        return start.extend(path.get_entries(snapshot.length, path.length - 1))

    @property
    def units(self) -> Sequence[Unit]:
        """The closed units, oldest first. The open step, if any, is `open_step`."""
        return self._units[: self._unit_count]

    @property
    def closed_units(self) -> tuple[list[Unit], int]:
        """The shared list of units, and how many of them are this view's. For incremental readers only."""
        return self._units, self._unit_count

    def get_visible_messages(self) -> Iterator[VisibleMessage]:
        """Yields every message of the view in order, those of the open step included."""
        for index in range(self._unit_count):
            yield from self._units[index].visible_messages
        if self.open_step is not None:
            yield from get_step_messages(self.open_step, closing=False)

    def get_messages(self) -> list[Message]:
        """Returns the messages to send: those of `get_visible_messages`."""
        return [s.message for s in self.get_visible_messages()]

    def fork(self) -> View:
        """Returns the same view on a path of its own, on which entries can be tried."""
        path = self.path.fork(self.length)
        return View(path, self.length, self.range_refs, self._units, self._unit_count, self.open_step, self.state)

    def to_snapshot(self, meter_state: bytes = b"") -> Snapshot:
        """Returns the few numbers from which `from_snapshot` rebuilds this view."""
        marks = self.state
        return Snapshot(
            self.length,
            self.range_refs,
            marks.live_blocks,
            tuple(sorted(marks.pins)),
            marks.undone,
            meter_state,
            marks.rule_settings,
            marks.is_auto_off,
        )

    def get_slice(self, first: int, last: int) -> tuple[RangeRef, ...] | None:
        """Returns the references that show exactly `first` to `last`, or None if an end lies in a replaced range."""
        out: list[RangeRef] = []
        for ref in self.range_refs:
            if ref.last < first or ref.first > last:
                continue
            if isinstance(ref, Run):
                out.append(Run(max(first, ref.first), min(last, ref.last)))
            elif ref.first < first or ref.last > last:
                return None
            else:
                out.append(ref)
        return tuple(out) if out and out[0].first == first and out[-1].last == last else None

    def get_replacement(self, part: BlockPart) -> Replacement:
        """Returns the replacement that a reference in view names."""
        return self.path.get_block(part.block).replacements[part.index]

    def find_newest_block(self) -> Block | None:
        """Returns the newest live Block, None if there is none."""
        if not self.state.live_blocks:
            return None
        return self.path.get_block(self.state.live_blocks[-1])

    def list_block_facts(self, last: int | None = None) -> tuple[Fact, ...]:
        """Lists the facts that the live Blocks hold together, oldest first; with `last`, those up to that position.

        The Blocks are loaded for it. What a damaged one held is missing.
        """
        return tuple(sorted(fold_facts(self._list_fact_blocks(last)).values(), key=lambda fact: fact.order))

    def with_facts(self, block: Block, facts: Sequence[Fact]) -> Block:
        """Returns a Block that is about to follow the live ones, such that all of them together hold these facts.

        The facts are sorted by their `order`. Now and then a Block stores them all, so that few are ever read for them.
        """
        before = self._list_fact_blocks()
        if len(before) >= MAX_FACT_BLOCKS:
            return replace(block, facts=tuple(facts), ended_facts=None)
        stored, ended = find_fact_changes(fold_facts(before), facts)
        return replace(block, facts=stored, ended_facts=ended)

    def _list_fact_blocks(self, last: int | None = None) -> list[tuple[int, Block]]:
        live = self.state.live_blocks
        chain: list[tuple[int, Block]] = []
        for position in reversed(live if last is None else live[: bisect_right(live, last)]):
            block = self.path.get_entry(position)
            if isinstance(block, Block):
                chain.append((position, block))
                if block.ended_facts is None:
                    break
        return chain[::-1]

    def has_whole_units(self, first: int, last: int) -> bool:
        """Whether `first` to `last` are whole closed units. Only such a range may be replaced by a Block."""
        units = self._units
        low = bisect_left(units, first, hi=self._unit_count, key=_get_first)
        high = bisect_right(units, last, hi=self._unit_count, key=_get_first) - 1
        return low < self._unit_count and units[low].first == first and high >= low and units[high].last == last

    def can_append(self, block: Block) -> bool:
        """Whether the Block can be appended here: its ranges are whole units, and show exactly what it covers."""
        try:
            self._apply_block(block, self.length)
        except StaleBlock:
            return False
        return True

    def extend(self, entries: Iterable[Entry]) -> View:
        """Returns the view after these entries. They must be on the path already, right after this view's end."""
        view = self
        plain: list[tuple[int, Entry]] = []
        position = self.length
        for entry in entries:
            if (
                isinstance(entry, Block | Retraction | Pin | Attempt)
                or is_rule_setting(entry)
                or is_auto_setting(entry)
            ):
                view = view._append_entries(plain)._apply_entry(position, entry)
                plain = []
            else:
                plain.append((position, entry))
            position += 1
        return view._append_entries(plain)

    # -- the fold, one entry kind at a time ------------------------------------------------------------------------

    def _append_entries(self, entries: list[tuple[int, Entry]]) -> View:
        if not entries:
            return self
        closed, step = scan_entries(entries, self.open_step)
        units = self._units if self._unit_count == len(self._units) else self._units[: self._unit_count]
        units.extend(closed)
        length = entries[-1][0] + 1
        refs = _extend_refs(self.range_refs, self.length, length - 1)
        return View(self.path, length, refs, units, len(units), step, self.state)

    def _apply_entry(self, position: int, entry: Entry) -> View:
        view = self
        marks = self.state
        match entry:
            case Block():
                try:
                    view = self._apply_block(entry, position)
                    marks = replace(
                        marks,
                        live_blocks=(*marks.live_blocks, position),
                        last_change=position,
                        undone=False,
                        attempts=(),
                    )
                except StaleBlock:
                    marks = replace(marks, stale_entries=(*marks.stale_entries, position))
            case Retraction():
                newest = self.find_newest_block() if entry.block else None
                if not entry.block:  # on another branch, so there is nothing to show again
                    marks = replace(marks, last_change=position, undone=True, attempts=())
                elif newest is not None and newest.id == entry.block:
                    view = self._without_block(marks.live_blocks[-1])
                    marks = replace(
                        marks, live_blocks=marks.live_blocks[:-1], last_change=position, undone=True, attempts=()
                    )
                else:
                    marks = replace(marks, stale_entries=(*marks.stale_entries, position))
            case Pin():
                pins = marks.pins | {entry.position} if entry.pinned else marks.pins - {entry.position}
                marks = replace(marks, pins=pins)
            case Attempt():
                marks = replace(marks, attempts=(*marks.attempts, position))
            case Setting(key=key, value=value) if key == AUTO_COMPACTION:
                marks = replace(marks, is_auto_off=value == "off")
            case _:
                marks = replace(marks, rule_settings=(*marks.rule_settings, position))
        silent = view._append_entries([(position, entry)])
        return View(
            silent.path, silent.length, silent.range_refs, silent._units, silent._unit_count, silent.open_step, marks
        )

    def _apply_block(self, block: Block, position: int) -> View:
        view = self
        for index, replacement in enumerate(block.replacements):
            first, last = replacement.first, replacement.last
            covers = _resolve_own_block(replacement.covered_ranges, position)
            kept = (item.position for item in replacement.shown_items if isinstance(item, KeptOriginal))
            if (
                view.get_slice(first, last) != covers
                or not view.has_whole_units(first, last)
                or not all(0 <= each < position for each in kept)
            ):
                raise StaleBlock(
                    f"Block {block.id}: positions {first}..{last} are not in view as it covers them; "
                    "plan again on the present view"
                )
            rep = BlockPart(position, index, first, last)
            unit = Unit(first, last, "rep", _show_replacement(replacement, rep, self.path), rep)
            low = bisect_left(view._units, first, hi=view._unit_count, key=_get_first)
            high = bisect_right(view._units, last, hi=view._unit_count, key=_get_first)
            units = [*view._units[:low], unit, *view._units[high : view._unit_count]]
            refs = _splice_refs(view.range_refs, first, last, (rep,))
            view = View(self.path, self.length, refs, units, len(units), self.open_step, self.state)
        return view

    def _without_block(self, position: int) -> View:
        block = self.path.get_block(position)
        refs = self.range_refs
        for replacement in reversed(block.replacements):
            covers = _resolve_own_block(replacement.covered_ranges, position)
            refs = _splice_refs(refs, replacement.first, replacement.last, covers)
        kept = {u.block_part: u for u in self.units if u.block_part is not None}
        return self._rebuild_units(refs, kept)

    def _rebuild_units(self, refs: tuple[RangeRef, ...], known_units: dict[BlockPart, Unit]) -> View:
        units: list[Unit] = []
        step: OpenStep | None = None
        for ref in refs:
            if step is not None:  # unanswered, so the assistant entry that begins the next range closes it
                units.append(close_step(step))
                step = None
            if isinstance(ref, Run):
                entries = self.path.get_entries(ref.first, ref.last)
                closed, step = scan_entries(enumerate(entries, ref.first), None)
                units.extend(closed)
            elif ref in known_units:
                units.append(known_units[ref])
            else:
                shown = _show_replacement(self.get_replacement(ref), ref, self.path)
                units.append(Unit(ref.first, ref.last, "rep", shown, ref))
        return View(self.path, self.length, refs, units, len(units), step, self.state)


def _show_replacement(replacement: Replacement, block_part: BlockPart, path: Path) -> tuple[VisibleMessage, ...]:
    out: list[VisibleMessage] = []
    for index, show in enumerate(replacement.shown_items):
        if isinstance(show, KeptOriginal):
            message = get_message(path.get_entry(show.position))
            if message is not None:
                out.append(build_original(show.position, message))
        else:
            key = build_block_key(block_part, index)
            out.append(VisibleMessage(show.message, block_part.block, show.original_position, key, False))
    return tuple(out)


def _resolve_own_block(covers: tuple[RangeRef, ...], position: int) -> tuple[RangeRef, ...]:
    return tuple(
        BlockPart(position, ref.index, ref.first, ref.last)
        if isinstance(ref, BlockPart) and ref.block == OWN_BLOCK
        else ref
        for ref in covers
    )


def _extend_refs(refs: tuple[RangeRef, ...], first: int, last: int) -> tuple[RangeRef, ...]:
    if refs and isinstance(refs[-1], Run):
        return (*refs[:-1], Run(refs[-1].first, last))
    return (*refs, Run(first, last))


def _splice_refs(
    refs: tuple[RangeRef, ...], first: int, last: int, middle: tuple[RangeRef, ...]
) -> tuple[RangeRef, ...]:
    out: list[RangeRef] = []
    for ref in refs:
        if ref.last < first:
            out.append(ref)
        elif ref.first < first:
            out.append(Run(ref.first, first - 1))
    out.extend(middle)
    for ref in refs:
        if ref.first > last:
            out.append(ref)
        elif ref.last > last:
            out.append(Run(last + 1, ref.last))
    return _merge_runs(out)


def _merge_runs(refs: list[RangeRef]) -> tuple[RangeRef, ...]:
    out: list[RangeRef] = []
    for ref in refs:
        if out and isinstance(ref, Run) and isinstance(out[-1], Run):
            out[-1] = Run(out[-1].first, ref.last)
        else:
            out.append(ref)
    return tuple(out)
