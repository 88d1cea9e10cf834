"""Opens the store, by default in the user's data folder.

`TENFOLD_STORE` is read at every call, and the disk is not touched until a store is opened.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import platformdirs

from tenfold.store.base import Store
from tenfold.store.sqlite.store import BUSY_SECONDS, SqliteStore

STORE_VARIABLE = "TENFOLD_STORE"
FILE_NAME = "tenfold.db"


def get_default_location(environ: Mapping[str, str] = os.environ) -> str:
    """Returns `TENFOLD_STORE` if it is set, else the path of `tenfold.db` in the user's data folder."""
    return environ.get(STORE_VARIABLE) or str(platformdirs.user_data_path("tenfold", appauthor=False) / FILE_NAME)


def open_store(
    location: str | os.PathLike[str] | None = None, *, redact_at_rest: bool = False, busy_seconds: float = BUSY_SECONDS
) -> Store:
    """Opens the store, which keeps every message of your sessions. Creates its file if there is none.

    Open one for a process, give it to your sessions, and close it at the end. `location` is a path, or `:memory:` for
    a store that writes no file; without it, `get_default_location()` decides. With `redact_at_rest` the store keeps no
    secrets. A write waits up to `busy_seconds` while another process writes. Raises `NewerStore`, `UnwritableStore` or
    `StoreError`, each with the path and the next step.
    """
    place = get_default_location() if location is None else location
    return SqliteStore(place, redact_at_rest=redact_at_rest, busy_seconds=busy_seconds)
