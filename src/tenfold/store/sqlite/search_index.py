"""The two indexes of a store's texts, which are filled after the append, up to a watermark.

The index of trigrams (`words`, and `rest` for entries whose text is cut off in it) names candidates for a search by
words. The index of passages answers questions. Neither holds the texts, so an entry can only be removed with the very
text that was put in.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

from msgspec import Struct

from tenfold.core.record.entry import Entry
from tenfold.store.search.entry_text import fold_text, get_searchable_text, read_plain_text
from tenfold.store.search.terms import build_index_text, split_passages
from tenfold.store.sqlite.paths import BODY, find_session_id
from tenfold.store.sqlite.schema import INDEXED_MARK
from tenfold.store.unreadable import recover_entry

INDEX_LIMIT = 65_536
"""Characters of one entry that the index of trigrams holds. Text behind them is found by a scan."""
_BATCH_CHARACTERS = 1_000_000
_NUMBER_BITS, _ENTRY_BITS = 12, 31
_RANGE_BITS, _MAX_SESSIONS = _NUMBER_BITS + _ENTRY_BITS, 1 << 20
"""The 63 bits of a passage's row number: session, entry, number of the passage in it."""
_SELECT_SESSIONS = "SELECT s.id, s.name FROM session s JOIN namespace n ON n.id = s.ns WHERE n.name = ?"
_SELECT_ROWS = (
    f"SELECT e.seq, e.session, e.pos, e.kind, {BODY} FROM entry e WHERE e.seq IN (SELECT value FROM json_each(?))"  # noqa: S608 - constants
    " ORDER BY e.seq DESC"
)
_SELECT_UNINDEXED = (
    f"SELECT e.seq, e.session, {BODY} FROM entry e"  # noqa: S608 - constants
    " WHERE e.seq > ? AND e.kind != 'tombstone' ORDER BY e.seq LIMIT ?"
)
_SELECT_WATERMARK = (
    "SELECT value FROM mark WHERE name = ? AND typeof(value) = 'integer'"
    " AND value BETWEEN 0 AND (SELECT ifnull(max(seq), 0) FROM entry)"
)
NO_WATERMARK = -1
"""Stands for a damaged watermark. Every entry is after it, and both indexes are built again."""
_SELECT_PASSAGES = (
    "SELECT rowid FROM passages WHERE passages MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid DESC LIMIT ?"
)
# The plus keeps FTS5 from a search of its own for each row number.
_SELECT_WEIGHTS = (
    "SELECT rowid, bm25(passages) FROM passages WHERE passages MATCH ? AND rowid BETWEEN ? AND ?"
    " AND +rowid IN (SELECT value FROM json_each(?))"
)
_CREATE_STEM_PLACES = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.places USING fts5vocab(main, passages, instance)"
_SELECT_STEM_PLACES = (
    "SELECT DISTINCT doc FROM temp.places WHERE term = ? AND doc BETWEEN ? AND ? ORDER BY doc DESC LIMIT ?"
)
_DELETE_PASSAGE = "INSERT INTO passages (passages, rowid, text) VALUES ('delete', ?, ?)"


class StoredEntry(Struct, frozen=True):
    """An entry as it was read. `order` grows with the time of appending."""

    order: int
    session: str
    position: int
    kind: str
    entry: Entry


def build_passage_key(session: int, seq: int, number: int = 0) -> int:
    """Builds the row number of a passage, which is the `number`th of the entry with the row number `seq`.

    The passages of a session are one range, in the order of appending, so that a search of one session need not look at
    others. Sessions whose ids are a million apart share a range.
    """
    return (session % _MAX_SESSIONS << _ENTRY_BITS | seq) << _NUMBER_BITS | number


def split_passage_key(key: int) -> tuple[int, int]:
    """Returns the row number of the passage's entry, and the passage's number in it."""
    return key >> _NUMBER_BITS & (1 << _ENTRY_BITS) - 1, key & (1 << _NUMBER_BITS) - 1


def find_passages(db: sqlite3.Connection, term: str, sessions: Iterable[int], limit: int) -> list[int]:
    """Finds the newest passages that hold a term, newest first."""
    return _select_newest(db, _SELECT_PASSAGES, f'"{term}"', sessions, limit)


def weigh_passages(db: sqlite3.Connection, term: str, keys: Collection[int]) -> dict[int, float]:
    """Returns FTS5's `bm25()` of a term for each of these passages that holds it.

    It takes several times as long for a passage as to find that one.
    """
    bounds = min(keys, default=0), max(keys, default=0)
    return dict(db.execute(_SELECT_WEIGHTS, (f'"{term}"', *bounds, json.dumps(list(keys)))))


def find_stem(db: sqlite3.Connection, stem: str, sessions: Iterable[int], limit: int) -> list[int]:
    """Finds the newest passages that hold a word of which the index has made this stem, newest first."""
    db.execute(_CREATE_STEM_PLACES)
    return _select_newest(db, _SELECT_STEM_PLACES, stem, sessions, limit)


def _select_newest(db: sqlite3.Connection, query: str, sought: str, sessions: Iterable[int], limit: int) -> list[int]:
    ranges = {session % _MAX_SESSIONS for session in sessions}
    first, last = min(ranges), max(ranges)
    has_others = last - first >= len(ranges)
    bounds = first << _RANGE_BITS, (last + 1 << _RANGE_BITS) - 1
    rows = db.execute(query, (sought, *bounds, -1 if has_others else limit))
    if not has_others:
        return [key for (key,) in rows.fetchall()]
    return list(islice((key for (key,) in rows if key >> _RANGE_BITS in ranges), limit))


def find_sessions(db: sqlite3.Connection, namespace: str, session: str | None) -> dict[int, str]:
    """Returns the row ids and names of the sessions to search. Raises `NotFoundError` for an unknown session."""
    if session is not None:
        return {find_session_id(db, namespace, session): session}
    return dict(db.execute(_SELECT_SESSIONS, (namespace,)))


def read_watermark(db: sqlite3.Connection) -> int:
    """Returns the row number of the last indexed entry, and `NO_WATERMARK` if the stored one is damaged."""
    row = db.execute(_SELECT_WATERMARK, (INDEXED_MARK,)).fetchone()
    return int(row[0]) if row is not None else NO_WATERMARK


def has_unindexed(db: sqlite3.Connection) -> bool:
    """Tells whether there are entries after the watermark."""
    return int(db.execute("SELECT ifnull(max(seq), 0) FROM entry").fetchone()[0]) > read_watermark(db)


def read_stored_entries(
    db: sqlite3.Connection, seqs: Iterable[int], sessions: Mapping[int, str]
) -> Iterator[StoredEntry]:
    """Reads the entries of these sessions with these row numbers, newest first, and leaves out damaged ones."""
    for seq, session, position, kind, body in db.execute(_SELECT_ROWS, (json.dumps(list(seqs)),)):
        entry = recover_entry(body) if session in sessions else None
        if entry is not None:
            yield StoredEntry(seq, sessions[session], position, kind, entry)


def index_entries(db: sqlite3.Connection, limit: int) -> int:
    """Indexes up to `limit` entries, or about a million characters, after the watermark.

    Must run in a transaction. Returns how many entries it indexed.
    """
    start = read_watermark(db)
    if start == NO_WATERMARK:
        clear_indexes(db)
        start = 0
    last = characters = 0
    passages: list[tuple[int, str]] = []
    for seq, session, body in db.execute(_SELECT_UNINDEXED, (start, limit)):
        entry = recover_entry(body)
        if entry is not None:
            characters += _insert_words(db, seq, entry)
            passages += list_passages(session, seq, entry)
        last = seq
        if characters >= _BATCH_CHARACTERS:
            break
    _insert_passages(db, passages)
    if not last:
        db.execute("UPDATE mark SET value = (SELECT ifnull(max(seq), 0) FROM entry) WHERE name = ?", (INDEXED_MARK,))
        return 0
    count = int(db.execute("SELECT count(*) FROM entry WHERE seq > ? AND seq <= ?", (start, last)).fetchone()[0])
    db.execute("UPDATE mark SET value = ? WHERE name = ?", (last, INDEXED_MARK))
    return count


def list_late_passages(db: sqlite3.Connection, sessions: Mapping[int, str]) -> list[tuple[int, str]]:
    """Returns the passages of these sessions that the index does not hold, with their keys."""
    out: list[tuple[int, str]] = []
    for seq, session, body in db.execute(_SELECT_UNINDEXED, (read_watermark(db), -1)):
        entry = recover_entry(body) if session in sessions else None
        if entry is not None:
            out += list_passages(session, seq, entry)
    return out


def list_passages(session: int, seq: int, entry: Entry) -> Iterator[tuple[int, str]]:
    """Yields the rows of an entry in the index of passages."""
    text = read_plain_text(entry).text
    for number, (start, stop) in enumerate(split_passages(text)):
        if not text[start:stop].isspace():
            yield build_passage_key(session, seq, number), build_index_text(text[start:stop])


def remove_entry(db: sqlite3.Connection, session: int, seq: int, entry: Entry) -> int:
    """Removes an entry that is about to change from the indexes. Returns how many rows of trigrams were removed."""
    if seq > read_watermark(db):
        return 0
    text, cut = _get_indexed_text(entry)
    if text:
        db.execute("INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", (seq, text))
    if cut:
        db.execute("DELETE FROM rest WHERE seq = ?", (seq,))
    db.executemany(_DELETE_PASSAGE, list_passages(session, seq, entry))
    return int(bool(text)) + int(cut)


def restore_entry(db: sqlite3.Connection, session: int, seq: int, entry: Entry) -> None:
    """Puts a changed entry back into the indexes if it is below the watermark."""
    if seq <= read_watermark(db):
        _insert_words(db, seq, entry)
        _insert_passages(db, list_passages(session, seq, entry))


def clear_indexes(db: sqlite3.Connection) -> None:
    """Empties the indexes. The next search fills them again."""
    db.execute("INSERT INTO words (words) VALUES ('delete-all')")
    db.execute("INSERT INTO passages (passages) VALUES ('delete-all')")
    db.execute("DELETE FROM rest")
    db.execute("INSERT INTO mark VALUES (?, 0) ON CONFLICT DO UPDATE SET value = 0", (INDEXED_MARK,))


def merge_indexes(db: sqlite3.Connection) -> None:
    """Merges each index into one piece. Only then are removed rows physically gone."""
    db.execute("INSERT INTO words (words) VALUES ('optimize')")
    db.execute("INSERT INTO passages (passages) VALUES ('optimize')")


def _insert_words(db: sqlite3.Connection, seq: int, entry: Entry) -> int:
    """Adds an entry to the index of trigrams. Returns how many characters went into it."""
    text, cut = _get_indexed_text(entry)
    if text:
        db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (seq, text))
    if cut:
        db.execute("INSERT INTO rest VALUES (?)", (seq,))
    return len(text)


def _insert_passages(db: sqlite3.Connection, passages: Iterable[tuple[int, str]]) -> None:
    # In ascending order, since FTS5 begins a new piece of its index at each row number below the one before.
    db.executemany("INSERT INTO passages (rowid, text) VALUES (?, ?)", sorted(passages))


def _get_indexed_text(entry: Entry) -> tuple[str, bool]:
    """Returns the folded text that the index of trigrams holds, and whether some of it was left out."""
    text = fold_text(get_searchable_text(entry))
    return text[:INDEX_LIMIT], len(text) > INDEX_LIMIT
