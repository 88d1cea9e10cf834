"""Purges a whole session, or one entry together with what quotes it. This runs inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tenfold.core.record.block import Block
from tenfold.core.record.codec import decode_entry, encode_entry
from tenfold.core.record.entry import BranchSummary, Entry, get_kind
from tenfold.errors import RecordError
from tenfold.store import purge
from tenfold.store.compressed_bodies import compress_body, restore_body
from tenfold.store.sql.database import Connection, SearchIndex
from tenfold.store.sql.paths import BODY, ChainCache, EntryRow, decode_info, encode_info, find_entry_row
from tenfold.store.sql.verify import build_rewritten_hashes
from tenfold.store.unreadable import recover_entry

_SELECT_ENTRIES = (
    f"SELECT e.seq, {BODY}, e.id FROM entry e"  # noqa: S608 - constants
    " WHERE e.seg IN (SELECT id FROM seg WHERE session = ?)"
)
_SELECT_QUOTING = (
    f"SELECT e.seq, e.seg, e.pos, {BODY}, e.id FROM entry e"  # noqa: S608 - constants
    " WHERE e.session = ? AND e.kind IN ('block', 'branch') AND e.seq != ?"
)
_SELECT_BODY = f"SELECT {BODY}, blob(e.rewritten) FROM entry e WHERE e.seq = ?"  # noqa: S608 - a constant
_COUNT_ENTRIES = "SELECT count(*) FROM entry WHERE seg IN (SELECT id FROM seg WHERE session = ?)"
_DELETE_SESSION = (
    "DELETE FROM count WHERE seq IN (SELECT seq FROM entry WHERE seg IN (SELECT id FROM seg WHERE session = ?))",
    "DELETE FROM manifest WHERE seg IN (SELECT id FROM seg WHERE session = ?)",
    "DELETE FROM entry WHERE seg IN (SELECT id FROM seg WHERE session = ?)",
    "DELETE FROM head WHERE session = ?",
    "DELETE FROM export WHERE session = ?",
    "DELETE FROM lease WHERE session = ?",
    "DELETE FROM seg WHERE session = ?",
    "DELETE FROM session WHERE id = ?",
)


def purge_session(db: Connection, index: SearchIndex, session: int) -> int:
    """Removes a session with everything stored for it. Returns how many entries it had."""
    touched = int(db.execute(_COUNT_ENTRIES, (session,)).fetchone()[0])
    index.remove_session(db, session, touched)
    for statement in _DELETE_SESSION:
        db.execute(statement, (session,))
    index.finish_removal(db)
    return touched


def purge_entry(db: Connection, index: SearchIndex, chains: ChainCache, session: int, entry: str, now: int) -> int:
    """Replaces an entry by a tombstone and removes its text from what quotes it.

    Returns how many records were changed.
    """
    row = find_entry_row(db, session, entry)
    body = restore_body(db.execute(_SELECT_BODY, (row.seq,)).fetchone()[0])
    old = _decode_undamaged(body, row.id)
    tombstone = purge.build_tombstone(old, body, now)
    quoting = list(_list_quoting_entries(db, chains, session, row))
    purged = purge.PurgedEntry(
        old,
        row.position,
        purge.find_distinctive_pieces(old, (e for _, e in quoting), _list_other_entries(db, session, row.seq)),
    )
    touched = 1 + _replace_entry(db, index, session, row.seq, (old, tombstone))
    touched += _delete_counts(db, row.seq)
    for seq, each in quoting:
        clean = purge.scrub_entry(each, purged)
        if clean is not each:
            touched += 1 + _replace_entry(db, index, session, seq, (each, clean))
            _delete_counts(db, seq)
    touched += _clear_title(db, session, old)
    db.execute("UPDATE session SET purges = purges + 1 WHERE id = ?", (session,))
    index.finish_removal(db)
    return touched


def _replace_entry(db: Connection, index: SearchIndex, session: int, seq: int, change: tuple[Entry, Entry]) -> int:
    old, new = change
    before, kept = db.execute(_SELECT_BODY, (seq,)).fetchone()
    body = encode_entry(new)
    rows = index.remove_entry(db, session, seq, old)
    db.execute(
        "UPDATE entry SET body = ?, rewritten = ?, kind = ? WHERE seq = ?",
        (compress_body(body), build_rewritten_hashes(restore_body(before), kept, body), get_kind(new), seq),
    )
    index.restore_entry(db, session, seq, new)
    return rows


def _delete_counts(db: Connection, seq: int) -> int:
    own = db.execute("UPDATE entry SET counter = NULL, n = NULL WHERE seq = ? AND n IS NOT NULL", (seq,)).rowcount
    return own + db.execute("DELETE FROM count WHERE seq = ?", (seq,)).rowcount


def _list_quoting_entries(
    db: Connection, chains: ChainCache, session: int, row: EntryRow
) -> Iterator[tuple[int, Block | BranchSummary]]:
    """Yields the branch summaries of the session, and the Blocks that may quote the entry.

    Such a Block has the entry on its path.
    """
    rows = db.execute(_SELECT_QUOTING, (session, row.seq)).fetchall()
    for seq, seg, pos, body, id_ in rows:
        entry = _decode_undamaged(body, id_)
        if isinstance(entry, BranchSummary):
            yield seq, entry
            continue
        ancestor = pos > row.position and chains.get_chain(db, seg).find_segment(row.position) == row.segment
        if isinstance(entry, Block) and ancestor and purge.can_quote(entry, row.position):
            yield seq, entry


def _list_other_entries(db: Connection, session: int, seq: int) -> Iterator[Entry]:
    for other, body, _ in db.execute(_SELECT_ENTRIES, (session,)):
        entry = recover_entry(body) if other != seq else None
        if entry is not None:
            yield entry


def _decode_undamaged(body: bytes, id: str) -> Entry:
    """Decodes an entry that is about to be purged, or that may quote it. Raises `RecordError` if it is damaged."""
    try:
        return decode_entry(restore_body(body))
    except RecordError as exc:
        raise RecordError(
            f"entry {id} is damaged, so nobody can tell what quotes what; nothing was purged: purge the whole session, "
            "or save the store with `tenfold salvage NEW_STORE` first and purge it there"
        ) from exc


def _clear_title(db: Connection, session: int, old: Entry) -> int:
    """Clears the session's title if it was taken from the purged entry."""
    info = decode_info(db.execute("SELECT blob(info) FROM session WHERE id = ?", (session,)).fetchone()[0])
    if not purge.is_title_from(info.title, old):
        return 0
    clean = msgspec.structs.replace(info, title="")
    db.execute("UPDATE session SET info = ? WHERE id = ?", (encode_info(clean), session))
    return 1
