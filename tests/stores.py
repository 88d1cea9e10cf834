"""The stores that the suite of the contract, the laws, the faults and the fuzzers run over: listed in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from tenfold.store.base import Store
from tenfold.store.sqlite.store import SqliteStore
from tests.postgres import open_postgres_store

KINDS = ("memory", "postgres")
"""The kinds that the laws run over: a file differs from a store in memory only in where it lies."""
STORES = ("memory", "sqlite", "postgres")


@contextmanager
def open_test_store(kind: str, folder: Path) -> Iterator[Store]:
    """Opens an empty store of a kind for the time of a test."""
    if kind == "postgres":
        with open_postgres_store() as store:
            yield store
    else:
        with closing(SqliteStore(":memory:" if kind == "memory" else folder / "store.db")) as store:
            yield store


class Apart:
    """A part of a store with namespaces of its own, which is empty at first."""

    _numbers = count(1)

    def __init__(self, store: Store) -> None:
        self._store, self._prefix = store, f"part-{next(self._numbers)}"

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the store has
        found = getattr(self._store, name)
        if name in (
            "index",
            "check",
            "list_namespaces",
            "release_space",
            "save_key",
            "list_keys",
            "find_key",
            "record_access",
            "read_record",
        ) or not callable(found):
            return found
        return lambda namespace, *args, **options: found(f"{self._prefix}-{namespace}", *args, **options)

    def close(self) -> None:
        """Leaves the store open: others have parts of it."""


def open_law_store() -> Store:
    """Opens an empty store for an example of a law: in memory, or where `use_law_stores` says."""
    return _opener[-1]()


def _open_in_memory() -> Store:
    return SqliteStore(":memory:")


_opener: list[Callable[[], Store]] = [_open_in_memory]


@contextmanager
def use_law_stores(kind: str) -> Iterator[None]:
    """Has the laws open stores of this kind: each example gets a part of one database."""
    if kind == "memory":
        yield
        return
    with open_postgres_store() as store:
        _opener.append(lambda: Apart(store))
        try:
            yield
        finally:
            _opener.pop()
