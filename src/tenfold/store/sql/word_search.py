"""Searches for words: any stretch of text that an entry holds.

The index of trigrams only narrows down where to look and never decides what is found. What it cannot hold is found by a
scan: text beyond its limit, entries after the watermark, and words shorter than three characters. A damaged entry gives
no hit; `verify` reports it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import islice

from msgspec import Struct

from tenfold.core.record.entry import Entry
from tenfold.errors import UsageError
from tenfold.store.base import Hit
from tenfold.store.search.entry_text import (
    GAP,
    PlainText,
    find_unfolded,
    fold_text,
    get_searchable_text,
    read_plain_text,
    split_excerpt,
)
from tenfold.store.search.newer_first import arrange_series, rank_near_ties
from tenfold.store.search.terms import list_spellings
from tenfold.store.sql.database import IndexSearch, StoredEntry
from tenfold.store.sql.stored_entries import read_stored_entries

INDEX_LIMIT = 65_536
"""Characters of one entry that the index of stretches holds. Text behind them is found by a scan."""
SNIPPET_LENGTH = 600
"""Characters of a snippet. Five snippets with their headings are a little under 1,000 tokens."""
POOL_SIZE = 200
"""The least number of hits that are ranked: the newest ones that contain all the words."""
MIN_WORD_LENGTH = 3
"""Characters of the shortest word that an index of trigrams can hold."""
_SATURATION, _LENGTH_SHARE = 1.2, 0.75
"""The usual parameters of BM25: how soon repeated words stop counting, and how much long texts lose."""
_MAX_OCCURRENCES = 50
"""Occurrences of each word that are looked at to find where the words are densest."""
_MAX_TRIGRAMS = 24
"""Trigrams of one word by which the index is asked: more of them narrow down no further."""
_CHUNK_SIZE = 64
_PHRASE = re.compile(r'"([^"]+)"|(\S+)')
_MAX_TRIMMED = SNIPPET_LENGTH // 4
"""Characters that a snippet may lose at an end so as to begin or end with a line."""
Spellings = tuple[str, ...]
"""The folded spellings of a word, any of which may match. The first is the word as it was given."""


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


def search_words(index: IndexSearch, words: str, limit: int, without: Collection[str] = ()) -> list[Hit]:
    """Finds the best hits among the newest entries that contain all the words. Does not move the watermark."""
    query = parse_query(words)
    pool: list[_Candidate] = []
    most = max(POOL_SIZE, limit)
    seqs = iter(index.find_candidates(query))
    while chunk := list(islice(seqs, _CHUNK_SIZE)):
        for source in read_stored_entries(index.db, chunk, index.scope):
            text = get_searchable_text(source.entry)
            match = match_words(text, query)
            if match is not None and source.entry.id not in without:
                pool.append(_Candidate(source, match, text))
        if len(pool) >= most:
            break
    return _rank_candidates(pool[:most], query, limit)


def parse_query(words: str) -> tuple[Spellings, ...]:
    """Returns the folded words of a query. Double quotes group a phrase. Raises `UsageError` without a word."""
    clean = words.encode("utf-8", "replace").decode("utf-8")
    out: list[Spellings] = []
    for match in _PHRASE.finditer(clean):
        phrase, word = match.group(1), match.group(2)
        if phrase is None and word.startswith('"') and len(word) > 1:
            word = word[1:]
        folded = fold_text((phrase or word).strip())
        if folded:
            out.append((folded,) if phrase else list_spellings(folded))
    if not out:
        raise UsageError("search needs at least one word: give some text that the entry contains")
    return tuple(dict.fromkeys(out))


def match_words(text: str, words: Sequence[Spellings]) -> WordMatch | None:
    """Matches the text with the words. Returns None if a word is missing in every spelling."""
    folded = fold_text(text)
    occurrences: list[int] = []
    scanned = False
    for spellings in words:
        ends = [at + len(spelling) for spelling in spellings if (at := folded.find(spelling)) >= 0]
        if not ends:
            return None
        occurrences.append(sum(map(folded.count, spellings)))
        scanned = scanned or min(map(len, spellings)) < MIN_WORD_LENGTH or min(ends) > INDEX_LIMIT
    return WordMatch(tuple(occurrences), len(folded), scanned)


def choose_trigrams(word: str) -> list[str]:
    """Chooses the trigrams by which a word is looked for: one beside the other, and fewer of a very long one."""
    last = len(word) - MIN_WORD_LENGTH
    starts = (*range(0, last, max(MIN_WORD_LENGTH, last // _MAX_TRIGRAMS)), last)
    return list(dict.fromkeys(word[start : start + MIN_WORD_LENGTH] for start in starts))


def _rank_candidates(candidates: Sequence[_Candidate], words: Sequence[Spellings], limit: int) -> list[Hit]:
    """Returns the best `limit` candidates as hits, ranked by BM25 among them, and then newest first.

    Every candidate contains every word. So a word is equally rare for all, and only frequency and length decide.
    """
    mean = max(1.0, sum(c.match.length for c in candidates) / max(1, len(candidates)))
    by_order = {candidate.source.order: candidate for candidate in candidates}
    scored = [(order, _compute_score(each.match, mean)) for order, each in by_order.items()]
    ranked = rank_near_ties(scored)
    texts = {order: each.text for order, each in by_order.items()}
    ranked, series = arrange_series(ranked, texts, [spellings[0] for spellings in words])
    out: list[Hit] = []
    for order, score in ranked[:limit]:
        source, match = by_order[order].source, by_order[order].match
        snippet, latest_of = cut_snippet(source.entry, words), len(series) if series[:1] == [order] else 0
        place = (source.session, source.entry.id, source.position, source.kind)
        out.append(Hit(*place, snippet, round(score, 2), match.scanned, latest_of))
    return out


def cut_snippet(entry: Entry, words: Sequence[Spellings]) -> str:
    """Cuts about `SNIPPET_LENGTH` characters out of an entry's text, with the place in the middle where most words are.

    Line breaks are kept. If there is one near an end, the snippet begins or ends there.
    """
    plain = read_plain_text(entry)
    if match_words(plain.text, words) is None:  # the words are in the JSON of a call
        plain = PlainText(get_searchable_text(entry))
    text = plain.text
    at, length = _find_densest(text, words)
    start = max(0, min(at - (SNIPPET_LENGTH - length) // 2, len(text) - SNIPPET_LENGTH))
    stop = min(len(text), start + SNIPPET_LENGTH)
    if start:
        line = text.find("\n", start - 1, min(at, start + _MAX_TRIMMED)) + 1
        start = line or start
    if stop < len(text):
        line = text.rfind("\n", max(at + length, stop - _MAX_TRIMMED), stop)
        stop = line if line >= 0 else stop
    opening, closing = f"{GAP}\n" if start else "", f"\n{GAP}" if stop < len(text) else ""
    pieces = ((f"[{label}] " if label else "") + piece for label, piece in split_excerpt(plain, start, stop))
    lines = (line.rstrip() for line in "".join(pieces).split("\n") if line.strip())
    return opening + "\n".join(lines).strip() + closing


def _find_densest(text: str, words: Sequence[Spellings]) -> tuple[int, int]:
    """Finds the first window with the most words: where it begins, and how far the words reach in it."""
    folded = fold_text(text)
    places: list[tuple[int, int, int]] = []
    for number, spellings in enumerate(words):
        for spelling in spellings:
            at = folded.find(spelling)
            for _ in range(_MAX_OCCURRENCES):
                if at < 0:
                    break
                places.append((at, at + len(spelling), number))
                at = folded.find(spelling, at + 1)
    places.sort()
    best, most, first = (0, 0), 0, 0
    for last, (at, end, _) in enumerate(places):
        while places[first][0] < min(at, end - SNIPPET_LENGTH):
            first += 1
        count = len({number for _, _, number in places[first : last + 1]})
        if count > most:
            most, best = count, (places[first][0], end)
    at, end = (find_unfolded(text, offset) for offset in best)
    return at, min(end - at, SNIPPET_LENGTH)


def _compute_score(match: WordMatch, mean: float) -> float:
    norm = _SATURATION * (1 - _LENGTH_SHARE + _LENGTH_SHARE * match.length / mean)
    return sum(n * (_SATURATION + 1) / (n + norm) for n in match.occurrences)
