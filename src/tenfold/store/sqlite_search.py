"""Searches in SQLite. A trigram index names candidates, which are then read and compared with the words.

A second index, for questions, holds the terms of each passage. The ids of the namespace and of the session are terms in
it too, so a question costs no more when other sessions hold a lot of text.

Both indexes are filled after the append, up to a watermark, and hold neither texts nor offsets. What the trigram index
cannot hold is found by a scan: text beyond its limit, entries after the watermark, and words shorter than three
characters. A damaged entry gives no hit; `verify` reports it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from tenfold.errors import RecordError
from tenfold.record.codec import decode_entry
from tenfold.record.entry import Entry
from tenfold.store.base import Hit
from tenfold.store.passages import NEWEST_LIMIT, StoredEntry, find_best_hits, list_passage_terms
from tenfold.store.sqlite_schema import INDEXED_MARK
from tenfold.store.terms import parse_question
from tenfold.store.word_search import (
    MIN_WORD_LENGTH,
    POOL_SIZE,
    Candidate,
    get_indexed_text,
    get_searchable_text,
    match_words,
    parse_query,
    rank_candidates,
)

_BATCH_CHARACTERS = 1_000_000
_MAX_TRIGRAMS = 24
_CHUNK_SIZE = 64
_SELECT_ROWS = (
    "SELECT e.seq, s.name, e.pos, e.kind, e.body FROM entry e JOIN session s ON s.id = e.session"
    " WHERE e.seq IN ({marks}) ORDER BY e.seq DESC"
)
_SELECT_SCOPES = (
    "SELECT s.id, n.id FROM session s JOIN namespace n ON n.id = s.ns WHERE n.name = ?1 AND (?2 IS NULL OR s.name = ?2)"
)
_NAMESPACE_TERM, _SESSION_TERM = "_n{}", "_s{}"
"""Terms that no text can have, because the terms of a text begin with a letter or a digit."""
_SELECT_NEWEST = "SELECT rowid FROM passages WHERE passages MATCH ? ORDER BY rowid DESC LIMIT ?"
_COUNT_ENTRIES = (
    "SELECT ifnull(sum(h.entries), 0) FROM head h JOIN session s ON s.id = h.session"
    " JOIN namespace n ON n.id = s.ns WHERE n.name = ?1 AND (?2 IS NULL OR s.name = ?2)"
)
_COUNT_PASSAGES = "SELECT count(*) FROM (SELECT 1 FROM passages WHERE passages MATCH ? LIMIT ?)"
_SELECT_UNINDEXED = "SELECT seq, session, body FROM entry WHERE seq > ? AND ns = ? AND kind != 'tombstone' ORDER BY seq"
_SELECT_SESSIONS = (
    "SELECT s.id FROM session s JOIN namespace n ON n.id = s.ns WHERE n.name = ?1 AND (?2 IS NULL OR s.name = ?2)"
)


def read_watermark(db: sqlite3.Connection) -> int:
    """Returns the row number of the last indexed entry."""
    return int(db.execute("SELECT value FROM mark WHERE name = ?", (INDEXED_MARK,)).fetchone()[0])


def has_unindexed(db: sqlite3.Connection) -> bool:
    """Tells whether there are entries after the watermark."""
    return int(db.execute("SELECT ifnull(max(seq), 0) FROM entry").fetchone()[0]) > read_watermark(db)


def index_entries(db: sqlite3.Connection, limit: int) -> int:
    """Indexes up to `limit` entries, or about a million characters, after the watermark.

    Must run in a transaction. Returns how many entries it indexed.
    """
    start = read_watermark(db)
    rows = db.execute(
        "SELECT seq, body FROM entry WHERE seq > ? AND kind != 'tombstone' ORDER BY seq LIMIT ?", (start, limit)
    )
    last = characters = 0
    for seq, body in rows:
        entry = _decode_body(body)
        characters += _insert_entry(db, seq, entry) if entry is not None else 0
        last = seq
        if characters >= _BATCH_CHARACTERS:
            break
    if not last:
        db.execute("UPDATE mark SET value = (SELECT ifnull(max(seq), 0) FROM entry) WHERE name = ?", (INDEXED_MARK,))
        return 0
    count = int(db.execute("SELECT count(*) FROM entry WHERE seq > ? AND seq <= ?", (start, last)).fetchone()[0])
    db.execute("UPDATE mark SET value = ? WHERE name = ?", (last, INDEXED_MARK))
    return count


def remove_entry(db: sqlite3.Connection, seq: int, entry: Entry) -> int:
    """Removes an entry that is about to change from the indexes. Returns how many rows the word index lost."""
    if seq > read_watermark(db):
        return 0
    text, cut = get_indexed_text(entry)
    if text:
        db.execute("INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", (seq, text))
    if cut:
        db.execute("DELETE FROM rest WHERE seq = ?", (seq,))
    delete = "INSERT INTO passages (passages, rowid, text) VALUES ('delete', ?, ?)"
    db.executemany(delete, _build_passage_rows(db, seq, entry))
    return int(bool(text)) + int(cut)


def clear_indexes(db: sqlite3.Connection) -> None:
    """Empties the indexes. The next search fills them again."""
    db.execute("INSERT INTO words (words) VALUES ('delete-all')")
    db.execute("INSERT INTO passages (passages) VALUES ('delete-all')")
    db.execute("DELETE FROM rest")
    db.execute("UPDATE mark SET value = 0 WHERE name = ?", (INDEXED_MARK,))


def restore_entry(db: sqlite3.Connection, seq: int, entry: Entry) -> None:
    """Puts a changed entry back into the indexes if it is below the watermark."""
    if seq <= read_watermark(db):
        _insert_entry(db, seq, entry)


def merge_indexes(db: sqlite3.Connection) -> None:
    """Merges each index into one piece. Only then are removed rows physically gone."""
    db.execute("INSERT INTO words (words) VALUES ('optimize')")
    db.execute("INSERT INTO passages (passages) VALUES ('optimize')")


def _insert_entry(db: sqlite3.Connection, seq: int, entry: Entry) -> int:
    """Adds an entry to the indexes. Returns how many characters went into the word index."""
    text, cut = get_indexed_text(entry)
    if text:
        db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (seq, text))
    if cut:
        db.execute("INSERT INTO rest VALUES (?)", (seq,))
    db.executemany("INSERT INTO passages (rowid, text) VALUES (?, ?)", _build_passage_rows(db, seq, entry))
    return len(text)


def _build_passage_rows(db: sqlite3.Connection, seq: int, entry: Entry) -> list[tuple[int, str]]:
    namespace, session = db.execute("SELECT ns, session FROM entry WHERE seq = ?", (seq,)).fetchone()
    scope = f"{_NAMESPACE_TERM.format(namespace)} {_SESSION_TERM.format(session)}"
    return [(key, f"{scope} {' '.join(sorted(held))}") for key, held in list_passage_terms(seq, entry)]


def search_passages(db: sqlite3.Connection, namespace: str, words: str, session: str | None, limit: int) -> list[Hit]:
    """Finds the best hits for a question. Does not move the watermark."""
    scopes = db.execute(_SELECT_SCOPES, (namespace, session)).fetchall()
    question_terms = parse_question(words)
    if not scopes or not question_terms:
        return []
    scope = _SESSION_TERM.format(scopes[0][0]) if session else _NAMESPACE_TERM.format(scopes[0][1])
    match = f'"{{}}" AND "{scope}"'
    keys_by_term = {
        term: [row[0] for row in db.execute(_SELECT_NEWEST, (match.format(term), NEWEST_LIMIT))]
        for term in question_terms
    }
    late = db.execute(_SELECT_UNINDEXED, (read_watermark(db), scopes[0][1])).fetchall()
    sessions = {row[0] for row in scopes}
    for seq, owner, body in late:
        entry = _decode_body(body) if owner in sessions else None
        for key, held in list_passage_terms(seq, entry) if entry is not None else ():
            for term in held & keys_by_term.keys():
                keys_by_term[term].insert(0, key)
    entries = int(db.execute(_COUNT_ENTRIES, (namespace, session)).fetchone()[0])
    total = max(entries, int(db.execute(_COUNT_PASSAGES, (f'"{scope}"', NEWEST_LIMIT)).fetchone()[0]))
    newest = {term: places[:NEWEST_LIMIT] for term, places in keys_by_term.items()}
    return find_best_hits(newest, lambda seqs: _read_stored_entries(db, seqs), total=total, limit=limit)


def _read_stored_entries(db: sqlite3.Connection, seqs: Sequence[int]) -> Iterator[StoredEntry]:
    marks = ",".join("?" * len(seqs))
    for seq, session, position, kind, body in db.execute(_SELECT_ROWS.format(marks=marks), seqs):
        entry = _decode_body(body)
        if entry is not None:
            yield StoredEntry(seq, session, position, kind, entry)


def search_words(db: sqlite3.Connection, namespace: str, words: str, session: str | None, limit: int) -> list[Hit]:
    """Finds the best hits among the newest entries that contain all the words. Does not move the watermark."""
    query = parse_query(words)
    sessions = {row[0] for row in db.execute(_SELECT_SESSIONS, (namespace, session))}
    pool: list[Candidate] = []
    seqs = _find_candidates(db, query, sessions)
    for start in range(0, len(seqs), _CHUNK_SIZE):
        pool.extend(_match_candidates(db, seqs[start : start + _CHUNK_SIZE], query))
        if len(pool) >= max(POOL_SIZE, limit):
            break
    return rank_candidates(pool[: max(POOL_SIZE, limit)], query, limit)


def _find_candidates(db: sqlite3.Connection, words: Sequence[str], sessions: set[int]) -> list[int]:
    """Returns the row numbers of all entries that may contain the words, newest first."""
    long = [w for w in words if len(w) >= MIN_WORD_LENGTH]
    seqs: list[int] = []
    if not long:
        for session in sessions:
            rows = db.execute("SELECT e.seq FROM seg g JOIN entry e ON e.seg = g.id WHERE g.session = ?", (session,))
            seqs.extend(row[0] for row in rows)
        return sorted(seqs, reverse=True)
    rows = db.execute(
        "SELECT e.seq, e.session FROM entry e WHERE e.seq IN (SELECT rowid FROM words WHERE words MATCH ?1"
        " UNION SELECT seq FROM rest) UNION ALL SELECT seq, session FROM entry WHERE seq > ?2 ORDER BY 1 DESC",
        (_build_match(long), read_watermark(db)),
    )
    return [seq for seq, session in rows if session in sessions]


def _build_match(words: Sequence[str]) -> str:
    """Builds a query for all trigrams of the words. Of a very long word it takes only some."""
    grams: dict[str, None] = {}
    for word in words:
        count = len(word) - MIN_WORD_LENGTH + 1
        step = max(1, count // _MAX_TRIGRAMS)
        grams.update(dict.fromkeys(word[i : i + MIN_WORD_LENGTH] for i in range(0, count, step)))
    return " ".join('"' + gram.replace('"', '""') + '"' for gram in grams)


def _match_candidates(db: sqlite3.Connection, seqs: Sequence[int], words: Sequence[str]) -> Iterator[Candidate]:
    marks = ",".join("?" * len(seqs))
    for seq, session, position, kind, body in db.execute(_SELECT_ROWS.format(marks=marks), seqs):
        entry = _decode_body(body)
        if entry is None:
            continue
        text = get_searchable_text(entry)
        match = match_words(text, words)
        if match is not None:
            yield Candidate(seq, session, entry, position, kind, match, text)


def _decode_body(body: bytes) -> Entry | None:
    try:
        return decode_entry(body)
    except RecordError:
        return None
