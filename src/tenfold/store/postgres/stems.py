"""Makes the terms of a passage as SQLite's FTS5 does: whole words and identifiers, cut to their stems by Porter."""

from __future__ import annotations

import hashlib
import re
from functools import cache, lru_cache
from typing import Any

import snowballstemmer

_WORD = re.compile(r"\w+")
_LENGTHS = range(3, 65)
"""Bytes of the words that have a stem of their own: FTS5 leaves shorter and longer ones alone."""

_MAX_LENGTH = 255
"""Characters of a word that is stored as it stands. PostgreSQL takes no terms above 2,046 bytes."""


def list_stems(text: str) -> list[str]:
    """Returns the stem of each word, in order. `text` is folded already, as `build_index_text` does."""
    return [_find_stem(word if len(word) <= _MAX_LENGTH else _shorten(word)) for word in _WORD.findall(text)]


def _shorten(word: str) -> str:
    """Returns what stands for a very long word: its beginning and a digest of all of it."""
    return f"{word[:64]}_{hashlib.sha256(word.encode('utf-8', 'replace')).hexdigest()}"


@lru_cache(maxsize=65_536)
def _find_stem(word: str) -> str:
    if len(word.encode()) not in _LENGTHS:
        return word
    return str(_load_stemmer().stemWord(word))


@cache
def _load_stemmer() -> Any:  # noqa: ANN401 - the package ships no types
    return snowballstemmer.stemmer("porter")
