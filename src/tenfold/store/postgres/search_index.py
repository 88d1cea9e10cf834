"""The two indexes of PostgreSQL: hashes of trigrams for words, stems of passages for questions.

Entries that were appended wait in the table `late`. A search indexes those that it looks at, a worker all of them. What
another process indexes at this moment is read instead, so that no search misses it.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from tenfold.core.record.entry import Entry
from tenfold.store.postgres.connections import PostgresConnection
from tenfold.store.postgres.stems import list_stems
from tenfold.store.search.entry_text import fold_text, get_searchable_text, read_plain_text
from tenfold.store.search.newer_first import Scored
from tenfold.store.search.terms import build_index_text, split_passages
from tenfold.store.sql.database import Connection, SearchScope
from tenfold.store.sql.paths import BODY
from tenfold.store.sql.word_search import INDEX_LIMIT, MIN_WORD_LENGTH, choose_trigrams
from tenfold.store.unreadable import recover_entry

_NUMBER_BITS = 12
"""The bits of a passage's key that hold its number in the entry."""
_BATCH_CHARACTERS = 1_000_000
_PAGE = 512
"""Candidates that are asked for at once. The newest are looked at first, and mostly suffice."""
_BLOCK_BITS = 14
"""The numbers of entries are blocks of so many bits in the index of trigrams: see the migration 0002."""
_NEWEST_BLOCKS = 2
"""Blocks that are looked through one by one, before all that is older at once."""
_LEAST, _MOST = -1, (1 << 63) - 1
_NUMBER = "CAST(? AS bigint)"
_MAX_NARROWING = 6
"""Words, the longest ones, by which the index is asked."""
_FIRST_LOOK = 500
"""Entries that a process indexes until PostgreSQL is to look at the tables for the first time."""
_KNOWN_STEMS = 200_000
"""Stems that a process remembers to have stored."""
_NEWEST, _COMMON = 20_000, 64
"""A term is common if so many of so many passages, the newest ones, hold it."""
_SAMPLE_SIZE = 512
"""Passages, the newest ones, of which the usual length is taken."""
_USUAL_LENGTH = 100.0
_SATURATION, _LENGTH_SHARE = 1.2, 0.75
"""The usual parameters of BM25, which FTS5 has too."""
_WIDE_PAIR = re.compile(r"(?=([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2}))")
"""Scripts in which two characters are a word."""
_TAKE_LATE = (
    f"SELECT e.seq, e.ns, e.session, {BODY} FROM late l JOIN entry e ON e.seq = l.seq"  # noqa: S608 - constants
    " WHERE {} ORDER BY l.seq LIMIT ? FOR UPDATE OF l SKIP LOCKED"
)
_SELECT_LATE = f"SELECT e.seq, e.session, {BODY} FROM late l JOIN entry e ON e.seq = l.seq WHERE {{}} ORDER BY l.seq"  # noqa: S608 - constants
_INSERT_GRAMS = "INSERT INTO gram (seq, ns, session, is_cut, grams) VALUES (?, ?, ?, ?, ?) ON CONFLICT (seq) DO NOTHING"
_INSERT_PASSAGE = (
    "INSERT INTO passage (key, ns, session, n, terms) VALUES (?, ?, ?, ?, CAST(? AS tsvector))"
    " ON CONFLICT (key) DO NOTHING"
)
_INSERT_STEMS = "INSERT INTO stem (ns, stem) SELECT CAST(? AS bigint), unnest(CAST(? AS text[])) ON CONFLICT DO NOTHING"
_SELECT_STEMS = "SELECT DISTINCT s FROM passage, unnest(tsvector_to_array(terms)) s WHERE"
_SELECT_INDEXED = "SELECT ns FROM session WHERE id = ? AND NOT EXISTS (SELECT FROM late WHERE seq = ?)"
_FIND_AMONG_NEWEST = (
    "SELECT n.key FROM (SELECT p.key, p.terms FROM passage p WHERE {} ORDER BY p.key DESC LIMIT "  # noqa: S608 - constants
    f"{_NEWEST}) n WHERE n.terms @@ CAST(? AS tsquery) ORDER BY n.key DESC LIMIT ?"
)
_FIND_IN_INDEX = (
    "WITH found AS MATERIALIZED (SELECT p.key FROM passage p WHERE {} AND p.terms @@ CAST(? AS tsquery))"
    " SELECT key FROM found ORDER BY key DESC LIMIT ?"
)
_WEIGH = (
    "SELECT p.key, p.n, t.positions FROM passage p, unnest(p.terms) t"
    " WHERE p.key IN list(?) AND p.terms @@ CAST(? AS tsquery) AND t.lexeme = ?"
)


def list_grams(text: str) -> list[int]:
    """Returns the hashes of a folded text's trigrams, and of its pairs in scripts where two characters are a word."""
    grams = {text[at : at + MIN_WORD_LENGTH] for at in range(len(text) - MIN_WORD_LENGTH + 1)}
    if not text.isascii():
        grams.update(_WIDE_PAIR.findall(text))
    return sorted({hash_gram(gram) for gram in grams})


def hash_gram(gram: str) -> int:
    """Returns a number of 16 bits for a gram: the smaller, the less is read. What is found is compared anyway."""
    return (zlib.crc32(gram.encode("utf-8", "surrogatepass")) & 0xFFFF) - 0x8000


def build_tsvector(stems: Sequence[str]) -> str:
    """Returns the text of a tsvector: each stem with its places, of which PostgreSQL keeps the first 255."""
    places: dict[str, list[int]] = {}
    for at, stem in enumerate(stems, 1):
        places.setdefault(stem, []).append(min(at, 16_383))
    return " ".join(f"{_quote(stem)}:{','.join(map(str, found[:255]))}" for stem, found in places.items())


def _quote(stem: str) -> str:
    escaped = stem.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


def _build_tsquery(stems: Iterable[str]) -> str:
    return " & ".join(map(_quote, stems))


def _build_condition(scope: SearchScope | None, table: str) -> tuple[str, tuple[int, ...]]:
    """Returns the condition for the rows of a scope, and its values. The indexes of terms take none but bigints."""
    if scope is None:
        return "true", ()
    if scope.session is None:
        return f"{table}.ns = {_NUMBER}", (scope.namespace,)
    return f"{table}.ns = {_NUMBER} AND {table}.session = {_NUMBER}", (scope.namespace, scope.session)


class PostgresSearch:
    """A search of a scope in the indexes. See `IndexSearch`."""

    def __init__(self, db: PostgresConnection, scope: SearchScope) -> None:
        self.db: Connection = db
        self.scope = scope
        self._execute_anew = db.execute_anew
        self._usual_length = 0.0

    def find_candidates(self, words: Sequence[Sequence[str]]) -> Iterator[int]:
        """See `IndexSearch.find_candidates`. Looks at the newest blocks of entries first, and asks for pages."""
        narrowing = [spellings for spellings in words if all(map(_choose_grams, spellings))]
        longest = sorted(narrowing, key=lambda spellings: -len(spellings[0]))[:_MAX_NARROWING]
        # The numbers stand in the text: a plan that is made without them takes them for rare, or for common, at random.
        conditions = [f"({' OR '.join(map(_build_gram_condition, each))})" for each in longest]
        below = _MOST
        for block in self._list_newest_blocks() if conditions else ():
            yield from self._find_in_pages(conditions, block << _BLOCK_BITS, below, block)
            below = block << _BLOCK_BITS
        yield from self._find_in_pages(conditions, _LEAST, below)

    def _list_newest_blocks(self) -> range:
        """Lists the numbers of the newest blocks of entries in the scope, newest first."""
        found, values = _build_condition(self.scope, "t")
        (newest,) = self.db.execute(f"SELECT max(t.seq) FROM gram t WHERE {found}", values).fetchone()  # noqa: S608 - constants
        block = (newest or 0) >> _BLOCK_BITS
        return range(block, max(-1, block - _NEWEST_BLOCKS), -1)

    def _find_in_pages(
        self, conditions: Sequence[str], least: int, below: int, block: int | None = None
    ) -> Iterator[int]:
        """Finds the candidates with numbers from `least` to before `below`, all of one `block` if it is named."""
        scopes = {table: _build_condition(self.scope, table) for table in ("t", "l")}
        in_block = [] if block is None else [f"(t.seq >> {_BLOCK_BITS}) = {block}::bigint"]
        pieces = [("gram t", [*in_block, *conditions]), ("late l", [])]
        if conditions:
            pieces.append(("gram t", [*in_block, "t.is_cut"]))
        while True:
            queries: list[str] = []
            bound: list[int] = []
            for table, further in pieces:
                name, (found, values) = table[-1], scopes[table[-1]]
                between = f"{name}.seq >= {least} AND {name}.seq < {below}"
                matching = " AND ".join([found, *further, between])
                queries.append(f"(SELECT {name}.seq FROM {table} WHERE {matching} ORDER BY 1 DESC LIMIT {_PAGE})")  # noqa: S608 - numbers
                bound += values
            query = f"{' UNION '.join(queries)} ORDER BY 1 DESC LIMIT {_PAGE}"
            page = [seq for (seq,) in self._execute_anew(query, bound)]
            yield from page
            if len(page) < _PAGE:
                return
            below = page[-1]

    @staticmethod
    def build_key(session: int, seq: int, number: int = 0) -> int:  # noqa: ARG004 - the rows are numbered through
        """See `IndexSearch.build_key`."""
        return seq << _NUMBER_BITS | number

    @staticmethod
    def split_key(key: int) -> tuple[int, int]:
        """See `IndexSearch.split_key`."""
        return key >> _NUMBER_BITS, key & (1 << _NUMBER_BITS) - 1

    def find_passages(self, term: str, limit: int) -> list[int]:
        """See `IndexSearch.find_passages`."""
        return self._find(list_stems(fold_text(term)), limit)

    def find_stem(self, stem: str, limit: int) -> list[int]:
        """See `IndexSearch.find_stem`."""
        return self._find([stem], limit)

    def _find(self, stems: Sequence[str], limit: int) -> list[int]:
        """Finds a common term among the newest passages, and any other one in the index.

        The index cannot give the newest first, so for a common term it would take all that hold it.
        """
        if not stems:
            return []
        condition, values = _build_condition(self.scope, "p")
        bound = (*values, _build_tsquery(stems), limit)
        newest = [key for (key,) in self._execute_anew(_FIND_AMONG_NEWEST.format(condition), bound)]
        if len(newest) >= min(limit, _COMMON):
            return newest
        return [key for (key,) in self._execute_anew(_FIND_IN_INDEX.format(condition), bound)]

    def weigh_passages(self, term: str, keys: Collection[int]) -> dict[int, float]:
        """See `IndexSearch.weigh_passages`."""
        stems = list_stems(fold_text(term))[:1]
        values = (self.db.bind_list(keys), _build_tsquery(stems), *stems)
        rows = self.db.execute(_WEIGH, values) if stems and keys else ()
        usual = self._find_usual_length()
        return {key: _weigh(len(positions), length, usual) for key, length, positions in rows}

    def _find_usual_length(self) -> float:
        if not self._usual_length:
            condition, values = _build_condition(self.scope, "p")
            query = (
                f"SELECT avg(n)::float8 FROM (SELECT p.n FROM passage p WHERE {condition}"  # noqa: S608 - constants
                f" ORDER BY p.key DESC LIMIT {_SAMPLE_SIZE}) newest"
            )
            self._usual_length = self.db.execute(query, values).fetchone()[0] or _USUAL_LENGTH
        return self._usual_length

    def list_late_passages(self) -> list[tuple[int, str]]:
        """See `IndexSearch.list_late_passages`."""
        condition, values = _build_condition(self.scope, "l")
        rows = self.db.execute(_SELECT_LATE.format(condition), values)
        read = ((seq, recover_entry(body)) for seq, _, body in rows)
        return [each for seq, entry in read if entry is not None for each in list_passages(seq, entry)]

    def match_texts(self, texts: Sequence[str], terms: Iterable[str]) -> dict[str, list[Scored]]:
        """See `IndexSearch.match_texts`."""
        counted = [Counter(list_stems(text)) for text in texts]
        lengths = [counts.total() for counts in counted]
        usual = max(1.0, sum(lengths) / max(1, len(lengths)))
        out: dict[str, list[Scored]] = {}
        for term in terms:
            stems = list_stems(fold_text(term))
            matching = (n for n in range(len(texts) - 1, -1, -1) if stems and all(counted[n][stem] for stem in stems))
            out[term] = [(n, _weigh(counted[n][stems[0]], lengths[n], usual)) for n in matching]
        return out

    def list_similar_terms(self, letter: str, lengths: tuple[int, int]) -> list[str]:
        """See `IndexSearch.list_similar_terms`."""
        query = "SELECT stem FROM stem WHERE ns = ? AND stem >= ? AND stem < ? AND length(stem) BETWEEN ? AND ?"
        rows = self.db.execute(query, (self.scope.namespace, letter, chr(ord(letter) + 1), *lengths))
        return [stem for (stem,) in rows]

    def add_meanings(self, question: str, scored: list[Scored], left_out: Collection[int]) -> list[Scored]:  # noqa: ARG002
        """Returns the scores as they are: meanings are kept in SQLite only."""
        return scored


def _choose_grams(word: str) -> list[int]:
    """Chooses the hashes by which a word is looked for, none if the index cannot hold so short a word."""
    if len(word) >= MIN_WORD_LENGTH:
        return [hash_gram(gram) for gram in choose_trigrams(word)]
    return [hash_gram(pair) for pair in _WIDE_PAIR.findall(word)]


def _build_gram_condition(word: str) -> str:
    return f"t.grams @> '{{{','.join(map(str, _choose_grams(word)))}}}'::smallint[]"


def _weigh(occurrences: int, length: int, usual: float) -> float:
    """Computes a term's part of BM25, without its rarity."""
    norm = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * length / usual)
    return occurrences * (_SATURATION + 1) / (occurrences + norm)


def list_passages(seq: int, entry: Entry) -> Iterator[tuple[int, str]]:
    """Yields the keys of an entry's passages, and what the index is given of each."""
    text = read_plain_text(entry).text
    for number, (start, stop) in enumerate(split_passages(text)):
        if not text[start:stop].isspace():
            yield PostgresSearch.build_key(0, seq, number), build_index_text(text[start:stop])


class PostgresIndex:
    """Keeps the two indexes. See `SearchIndex`."""

    def __init__(self) -> None:
        self._known: set[tuple[int, str]] = set()
        self._grown, self._next_look = 0, _FIRST_LOOK

    def open_search(self, db: Connection, scope: SearchScope) -> PostgresSearch:
        """See `SearchIndex.open_search`."""
        assert isinstance(db, PostgresConnection), "the index is of PostgreSQL"
        return PostgresSearch(db, scope)

    def has_late_entries(self, db: Connection, scope: SearchScope | None = None) -> bool:
        """See `SearchIndex.has_late_entries`."""
        condition, values = _build_condition(scope, "l")
        row = db.execute(f"SELECT EXISTS (SELECT FROM late l WHERE {condition})", values).fetchone()  # noqa: S608 - constants
        return bool(row[0])

    def count_late_entries(self, db: Connection) -> int:
        """See `SearchIndex.count_late_entries`."""
        return int(db.execute("SELECT count(*) FROM late").fetchone()[0])

    def index_entries(self, db: Connection, limit: int, scope: SearchScope | None = None) -> int:
        """See `SearchIndex.index_entries`. Several processes may do it at once, each with other entries."""
        condition, values = _build_condition(scope, "l")
        taken: list[int] = []
        rows: list[tuple[int, int, int, Entry]] = []
        characters = 0
        for seq, ns, session, body in db.execute(_TAKE_LATE.format(condition), (*values, limit)):
            entry = recover_entry(body)
            taken.append(seq)
            if entry is not None:
                rows.append((seq, ns, session, entry))
                characters += len(body)
            if characters >= _BATCH_CHARACTERS:
                break
        self._insert(db, rows)
        db.execute("DELETE FROM late WHERE seq IN list(?)", (db.bind_list(taken),))
        self._count_growth(db, len(taken))
        return len(taken)

    def _count_growth(self, db: Connection, count: int) -> None:
        """Has PostgreSQL look at the tables when they have grown by a fifth.

        It does so by itself, but a minute later. Until then its plans are for small tables, and read all of large ones.
        """
        self._grown += count
        if self._grown >= self._next_look:
            db.execute("ANALYZE (SKIP_LOCKED) entry, head, seg, manifest, gram, passage")
            (rows,) = db.execute("SELECT reltuples FROM pg_class WHERE oid = 'entry'::regclass").fetchone()
            self._grown, self._next_look = 0, max(_FIRST_LOOK, int(rows) // 5)

    def _insert(self, db: Connection, rows: Sequence[tuple[int, int, int, Entry]]) -> None:
        grams: list[tuple[object, ...]] = []
        passages: list[tuple[object, ...]] = []
        stems: dict[int, set[str]] = {}
        for seq, ns, session, entry in rows:
            text = fold_text(get_searchable_text(entry))
            if text:
                grams.append((seq, ns, session, len(text) > INDEX_LIMIT, list_grams(text[:INDEX_LIMIT])))
            for key, passage in list_passages(seq, entry):
                found = list_stems(passage)
                stems.setdefault(ns, set()).update(found)
                passages.append((key, ns, session, len(found), build_tsvector(found)))
        if grams:
            db.executemany(_INSERT_GRAMS, grams)
        if passages:
            db.executemany(_INSERT_PASSAGE, passages)
        for ns, found_stems in sorted(stems.items()):
            new = sorted(stem for stem in found_stems if (ns, stem) not in self._known)  # in order: no deadlocks
            if new:
                db.execute(_INSERT_STEMS, (ns, new))
                if len(self._known) > _KNOWN_STEMS:
                    self._known.clear()
                self._known.update((ns, stem) for stem in new)

    def clear(self, db: Connection) -> None:
        """See `SearchIndex.clear`."""
        for table in ("gram", "passage", "stem", "late"):
            db.execute(f"DELETE FROM {table}")  # noqa: S608 - constants
        self._known.clear()
        db.execute("INSERT INTO late SELECT seq, ns, session FROM entry WHERE kind <> 'tombstone'")

    def remove_entry(self, db: Connection, session: int, seq: int, entry: Entry) -> int:  # noqa: ARG002 - its rows are found by number
        """See `SearchIndex.remove_entry`."""
        first, last = seq << _NUMBER_BITS, (seq + 1 << _NUMBER_BITS) - 1
        words = db.execute(f"{_SELECT_STEMS} key BETWEEN ? AND ?", (first, last))
        stems = [stem for (stem,) in words]
        cut = db.execute("DELETE FROM gram WHERE seq = ? RETURNING is_cut", (seq,)).fetchall()
        db.execute("DELETE FROM passage WHERE key BETWEEN ? AND ?", (first, last))
        self._forget_stems(db, session, stems)
        return len(cut) + sum(int(is_cut) for (is_cut,) in cut)

    def restore_entry(self, db: Connection, session: int, seq: int, entry: Entry) -> None:
        """See `SearchIndex.restore_entry`. What is late stays late."""
        row = db.execute(_SELECT_INDEXED, (session, seq)).fetchone()
        if row is not None:
            self._insert(db, [(seq, row[0], session, entry)])

    def remove_session(self, db: Connection, session: int, count: int) -> None:  # noqa: ARG002 - the rows are found by session
        """See `SearchIndex.remove_session`."""
        words = db.execute(f"{_SELECT_STEMS} session = ?", (session,))
        stems = [stem for (stem,) in words]
        for table in ("gram", "passage", "late"):
            db.execute(f"DELETE FROM {table} WHERE session = ?", (session,))  # noqa: S608 - constants
        self._forget_stems(db, session, stems)

    def _forget_stems(self, db: Connection, session: int, stems: Sequence[str]) -> None:
        """Removes the stems that no passage of the namespace holds any more."""
        (ns,) = db.execute("SELECT ns FROM session WHERE id = ?", (session,)).fetchone()
        for stem in stems:
            query = "SELECT EXISTS (SELECT FROM passage WHERE ns = ? AND terms @@ CAST(? AS tsquery))"
            if not db.execute(query, (ns, _quote(stem))).fetchone()[0]:
                db.execute("DELETE FROM stem WHERE ns = ? AND stem = ?", (ns, stem))
                self._known.discard((ns, stem))

    def finish_removal(self, db: Connection) -> None:
        """See `SearchIndex.finish_removal`. PostgreSQL frees the rows itself, by its next vacuum."""
