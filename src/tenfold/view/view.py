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

from tenfold.errors import StaleBlock
from tenfold.record.block import OWN, Block, Keep, Ref, Rep, Replacement, Run
from tenfold.record.entry import Attempt, Entry, Pin, Retraction, message_of
from tenfold.record.message import Message
from tenfold.view.path import Path
from tenfold.view.units import OpenStep, Shown, Unit, close, original, scan, shown_of

_first = attrgetter("first")


class Snapshot(Struct, frozen=True, array_like=True):
    """What is in view right after a Block or retraction. It is derived data, and can be recomputed from the log.

    `length` entries were folded, and the Block or retraction is the last of them. `range_refs` cover these positions
    without gaps. `live_blocks` are the positions of live Blocks, oldest first, `pins` the pinned positions. `undone` is
    True after a retraction, False after a Block. `meter_state` is the token calibration by model, as
    `encode_calibration` writes it.
    """

    length: int
    refs: tuple[Ref, ...]
    live: tuple[int, ...]
    pins: tuple[int, ...]
    undone: bool = False
    meter: bytes = b""


class Marks(Struct, frozen=True):
    """What the fold tracks besides messages.

    `live_blocks` are the positions of live Blocks, oldest first. `stale_entries` are Blocks and retractions that did
    not apply. `last_change` is the position of the newest Block or retraction (-1: none), and `undone` says whether it
    was a retraction. `attempts` are the positions of the attempts after it.
    """

    live: tuple[int, ...] = ()
    pins: frozenset[int] = frozenset()
    stale: tuple[int, ...] = ()
    changed: int = -1
    undone: bool = False
    attempts: tuple[int, ...] = ()


class View:
    """What the model sees at one leaf.

    Build one with `View.from_path` or `View.from_snapshot`, then `extend` it.
    """

    __slots__ = ("_count", "_units", "length", "marks", "path", "refs", "step")

    def __init__(  # noqa: PLR0913, PLR0917 - the whole state of a fold, given by the fold alone
        self,
        path: Path,
        length: int,
        refs: tuple[Ref, ...],
        units: list[Unit],
        count: int,
        step: OpenStep | None,
        marks: Marks,
    ) -> None:
        self.path, self.length, self.refs, self._units, self._count = path, length, refs, units, count
        self.step, self.marks = step, marks

    @classmethod
    def empty(cls, path: Path) -> View:
        """Returns the view before the first entry of the path."""
        return cls(path, 0, (), [], 0, None, Marks())

    @classmethod
    def of(cls, path: Path) -> View:
        """Folds the whole path."""
        return cls.empty(path).extend(path.span(0, path.length - 1)) if path.length else cls.empty(path)

    @classmethod
    def opened(cls, snapshot: Snapshot, path: Path, *, later: bool = True) -> View:
        """Folds the path, starting from a snapshot of its first `snapshot.length` entries.

        With `include_later` False, only those entries are folded, and the caller extends the view.
        """
        marks = Marks(snapshot.live, frozenset(snapshot.pins), (), snapshot.length - 1, snapshot.undone)
        start = cls(path, snapshot.length, snapshot.refs, [], 0, None, marks)._rescanned(snapshot.refs, {})
        if not later or path.length == snapshot.length:
            return start
        return start.extend(path.span(snapshot.length, path.length - 1))

    @property
    def units(self) -> Sequence[Unit]:
        """The closed units, oldest first. The open step, if any, is `open_step`."""
        return self._units[: self._count]

    @property
    def closed(self) -> tuple[list[Unit], int]:
        """The shared list of units, and how many of them are this view's. For incremental readers only."""
        return self._units, self._count

    def shown(self) -> Iterator[Shown]:
        """Yields every message of the view in order, those of the open step included."""
        for index in range(self._count):
            yield from self._units[index].shown
        if self.step is not None:
            yield from shown_of(self.step, closing=False)

    def messages(self) -> list[Message]:
        """Returns the messages to send: those of `get_visible_messages`."""
        return [s.message for s in self.shown()]

    def snapshot(self, meter: bytes = b"") -> Snapshot:
        """Returns the few numbers from which `from_snapshot` rebuilds this view."""
        marks = self.marks
        return Snapshot(self.length, self.refs, marks.live, tuple(sorted(marks.pins)), marks.undone, meter)

    def slice(self, first: int, last: int) -> tuple[Ref, ...] | None:
        """Returns the references that show exactly `first` to `last`, or None if an end lies in a replaced range."""
        out: list[Ref] = []
        for ref in self.refs:
            if ref.last < first or ref.first > last:
                continue
            if isinstance(ref, Run):
                out.append(Run(max(first, ref.first), min(last, ref.last)))
            elif ref.first < first or ref.last > last:
                return None
            else:
                out.append(ref)
        return tuple(out) if out and out[0].first == first and out[-1].last == last else None

    def whole(self, first: int, last: int) -> bool:
        """Whether `first` to `last` are whole closed units. Only such a range may be replaced by a Block."""
        units = self._units
        low = bisect_left(units, first, hi=self._count, key=_first)
        high = bisect_right(units, last, hi=self._count, key=_first) - 1
        return low < self._count and units[low].first == first and high >= low and units[high].last == last

    def fits(self, block: Block) -> bool:
        """Whether the Block can be appended here: its ranges are whole units, and show exactly what it covers."""
        try:
            self._applied(block, self.length)
        except StaleBlock:
            return False
        return True

    def extend(self, entries: Iterable[Entry]) -> View:
        """Returns the view after these entries. They must be on the path already, right after this view's end."""
        view = self
        plain: list[tuple[int, Entry]] = []
        position = self.length
        for entry in entries:
            if isinstance(entry, Block | Retraction | Pin | Attempt):
                view = view._said(plain)._took(position, entry)
                plain = []
            else:
                plain.append((position, entry))
            position += 1
        return view._said(plain)

    # -- the fold, one entry kind at a time ------------------------------------------------------------------------

    def _said(self, entries: list[tuple[int, Entry]]) -> View:
        if not entries:
            return self
        closed, step = scan(entries, self.step)
        units = self._units if self._count == len(self._units) else self._units[: self._count]
        units.extend(closed)
        length = entries[-1][0] + 1
        refs = _grown(self.refs, self.length, length - 1)
        return View(self.path, length, refs, units, len(units), step, self.marks)

    def _took(self, position: int, entry: Block | Retraction | Pin | Attempt) -> View:
        view = self
        marks = self.marks
        match entry:
            case Block():
                try:
                    view = self._applied(entry, position)
                    marks = replace(marks, live=(*marks.live, position), changed=position, undone=False, attempts=())
                except StaleBlock:
                    marks = replace(marks, stale=(*marks.stale, position))
            case Retraction():
                if marks.live and self.path.at(marks.live[-1]).id == entry.block:
                    view = self._without(marks.live[-1])
                    marks = replace(marks, live=marks.live[:-1], changed=position, undone=True, attempts=())
                else:
                    marks = replace(marks, stale=(*marks.stale, position))
            case Pin():
                pins = marks.pins | {entry.at} if entry.on else marks.pins - {entry.at}
                marks = replace(marks, pins=pins)
            case Attempt():
                marks = replace(marks, attempts=(*marks.attempts, position))
        silent = view._said([(position, entry)])
        return View(silent.path, silent.length, silent.refs, silent._units, silent._count, silent.step, marks)

    def _applied(self, block: Block, position: int) -> View:
        view = self
        for index, replacement in enumerate(block.replacements):
            first, last = replacement.first, replacement.last
            covers = _addressed(replacement.covers, position)
            if view.slice(first, last) != covers or not view.whole(first, last):
                raise StaleBlock(
                    f"Block {block.id}: positions {first}..{last} are not in view as it covers them; "
                    "plan again on the present view"
                )
            rep = Rep(position, index, first, last)
            unit = Unit(first, last, "rep", _replaced(replacement, rep, self.path), rep)
            low = bisect_left(view._units, first, hi=view._count, key=_first)
            high = bisect_right(view._units, last, hi=view._count, key=_first)
            units = [*view._units[:low], unit, *view._units[high : view._count]]
            refs = _spliced(view.refs, first, last, (rep,))
            view = View(self.path, self.length, refs, units, len(units), self.step, self.marks)
        return view

    def _without(self, position: int) -> View:
        block = self.path.at(position)
        assert isinstance(block, Block)
        refs = self.refs
        for replacement in reversed(block.replacements):
            covers = _addressed(replacement.covers, position)
            refs = _spliced(refs, replacement.first, replacement.last, covers)
        kept = {u.ref: u for u in self.units if u.ref is not None}
        return self._rescanned(refs, kept)

    def _rescanned(self, refs: tuple[Ref, ...], kept: dict[Rep, Unit]) -> View:
        units: list[Unit] = []
        step: OpenStep | None = None
        for ref in refs:
            if step is not None:  # unanswered, so the assistant entry that begins the next range closes it
                units.append(close(step))
                step = None
            if isinstance(ref, Run):
                entries = self.path.span(ref.first, ref.last)
                closed, step = scan(enumerate(entries, ref.first), None)
                units.extend(closed)
            elif ref in kept:
                units.append(kept[ref])
            else:
                shown = _replaced(self._replacement(ref), ref, self.path)
                units.append(Unit(ref.first, ref.last, "rep", shown, ref))
        return View(self.path, self.length, refs, units, len(units), step, self.marks)

    def _replacement(self, ref: Rep) -> Replacement:
        block = self.path.at(ref.block)
        assert isinstance(block, Block)
        return block.replacements[ref.index]


def _replaced(replacement: Replacement, rep: Rep, path: Path) -> tuple[Shown, ...]:
    out: list[Shown] = []
    for index, show in enumerate(replacement.show):
        if isinstance(show, Keep):
            message = message_of(path.at(show.position))
            if message is not None:
                out.append(original(show.position, message))
        else:
            out.append(Shown(show.message, rep.block, show.of, (rep.block, rep.index, index), False))
    return tuple(out)


def _addressed(covers: tuple[Ref, ...], position: int) -> tuple[Ref, ...]:
    return tuple(
        Rep(position, ref.index, ref.first, ref.last) if isinstance(ref, Rep) and ref.block == OWN else ref
        for ref in covers
    )


def _grown(refs: tuple[Ref, ...], first: int, last: int) -> tuple[Ref, ...]:
    if refs and isinstance(refs[-1], Run):
        return (*refs[:-1], Run(refs[-1].first, last))
    return (*refs, Run(first, last))


def _spliced(refs: tuple[Ref, ...], first: int, last: int, middle: tuple[Ref, ...]) -> tuple[Ref, ...]:
    out: list[Ref] = []
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
    return _merged(out)


def _merged(refs: list[Ref]) -> tuple[Ref, ...]:
    out: list[Ref] = []
    for ref in refs:
        if out and isinstance(ref, Run) and isinstance(out[-1], Run):
            out[-1] = Run(out[-1].first, ref.last)
        else:
            out.append(ref)
    return tuple(out)
