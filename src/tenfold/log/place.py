"""Where the store is when nobody says: the environment, else the user's data folder.

Chooses between the two stores by the address alone. Reads `TENFOLD_STORE` each time it is asked, and touches no disk
until a store is opened.
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
    """`TENFOLD_STORE` if it is set, else `tenfold.db` in the user's data folder."""
    return environ.get(VARIABLE) or str(platformdirs.user_data_path("tenfold", appauthor=False) / FILE)


def open_store(place: str | os.PathLike[str] | None = None) -> Store:
    """Opens the store at `place` (default: `default_place()`), making it if need be; `:memory:` keeps nothing.

    Raises `NewerStore`, `StoreUnwritable` or `StoreError` with the path and the next step.
    """
    where = os.fspath(place) if place is not None else default_place()
    return MemoryStore() if where == MEMORY else SqliteStore(where)
