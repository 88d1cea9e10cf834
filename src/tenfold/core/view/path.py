"""The entries from the root to a leaf, addressed by position. An entry is loaded only when someone asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tenfold.core.record.block import Batch, Block, Slot, resolve_slot
from tenfold.core.record.entry import Entry, get_message
from tenfold.core.record.message import Message
from tenfold.errors import RecordError

EntryLoader = Callable[[int, int], Sequence[Entry]]


class Path:
    """Entries by position (root = 0). Missing ones are fetched with `load(first, last)`, both ends inclusive.

    Entries are only ever appended. A position therefore means the same entry for as long as the object lives. `purges`
    is how many purges the session had had when the path was read; entries that were purged since may still be here.
    """

    __slots__ = ("_entries", "_load", "length", "purges")

    def __init__(
        self,
        entries: Iterable[Entry] = (),
        *,
        length: int | None = None,
        load: EntryLoader | None = None,
        purges: int = 0,
    ) -> None:
        self._entries: dict[int, Entry] = dict(enumerate(entries))
        self._load = load
        self.purges = purges
        self.length = len(self._entries) if length is None else length

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.length:,} entries>"

    def append(self, entry: Entry) -> int:
        """Adds the next entry and returns its position."""
        position = self.length
        self._entries[position] = entry
        self.length = position + 1
        return position

    def drop_last(self) -> None:
        """Removes the newest entry again, after the store refused to write it."""
        self.length -= 1
        del self._entries[self.length]

    def cache_entry(self, position: int, entry: Entry) -> None:
        """Caches an entry that was loaded elsewhere, so that it is not loaded again."""
        self._entries[position] = entry

    def get_entry(self, position: int) -> Entry:
        """Returns the entry at `position`. Raises IndexError outside the path."""
        entry = self._entries.get(position)
        return entry if entry is not None else self.get_entries(position, position)[0]

    def get_block(self, position: int) -> Block:
        """Returns the Block at `position`. Raises `RecordError` if its record is damaged, so that it cannot be read."""
        block = self.get_entry(position)
        if not isinstance(block, Block):
            raise RecordError(
                f"the Block at position {position} cannot be read, so nobody can tell what it replaced; "
                "`tenfold expand NUMBER` still prints each original, and `tenfold verify` names the damage"
            )
        return block

    def get_batch(self, slot: Slot) -> Batch:
        """Returns the batch that a resolved slot names. Raises `RecordError` if its Block is damaged."""
        return self.get_block(slot.block).batches[slot.index]

    def list_top_batches(self, position: int) -> tuple[tuple[Slot, Batch], ...]:
        """Returns the top level of batches after the Block at `position`, oldest first. () for any other entry."""
        block = self.get_entry(position)
        slots = (resolve_slot(s, position) for s in block.top_batches) if isinstance(block, Block) else ()
        return tuple((slot, self.get_batch(slot)) for slot in slots)

    def get_entries(self, first: int, last: int) -> list[Entry]:
        """Returns the entries `first` to `last`, both inclusive. Loads missing ones with one call per gap."""
        if first < 0 or last >= self.length:
            raise IndexError(f"positions {first}..{last} are not on a path of {self.length} entries")
        known = self._entries
        position = first
        while position <= last:
            if position in known:
                position += 1
                continue
            end = position
            while end < last and end + 1 not in known:
                end += 1
            if self._load is None:
                raise IndexError(f"position {position} is not loaded")
            known.update(zip(range(position, end + 1), self._load(position, end), strict=True))
            position = end + 1
        return [known[p] for p in range(first, last + 1)]

    def list_messages(self) -> Iterator[tuple[int, Message]]:
        """Yields the messages of the path with their positions, in order. Entries are loaded as they are asked for."""
        for position in range(self.length):
            message = get_message(self.get_entry(position))
            if message is not None:
                yield position, message

    def fork(self, length: int) -> Path:
        """Returns a path of the first `length` entries, which may then grow apart from this one.

        Another thread may be loading entries of this one: they are copied at once, and then gone through.
        """
        twin = Path(length=length, load=self._load, purges=self.purges)
        twin._entries = {p: e for p, e in self._entries.copy().items() if p < length}
        return twin
