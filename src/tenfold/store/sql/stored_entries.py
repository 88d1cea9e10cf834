"""Reads the entries that a search names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tenfold.store.sql.database import Connection, SearchScope, StoredEntry
from tenfold.store.sql.paths import BODY, find_session_id
from tenfold.store.unreadable import recover_entry

_SELECT_ROWS = (
    f"SELECT e.seq, e.session, s.name, e.pos, e.kind, {BODY} FROM entry e JOIN session s ON s.id = e.session"  # noqa: S608 - constants
    " WHERE e.seq IN list(?) AND s.ns = ? ORDER BY e.seq DESC"
)


def find_scope(db: Connection, namespace: str, session: str | None) -> SearchScope:
    """Finds what is to be searched: nothing for an unknown namespace. Raises `NotFoundError` for an unknown session."""
    row = db.execute("SELECT id FROM namespace WHERE name = ?", (namespace,)).fetchone()
    return SearchScope(row[0] if row else 0, None if session is None else find_session_id(db, namespace, session))


def read_stored_entries(db: Connection, seqs: Iterable[int], scope: SearchScope) -> Iterator[StoredEntry]:
    """Reads the entries with these row numbers that are in scope, newest first, and leaves out damaged ones."""
    for seq, session, name, position, kind, body in db.execute(_SELECT_ROWS, (db.bind_list(seqs), scope.namespace)):
        entry = recover_entry(body) if scope.session in (None, session) else None
        if entry is not None:
            yield StoredEntry(seq, name, position, kind, entry)
