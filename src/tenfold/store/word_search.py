"""Searches for words: any stretch of text that an entry holds.

The index of trigrams only narrows down where to look and never decides what is found. What it cannot hold is found by a
scan: text beyond its limit, entries after the watermark, and words shorter than three characters. A damaged entry gives
no hit; `verify` reports it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence

from msgspec import Struct

from tenfold.errors import UsageError
from tenfold.store.base import Hit
from tenfold.store.entry_text import fold_case, get_searchable_text, sanitize_excerpt
from tenfold.store.search_index import INDEX_LIMIT, StoredEntry, read_stored_entries, read_watermark

SNIPPET_LENGTH = 800
"""Characters of a snippet. Five snippets with their headings are a little over 1,000 tokens."""
POOL_SIZE = 200
"""The least number of hits that are ranked: the newest ones that contain all the words."""
_MIN_WORD_LENGTH = 3
"""Characters of the shortest word that a trigram index can hold."""
_SATURATION, _LENGTH_SHARE = 1.2, 0.75
"""The usual parameters of BM25: how soon repeated words stop counting, and how much long texts lose."""
_MAX_OCCURRENCES = 50
"""Occurrences of each word that are looked at to find where the words are densest."""
_MAX_TRIGRAMS = 24
_CHUNK_SIZE = 64
_PHRASE = re.compile(r'"([^"]+)"|(\S+)')
_SPACE = re.compile(r"\s+")
_SELECT_SESSION = "SELECT e.seq FROM seg g JOIN entry e ON e.seg = g.id WHERE g.session = ?"
_SELECT_CANDIDATES = (
    "SELECT e.seq, e.session FROM entry e WHERE e.seq IN (SELECT rowid FROM words WHERE words MATCH ?1"
    " UNION SELECT seq FROM rest) UNION ALL SELECT seq, session FROM entry WHERE seq > ?2 ORDER BY 1 DESC"
)


class WordMatch(Struct, frozen=True):
    """How an entry's text matches the words: the occurrences of each word, and the length of the text.

    `scanned` is true if no index could have led here, because a word is too short for it or lies beyond its limit.
    """

    occurrences: tuple[int, ...]
    length: int
    scanned: bool


class _Candidate(Struct, frozen=True):
    """An entry that contains all the words, before ranking."""

    source: StoredEntry
    match: WordMatch
    text: str


def search_words(db: sqlite3.Connection, words: str, sessions: Mapping[int, str], limit: int) -> list[Hit]:
    """Finds the best hits among the newest entries that contain all the words. Does not move the watermark."""
    query = parse_query(words)
    pool: list[_Candidate] = []
    most = max(POOL_SIZE, limit)
    seqs = _find_candidates(db, query, sessions)
    for start in range(0, len(seqs), _CHUNK_SIZE):
        for source in read_stored_entries(db, seqs[start : start + _CHUNK_SIZE], sessions):
            text = get_searchable_text(source.entry)
            match = match_words(text, query)
            if match is not None:
                pool.append(_Candidate(source, match, text))
        if len(pool) >= most:
            break
    return _rank_candidates(pool[:most], query, limit)


def parse_query(words: str) -> tuple[str, ...]:
    """Returns the case-folded words of a query. Double quotes group a phrase. Raises `UsageError` without a word."""
    clean = words.encode("utf-8", "replace").decode("utf-8")
    out: list[str] = []
    for match in _PHRASE.finditer(clean):
        word = match.group(1) or match.group(2)
        if match.group(2) and word.startswith('"') and len(word) > 1:
            word = word[1:]
        if word.strip():
            out.append(fold_case(word.strip()))
    if not out:
        raise UsageError("search needs at least one word: give some text that the entry contains")
    return tuple(dict.fromkeys(out))


def match_words(text: str, words: Sequence[str]) -> WordMatch | None:
    """Matches the text with the folded words. Returns None if a word is missing."""
    folded = fold_case(text)
    places = [folded.find(word) for word in words]
    if min(places) < 0:
        return None
    scanned = any(len(w) < _MIN_WORD_LENGTH or p + len(w) > INDEX_LIMIT for w, p in zip(words, places, strict=True))
    return WordMatch(tuple(folded.count(w) for w in words), len(folded), scanned)


def _find_candidates(db: sqlite3.Connection, words: Sequence[str], sessions: Mapping[int, str]) -> list[int]:
    """Returns the row numbers of all entries that may contain the words, newest first."""
    long = [w for w in words if len(w) >= _MIN_WORD_LENGTH]
    if long:
        rows = db.execute(_SELECT_CANDIDATES, (_build_match(long), read_watermark(db)))
        return [seq for seq, session in rows if session in sessions]
    return sorted((row[0] for session in sessions for row in db.execute(_SELECT_SESSION, (session,))), reverse=True)


def _build_match(words: Sequence[str]) -> str:
    """Builds a query for all trigrams of the words. Of a very long word it takes only some."""
    grams: dict[str, None] = {}
    for word in words:
        count = len(word) - _MIN_WORD_LENGTH + 1
        step = max(1, count // _MAX_TRIGRAMS)
        grams.update(dict.fromkeys(word[i : i + _MIN_WORD_LENGTH] for i in range(0, count, step)))
    return " ".join('"' + gram.replace('"', '""') + '"' for gram in grams)


def _rank_candidates(candidates: Sequence[_Candidate], words: Sequence[str], limit: int) -> list[Hit]:
    """Returns the best `limit` candidates as hits, ranked by BM25 among them, and then newest first.

    Every candidate contains every word. So a word is equally rare for all, and only frequency and length decide.
    """
    mean = max(1.0, sum(c.match.length for c in candidates) / max(1, len(candidates)))
    scored = [(round(_compute_score(c.match, mean), 2), c.source.order, c) for c in candidates]
    scored.sort(key=lambda s: (-s[0], -s[1]))
    out: list[Hit] = []
    for score, _, each in scored[:limit]:
        source, snippet = each.source, cut_snippet(each.text, words)
        hit = Hit(source.session, source.entry.id, source.position, source.kind, snippet, score, each.match.scanned)
        out.append(hit)
    return out


def cut_snippet(text: str, words: Sequence[str]) -> str:
    """Cuts out about `SNIPPET_LENGTH` characters where the folded words are densest, on one line."""
    at, length = _find_densest(text, words)
    start = max(0, min(at - (SNIPPET_LENGTH - length) // 2, len(text) - SNIPPET_LENGTH))
    stop = min(len(text), start + SNIPPET_LENGTH)
    opening, closing = "..." if start else "", "..." if stop < len(text) else ""
    return opening + _SPACE.sub(" ", sanitize_excerpt(text, start, stop)).strip() + closing


def _find_densest(text: str, words: Sequence[str]) -> tuple[int, int]:
    """Finds the first window with the most words: where it begins, and how far the words reach in it."""
    folded = fold_case(text)
    places: list[tuple[int, int]] = []
    for number, word in enumerate(words):
        at = folded.find(word)
        for _ in range(_MAX_OCCURRENCES):
            if at < 0:
                break
            places.append((at, number))
            at = folded.find(word, at + 1)
    places.sort()
    best, most, first = (0, 0), 0, 0
    for last, (at, number) in enumerate(places):
        end = at + len(words[number])
        while places[first][0] < min(at, end - SNIPPET_LENGTH):
            first += 1
        count = len({number for _, number in places[first : last + 1]})
        if count > most:
            most, best = count, (places[first][0], end - places[first][0])
    drift = len(folded) - len(text)
    at, length = best[0], min(best[1], SNIPPET_LENGTH)
    return (_find_unfolded(text, folded[at : at + length], at, drift), length) if drift else (at, length)


def _compute_score(match: WordMatch, mean: float) -> float:
    norm = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * match.length / mean)
    return sum(n * (_SATURATION + 1) / (n + norm) for n in match.occurrences)


def _find_unfolded(text: str, word: str, near: int, drift: int) -> int:
    # A few letters fold to two. So a position in the folded text can lie up to `drift` characters too far.
    match = re.compile(re.escape(word), re.IGNORECASE).search(text, max(0, near - abs(drift)))
    return match.start() if match else min(near, max(0, len(text) - 1))
