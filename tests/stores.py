"""The stores that the suite of the contract, the laws, the faults and the fuzzers run over: the one place that lists them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tenfold.store.base import Store
from tenfold.store.sqlite.store import SqliteStore
from tests.postgres import open_postgres_store

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
