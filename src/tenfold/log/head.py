"""One open head of a session: its path, its view, and what the meter has learned along the path.

Appending writes to the store first and changes the view second. If the store refuses, everything stays as it was. This
module does not decide whether to compact.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenfold.log.base import Opened, Store
from tenfold.meter.counters import Counter
from tenfold.meter.estimators import Anchors, decode, encode, rebased, reported
from tenfold.meter.reading import Sizes, Tally
from tenfold.record.block import Block, Keep, Ref, Rep, Run
from tenfold.record.entry import Entry, Retraction, Said, message_of
from tenfold.view.path import Path
from tenfold.view.units import original
from tenfold.view.view import View


class Head:
    """A leaf to read from and append to. It is not thread-safe: the conversation that owns it holds a lock."""

    def __init__(self, store: Store, namespace: str, session: str, *, name: str, counter: Counter) -> None:
        """Opens the head `name` from its newest snapshot and what follows, which costs O(view), not O(log)."""
        self.store, self.namespace, self.session, self.name, self.counter = store, namespace, session, name, counter
        self.refresh()

    def refresh(self) -> None:
        """Reads the head again, with anything that other writers have appended."""
        state = self.store.open(self.namespace, self.session, self.name)
        self.leaf = self._stored = state.leaf
        self._uncounted: tuple[Ref, ...] = ()
        self.sizes = Sizes(self.counter)
        self.tally = Tally(self.sizes)
        refs = state.snapshot.refs if state.snapshot else ()
        later = state.length - len(state.entries)
        self._uncounted = (*refs, Run(later, state.length - 1)) if state.entries else refs
        path = Path(length=state.length, load=self._load)
        for position, entry in enumerate(state.entries, state.length - len(state.entries)):
            path.know(position, entry)
        for position, entry in state.held.items():
            path.know(position, entry)
        self._fold(path, state)

    def _load(self, first: int, last: int) -> Sequence[Entry]:
        assert self.leaf is not None
        return self.store.span(self.namespace, self.session, self.leaf, first, last)

    def _fold(self, path: Path, opened: Opened) -> None:
        start = View.opened(opened.snapshot, path, later=False) if opened.snapshot else View.empty(path)
        self.anchors = decode(opened.snapshot.meter) if opened.snapshot else Anchors()
        self.view = start
        if any(isinstance(e, Said) and e.usage is not None for e in opened.entries):
            for entry in opened.entries:
                self._take(entry)
        else:
            self.view = start.extend(opened.entries)

    def _take(self, entry: Entry) -> None:
        """Folds one entry. If it carries usage, the meter learns from it, since the view is still the one sent."""
        if isinstance(entry, Said) and entry.usage is not None:
            self.know_counts()
            estimate, status = self.tally(self.view), entry.message.status
            self.anchors = reported(self.anchors, entry.usage, estimate, self.counter.name, status=status)
        elif isinstance(entry, Block | Retraction):
            self.anchors = rebased(self.anchors)
        self.view = self.view.extend((entry,))

    def know_counts(self) -> None:
        """Loads the stored token counts of what is in view, so that nothing is counted twice."""
        refs, self._uncounted = self._uncounted, ()
        for ref in refs:
            if isinstance(ref, Rep):
                self._know_replacement(ref)
            elif self.leaf is not None:
                counts = self.store.counts(
                    self.namespace, self.session, self.leaf, self.counter.name, ref.first, ref.last
                )
                for position, tokens in enumerate(counts, ref.first):
                    if tokens is not None:
                        self.sizes.know((position, 0, -1), tokens)

    def _know_replacement(self, ref: Rep) -> None:
        block = self.view.path.at(ref.block)
        if not isinstance(block, Block) or block.counter != self.counter.name:
            return
        replacement = block.replacements[ref.index]
        if not replacement.sizes:  # a purge changed its text, so the stored sizes no longer hold
            return
        for index, (show, tokens) in enumerate(zip(replacement.show, replacement.sizes, strict=True)):
            key = (show.position, 0, -1) if isinstance(show, Keep) else (ref.block, ref.index, index)
            self.sizes.know(key, tokens)

    def uncompacted(self) -> int:
        """Counts the tokens of every message on the path, using the stored counts where there are any."""
        if not self.view.marks.live:
            return self.tally(self.view)
        length = self.view.length
        assert self.leaf is not None
        stored = self.store.counts(self.namespace, self.session, self.leaf, self.counter.name, 0, length - 1)
        if any(n is None for n in stored):
            entries = enumerate(self.view.path.span(0, length - 1))
            originals = [original(p, m) for p, e in entries if (m := message_of(e)) is not None]
            return sum(self.sizes.each(originals))
        return sum(n for n in stored if n is not None)

    def append(self, entries: Sequence[Entry]) -> None:
        """Appends entries whose parents form a chain from the leaf.

        Raises whatever the store raises, and nothing is changed then.
        """
        view, anchors, path = self.view, self.anchors, self.view.path
        self.know_counts()
        try:
            for entry in entries:
                path.append(entry)
                self._take(entry)
            changed = isinstance(entries[-1], Block | Retraction)
            self.store.append(
                self.namespace,
                self.session,
                entries,
                expected=self._stored,
                head=self.name,
                snapshot=self.view.snapshot(encode(self.anchors)) if changed else None,
                counts={self.counter.name: self._counts(entries, view.length)},
            )
        except BaseException:
            while path.length > view.length:
                path.drop()
            self.view, self.anchors = view, anchors
            self.sizes = self.sizes.fork(view.length)  # other messages will take these positions
            self.tally = Tally(self.sizes)
            raise
        self.leaf = self._stored = entries[-1].id

    def _counts(self, entries: Sequence[Entry], first: int) -> list[int]:
        originals = [original(p, m) for p, e in enumerate(entries, first) if (m := message_of(e)) is not None]
        sizes = iter(self.sizes.each(originals))
        return [next(sizes) if message_of(e) is not None else 0 for e in entries]

    def move(self, path: Path) -> None:
        """Moves to the end of another path of the tree. New entries are appended there."""
        self.leaf = path.at(path.length - 1).id if path.length else None
        self.view = View.of(path)
        self.sizes = Sizes(self.counter)
        self.tally = Tally(self.sizes)
        self._uncounted = self.view.refs
        self.anchors = rebased(self.anchors)

    def rewind(self, position: int) -> None:
        """Moves back to the entry at `position` (-1: before the first). New entries branch off there."""
        path = self.view.path.fork(position + 1)
        self.leaf = path.at(position).id if position >= 0 else None
        self.view = View.of(path)
        self.sizes = self.sizes.fork(position + 1)
        self.tally = Tally(self.sizes)
        self._uncounted = self.view.refs if self._uncounted else ()
        self.anchors = rebased(self.anchors)
