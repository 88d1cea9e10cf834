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
from tenfold.log.base import Hit
from tenfold.log.search_passages import NEWEST, Source, answered, keys
from tenfold.log.search_terms import asked_for
from tenfold.log.sqlite_schema import INDEXED
from tenfold.log.words import POOL, SHORTEST, Candidate, find, indexed, parse, ranked, searchable
from tenfold.record.codec import decode_entry
from tenfold.record.entry import Entry

_BATCH_CHARACTERS = 1_000_000
_TRIGRAMS = 24
_CHUNK = 64
_ROWS = (
    "SELECT e.seq, s.name, e.pos, e.kind, e.body FROM entry e JOIN session s ON s.id = e.session"
    " WHERE e.seq IN ({marks}) ORDER BY e.seq DESC"
)
_SCOPES = (
    "SELECT s.id, n.id FROM session s JOIN namespace n ON n.id = s.ns WHERE n.name = ?1 AND (?2 IS NULL OR s.name = ?2)"
)
_NAMESPACE, _SESSION = "_n{}", "_s{}"
"""Terms that no text can have, because the terms of a text begin with a letter or a digit."""
_NEWEST = "SELECT rowid FROM passages WHERE passages MATCH ? ORDER BY rowid DESC LIMIT ?"
_ENTRIES = (
    "SELECT ifnull(sum(h.entries), 0) FROM head h JOIN session s ON s.id = h.session"
    " JOIN namespace n ON n.id = s.ns WHERE n.name = ?1 AND (?2 IS NULL OR s.name = ?2)"
)
_PASSAGES = "SELECT count(*) FROM (SELECT 1 FROM passages WHERE passages MATCH ? LIMIT ?)"
_LATE = "SELECT seq, session, body FROM entry WHERE seq > ? AND ns = ? AND kind != 'tombstone' ORDER BY seq"
_SESSIONS = (
    "SELECT s.id FROM session s JOIN namespace n ON n.id = s.ns WHERE n.name = ?1 AND (?2 IS NULL OR s.name = ?2)"
)


def watermark(db: sqlite3.Connection) -> int:
    """Returns the row number of the last indexed entry."""
    return int(db.execute("SELECT value FROM mark WHERE name = ?", (INDEXED,)).fetchone()[0])


def behind(db: sqlite3.Connection) -> bool:
    """Tells whether there are entries after the watermark."""
    return int(db.execute("SELECT ifnull(max(seq), 0) FROM entry").fetchone()[0]) > watermark(db)


def index(db: sqlite3.Connection, limit: int) -> int:
    """Indexes up to `limit` entries, or about a million characters, after the watermark.

    Must run in a transaction. Returns how many entries it indexed.
    """
    start = watermark(db)
    rows = db.execute(
        "SELECT seq, body FROM entry WHERE seq > ? AND kind != 'tombstone' ORDER BY seq LIMIT ?", (start, limit)
    )
    last = characters = 0
    for seq, body in rows:
        entry = _read(body)
        characters += _put(db, seq, entry) if entry is not None else 0
        last = seq
        if characters >= _BATCH_CHARACTERS:
            break
    if not last:
        db.execute("UPDATE mark SET value = (SELECT ifnull(max(seq), 0) FROM entry) WHERE name = ?", (INDEXED,))
        return 0
    count = int(db.execute("SELECT count(*) FROM entry WHERE seq > ? AND seq <= ?", (start, last)).fetchone()[0])
    db.execute("UPDATE mark SET value = ? WHERE name = ?", (last, INDEXED))
    return count


def forget(db: sqlite3.Connection, seq: int, entry: Entry) -> int:
    """Removes an entry that is about to change from the indexes. Returns how many rows the word index lost."""
    if seq > watermark(db):
        return 0
    text, cut = indexed(entry)
    if text:
        db.execute("INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)", (seq, text))
    if cut:
        db.execute("DELETE FROM rest WHERE seq = ?", (seq,))
    delete = "INSERT INTO passages (passages, rowid, text) VALUES ('delete', ?, ?)"
    db.executemany(delete, _rows_of(db, seq, entry))
    return int(bool(text)) + int(cut)


def forget_all(db: sqlite3.Connection) -> None:
    """Empties the indexes. The next search fills them again."""
    db.execute("INSERT INTO words (words) VALUES ('delete-all')")
    db.execute("INSERT INTO passages (passages) VALUES ('delete-all')")
    db.execute("DELETE FROM rest")
    db.execute("UPDATE mark SET value = 0 WHERE name = ?", (INDEXED,))


def remember(db: sqlite3.Connection, seq: int, entry: Entry) -> None:
    """Puts a changed entry back into the indexes if it is below the watermark."""
    if seq <= watermark(db):
        _put(db, seq, entry)


def merge(db: sqlite3.Connection) -> None:
    """Merges each index into one piece. Only then are removed rows physically gone."""
    db.execute("INSERT INTO words (words) VALUES ('optimize')")
    db.execute("INSERT INTO passages (passages) VALUES ('optimize')")


def _put(db: sqlite3.Connection, seq: int, entry: Entry) -> int:
    """Adds an entry to the indexes. Returns how many characters went into the word index."""
    text, cut = indexed(entry)
    if text:
        db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (seq, text))
    if cut:
        db.execute("INSERT INTO rest VALUES (?)", (seq,))
    db.executemany("INSERT INTO passages (rowid, text) VALUES (?, ?)", _rows_of(db, seq, entry))
    return len(text)


def _rows_of(db: sqlite3.Connection, seq: int, entry: Entry) -> list[tuple[int, str]]:
    namespace, session = db.execute("SELECT ns, session FROM entry WHERE seq = ?", (seq,)).fetchone()
    scope = f"{_NAMESPACE.format(namespace)} {_SESSION.format(session)}"
    return [(key, f"{scope} {' '.join(sorted(held))}") for key, held in keys(seq, entry)]


def ask(db: sqlite3.Connection, namespace: str, words: str, session: str | None, limit: int) -> list[Hit]:
    """Finds the best hits for a question. Does not move the watermark."""
    scopes = db.execute(_SCOPES, (namespace, session)).fetchall()
    question_terms = asked_for(words)
    if not scopes or not question_terms:
        return []
    scope = _SESSION.format(scopes[0][0]) if session else _NAMESPACE.format(scopes[0][1])
    match = f'"{{}}" AND "{scope}"'
    keys_by_term = {
        term: [row[0] for row in db.execute(_NEWEST, (match.format(term), NEWEST))] for term in question_terms
    }
    late = db.execute(_LATE, (watermark(db), scopes[0][1])).fetchall()
    sessions = {row[0] for row in scopes}
    for seq, owner, body in late:
        entry = _read(body) if owner in sessions else None
        for key, held in keys(seq, entry) if entry is not None else ():
            for term in held & keys_by_term.keys():
                keys_by_term[term].insert(0, key)
    entries = int(db.execute(_ENTRIES, (namespace, session)).fetchone()[0])
    total = max(entries, int(db.execute(_PASSAGES, (f'"{scope}"', NEWEST)).fetchone()[0]))
    newest = {term: places[:NEWEST] for term, places in keys_by_term.items()}
    return answered(newest, lambda seqs: _sources(db, seqs), among=total, limit=limit)


def _sources(db: sqlite3.Connection, seqs: Sequence[int]) -> Iterator[Source]:
    marks = ",".join("?" * len(seqs))
    for seq, session, position, kind, body in db.execute(_ROWS.format(marks=marks), seqs):
        entry = _read(body)
        if entry is not None:
            yield Source(seq, session, position, kind, entry)


def search(db: sqlite3.Connection, namespace: str, words: str, session: str | None, limit: int) -> list[Hit]:
    """Finds the best hits among the newest entries that contain all the words. Does not move the watermark."""
    query = parse(words)
    sessions = {row[0] for row in db.execute(_SESSIONS, (namespace, session))}
    pool: list[Candidate] = []
    seqs = _candidates(db, query, sessions)
    for start in range(0, len(seqs), _CHUNK):
        pool.extend(_compared(db, seqs[start : start + _CHUNK], query))
        if len(pool) >= max(POOL, limit):
            break
    return ranked(pool[: max(POOL, limit)], query, limit)


def _candidates(db: sqlite3.Connection, words: Sequence[str], sessions: set[int]) -> list[int]:
    """Returns the row numbers of all entries that may contain the words, newest first."""
    long = [w for w in words if len(w) >= SHORTEST]
    seqs: list[int] = []
    if not long:
        for session in sessions:
            rows = db.execute("SELECT e.seq FROM seg g JOIN entry e ON e.seg = g.id WHERE g.session = ?", (session,))
            seqs.extend(row[0] for row in rows)
        return sorted(seqs, reverse=True)
    rows = db.execute(
        "SELECT e.seq, e.session FROM entry e WHERE e.seq IN (SELECT rowid FROM words WHERE words MATCH ?1"
        " UNION SELECT seq FROM rest) UNION ALL SELECT seq, session FROM entry WHERE seq > ?2 ORDER BY 1 DESC",
        (_match(long), watermark(db)),
    )
    return [seq for seq, session in rows if session in sessions]


def _match(words: Sequence[str]) -> str:
    """Builds a query for all trigrams of the words. Of a very long word it takes only some."""
    grams: dict[str, None] = {}
    for word in words:
        count = len(word) - SHORTEST + 1
        step = max(1, count // _TRIGRAMS)
        grams.update(dict.fromkeys(word[i : i + SHORTEST] for i in range(0, count, step)))
    return " ".join('"' + gram.replace('"', '""') + '"' for gram in grams)


def _compared(db: sqlite3.Connection, seqs: Sequence[int], words: Sequence[str]) -> Iterator[Candidate]:
    marks = ",".join("?" * len(seqs))
    for seq, session, position, kind, body in db.execute(_ROWS.format(marks=marks), seqs):
        entry = _read(body)
        if entry is None:
            continue
        text = searchable(entry)
        match = find(text, words)
        if match is not None:
            yield Candidate(seq, session, entry, position, kind, match, text)


def _read(body: bytes) -> Entry | None:
    try:
        return decode_entry(body)
    except RecordError:
        return None
