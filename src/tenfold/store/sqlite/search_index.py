"""The two indexes of SQLite, which are filled after the append, up to a watermark.

The index of trigrams (`words`, and `rest` for entries whose text is cut off in it) names candidates for a search by
words. The index of passages answers questions. Neither holds the texts, so an entry can only be removed with the very
text that was put in.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from tenfold.core.record.codec import decode_entry
from tenfold.core.record.entry import Entry
from tenfold.errors import RecordError
from tenfold.store.compressed_bodies import restore_body
from tenfold.store.search.entry_text import fold_text, get_searchable_text, read_plain_text
from tenfold.store.search.newer_first import Scored
from tenfold.store.search.terms import build_index_text, split_passages
from tenfold.store.sql.database import Connection, SearchScope
from tenfold.store.sql.paths import BODY
from tenfold.store.sql.word_search import INDEX_LIMIT, MIN_WORD_LENGTH, choose_trigrams
from tenfold.store.sqlite.meanings import (
    add_meanings,
    embed_entries,
    has_unembedded,
    remove_session_vectors,
    remove_vector,
)
from tenfold.store.sqlite.passage_keys import MAX_SESSIONS, RANGE_BITS, build_passage_key, split_passage_key
from tenfold.store.sqlite.schema import EMBEDDED_MARK, INDEXED_MARK, TOKENIZER
from tenfold.store.unreadable import recover_entry

_BATCH_CHARACTERS = 1_000_000
_MAX_NARROWING = 6
"""Words, the longest ones, by which the index is asked: more of them narrow down no further, and the index has to go
through all that hold each of them."""
_SELECT_CANDIDATES = (
    "SELECT e.seq, e.session FROM entry e WHERE e.seq IN (SELECT rowid FROM words WHERE words MATCH ?"
    " UNION SELECT seq FROM rest) UNION ALL SELECT seq, session FROM entry WHERE seq > ? ORDER BY 1 DESC"
)
_SELECT_SESSION = "SELECT e.seq FROM seg g JOIN entry e ON e.seg = g.id WHERE g.session = ?"
_SELECT_BODIES = f"SELECT e.seq, {BODY} FROM entry e WHERE e.seg IN (SELECT id FROM seg WHERE session = ?)"  # noqa: S608 - constants
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
_CREATE_VOCABULARY = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, passages, row)"
_SELECT_TERMS = "SELECT term FROM temp.vocabulary WHERE term >= ? AND term < ? AND length(term) BETWEEN ? AND ?"
_CREATE_SCRATCH = (
    f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.scratch USING fts5(text, content='', tokenize=\"{TOKENIZER}\")"
)
_FILL_SCRATCH = "INSERT INTO scratch (rowid, text) SELECT key, value FROM json_each(?)"
_SELECT_SCRATCH = "SELECT rowid, bm25(scratch) FROM scratch WHERE scratch MATCH ? ORDER BY rowid DESC"
_CLEAR_SCRATCH = "INSERT INTO scratch (scratch) VALUES ('delete-all')"
_CREATE_STEM_PLACES = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.places USING fts5vocab(main, passages, instance)"
_SELECT_STEM_PLACES = (
    "SELECT DISTINCT doc FROM temp.places WHERE term = ? AND doc BETWEEN ? AND ? ORDER BY doc DESC LIMIT ?"
)
_DELETE_PASSAGE = "INSERT INTO passages (passages, rowid, text) VALUES ('delete', ?, ?)"


class SqliteSearch:
    """A search of a scope in the indexes. See `IndexSearch`."""

    def __init__(self, db: Connection, scope: SearchScope) -> None:
        self.db, self.scope = db, scope
        query, value = ("SELECT id FROM session WHERE ns = ?", scope.namespace)
        if scope.session is not None:
            query, value = ("SELECT id FROM session WHERE id = ?", scope.session)
        self._sessions = frozenset(id_ for (id_,) in db.execute(query, (value,)))

    build_key = staticmethod(build_passage_key)
    split_key = staticmethod(split_passage_key)

    def find_candidates(self, words: Sequence[Sequence[str]]) -> list[int]:
        """See `IndexSearch.find_candidates`."""
        long = [spellings for spellings in words if min(map(len, spellings)) >= MIN_WORD_LENGTH]
        if long:
            rows = self.db.execute(_SELECT_CANDIDATES, (_build_match(long), read_watermark(self.db)))
            return [seq for seq, session in rows if session in self._sessions]
        each = (row[0] for session in self._sessions for row in self.db.execute(_SELECT_SESSION, (session,)))
        return sorted(each, reverse=True)

    def find_passages(self, term: str, limit: int) -> list[int]:
        """See `IndexSearch.find_passages`."""
        return self._select_newest(_SELECT_PASSAGES, f'"{term}"', limit)

    def weigh_passages(self, term: str, keys: Collection[int]) -> dict[int, float]:
        """See `IndexSearch.weigh_passages`. It takes several times as long for a passage as to find that one."""
        bounds = min(keys, default=0), max(keys, default=0)
        return dict(self.db.execute(_SELECT_WEIGHTS, (f'"{term}"', *bounds, json.dumps(list(keys)))))

    def list_late_passages(self) -> list[tuple[int, str]]:
        """See `IndexSearch.list_late_passages`."""
        out: list[tuple[int, str]] = []
        for seq, session, body in self.db.execute(_SELECT_UNINDEXED, (read_watermark(self.db), -1)):
            entry = recover_entry(body) if session in self._sessions else None
            if entry is not None:
                out += list_passages(session, seq, entry)
        return out

    def match_texts(self, texts: Sequence[str], terms: Iterable[str]) -> dict[str, list[Scored]]:
        """See `IndexSearch.match_texts`."""
        self.db.execute(_CREATE_SCRATCH)
        try:
            self.db.execute(_FILL_SCRATCH, (json.dumps(texts),))
            return {term: self.db.execute(_SELECT_SCRATCH, (f'"{term}"',)).fetchall() for term in terms}
        finally:
            self.db.execute(_CLEAR_SCRATCH)

    def list_similar_terms(self, letter: str, lengths: tuple[int, int]) -> Iterator[str]:
        """See `IndexSearch.list_similar_terms`."""
        self.db.execute(_CREATE_VOCABULARY)
        for (term,) in self.db.execute(_SELECT_TERMS, (letter, chr(ord(letter) + 1), *lengths)):
            yield term

    def find_stem(self, stem: str, limit: int) -> list[int]:
        """See `IndexSearch.find_stem`."""
        self.db.execute(_CREATE_STEM_PLACES)
        return self._select_newest(_SELECT_STEM_PLACES, stem, limit)

    def add_meanings(self, question: str, scored: list[Scored], left_out: Collection[int]) -> list[Scored]:
        """See `IndexSearch.add_meanings`. It needs the extra `tenfold[semantic]`."""
        return add_meanings(self.db, question, self._sessions, scored, left_out)

    def _select_newest(self, query: str, sought: str, limit: int) -> list[int]:
        ranges = {session % MAX_SESSIONS for session in self._sessions}
        if not ranges:
            return []
        first, last = min(ranges), max(ranges)
        has_others = last - first >= len(ranges)
        bounds = first << RANGE_BITS, (last + 1 << RANGE_BITS) - 1
        rows = self.db.execute(query, (sought, *bounds, -1 if has_others else limit))
        if not has_others:
            return [key for (key,) in rows.fetchall()]
        return list(islice((key for (key,) in rows if key >> RANGE_BITS in ranges), limit))


class SqliteIndex:
    """Keeps the two indexes. See `SearchIndex`."""

    def open_search(self, db: Connection, scope: SearchScope) -> SqliteSearch:
        """See `SearchIndex.open_search`."""
        return SqliteSearch(db, scope)

    def has_late_entries(self, db: Connection, scope: SearchScope | None = None) -> bool:  # noqa: ARG002 - one watermark for all
        """See `SearchIndex.has_late_entries`."""
        return has_unindexed(db) or has_unembedded(db)

    def count_late_entries(self, db: Connection) -> int:
        """See `SearchIndex.count_late_entries`."""
        return int(db.execute("SELECT count(*) FROM entry WHERE seq > ?", (read_watermark(db),)).fetchone()[0])

    def index_entries(self, db: Connection, limit: int, scope: SearchScope | None = None) -> int:  # noqa: ARG002 - as above
        """See `SearchIndex.index_entries`. When all are indexed, entries get their meanings."""
        return index_entries(db, limit) if has_unindexed(db) else embed_entries(db, limit)

    def clear(self, db: Connection) -> None:
        """See `SearchIndex.clear`."""
        clear_indexes(db)

    def remove_entry(self, db: Connection, session: int, seq: int, entry: Entry) -> int:
        """See `SearchIndex.remove_entry`. Returns how many rows of trigrams were removed."""
        remove_vector(db, session, seq)
        return remove_entry(db, session, seq, entry)

    def restore_entry(self, db: Connection, session: int, seq: int, entry: Entry) -> None:
        """See `SearchIndex.restore_entry`."""
        if seq <= read_watermark(db):
            _insert_words(db, seq, entry)
            _insert_passages(db, list_passages(session, seq, entry))

    def remove_session(self, db: Connection, session: int, count: int) -> None:
        """See `SearchIndex.remove_session`."""
        remove_session_vectors(db, session)
        rest = int(db.execute("SELECT count(*) FROM entry").fetchone()[0]) - count
        if rest < count:
            clear_indexes(db)  # indexing again what remains is less work
            return
        for seq, body in db.execute(_SELECT_BODIES, (session,)).fetchall():
            try:
                remove_entry(db, session, seq, decode_entry(restore_body(body)))
            except RecordError:  # nobody knows under which text it was indexed
                clear_indexes(db)
                return

    def finish_removal(self, db: Connection) -> None:
        """See `SearchIndex.finish_removal`. Only when an index is one piece are its removed rows physically gone."""
        # SQLite reuses row numbers above the last entry. They must count as not indexed.
        db.execute(
            "UPDATE mark SET value = min(value, (SELECT ifnull(max(seq), 0) FROM entry)) WHERE name IN (?, ?)",
            (INDEXED_MARK, EMBEDDED_MARK),
        )
        db.execute("INSERT INTO words (words) VALUES ('optimize')")
        db.execute("INSERT INTO passages (passages) VALUES ('optimize')")


def read_watermark(db: Connection) -> int:
    """Returns the row number of the last indexed entry, and `NO_WATERMARK` if the stored one is damaged."""
    row = db.execute(_SELECT_WATERMARK, (INDEXED_MARK,)).fetchone()
    return int(row[0]) if row is not None else NO_WATERMARK


def has_unindexed(db: Connection) -> bool:
    """Tells whether there are entries after the watermark."""
    return int(db.execute("SELECT ifnull(max(seq), 0) FROM entry").fetchone()[0]) > read_watermark(db)


def index_entries(db: Connection, limit: int) -> int:
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


def list_passages(session: int, seq: int, entry: Entry) -> Iterator[tuple[int, str]]:
    """Yields the rows of an entry in the index of passages."""
    text = read_plain_text(entry).text
    for number, (start, stop) in enumerate(split_passages(text)):
        if not text[start:stop].isspace():
            yield build_passage_key(session, seq, number), build_index_text(text[start:stop])


def remove_entry(db: Connection, session: int, seq: int, entry: Entry) -> int:
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


def clear_indexes(db: Connection) -> None:
    """Empties the indexes. The next search fills them again."""
    db.execute("INSERT INTO words (words) VALUES ('delete-all')")
    db.execute("INSERT INTO passages (passages) VALUES ('delete-all')")
    db.execute("DELETE FROM rest")
    db.execute("INSERT INTO mark VALUES (?, 0) ON CONFLICT DO UPDATE SET value = 0", (INDEXED_MARK,))


def _insert_words(db: Connection, seq: int, entry: Entry) -> int:
    """Adds an entry to the index of trigrams. Returns how many characters went into it."""
    text, cut = _get_indexed_text(entry)
    if text:
        db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (seq, text))
    if cut:
        db.execute("INSERT INTO rest VALUES (?)", (seq,))
    return len(text)


def _insert_passages(db: Connection, passages: Iterable[tuple[int, str]]) -> None:
    # In ascending order, since FTS5 begins a new piece of its index at each row number below the one before.
    db.executemany("INSERT INTO passages (rowid, text) VALUES (?, ?)", sorted(passages))


def _get_indexed_text(entry: Entry) -> tuple[str, bool]:
    """Returns the folded text that the index of trigrams holds, and whether some of it was left out."""
    text = fold_text(get_searchable_text(entry))
    return text[:INDEX_LIMIT], len(text) > INDEX_LIMIT


def _build_match(words: Iterable[Sequence[str]]) -> str:
    """Builds a query for trigrams of a spelling of each word."""
    longest = sorted(words, key=lambda spellings: -len(spellings[0]))[:_MAX_NARROWING]
    return " AND ".join(f"({' OR '.join(map(_build_spelling_match, spellings))})" for spellings in longest)


def _build_spelling_match(word: str) -> str:
    quoted = ('"' + gram.replace('"', '""') + '"' for gram in choose_trigrams(word))
    return f"({' AND '.join(quoted)})"
