"""Searches for words: parses a query, matches it with the text of an entry, and ranks the hits.

Both stores use these functions. An index only narrows down where to look and never decides what is found. This module
does not read a store.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from tenfold.errors import UsageError
from tenfold.log.base import Hit
from tenfold.record.block import Block, Say
from tenfold.record.entry import Branch, Custom, Entry, Said, Setting
from tenfold.record.message import Document, Image, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.shown import told
from tenfold.summarize.batches import stored

INDEX_BOUND = 65_536
"""Characters of one entry that an index holds. Text behind them is found by a scan."""
SHORTEST = 3
"""Characters of the shortest word that a trigram index can hold."""
SNIPPET = 800
"""Characters of a snippet. Five snippets with their headings are a little over 1,000 tokens."""
POOL = 200
"""The least number of hits that are ranked: the newest ones that contain all the words."""
K1, B = 1.2, 0.75
"""The usual parameters of BM25: how soon repeated words stop counting, and how much long texts lose."""
_MARGIN = 4_000
"""Characters around an excerpt that are checked for secrets: more than the longest private key in use."""
_OCCURRENCES = 50
"""Occurrences of each word that are looked at to find where the words are densest."""
_PHRASE = re.compile(r'"([^"]+)"|(\S+)')
_SPACE = re.compile(r"\s+")


class Found(Struct, frozen=True):
    """How an entry's text matches the words: the occurrences of each word, and the length of the text.

    `scanned` is true if no index could have led here, because a word is too short for it or lies beyond its limit.
    """

    often: tuple[int, ...]
    size: int
    scanned: bool


class Candidate(Struct, frozen=True):
    """An entry that contains all the words, before ranking. `order` grows with the time of appending."""

    order: int
    session: str
    entry: Entry
    position: int
    kind: str
    found: Found
    text: str


def fold(text: str) -> str:
    """Folds a text for comparison: it ignores case, and replaces NUL, at which indexes stop reading."""
    return text.casefold().replace("\0", "\x01")


def parse(words: str) -> tuple[str, ...]:
    """Returns the case-folded words of a query. Double quotes group a phrase. Raises `UsageError` without a word."""
    clean = words.encode("utf-8", "replace").decode("utf-8")
    out: list[str] = []
    for match in _PHRASE.finditer(clean):
        word = match.group(1) or match.group(2)
        if match.group(2) and word.startswith('"') and len(word) > 1:
            word = word[1:]
        if word.strip():
            out.append(fold(word.strip()))
    if not out:
        raise UsageError("search needs at least one word: give some text that the entry contains")
    return tuple(dict.fromkeys(out))


def searchable(entry: Entry) -> str:
    """Returns the text by which an entry is found: the whole text of an original, or a Block's summaries."""
    match entry:
        case Said() | Branch():
            return "\n".join(_texts(entry.message))
        case Block():
            summaries = (s for r in entry.replacements for s in r.show if isinstance(s, Say) and s.of is None)
            joined = "\n".join(text for summary in summaries for text in _texts(summary.message))
            return "\n".join((joined, *(stored(batch) for batch in entry.batches)))
        case Custom():
            return entry.native.body.decode("utf-8", "replace")
        case Setting():
            return f"{entry.key} {entry.value}"
        case _:
            return ""


def indexed(entry: Entry) -> tuple[str, bool]:
    """Returns the folded text that an index holds of an entry, and whether some of it was left out."""
    text = fold(searchable(entry))
    return text[:INDEX_BOUND], len(text) > INDEX_BOUND


def find(text: str, words: Sequence[str]) -> Found | None:
    """Matches the text with the folded words. Returns None if a word is missing."""
    folded = fold(text)
    places = [folded.find(word) for word in words]
    if min(places) < 0:
        return None
    scanned = any(len(w) < SHORTEST or p + len(w) > INDEX_BOUND for w, p in zip(words, places, strict=True))
    return Found(tuple(folded.count(w) for w in words), len(folded), scanned)


def ranked(pool: Sequence[Candidate], words: Sequence[str], limit: int) -> list[Hit]:
    """Returns the best `limit` candidates as hits, ranked by BM25 among them, and then newest first.

    Every candidate contains every word. So a word is equally rare for all, and only frequency and length decide.
    """
    if not pool:
        return []
    mean = max(1.0, sum(c.found.size for c in pool) / len(pool))
    scores = [(round(_score(c.found, mean), 2), c.order, c) for c in pool]
    scores.sort(key=lambda s: (-s[0], -s[1]))
    return [
        Hit(c.session, c.entry.id, c.position, c.kind, snippet(c.text, words), score, c.found.scanned)
        for score, _, c in scores[:limit]
    ]


def snippet(text: str, words: Sequence[str]) -> str:
    """Cuts out about `SNIPPET_LENGTH` characters where the folded words are densest, on one line."""
    at, length = _densest(text, words)
    start = max(0, min(at - (SNIPPET - length) // 2, len(text) - SNIPPET))
    stop = min(len(text), start + SNIPPET)
    opening, closing = "..." if start else "", "..." if stop < len(text) else ""
    return opening + _SPACE.sub(" ", shown(text, start, stop)).strip() + closing


def shown(text: str, start: int, stop: int) -> str:
    """Returns an excerpt of the text without secrets and control sequences.

    Those that an end of the excerpt would cut in two are removed as well.
    """
    low, high = max(0, start - _MARGIN), min(len(text), stop + _MARGIN)
    clean = told(text[low:high])
    if clean == text[low:high]:
        return text[start:stop]
    before, after = told(text[low:start]), told(text[stop:high])
    return clean[_shared(clean, before) : len(clean) - _shared(clean[::-1], after[::-1])]


def _shared(text: str, other: str) -> int:
    """Counts the characters that two texts have in common at the beginning."""
    if text.startswith(other):
        return len(other)
    return next((i for i, (one, two) in enumerate(zip(text, other, strict=False)) if one != two), len(text))


def _densest(text: str, words: Sequence[str]) -> tuple[int, int]:
    """Finds the first window with the most words: where it begins, and how far the words reach in it."""
    folded = fold(text)
    places: list[tuple[int, int]] = []
    for number, word in enumerate(words):
        at = folded.find(word)
        for _ in range(_OCCURRENCES):
            if at < 0:
                break
            places.append((at, number))
            at = folded.find(word, at + 1)
    places.sort()
    best, most, first = (0, 0), 0, 0
    for last, (at, number) in enumerate(places):
        end = at + len(words[number])
        while places[first][0] < min(at, end - SNIPPET):
            first += 1
        count = len({number for _, number in places[first : last + 1]})
        if count > most:
            most, best = count, (places[first][0], end - places[first][0])
    drift = len(folded) - len(text)
    at, length = best[0], min(best[1], SNIPPET)
    return (_unfolded(text, folded[at : at + length], at, drift), length) if drift else (at, length)


def _score(found: Found, mean: float) -> float:
    norm = K1 * (1 - B + B * found.size / mean)
    return sum(n * (K1 + 1) / (n + norm) for n in found.often)


def _unfolded(text: str, word: str, near: int, drift: int) -> int:
    # A few letters fold to two. So a position in the folded text can lie up to `drift` characters too far.
    match = re.compile(re.escape(word), re.IGNORECASE).search(text, max(0, near - abs(drift)))
    return match.start() if match else min(near, max(0, len(text) - 1))


def _texts(message: Message) -> Iterator[str]:
    for part in message.parts:
        yield from part_texts(part)


def part_texts(part: Part) -> Iterator[str]:
    """Yields the texts by which one part of a message is found."""
    match part:
        case Text() | Thinking():
            yield part.text
        case ToolCall():
            yield f"{part.name} {part.arguments}"
            yield from _escaped(part.arguments)
        case ToolResult():
            if part.name:
                yield part.name
            for inner in part.content:
                yield from part_texts(inner)
        case Document():
            yield from (t for t in (part.name, part.text, part.url) if t)
        case Image():
            if part.url and not part.url.startswith("data:"):
                yield part.url
        case Opaque():
            yield part.raw.decode("utf-8", "replace")


def _escaped(arguments: str) -> Iterator[str]:
    """Yields the strings inside a call's arguments as a reader sees them, if JSON had to escape any."""
    if "\\" not in arguments:
        return
    try:
        waiting: list[object] = [msgspec.json.decode(arguments)]
    except msgspec.DecodeError:
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            waiting.extend(reversed(list(value.values())))
        elif isinstance(value, list):
            waiting.extend(reversed(value))
