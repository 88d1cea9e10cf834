"""What a store promises. Memory, SQLite (and later PostgreSQL) keep the same contract, tested by one suite.

A session is a tree of entries; a head is a named leaf. `position` is an entry's depth on its path (root = 0).
Every call takes the namespace (the tenant) first. Stores are synchronous, safe to use from several threads, and
never hold a lock across a model call: they know nothing of models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from tenfold.record.entry import Entry
from tenfold.view.view import Snapshot

DEFAULT_NAMESPACE = "default"
MAIN = "main"


class SessionInfo(Struct, frozen=True, omit_defaults=True):
    """What is known of a session apart from its entries.

    `before` and `after` are the bytes around its entries in the file it was read from (empty for line formats), so
    that the originals export byte for byte. `parent` is the session a sidechain belongs to.

    A file may hold several sessions. `lead` stands in it before this session's `before`, `trail` after the last
    session; `opening` and `closing` are what the session needs around it when it is written alone. `weave`, on the
    first session only, is the order of the entries in the file where that is not session by session: runs of
    (session, first entry, how many).
    """

    id: str
    format: str = ""
    file: str = ""
    title: str = ""
    model: str = ""
    parent: str = ""
    source: str = ""
    before: bytes = b""
    after: bytes = b""
    lead: bytes = b""
    trail: bytes = b""
    opening: bytes = b""
    closing: bytes = b""
    weave: tuple[tuple[int, int, int], ...] = ()


class SessionRow(Struct, frozen=True):
    """A line of the sessions' list. `first` and `last` are entry times (microseconds UTC), None when not known."""

    info: SessionInfo
    entries: int
    blocks: int
    first: int | None
    last: int | None
    heads: dict[str, str]


class Opened(Struct, frozen=True):
    """What opening a head reads: O(view), not O(log).

    `length` is the number of entries on the path; `snapshot` the newest one on it, None if there is none;
    `entries` all entries that follow the snapshot (all of the path if there is none). `held` are the entries that the
    snapshot refers to, by position: the originals in view and the Blocks that show something, read in one go.
    """

    leaf: str | None
    length: int
    snapshot: Snapshot | None
    entries: tuple[Entry, ...]
    held: dict[int, Entry] = {}


class Located(Struct, frozen=True):
    """An entry with its place: the session and its depth."""

    session: str
    position: int
    entry: Entry


class Hit(Struct, frozen=True):
    """A search result. `snippet` is redacted and bounded; the entry itself is read with `locate`.

    Behind ` [next message] ` a snippet shows the beginning of what was said right after the entry.
    `scanned` says that the words were found by scanning, because the index does not hold this text or cannot hold
    words this short.
    """

    session: str
    entry: str
    position: int
    kind: str
    snippet: str
    score: float
    scanned: bool = False


class Problem(Struct, frozen=True):
    """Something `verify` found, with the place and what to do about it."""

    session: str
    entry: str
    what: str


class Store(Protocol):
    """Where logs live. All methods may raise `StoreError`; what was there before is then unchanged."""

    def create(self, namespace: str, info: SessionInfo) -> None:
        """Makes a session, or replaces the information of one that exists (its entries are untouched)."""
        ...

    def sessions(self, namespace: str) -> list[SessionRow]:
        """All sessions, newest last entry first."""
        ...

    def append(  # noqa: PLR0913  one append is one transaction, and these are its parts
        self,
        namespace: str,
        session: str,
        entries: Sequence[Entry],
        *,
        expected: str | None,
        head: str = MAIN,
        snapshot: Snapshot | None = None,
        counts: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """Appends entries atomically and moves `head` to the last one.

        `entries[0].parent` must be None or an entry of this session, and each later one's parent an entry of this
        session or of this call: consecutive on one path, or a tree in file order (parents first). `expected` is the
        leaf the caller believes the head has (None: no entries yet, or no such head yet): if it is another one,
        `LostRace` is raised and nothing is written. `snapshot` is stored under the last entry. `counts[counter]`
        holds one token count per entry. Raises `NotFound` if the session or a parent does not exist, `BadInput` for
        an id that is already stored.
        """
        ...

    def open(self, namespace: str, session: str, head: str = MAIN) -> Opened:
        """The head's path as `Opened`. Raises `NotFound` for an unknown session; an unknown head opens empty."""
        ...

    def span(self, namespace: str, session: str, leaf: str, first: int, last: int) -> list[Entry]:
        """The entries at positions `first`..`last` (inclusive) of the path that ends in `leaf`."""
        ...

    def counts(self, namespace: str, session: str, leaf: str, counter: str, first: int, last: int) -> list[int | None]:
        """The stored token counts for those positions, None where none was stored."""
        ...

    def add_counts(self, namespace: str, session: str, counter: str, counts: Mapping[str, int]) -> None:
        """Stores token counts by entry id, for entries appended without."""
        ...

    def original(self, namespace: str, session: str) -> list[Entry]:
        """Every entry of the session in the order it was appended, over all branches."""
        ...

    def locate(self, namespace: str, entry: str) -> Located:
        """Finds an entry by id, or by an unambiguous beginning of it. Raises `NotFound`."""
        ...

    def by_source(self, namespace: str, session: str) -> dict[str, str]:
        """Foreign ids (`Said.source` and the like, where not empty) to entry ids."""
        ...

    def heads(self, namespace: str, session: str) -> dict[str, str]:
        """Head names to leaf ids."""
        ...

    def search(self, namespace: str, words: str, *, session: str | None = None, limit: int = 20) -> list[Hit]:
        """Entries whose text, or summaries, hold all the words; best first.

        Brings the index up to its watermark first. Finds code identifiers by part, Chinese, Japanese and Korean
        text, and words shorter than the index can hold (by scan, marked `scanned`).
        """
        ...

    def ask(self, namespace: str, words: str, *, session: str | None = None, limit: int = 20) -> list[Hit]:
        """Entries that hold some of a question's words, in any of their English endings; best first.

        Ranked by BM25 over passages of some 800 characters. Words in double quotes are left out of account: they are
        for `search`. Finds nothing where the store knows none of the words.
        """
        ...

    def index(self, *, limit: int = 2_000) -> int:
        """Indexes up to `limit` entries that no search has seen yet, of all namespaces; returns how many it took.

        Searching does this by itself; call it in idle time to take the work off the next search. 0: nothing to do.
        """
        ...

    def purge(self, namespace: str, session: str, entry: str | None, *, now: int) -> int:
        """Removes a session, or leaves a tombstone in place of one entry, and reaches what quotes it.

        Returns how many records were touched: index rows, and Blocks whose summaries or facts quote the entry.
        """
        ...

    def verify(self, namespace: str) -> list[Problem]:
        """Re-hashes every chain, folds each head once from the root and compares every snapshot with it."""
        ...

    def close(self) -> None:
        """Releases the store. Using it afterwards raises `StoreError`."""
        ...
