"""Finds the words that a misspelt word of a question may stand for, among those that the index of passages holds."""

from __future__ import annotations

import sqlite3

from tenfold.store.sqlite_schema import TOKENIZER

MIN_LENGTH = 5
"""Letters of the shortest word that is corrected: among shorter ones nearly every word has a neighbour."""
_LETTERS_PER_EDIT = 5
"""One wrong letter is allowed, and two in a word of twice this length."""
_MAX_SIMILAR = 4
_CREATE_STEMS = f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.stem USING fts5(text, content='', tokenize=\"{TOKENIZER}\")"
_CREATE_STEM_LIST = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.stem_list USING fts5vocab(temp, stem, row)"
_CREATE_VOCABULARY = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab(main, passages, row)"
_SELECT_TERMS = "SELECT term FROM temp.vocabulary WHERE term >= ? AND term < ? AND length(term) BETWEEN ? AND ?"


def find_similar_terms(db: sqlite3.Connection, word: str) -> list[str]:
    """Returns the indexed terms that differ from a word's stem by a letter or two, the nearest first.

    A letter may be missing, added or another one, or two neighbours may be swapped, but not the first letter. Words
    with digits are left alone, since another number is another thing.
    """
    if len(word) < MIN_LENGTH or not word.replace("_", "").isalpha():
        return []
    db.execute(_CREATE_VOCABULARY)
    found: dict[str, int] = {}
    for stem in _list_stems(db, word):
        most = min(2, max(1, len(stem) // _LETTERS_PER_EDIT))
        bounds = stem[0], chr(ord(stem[0]) + 1), len(stem) - most, len(stem) + most
        for (term,) in db.execute(_SELECT_TERMS, bounds):
            if len(set(stem) ^ set(term)) <= 2 * most and (distance := count_edits(stem, term)) <= most:
                found[term] = distance
    return sorted(found, key=lambda term: (found[term], term))[:_MAX_SIMILAR]


def _list_stems(db: sqlite3.Connection, word: str) -> list[str]:
    """Returns what the index makes of a word."""
    db.execute(_CREATE_STEMS)
    db.execute(_CREATE_STEM_LIST)
    try:
        db.execute("INSERT INTO temp.stem (rowid, text) VALUES (1, ?)", (word,))
        return [term for (term,) in db.execute("SELECT term FROM temp.stem_list")]
    finally:
        db.execute("INSERT INTO temp.stem (stem) VALUES ('delete-all')")


def count_edits(one: str, other: str) -> int:
    """Counts the letters to change between two words; two neighbours that are swapped count once."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, against in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
