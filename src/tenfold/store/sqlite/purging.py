"""Purges from SQLite: a whole session, or one entry together with what quotes it.

This runs inside the caller's transaction. `secure_delete` overwrites freed bytes, and the caller empties the
write-ahead log afterwards.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import msgspec

from tenfold.core.record.block import Block
from tenfold.core.record.codec import decode_entry, encode_entry
from tenfold.core.record.entry import BranchSummary, Entry, get_kind
from tenfold.errors import RecordError
from tenfold.store import purge
from tenfold.store.sqlite.compressed_bodies import compress_body
from tenfold.store.sqlite.meanings import remove_vector
from tenfold.store.sqlite.paths import BODY, ChainCache, EntryRow, decode_info, encode_info, find_entry_row
from tenfold.store.sqlite.schema import EMBEDDED_MARK, INDEXED_MARK
from tenfold.store.sqlite.search_index import clear_indexes, merge_indexes, remove_entry, restore_entry
from tenfold.store.sqlite.verify import build_rewritten_hashes
from tenfold.store.unreadable import recover_entry

_SELECT_ENTRIES = (
    f"SELECT e.seq, {BODY}, e.id FROM entry e"  # noqa: S608 - constants
    " WHERE e.seg IN (SELECT id FROM seg WHERE session = ?)"
)
_SELECT_QUOTING = (
    f"SELECT e.seq, e.seg, e.pos, {BODY}, e.id FROM entry e"  # noqa: S608 - constants
    " WHERE e.session = ? AND e.kind IN ('block', 'branch') AND e.seq != ?"
)
_COUNT_ENTRIES = "SELECT count(*) FROM entry WHERE seg IN (SELECT id FROM seg WHERE session = ?)"
_DELETE_SESSION = (
    "DELETE FROM count WHERE seq IN (SELECT seq FROM entry WHERE seg IN (SELECT id FROM seg WHERE session = ?))",
    "DELETE FROM manifest WHERE seg IN (SELECT id FROM seg WHERE session = ?)",
    "DELETE FROM entry WHERE seg IN (SELECT id FROM seg WHERE session = ?)",
    "DELETE FROM head WHERE session = ?",
    "DELETE FROM export WHERE session = ?",
    "DELETE FROM vector WHERE session = ?",
    "DELETE FROM seg WHERE session = ?",
    "DELETE FROM session WHERE id = ?",
)


def purge_session(db: sqlite3.Connection, session: int) -> int:
    """Removes a session with everything stored for it. Returns how many entries it had."""
    touched = int(db.execute(_COUNT_ENTRIES, (session,)).fetchone()[0])
    rest = int(db.execute("SELECT count(*) FROM entry").fetchone()[0]) - touched
    if rest < touched:
        clear_indexes(db)  # indexing again what remains is less work
    for seq, body, _ in db.execute(_SELECT_ENTRIES, (session,)).fetchall() if rest >= touched else ():
        try:
            remove_entry(db, session, seq, decode_entry(body))
        except RecordError:  # nobody knows under which text it was indexed
            clear_indexes(db)
            break
    for statement in _DELETE_SESSION:
        db.execute(statement, (session,))
    # SQLite reuses row numbers above the last entry. They must count as not indexed.
    db.execute(
        "UPDATE mark SET value = min(value, (SELECT ifnull(max(seq), 0) FROM entry)) WHERE name IN (?, ?)",
        (INDEXED_MARK, EMBEDDED_MARK),
    )
    merge_indexes(db)
    return touched


def purge_entry(db: sqlite3.Connection, chains: ChainCache, session: int, entry: str, now: int) -> int:
    """Replaces an entry by a tombstone and removes its text from what quotes it.

    Returns how many records were changed.
    """
    row = find_entry_row(db, session, entry)
    body = db.execute(f"SELECT {BODY} FROM entry e WHERE e.seq = ?", (row.seq,)).fetchone()[0]  # noqa: S608 - a constant
    old = _decode_undamaged(body, row.id)
    tombstone = purge.build_tombstone(old, body, now)
    quoting = list(_list_quoting_entries(db, chains, session, row))
    purged = purge.PurgedEntry(
        old,
        row.position,
        purge.find_distinctive_pieces(old, (e for _, e in quoting), _list_other_entries(db, session, row.seq)),
    )
    touched = 1 + _replace_entry(db, session, row.seq, old, tombstone)
    touched += _delete_counts(db, row.seq)
    for seq, each in quoting:
        clean = purge.scrub_entry(each, purged)
        if clean is not each:
            touched += 1 + _replace_entry(db, session, seq, each, clean)
            _delete_counts(db, seq)
    touched += _clear_title(db, session, old)
    db.execute("UPDATE session SET purges = purges + 1 WHERE id = ?", (session,))
    merge_indexes(db)
    return touched


def _replace_entry(db: sqlite3.Connection, session: int, seq: int, old: Entry, new: Entry) -> int:
    before, kept = db.execute(f"SELECT {BODY}, rewritten FROM entry e WHERE seq = ?", (seq,)).fetchone()  # noqa: S608 - a constant
    body = encode_entry(new)
    rows = remove_entry(db, session, seq, old)
    remove_vector(db, session, seq)
    db.execute(
        "UPDATE entry SET body = ?, rewritten = ?, kind = ? WHERE seq = ?",
        (compress_body(body), build_rewritten_hashes(before, kept or b"", body), get_kind(new), seq),
    )
    restore_entry(db, session, seq, new)
    return rows


def _delete_counts(db: sqlite3.Connection, seq: int) -> int:
    own = db.execute("UPDATE entry SET counter = NULL, n = NULL WHERE seq = ? AND n IS NOT NULL", (seq,)).rowcount
    return own + db.execute("DELETE FROM count WHERE seq = ?", (seq,)).rowcount


def _list_quoting_entries(
    db: sqlite3.Connection, chains: ChainCache, session: int, row: EntryRow
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


def _list_other_entries(db: sqlite3.Connection, session: int, seq: int) -> Iterator[Entry]:
    for other, body, _ in db.execute(_SELECT_ENTRIES, (session,)):
        entry = recover_entry(body) if other != seq else None
        if entry is not None:
            yield entry


def _decode_undamaged(body: bytes, id: str) -> Entry:
    """Decodes an entry that is about to be purged, or that may quote it. Raises `RecordError` if it is damaged."""
    try:
        return decode_entry(body)
    except RecordError as exc:
        raise RecordError(
            f"entry {id} is damaged, so nobody can tell what quotes what; nothing was purged: purge the whole session, "
            "or save the store with `tenfold salvage NEW_STORE` first and purge it there"
        ) from exc


def _clear_title(db: sqlite3.Connection, session: int, old: Entry) -> int:
    """Clears the session's title if it was taken from the purged entry."""
    info = decode_info(db.execute("SELECT info FROM session WHERE id = ?", (session,)).fetchone()[0])
    if not purge.is_title_from(info.title, old):
        return 0
    clean = msgspec.structs.replace(info, title="")
    db.execute("UPDATE session SET info = ? WHERE id = ?", (encode_info(clean), session))
    return 1
