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

from tenfold.log.search_stem import stem
from tenfold.log.words import part_texts, searchable
from tenfold.record.entry import Branch, Entry, Said
from tenfold.record.message import ToolCall

PASSAGE = 800
"""Characters of a passage, at most: about 200 tokens, a fifth of what a model's search may bring back."""
PASSAGES = 4_096
"""Passages of one entry, at most: three million characters. What lies behind is found by its words only."""
TERMS = 32
"""Terms of a question that are looked for: the longest ones of a longer question."""
_LONGEST = 64
"""Characters of the longest term: what is longer is data."""
_WORD = re.compile(r"\w+")
_QUOTED = re.compile(r'"[^"]+"')
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_MIXED = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]|_|[A-Za-z][0-9]|[0-9][A-Za-z]")
_ASKING = frozenset(
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


def terms(text: str) -> Iterator[str]:
    """Yields the terms of a text in order, with repetitions."""
    for word in _WORD.findall(text):
        yield from _terms(word)


def distinct(text: str) -> set[str]:
    """Collects the terms of a text, each once. This is faster than `extract_terms`."""
    return set(chain.from_iterable(map(_terms, set(_WORD.findall(text)))))


def asked_for(words: str) -> list[str]:
    """Returns the terms of a question, each once. Phrases in double quotes alone give none.

    Common question words count only if there are no others.
    """
    if not _QUOTED.sub(" ", words).strip():
        return []
    every = _WORD.findall(words)
    telling = [word for word in every if word.casefold() not in _ASKING]
    found = list(dict.fromkeys(chain.from_iterable(map(_terms, telling or every))))
    return found if len(found) <= TERMS else sorted(found, key=lambda term: (-len(term), term))[:TERMS]


def plain(entry: Entry) -> str:
    """Returns the text that a question is compared with. A call's arguments appear as a reader sees them."""
    if not isinstance(entry, Said | Branch):
        return searchable(entry)
    lines: list[str] = []
    for part in entry.message.parts:
        if isinstance(part, ToolCall):
            lines += [part.name, *_values(part.arguments)]
        else:
            lines += part_texts(part)
    return "\n".join(lines)


def passages(text: str) -> list[tuple[int, int]]:
    """Returns where each passage of a text begins and ends: at line ends if possible, else between words."""
    out: list[tuple[int, int]] = []
    start = 0
    while start < len(text) and len(out) < PASSAGES:
        stop = min(start + PASSAGE, len(text))
        if stop < len(text):
            half = start + PASSAGE // 2
            cut = max(text.rfind("\n", half, stop), 0) or max(text.rfind(" ", half, stop), 0)
            stop = cut + 1 if cut else stop
        out.append((start, stop))
        start = stop
    return out


@lru_cache(maxsize=1 << 16)
def _terms(word: str) -> tuple[str, ...]:
    if _WIDE.search(word):
        return tuple(_wide(word))
    if not word.isascii():
        return (_term(word)[:_LONGEST],)
    bare = word.strip("_")
    whole = () if len(bare) > _LONGEST or len(bare) < 2 else (_term(bare),)
    if not _MIXED.search(bare) or len(bare) > _LONGEST:
        return whole
    parts = (_term(part) for part in _PART.findall(bare) if len(part) > 1)
    return tuple(dict.fromkeys((*whole, *parts)))


def _term(word: str) -> str:
    folded = word.casefold()
    return stem(folded) if folded.isascii() and folded.isalpha() else folded


def _wide(word: str) -> Iterator[str]:
    at = 0
    for match in _WIDE.finditer(word):
        if word[at : match.start()]:
            yield from _terms(word[at : match.start()])
        run, at = match.group(), match.end()
        yield from (run[i : i + 2] for i in range(max(1, len(run) - 1)))
    if word[at:]:
        yield from _terms(word[at:])


def _values(arguments: str) -> Iterator[str]:
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
