"""Splits a text into passages and terms, by which a question is compared with it.

A term is a word without its ending. An identifier also gives its parts (`parseHeader`: parseheader, parse, header), and
scripts without spaces give pairs of characters. All stores use the same terms. An index holds the terms made here, so
changing them takes a migration that empties the index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain

import msgspec

from tenfold.record.entry import BranchSummary, Entry, MessageEntry
from tenfold.record.message import ToolCall
from tenfold.store.stemmer import stem
from tenfold.store.word_search import get_searchable_text, list_part_texts

PASSAGE_LENGTH = 800
"""Characters of a passage, at most: about 200 tokens, a fifth of what a model's search may bring back."""
MAX_PASSAGES = 4_096
"""Passages of one entry, at most: three million characters. What lies behind is found by its words only."""
MAX_TERMS = 32
"""Terms of a question that are looked for: the longest ones of a longer question."""
_MAX_TERM_LENGTH = 64
"""Characters of the longest term: what is longer is data."""
_WORD = re.compile(r"\w+")
_QUOTED = re.compile(r'"[^"]+"')
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_MIXED = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]|_|[A-Za-z][0-9]|[0-9][A-Za-z]")
_QUESTION_WORDS = frozenset(
    _WORD.findall("""
    a about above after again all also am an and any are aren as at be because been before being below between both but
    by can could couldn did didn do does doesn doing don done each ever few for from further get gets got had has have
    having he her here hers him his how i if in into is isn it its just let ll may me might mine more most must my need
    needs no nor not now of off on once only or other our ours out over own please re s same shall she should shouldn so
    some still such t than that the their theirs them then there these they this those through to too under until up us
    ve very was wasn we were weren what when where which while who whom whose why will with won would wouldn yet you
    your yours
    """)
)
"""English words that questions are made of. Half the words of a question are such, and match whatever is long."""
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
"""Scripts that write no spaces between words, or glue endings to them."""


def extract_terms(text: str) -> Iterator[str]:
    """Yields the terms of a text in order, with repetitions."""
    for word in _WORD.findall(text):
        yield from _split_word(word)


def collect_terms(text: str) -> set[str]:
    """Collects the terms of a text, each once. This is faster than `extract_terms`."""
    return set(chain.from_iterable(map(_split_word, set(_WORD.findall(text)))))


def parse_question(question: str) -> list[str]:
    """Returns the terms of a question, each once. Phrases in double quotes alone give none.

    Common question words count only if there are no others.
    """
    if not _QUOTED.sub(" ", question).strip():
        return []
    every = _WORD.findall(question)
    telling = [word for word in every if word.casefold() not in _QUESTION_WORDS]
    found = list(dict.fromkeys(chain.from_iterable(map(_split_word, telling or every))))
    return found if len(found) <= MAX_TERMS else sorted(found, key=lambda term: (-len(term), term))[:MAX_TERMS]


def get_plain_text(entry: Entry) -> str:
    """Returns the text that a question is compared with. A call's arguments appear as a reader sees them."""
    if not isinstance(entry, MessageEntry | BranchSummary):
        return get_searchable_text(entry)
    lines: list[str] = []
    for part in entry.message.parts:
        if isinstance(part, ToolCall):
            lines += [part.name, *_list_values(part.arguments)]
        else:
            lines += list_part_texts(part)
    return "\n".join(lines)


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


@lru_cache(maxsize=1 << 16)
def _split_word(word: str) -> tuple[str, ...]:
    if _WIDE.search(word):
        return tuple(_split_wide_word(word))
    if not word.isascii():
        return (_normalize_word(word)[:_MAX_TERM_LENGTH],)
    bare = word.strip("_")
    whole = () if len(bare) > _MAX_TERM_LENGTH or len(bare) < 2 else (_normalize_word(bare),)
    if not _MIXED.search(bare) or len(bare) > _MAX_TERM_LENGTH:
        return whole
    parts = (_normalize_word(part) for part in _PART.findall(bare) if len(part) > 1)
    return tuple(dict.fromkeys((*whole, *parts)))


def _normalize_word(word: str) -> str:
    folded = word.casefold()
    return stem(folded) if folded.isascii() and folded.isalpha() else folded


def _split_wide_word(word: str) -> Iterator[str]:
    at = 0
    for match in _WIDE.finditer(word):
        if word[at : match.start()]:
            yield from _split_word(word[at : match.start()])
        run, at = match.group(), match.end()
        yield from (run[i : i + 2] for i in range(max(1, len(run) - 1)))
    if word[at:]:
        yield from _split_word(word[at:])


def _list_values(arguments: str) -> Iterator[str]:
    """Yields the values in a call's arguments, in order, or the arguments themselves if they are not JSON."""
    try:
        waiting: list[object] = [msgspec.json.decode(arguments)]
    except msgspec.DecodeError:
        yield arguments
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(reversed(list(value.values())))
        elif isinstance(value, list):
            waiting.extend(reversed(value))
        elif value is not None:
            yield value if isinstance(value, str) else msgspec.json.encode(value).decode()
