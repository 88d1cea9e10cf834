"""Splits texts into passages, and prepares texts and questions for the index of passages.

The index is one of SQLite's FTS5, which splits words, ignores their case and cuts them to their stems. Before that, an
identifier is given its parts (`parseHeader`: parseHeader, parse, Header), and scripts without spaces become pairs of
characters.
"""

from __future__ import annotations

import re
from functools import cache

from tenfold.core.text.language_tables import collect_words
from tenfold.store.search.entry_text import fold_text, normalize_text

PASSAGE_LENGTH = 800
"""Characters of a passage, at most: about 200 tokens, a fifth of what a model's search may bring back."""
MAX_PASSAGES = 4_096
"""Passages of one entry, at most: three million characters. What lies behind is found by its words only."""
MAX_TERMS = 32
"""Terms of a question that are looked for: the longest ones of a longer question."""
_MAX_NAME_LENGTH = 64
"""Characters of the longest identifier: what is longer is data."""
_WORD = re.compile(r"\w+")
_QUOTED = re.compile(r'"[^"]+"')
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_MIXED = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]|_|[A-Za-z][0-9]|[0-9][A-Za-z]")
_MARKS = ",._'\u2019\u00a0\u202f"
"""What stands between the thousands of a number."""
_GROUPED_NUMBER = re.compile(rf"[1-9](?<![\w.,].)[0-9]{{0,2}}(?:[{_MARKS}][0-9]{{3}})+(?!\w|[.,]\w)")
_LONG_NUMBER = re.compile(r"[1-9](?<![\w.,].)[0-9]{3,14}(?!\w|[.,]\w)")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
"""Scripts that write no spaces between words, or glue endings to them."""


def parse_question(question: str) -> list[str]:
    """Returns the terms of a question, each once. Phrases in double quotes alone give none.

    Common question words count only if there are no others.
    """
    if not _QUOTED.sub(" ", question).strip():
        return []
    words = _WORD.findall(_split_wide_runs(_GROUPED_NUMBER.sub(_join_digits, normalize_text(question))))
    telling = [word for word in words if fold_text(word) not in _fold_question_words()] or words
    terms = list(dict.fromkeys(fold_text(term) for word in telling for term in (word, *_split_name(word))))
    return terms if len(terms) <= MAX_TERMS else sorted(terms, key=lambda term: (-len(term), term))[:MAX_TERMS]


@cache
def _fold_question_words() -> frozenset[str]:
    return frozenset(map(fold_text, collect_words("asking")))


def split_passages(text: str) -> list[tuple[int, int]]:
    """Returns where each passage of a text begins and ends: at line ends if possible, else between words."""
    out: list[tuple[int, int]] = []
    start = 0
    while start < len(text) and len(out) < MAX_PASSAGES:
        stop = min(start + PASSAGE_LENGTH, len(text))
        if stop < len(text):
            half = start + PASSAGE_LENGTH // 2
            cut = max(text.rfind("\n", half, stop), 0) or max(text.rfind(" ", half, stop), 0)
            stop = cut + 1 if cut else stop
        out.append((start, stop))
        start = stop
    return out


def build_index_text(text: str) -> str:
    """Returns what the index of passages holds for a text: its words, and the parts of its identifiers."""
    text = normalize_text(text)
    spaced = _split_wide_runs(text)
    names = filter(_MIXED.search, dict.fromkeys(_WORD.findall(spaced)))
    parts = [part for name in names for part in _split_name(name)]
    numbers = map(_join_digits, _GROUPED_NUMBER.finditer(text))
    return fold_text(" ".join((spaced, *parts, *numbers)))


def list_spellings(word: str) -> tuple[str, ...]:
    """Returns a word, and how else its long numbers are written: 1000, 1,000, 1.000, 1_000 and the like."""
    plain = _GROUPED_NUMBER.sub(_join_digits, word)
    parts = _LONG_NUMBER.sub(lambda match: f"{int(match.group()):,}".replace(",", "\0"), plain)
    return tuple(dict.fromkeys((word, plain, *(parts.replace("\0", mark) for mark in _MARKS))))


def _join_digits(match: re.Match[str]) -> str:
    return "".join(filter(str.isdigit, match.group()))


def _split_name(word: str) -> list[str]:
    if not word.isascii() or len(word) > _MAX_NAME_LENGTH:
        return []
    return [part for part in _PART.findall(word) if len(part) > 1]


def _split_wide_runs(text: str) -> str:
    return _WIDE.sub(_split_run, text)


def _split_run(match: re.Match[str]) -> str:
    run = match.group()
    return f" {' '.join(run[i : i + 2] for i in range(max(1, len(run) - 1)))} "
