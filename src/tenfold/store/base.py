"""The contract of a store, which `sqlite.SqliteStore` keeps.

A session is a tree of entries. A head is a named leaf of that tree. The `position` of an entry is its depth on its
path, and the root has position 0. Every call takes the namespace (the tenant) first. Stores are synchronous and safe to
use from several threads. They never hold a lock during a model call, because they know nothing of models.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.entry import Entry, Usage
from tenfold.core.record.token_reading import Counted
from tenfold.core.text.redaction import redact
from tenfold.core.view.fold import Snapshot
from tenfold.store.access import AccessKey, AccessRecord

DEFAULT_NAMESPACE = "default"
MAIN = "main"
HIT_LIMIT = 5
"""Hits that a search returns. Those ranked lower seldom contain what was looked for."""
MEMORY_LOCATION = ":memory:"
"""The path of a store that keeps nothing on disk."""


class SessionInfo(
    Struct,
    frozen=True,
    omit_defaults=True,
    rename={
        "source_id": "source",
        "prefix": "before",
        "suffix": "after",
        "file_prefix": "lead",
        "file_suffix": "trail",
        "standalone_prefix": "opening",
        "standalone_suffix": "closing",
        "interleaving": "weave",
    },
):
    """What is known about a session besides its entries.

    The byte fields let a session be exported exactly as it was read. `prefix` and `suffix` are the bytes before and
    after its entries in the file. Both are empty for line formats.

    A file may hold several sessions. `file_prefix` stands in it before this session's `prefix`, and `file_suffix`
    follows the last session. `standalone_prefix` and `standalone_suffix` enclose a session that is written to a file of
    its own. `interleaving` is set on the first session only, and only where the file mixes the entries of its sessions.
    It gives their order as runs of (session, first entry, number of entries).

    `parent` is the session that a sidechain belongs to. `source_id` is the id of the session in the file it came from.
    `policy` and `window` (in tokens) are what the session was last opened with by name, "" and 0 if nothing was named.
    `client` names the program that makes the session's requests, where it is no library: `gateway: codex`, `chat`.
    """

    id: str
    format: str = ""
    file: str = ""
    title: str = ""
    model: str = ""
    parent: str = ""
    source_id: str = ""
    prefix: bytes = b""
    suffix: bytes = b""
    file_prefix: bytes = b""
    file_suffix: bytes = b""
    standalone_prefix: bytes = b""
    standalone_suffix: bytes = b""
    interleaving: tuple[tuple[int, int, int], ...] = ()
    policy: str = ""
    window: int = 0
    client: str = ""


def redact_info(info: SessionInfo) -> SessionInfo:
    """Returns the information without the secrets in its title and in the bytes around the session's entries."""
    texts = {name: redact(getattr(info, name)) for name in ("title", "file")}
    around = {name: _redact_bytes(getattr(info, name)) for name in _BYTE_FIELDS}
    return replace(info, **texts, **around)


def _redact_bytes(data: bytes) -> bytes:
    text = data.decode(errors="surrogateescape")
    shown = redact(text)
    return data if shown == text else shown.encode(errors="surrogateescape")


_BYTE_FIELDS = ("prefix", "suffix", "file_prefix", "file_suffix", "standalone_prefix", "standalone_suffix")


class SessionRow(Struct, frozen=True):
    """One line of the list of sessions.

    `first_time` and `last_time` are the times of entries in microseconds UTC, or None if they are not known.
    """

    info: SessionInfo
    entry_count: int
    block_count: int
    first_time: int | None
    last_time: int | None
    heads: dict[str, str]


class HeadState(Struct, frozen=True):
    """What opening a head reads. Its size grows with the view and not with the session.

    `length` is the number of entries on the path. `snapshot` is the newest snapshot on the path, or None. `entries` are
    those that follow the snapshot, or the whole path if there is none. `snapshot_entries` maps positions to the entries
    that the snapshot refers to: the originals in view, and the Blocks whose replacements are in view. `purges` is how
    many purges the session has had. `pending_usage` and `overhead` are what `Store.keep_request` has kept.
    """

    leaf: str | None
    length: int
    snapshot: Snapshot | None
    entries: tuple[Entry, ...]
    snapshot_entries: dict[int, Entry] = {}
    purges: int = 0
    pending_usage: Usage | None = None
    overhead: Counted | None = None


class LocatedEntry(Struct, frozen=True):
    """An entry together with its session and its position."""

    session: str
    position: int
    entry: Entry


class Hit(Struct, frozen=True):
    """One search result. `snippet` is short and redacted; `Store.locate` reads the entry itself.

    A snippet keeps its line breaks, and marks the old and the new text of an edit by `[old]` and `[new]`, and what is
    left out by `[... left out ...]`. It may go on with the beginning of the next message, below a line
    `[next message]`. `scanned` is true if the words were found by a scan, because the index does not hold this text or
    cannot hold such short words.

    `latest_of` is above 0 if several entries print a value of the name that was searched for, and this is the newest:
    it is their number.
    """

    session: str
    entry: str
    position: int
    kind: str
    snippet: str
    score: float
    scanned: bool = False
    latest_of: int = 0


class Problem(Struct, frozen=True):
    """Something that `verify` found: where it is, what is wrong, and what to do about it."""

    session: str
    entry: str
    what: str

    def __str__(self) -> str:
        names = (("session", self.session), ("entry", self.entry))
        place = " ".join(f"{noun} {name}" for noun, name in names if name)
        return f"{place}: {self.what}" if place else self.what


class StoreState(Struct, frozen=True):
    """What an operator wants to know of a store.

    `database` names the program and its version, `schema` is the number of migrations, and `size` is in bytes, indexes
    included. `late_entries` are those that no search has indexed yet. `locks` says who waits for whom at this moment,
    and `notes` what should be otherwise, one sentence each.
    """

    database: str
    schema: int
    size: int
    namespaces: int
    sessions: int
    entries: int
    late_entries: int
    locks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Store(Protocol):
    """Keeps sessions. Any method may raise `StoreError`, and the stored data is then unchanged.

    `redact_at_rest` says that secrets are replaced before anything is written. `threads` are those in which
    asynchronous callers wait for the store, as many as it has connections; None where it needs none of its own.
    """

    redact_at_rest: bool
    threads: Executor | None

    def create(self, namespace: str, info: SessionInfo) -> None:
        """Creates a session, or replaces the information of an existing one without touching its entries."""
        ...

    def list_namespaces(self) -> list[str]:
        """Lists the names of all namespaces, in their order."""
        ...

    def read_info(self, namespace: str, session: str) -> SessionInfo | None:
        """Reads the information of a session, None if there is no such session."""
        ...

    def list_sessions(self, namespace: str) -> list[SessionRow]:
        """Lists all sessions, the one that was used last first: see `tenfold.store.retention.find_last_use`."""
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
        purges: int | None = None,
        knows_usage: bool = True,
    ) -> None:
        """Appends entries atomically and moves `head` to the last of them.

        The entries form one path or a tree, with parents before their children. The first parent must be None or an
        entry of this session. Each later parent must be an entry of this session or of this call.

        `expected` is the leaf at which the caller believes the head to be; None means that there is no such head yet.
        Without `knows_usage` the caller has not looked whether `keep_request` kept a report of usage for the answer
        among the entries, and it is refused if there is one: then the caller has to read it and append it as well.
        `snapshot` is stored under the last entry. `counts[counter]` holds one token count per entry. `purges` is given
        with entries that quote others, such as Blocks: how many purges the caller had seen when it read what they
        quote.

        Raises `LostRace` if the head is at another leaf, there was a purge since, or there is such a report;
        `NotFoundError` if the session or a parent does not exist, and `BadInput` for an id that is already stored.
        Nothing is written then.
        """
        ...

    def open(self, namespace: str, session: str, head: str = MAIN, *, after: str | None = None) -> HeadState:
        """Reads what a head needs to start. Raises `NotFoundError` for an unknown session; an unknown head is empty.

        `after` is the id of an entry that the caller knows the path to. If the head is behind it on the same path, only
        the entries after it are read: the state then has no snapshot, and costs O(new). Otherwise it is the whole one.
        """
        ...

    def keep_request(
        self, namespace: str, session: str, head: str, *, usage: Usage | None, overhead: Counted | None
    ) -> None:
        """Keeps what is known of the last request that was made at a head; without entries there was none.

        `usage` is what the provider reported for it, if its answer is not appended yet: an append that holds an answer,
        or begins a branch, drops it. `overhead` is our count of what the request held besides the messages, None
        if it was not seen as a whole.
        """
        ...

    def take_lease(self, namespace: str, session: str, head: str, holder: str, *, now: int, until: int) -> bool:
        """Takes the right to have a model write a summary for a head until a time, unless another holds it at `now`.

        Times are in microseconds UTC. The same holder may take it again, which makes it last longer. It only saves
        work: what is written without it is written rightly as well.
        """
        ...

    def drop_lease(self, namespace: str, session: str, head: str, holder: str) -> None:
        """Gives a lease back, if this holder still has it."""
        ...

    def read_range(self, namespace: str, session: str, leaf: str, first: int, last: int) -> list[Entry]:
        """Reads the entries at positions `first` to `last` (inclusive) of the path that ends in `leaf`."""
        ...

    def read_counts(
        self, namespace: str, session: str, leaf: str, counter: str, first: int, last: int
    ) -> list[Counted | None]:
        """Reads the token counts stored for those positions, with None where there is none."""
        ...

    def read_entries(self, namespace: str, session: str) -> list[Entry]:
        """Reads every entry of the session, on all branches, in the order of appending."""
        ...

    def locate(self, namespace: str, entry: str) -> LocatedEntry:
        """Finds an entry by its id or by an unambiguous beginning of the id. Raises `NotFoundError`."""
        ...

    def read_heads(self, namespace: str, session: str) -> dict[str, str]:
        """Reads the names of the heads, each mapped to the id of its leaf."""
        ...

    def list_other_branches(self, namespace: str, session: str, leaf: str) -> frozenset[str]:
        """Lists the ids of a session's entries that are not on the path that ends in `leaf`."""
        ...

    def search(
        self,
        namespace: str,
        words: str,
        *,
        session: str | None = None,
        limit: int = HIT_LIMIT,
        without: Collection[str] = (),
    ) -> list[Hit]:
        """Finds the entries whose text or summaries contain all the words, best first, except those in `without`.

        Brings the index up to date first. Finds parts of code identifiers, and Chinese, Japanese and Korean text. Words
        too short for the index are found by a scan; such hits are marked `scanned`.
        """
        ...

    def search_passages(
        self,
        namespace: str,
        words: str,
        *,
        session: str | None = None,
        limit: int = HIT_LIMIT,
        without: Collection[str] = (),
    ) -> list[Hit]:
        """Finds the entries that contain some of a question's words, with any English ending, best first.

        Passages of about 800 characters are ranked by BM25. Phrases in double quotes are ignored, because `search` is
        for them. A word that no entry holds is taken for a misspelt one. Entries in `without` are left out. Returns
        nothing if the store knows none of the words.
        """
        ...

    def index(self, *, limit: int = 2_000) -> int:
        """Indexes up to `limit` entries that no search has seen yet, of all namespaces, and returns how many.

        The searches do this themselves. Call it when idle to make the next search faster. 0 means that nothing is left.
        """
        ...

    def purge(self, namespace: str, session: str, entry: str | None, *, now: int) -> int:
        """Removes a session (`entry` is None), or replaces one entry by a tombstone and cleans what quotes it.

        Returns how many records were changed: index rows, and Blocks whose summaries or facts quoted the entry.
        """
        ...

    def record_export(self, namespace: str, session: str, path: str, digest: bytes) -> None:
        """Records that a session was written to a file, so that a purge can name the file.

        `digest` is the SHA-256 of the file's content. A file that is written again replaces its record.
        """
        ...

    def list_exports(self, namespace: str, session: str) -> dict[str, bytes]:
        """Lists the files that a session was written to, with the SHA-256 of what was written."""
        ...

    def measure_sessions(self, namespace: str) -> dict[str, int]:
        """Measures how many bytes the entries of each session take, without what indexes and unused space add."""
        ...

    def release_space(self) -> int:
        """Gives the space of what was deleted back to the disk, and returns how many bytes the store then takes.

        It rewrites the store, for which no other process may be writing. Call it after deleting much.
        """
        ...

    def verify(self, namespace: str, *, report: Callable[[int, int], None] | None = None) -> list[Problem]:
        """Checks every hash again, folds each head once from the root, and compares every snapshot with the fold.

        `report` is told meanwhile how many sessions are done, and of how many.
        """
        ...

    def save_key(self, key: AccessKey) -> None:
        """Stores a key, in place of the one with the same id if there is one."""
        ...

    def list_keys(self) -> list[AccessKey]:
        """Lists all keys, the revoked and expired ones too, the oldest first."""
        ...

    def find_key(self, id: str) -> AccessKey | None:
        """Finds a key by its id."""
        ...

    def record_access(self, record: AccessRecord) -> AccessRecord:
        """Appends a line to the record of who did what, and returns it with its number and its hash."""
        ...

    def read_record(self, first: int = 1) -> list[AccessRecord]:
        """Reads the record from a line on."""
        ...

    def check(self) -> StoreState:
        """Says how the store is: its schema, its size, how far its indexes are, and who waits for whom."""
        ...

    def close(self) -> None:
        """Releases the store. Using it afterwards raises `StoreError`."""
        ...
