"""What a database has to offer to `SqlStore`: connections, and an index for searches.

The queries of this package are written once, for every database. Values are bound by `?` or by `:name`. Two forms are
translated, because the databases differ in them:

- `seq IN list(?)`: the value is what `Connection.bind_list` makes of a list.
- `blob(e.body)`: bytes, b"" for NULL. A damaged SQLite file may hold another type there.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from msgspec import Struct

from tenfold.core.record.entry import Entry
from tenfold.errors import StoreError
from tenfold.store.search.newer_first import Scored

Values = Sequence[Any] | Mapping[str, Any]
"""What is bound to a query: by place or by name."""
_BLOB = re.compile(r"blob\(([\w.]+)\)")


def translate_query(query: str, *, blob: str, in_list: str) -> str:
    """Returns a query with its two special forms written as one database wants them. `blob` has `{}` for the column."""
    return _BLOB.sub(lambda match: blob.format(match[1]), query).replace("IN list(?)", in_list)


class Cursor(Protocol):
    """The result of a query."""

    @property
    def rowcount(self) -> int:
        """Rows that were changed."""
        ...

    def fetchone(self) -> Any: ...  # noqa: ANN401, D102 - a row is a tuple of what its query selects

    def fetchall(self) -> list[Any]: ...  # noqa: D102

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection to the database, which belongs to one caller at a time. `Error` is what its driver raises."""

    @property
    def Error(self) -> type[Exception]: ...  # noqa: N802, D102 - the name that Python's database API gives it

    def execute(self, query: str, values: Values = (), /) -> Cursor:
        """Runs a query."""
        ...

    def executemany(self, query: str, values: Iterable[Values], /) -> object:
        """Runs a query once for each of the values."""
        ...

    def bind_list(self, values: Iterable[object]) -> object:
        """Returns what is bound to `IN list(?)`."""
        ...

    def batch(self) -> AbstractContextManager[object]:
        """Sends queries together up to where a result is read. `rowcount` is not known inside."""
        ...

    def lock_record(self) -> None:
        """Waits until no other transaction appends to the record of access."""
        ...

    def create_namespace(self, namespace: str) -> None:
        """Creates a namespace, if there is none of that name, and goes on in it."""
        ...

    def allocate_rows(self, count: int) -> Sequence[int]:
        """Returns the numbers of so many new rows of entries, each above those that the session has."""
        ...

    def lock_session(self, namespace: str, session: str) -> None:
        """Waits until no other transaction writes to the session, and keeps others waiting until this one ends."""
        ...


class Database(Protocol):
    """Lends connections. Errors of the database are raised as `StoreError`."""

    def read(self, namespace: str | None = None) -> AbstractContextManager[Connection]:
        """Lends a connection for reading a namespace, None for all of them."""
        ...

    def write(self, namespace: str | None = None) -> AbstractContextManager[Connection]:
        """Lends a connection inside a write transaction, which is rolled back if anything is raised.

        Raises `DuplicateRow` for an id that is stored already.
        """
        ...

    def close(self) -> None:
        """Closes every connection."""
        ...


class DuplicateRow(StoreError):
    """A row with this key is stored already. `SqlStore.append` finds out which, and says so."""


class SearchScope(Struct, frozen=True):
    """What is searched: a namespace, by its row number, or one session of it."""

    namespace: int
    session: int | None


class StoredEntry(Struct, frozen=True):
    """An entry as it was read. `order` is its row number, which grows with the time of appending."""

    order: int
    session: str
    position: int
    kind: str
    entry: Entry


class IndexSearch(Protocol):
    """A search of a scope in the two indexes: of stretches of text, for words, and of the terms of passages.

    They only name candidates. The entries that were appended and are not in the indexes yet are called late. A passage
    has a key, which is the higher the newer its entry is.
    """

    db: Connection
    scope: SearchScope

    def find_candidates(self, words: Sequence[Sequence[str]]) -> Iterable[int]:
        """Finds the row numbers of all entries that may contain one spelling of each word, newest first."""
        ...

    def build_key(self, session: int, seq: int, number: int = 0) -> int:
        """Builds the key of the `number`th passage of an entry."""
        ...

    def split_key(self, key: int) -> tuple[int, int]:
        """Returns the row number of a passage's entry, and the passage's number in it."""
        ...

    def find_passages(self, term: str, limit: int) -> list[int]:
        """Finds the newest passages that hold a term, newest first."""
        ...

    def weigh_passages(self, term: str, keys: Collection[int]) -> Mapping[int, float]:
        """Returns how much each of these passages that holds the term speaks of it: BM25, up to a common factor."""
        ...

    def list_late_passages(self) -> list[tuple[int, str]]:
        """Returns the keys of the passages of late entries, and what the index would be given of them."""
        ...

    def match_texts(self, texts: Sequence[str], terms: Iterable[str]) -> Mapping[str, Sequence[Scored]]:
        """Returns for each term the numbers of the texts that hold it, and its weight there, as the index would."""
        ...

    def list_similar_terms(self, letter: str, lengths: tuple[int, int]) -> Iterable[str]:
        """Lists the stems in the index that begin with a letter and have from so many to so many."""
        ...

    def find_stem(self, stem: str, limit: int) -> list[int]:
        """Finds the newest passages that hold a word of which the index has made this stem, newest first."""
        ...

    def add_meanings(self, question: str, scored: list[Scored], left_out: Collection[int]) -> list[Scored]:
        """Adds how much entries are alike to the question in meaning, if the index knows of meanings."""
        ...


class SearchIndex(Protocol):
    """What keeps the indexes of a database. Each method runs in the caller's transaction."""

    def open_search(self, db: Connection, scope: SearchScope) -> IndexSearch:
        """Begins a search."""
        ...

    def has_late_entries(self, db: Connection, scope: SearchScope | None = None) -> bool:
        """Tells whether some entries, of this scope if there is one, are not in the indexes yet."""
        ...

    def count_late_entries(self, db: Connection) -> int:
        """Counts the entries that are not in the indexes yet."""
        ...

    def index_entries(self, db: Connection, limit: int, scope: SearchScope | None = None) -> int:
        """Indexes up to `limit` late entries, or about a million characters. Returns how many entries."""
        ...

    def clear(self, db: Connection) -> None:
        """Empties damaged indexes. The next searches fill them again."""
        ...

    def remove_entry(self, db: Connection, session: int, seq: int, entry: Entry) -> int:
        """Removes an entry that is about to change. Returns how many rows were removed."""
        ...

    def restore_entry(self, db: Connection, session: int, seq: int, entry: Entry) -> None:
        """Puts a changed entry back."""
        ...

    def remove_session(self, db: Connection, session: int, count: int) -> None:
        """Removes a session of so many entries, which are deleted afterwards."""
        ...

    def finish_removal(self, db: Connection) -> None:
        """Is called at the end of a transaction that removed something."""
        ...
