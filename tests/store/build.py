"""What tests of stores share: the log of `tenfold.testing` that grows by hand, and what a store has on disk."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path as FilePath

from tenfold.core.record.block import KeptOriginal
from tenfold.store.compressed_bodies import restore_body
from tenfold.testing.growing import NS, START, Growing, make_entry_id, make_message


def read_disk(path: FilePath) -> bytes:
    """All that a store has on disk, and the plain bodies of what it has there compressed."""
    sides = [path, *(path.with_name(path.name + side) for side in ("-wal", "-journal"))]
    with closing(sqlite3.connect(path)) as db:
        bodies = [restore_body(body) for (body,) in db.execute("SELECT body FROM entry")]
    return b"".join([*(side.read_bytes() for side in sides if side.exists()), *bodies])


__all__ = ["NS", "START", "Growing", "KeptOriginal", "make_entry_id", "make_message", "read_disk"]
