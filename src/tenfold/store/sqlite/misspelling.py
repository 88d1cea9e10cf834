"""Finds the words that a misspelt word of a question may stand for, among those that the index of passages holds."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping

from tenfold.store.search.entry_text import read_plain_text
from tenfold.store.search.terms import build_index_text, split_passages
from tenfold.store.sqlite.search_index import find_stem, read_stored_entries, split_passage_key

MIN_LENGTH = 5
"""Letters of the shortest word that is corrected: among shorter ones nearly every word has a neighbour."""
_LETTERS_PER_EDIT = 5
"""One wrong letter is allowed, and two in a word of twice this length."""
_MAX_EDITS = 2
_MAX_STEMS, _MAX_PASSAGES = 4, 3
"""Stems, and passages of each, among which the word is looked for."""
_MAX_ENDING = 6
"""Letters of the longest ending that the index cuts off a word."""
_WORD = re.compile(r"\w+")
_CREATE_VOCABULARY = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, passages, row)"
_SELECT_TERMS = "SELECT term FROM temp.vocabulary WHERE term >= ? AND term < ? AND length(term) BETWEEN ? AND ?"


def correct_word(db: sqlite3.Connection, word: str, sessions: Mapping[int, str]) -> str:
    """Returns the word of these sessions that differs from a misspelt one by a letter or two, "" if there is none.

    A letter may be missing, added or another one, or two neighbours may be swapped, but not the first letter. Words
    with digits are left alone, since another number is another thing.
    """
    if len(word) < MIN_LENGTH or not word.replace("_", "").isalpha():
        return ""
    for stem in _find_similar_stems(db, word):
        for key in find_stem(db, stem, sessions, _MAX_PASSAGES):
            words = set(_WORD.findall(_read_passage(db, key, sessions)))
            near = [each for each in words if each[0] == word[0] and abs(len(each) - len(word)) <= _MAX_EDITS]
            edits, best = min(((count_edits(each, word)[-1], each) for each in near), default=(len(word), ""))
            if edits <= _count_allowed(word):
                return best
    return ""


def _read_passage(db: sqlite3.Connection, key: int, sessions: Mapping[int, str]) -> str:
    """Returns what the index was given of a passage, "" if its session is not one of these."""
    seq, number = split_passage_key(key)
    for source in read_stored_entries(db, (seq,), sessions):
        text = read_plain_text(source.entry).text
        places = split_passages(text)
        start, stop = places[number] if number < len(places) else (0, 0)
        return build_index_text(text[start:stop])
    return ""


def _find_similar_stems(db: sqlite3.Connection, word: str) -> list[str]:
    """Returns the indexed stems that the beginning of a word resembles, the most similar first."""
    db.execute(_CREATE_VOCABULARY)
    bounds = word[0], chr(ord(word[0]) + 1), max(2, len(word) - _MAX_ENDING), len(word) + _MAX_EDITS
    found: list[tuple[int, int, str]] = []
    for (stem,) in db.execute(_SELECT_TERMS, bounds):
        if len(set(stem) - set(word)) <= _MAX_EDITS and (edits := min(count_edits(stem, word))) <= _count_allowed(stem):
            found.append((edits, -len(stem), stem))
    return [stem for *_, stem in sorted(found)[:_MAX_STEMS]]


def _count_allowed(word: str) -> int:
    return min(_MAX_EDITS, max(1, len(word) // _LETTERS_PER_EDIT))


def count_edits(one: str, other: str) -> list[int]:
    """Counts the letters to change between a word and each beginning of another one, "" the first and all of it last.

    Two neighbours that are swapped count once.
    """
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, against in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row
