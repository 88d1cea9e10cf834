"""One head of a session, opened: its path, its view, and what the meter has learned along it.

Appending persists first and installs second: a store that refuses leaves everything as it was. Nothing here decides
whether to compact; `session.py` does.
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
    """A leaf to read from and append to. Not safe from several threads by itself: the session holds the lock."""

    def __init__(self, store: Store, namespace: str, session: str, *, name: str, counter: Counter) -> None:
        """Opens the head `name`, reading the newest snapshot and what follows it: O(view), not O(log)."""
        self.store, self.namespace, self.session, self.name, self.counter = store, namespace, session, name, counter
        self.refresh()

    def refresh(self) -> None:
        """Reads the head again, with whatever other writers appended to it."""
        opened = self.store.open(self.namespace, self.session, self.name)
        self.leaf = self._stored = opened.leaf
        self._uncounted: tuple[Ref, ...] = ()
        self.sizes = Sizes(self.counter)
        self.tally = Tally(self.sizes)
        refs = opened.snapshot.refs if opened.snapshot else ()
        later = opened.length - len(opened.entries)
        self._uncounted = (*refs, Run(later, opened.length - 1)) if opened.entries else refs
        path = Path(length=opened.length, load=self._load)
        for position, entry in enumerate(opened.entries, opened.length - len(opened.entries)):
            path.know(position, entry)
        for position, entry in opened.held.items():
            path.know(position, entry)
        self._fold(path, opened)

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
        """Folds one entry, learning from the usage it carries while the view is still the one that was sent."""
        if isinstance(entry, Said) and entry.usage is not None:
            self.know_counts()
            estimate, status = self.tally(self.view), entry.message.status
            self.anchors = reported(self.anchors, entry.usage, estimate, self.counter.name, status=status)
        elif isinstance(entry, Block | Retraction):
            self.anchors = rebased(self.anchors)
        self.view = self.view.extend((entry,))

    def know_counts(self) -> None:
        """Takes the token counts that the store holds for what is in view, so that nothing is counted again."""
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
        made = block.replacements[ref.index]
        if not made.sizes:  # purge took something out of it, so its sizes are not known any more
            return
        for index, (show, tokens) in enumerate(zip(made.show, made.sizes, strict=True)):
            key = (show.position, 0, -1) if isinstance(show, Keep) else (ref.block, ref.index, index)
            self.sizes.know(key, tokens)

    def uncompacted(self) -> int:
        """Tokens of every message on the path, from the stored counts where there are some."""
        if not self.view.marks.live:
            return self.tally(self.view)
        length = self.view.length
        assert self.leaf is not None
        stored = self.store.counts(self.namespace, self.session, self.leaf, self.counter.name, 0, length - 1)
        if any(n is None for n in stored):
            entries = enumerate(self.view.path.span(0, length - 1))
            shown = [original(p, m) for p, e in entries if (m := message_of(e)) is not None]
            return sum(self.sizes.each(shown))
        return sum(n for n in stored if n is not None)

    def append(self, entries: Sequence[Entry]) -> None:
        """Appends entries whose parents chain from the leaf. Raises what the store raises; nothing is changed then."""
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
            self.sizes = self.sizes.fork(view.length)  # positions are given again, to other messages
            self.tally = Tally(self.sizes)
            raise
        self.leaf = self._stored = entries[-1].id

    def _counts(self, entries: Sequence[Entry], first: int) -> list[int]:
        shown = [original(p, m) for p, e in enumerate(entries, first) if (m := message_of(e)) is not None]
        sizes = iter(self.sizes.each(shown))
        return [next(sizes) if message_of(e) is not None else 0 for e in entries]

    def move(self, path: Path) -> None:
        """Goes to the end of another path of the tree; what is appended next hangs there."""
        self.leaf = path.at(path.length - 1).id if path.length else None
        self.view = View.of(path)
        self.sizes = Sizes(self.counter)
        self.tally = Tally(self.sizes)
        self._uncounted = self.view.refs
        self.anchors = rebased(self.anchors)

    def rewind(self, position: int) -> None:
        """Goes back to the entry at `position` (-1: before the first); what is appended next branches there."""
        path = self.view.path.fork(position + 1)
        self.leaf = path.at(position).id if position >= 0 else None
        self.view = View.of(path)
        self.sizes = self.sizes.fork(position + 1)
        self.tally = Tally(self.sizes)
        self._uncounted = self.view.refs if self._uncounted else ()
        self.anchors = rebased(self.anchors)
