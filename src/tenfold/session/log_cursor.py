"""One open head of a session: its path, its view, and what the meter has learned along the path.

Appending writes to the store first and changes the view second. If the store refuses, everything stays as it was. This
module does not decide whether to compact.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenfold.meter.counters import Counter
from tenfold.meter.estimators import Calibration, decode_calibration, encode_calibration, expire_reports, record_usage
from tenfold.meter.reading import RunningTotal, TokenCache
from tenfold.record.block import Block, BlockPart, KeptOriginal, RangeRef, Run
from tenfold.record.entry import Entry, MessageEntry, Retraction, get_message
from tenfold.store.base import HeadState, Store
from tenfold.view.fold import View
from tenfold.view.path import Path
from tenfold.view.units import build_block_key, build_original, build_original_key


class Head:
    """A leaf to read from and append to. It is not thread-safe: the conversation that owns it holds a lock."""

    def __init__(self, store: Store, namespace: str, session: str, *, name: str, counter: Counter) -> None:
        """Opens the head `name` from its newest snapshot and what follows, which costs O(view), not O(log)."""
        self.store, self.namespace, self.session, self.name, self.counter = store, namespace, session, name, counter
        self.refresh()

    def refresh(self) -> None:
        """Reads the head again, with anything that other writers have appended."""
        state = self.store.open(self.namespace, self.session, self.name)
        self.leaf = self._stored_leaf = state.leaf
        self._uncounted_refs: tuple[RangeRef, ...] = ()
        self.sizes = TokenCache(self.counter)
        self.tally = RunningTotal(self.sizes)
        refs = state.snapshot.range_refs if state.snapshot else ()
        later = state.length - len(state.entries)
        self._uncounted_refs = (*refs, Run(later, state.length - 1)) if state.entries else refs
        path = Path(length=state.length, load=self._load)
        for position, entry in enumerate(state.entries, state.length - len(state.entries)):
            path.cache_entry(position, entry)
        for position, entry in state.snapshot_entries.items():
            path.cache_entry(position, entry)
        self._fold(path, state)

    def _load(self, first: int, last: int) -> Sequence[Entry]:
        assert self.leaf is not None
        return self.store.read_range(self.namespace, self.session, self.leaf, first, last)

    def _fold(self, path: Path, state: HeadState) -> None:
        start = (
            View.from_snapshot(state.snapshot, path, include_later=False) if state.snapshot else View.build_empty(path)
        )
        self.anchors = decode_calibration(state.snapshot.meter_state) if state.snapshot else Calibration()
        self.view = start
        if any(isinstance(e, MessageEntry) and e.usage is not None for e in state.entries):
            for entry in state.entries:
                self._fold_entry(entry)
        else:
            self.view = start.extend(state.entries)

    def _fold_entry(self, entry: Entry) -> None:
        """Folds one entry. If it carries usage, the meter learns from it, since the view is still the one sent."""
        if isinstance(entry, MessageEntry) and entry.usage is not None:
            self.load_counts()
            estimate, status = self.tally(self.view), entry.message.status
            self.anchors = record_usage(self.anchors, entry.usage, estimate, self.counter.name, status=status)
        elif isinstance(entry, Block | Retraction):
            self.anchors = expire_reports(self.anchors)
        self.view = self.view.extend((entry,))

    def load_counts(self) -> None:
        """Loads the stored token counts of what is in view, so that nothing is counted twice."""
        refs, self._uncounted_refs = self._uncounted_refs, ()
        for ref in refs:
            if isinstance(ref, BlockPart):
                self._load_replacement_counts(ref)
            elif self.leaf is not None:
                counts = self.store.read_counts(
                    self.namespace, self.session, self.leaf, self.counter.name, ref.first, ref.last
                )
                for position, tokens in enumerate(counts, ref.first):
                    if tokens is not None:
                        self.sizes.add(build_original_key(position), tokens)

    def _load_replacement_counts(self, ref: BlockPart) -> None:
        block = self.view.path.get_entry(ref.block)
        if not isinstance(block, Block) or block.counter != self.counter.name:
            return
        replacement = block.replacements[ref.index]
        if not replacement.sizes:  # a purge changed its text, so the stored sizes no longer hold
            return
        for index, (show, tokens) in enumerate(zip(replacement.shown_items, replacement.sizes, strict=True)):
            key = build_original_key(show.position) if isinstance(show, KeptOriginal) else build_block_key(ref, index)
            self.sizes.add(key, tokens)

    def count_uncompacted(self) -> int:
        """Counts the tokens of every message on the path, using the stored counts where there are any."""
        if not self.view.state.live_blocks:
            return self.tally(self.view)
        length = self.view.length
        assert self.leaf is not None
        stored = self.store.read_counts(self.namespace, self.session, self.leaf, self.counter.name, 0, length - 1)
        if any(n is None for n in stored):
            entries = enumerate(self.view.path.get_entries(0, length - 1))
            originals = [build_original(p, m) for p, e in entries if (m := get_message(e)) is not None]
            return sum(self.sizes.measure(originals))
        return sum(n for n in stored if n is not None)

    def append(self, entries: Sequence[Entry]) -> None:
        """Appends entries whose parents form a chain from the leaf.

        Raises whatever the store raises, and nothing is changed then.
        """
        view, anchors, path = self.view, self.anchors, self.view.path
        self.load_counts()
        try:
            for entry in entries:
                path.append(entry)
                self._fold_entry(entry)
            changed = isinstance(entries[-1], Block | Retraction)
            self.store.append(
                self.namespace,
                self.session,
                entries,
                expected=self._stored_leaf,
                head=self.name,
                snapshot=self.view.to_snapshot(encode_calibration(self.anchors)) if changed else None,
                counts={self.counter.name: self._count_tokens(entries, view.length)},
            )
        except BaseException:
            while path.length > view.length:
                path.drop_last()
            self.view, self.anchors = view, anchors
            self.sizes = self.sizes.fork(view.length)  # other messages will take these positions
            self.tally = RunningTotal(self.sizes)
            raise
        self.leaf = self._stored_leaf = entries[-1].id

    def _count_tokens(self, entries: Sequence[Entry], first: int) -> list[int]:
        originals = [build_original(p, m) for p, e in enumerate(entries, first) if (m := get_message(e)) is not None]
        sizes = iter(self.sizes.measure(originals))
        return [next(sizes) if get_message(e) is not None else 0 for e in entries]

    def move_to(self, path: Path) -> None:
        """Moves to the end of another path of the tree. New entries are appended there."""
        self.leaf = path.get_entry(path.length - 1).id if path.length else None
        self.view = View.from_path(path)
        self.sizes = TokenCache(self.counter)
        self.tally = RunningTotal(self.sizes)
        self._uncounted_refs = self.view.range_refs
        self.anchors = expire_reports(self.anchors)

    def rewind(self, position: int) -> None:
        """Moves back to the entry at `position` (-1: before the first). New entries branch off there."""
        path = self.view.path.fork(position + 1)
        self.leaf = path.get_entry(position).id if position >= 0 else None
        self.view = View.from_path(path)
        self.sizes = self.sizes.fork(position + 1)
        self.tally = RunningTotal(self.sizes)
        self._uncounted_refs = self.view.range_refs if self._uncounted_refs else ()
        self.anchors = expire_reports(self.anchors)
