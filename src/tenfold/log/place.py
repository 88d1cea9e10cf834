"""Opens the store, by default in the user's data folder.

The address alone decides which of the two stores is opened. `TENFOLD_STORE` is read at every call, and the disk is not
touched until a store is opened.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import platformdirs

from tenfold.log.base import Store
from tenfold.log.memory import MemoryStore
from tenfold.log.sqlite import SqliteStore

MEMORY = ":memory:"
VARIABLE = "TENFOLD_STORE"
FILE = "tenfold.db"


def default_place(environ: Mapping[str, str] = os.environ) -> str:
    """Returns `TENFOLD_STORE` if it is set, else the path of `tenfold.db` in the user's data folder."""
    return environ.get(VARIABLE) or str(platformdirs.user_data_path("tenfold", appauthor=False) / FILE)


def open_store(place: str | os.PathLike[str] | None = None) -> Store:
    """Opens the store at `location` (default: `get_default_location()`) and creates it if it does not exist.

    `:memory:` is a store that keeps nothing on disk. Raises `NewerStore`, `StoreUnwritable` or `StoreError`, each with
    the path and the next step.
    """
    where = os.fspath(place) if place is not None else default_place()
    return MemoryStore() if where == MEMORY else SqliteStore(where)
