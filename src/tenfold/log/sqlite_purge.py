"""Purges from SQLite: a whole session, or one entry together with what quotes it.

This runs inside the caller's transaction. `secure_delete` overwrites freed bytes, and the caller empties the
write-ahead log afterwards.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

import msgspec

from tenfold.errors import RecordError
from tenfold.log import scrub
from tenfold.log.sqlite_paths import Chains, Spot, decode_info, encode_info, spot
from tenfold.log.sqlite_schema import INDEXED
from tenfold.log.sqlite_search import forget, forget_all, merge, remember
from tenfold.log.verify import rewritten
from tenfold.record.block import Block
from tenfold.record.codec import decode_entry, encode_entry
from tenfold.record.entry import Branch, Entry

_ENTRIES = "SELECT seq, body FROM entry WHERE seg IN (SELECT id FROM seg WHERE session = ?)"
_NUMBER = "SELECT count(*) FROM entry WHERE seg IN (SELECT id FROM seg WHERE session = ?)"
_WHOLE = (
    "DELETE FROM count WHERE seq IN (SELECT seq FROM entry WHERE seg IN (SELECT id FROM seg WHERE session = ?1))",
    "DELETE FROM manifest WHERE seg IN (SELECT id FROM seg WHERE session = ?1)",
    "DELETE FROM entry WHERE seg IN (SELECT id FROM seg WHERE session = ?1)",
    "DELETE FROM head WHERE session = ?1",
    "DELETE FROM seg WHERE session = ?1",
    "DELETE FROM session WHERE id = ?1",
)


def purge_session(db: sqlite3.Connection, session: int) -> int:
    """Removes a session with everything stored for it. Returns how many entries it had."""
    touched = int(db.execute(_NUMBER, (session,)).fetchone()[0])
    rest = int(db.execute("SELECT count(*) FROM entry").fetchone()[0]) - touched
    if rest < touched:
        forget_all(db)  # indexing again what remains is less work
    for seq, body in db.execute(_ENTRIES, (session,)).fetchall() if rest >= touched else ():
        with contextlib.suppress(RecordError):  # a body that cannot be read was never indexed
            forget(db, seq, decode_entry(body))
    for statement in _WHOLE:
        db.execute(statement, (session,))
    # SQLite reuses row numbers above the last entry. They must count as not indexed.
    db.execute("UPDATE mark SET value = min(value, (SELECT ifnull(max(seq), 0) FROM entry)) WHERE name = ?", (INDEXED,))
    merge(db)
    return touched


def purge_entry(db: sqlite3.Connection, chains: Chains, session: int, entry: str, now: int) -> int:
    """Replaces an entry by a tombstone and removes its text from what quotes it.

    Returns how many records were changed.
    """
    row = spot(db, session, entry)
    body = db.execute("SELECT body FROM entry WHERE seq = ?", (row.seq,)).fetchone()[0]
    old = decode_entry(body)
    tombstone = scrub.buried(old, body, now)
    quoting = list(_quoting(db, chains, session, row))
    purged = scrub.Purged(old, row.pos, scrub.distinctive(old, (e for _, e in quoting), _others(db, session, row.seq)))
    touched = 1 + _replace(db, row.seq, old, tombstone)
    touched += _uncounted(db, row.seq)
    for seq, each in quoting:
        clean = scrub.scrubbed(each, purged)
        if clean is not each:
            touched += 1 + _replace(db, seq, each, clean)
            _uncounted(db, seq)
    touched += _title(db, session, old)
    merge(db)
    return touched


def _replace(db: sqlite3.Connection, seq: int, old: Entry, new: Entry) -> int:
    before, kept = db.execute("SELECT body, rewritten FROM entry WHERE seq = ?", (seq,)).fetchone()
    body = encode_entry(new)
    rows = forget(db, seq, old)
    db.execute(
        "UPDATE entry SET body = ?, rewritten = ?, kind = ? WHERE seq = ?",
        (body, rewritten(before, kept or b"", body), type(new).__struct_config__.tag, seq),
    )
    remember(db, seq, new)
    return rows


def _uncounted(db: sqlite3.Connection, seq: int) -> int:
    own = db.execute("UPDATE entry SET counter = NULL, n = NULL WHERE seq = ? AND n IS NOT NULL", (seq,)).rowcount
    return own + db.execute("DELETE FROM count WHERE seq = ?", (seq,)).rowcount


def _quoting(db: sqlite3.Connection, chains: Chains, session: int, place: Spot) -> Iterator[tuple[int, Block | Branch]]:
    """Yields the branch summaries of the session, and the Blocks that may quote the entry.

    Such a Block has the entry on its path.
    """
    rows = db.execute(
        "SELECT seq, seg, pos, body FROM entry WHERE session = ? AND kind IN ('block', 'branch') AND seq != ?",
        (session, place.seq),
    ).fetchall()
    for seq, seg, pos, body in rows:
        entry = decode_entry(body)
        if isinstance(entry, Branch):
            yield seq, entry
            continue
        ancestor = pos > place.pos and chains.of(db, seg).at(place.pos) == place.seg
        if isinstance(entry, Block) and ancestor and scrub.quotes(entry, place.pos):
            yield seq, entry


def _others(db: sqlite3.Connection, session: int, seq: int) -> Iterator[Entry]:
    for other, body in db.execute(_ENTRIES, (session,)):
        if other != seq:
            yield decode_entry(body)


def _title(db: sqlite3.Connection, session: int, old: Entry) -> int:
    """Clears the session's title if it was taken from the purged entry."""
    info = decode_info(db.execute("SELECT info FROM session WHERE id = ?", (session,)).fetchone()[0])
    if not scrub.titled(info.title, old):
        return 0
    clean = msgspec.structs.replace(info, title="")
    db.execute("UPDATE session SET info = ? WHERE id = ?", (encode_info(clean), session))
    return 1
