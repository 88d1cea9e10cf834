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
from tenfold.record.block import Block, Substitute
from tenfold.record.entry import BranchSummary, CustomEntry, Entry, MessageEntry, Setting
from tenfold.record.message import Document, Image, Message, OpaquePart, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.store.base import Hit
from tenfold.summarize.batches import format_batch
from tenfold.text.terminal_safe import sanitize

INDEX_LIMIT = 65_536
"""Characters of one entry that an index holds. Text behind them is found by a scan."""
MIN_WORD_LENGTH = 3
"""Characters of the shortest word that a trigram index can hold."""
SNIPPET_LENGTH = 800
"""Characters of a snippet. Five snippets with their headings are a little over 1,000 tokens."""
POOL_SIZE = 200
"""The least number of hits that are ranked: the newest ones that contain all the words."""
K1, B = 1.2, 0.75
"""The usual parameters of BM25: how soon repeated words stop counting, and how much long texts lose."""
_MARGIN = 4_000
"""Characters around an excerpt that are checked for secrets: more than the longest private key in use."""
_MAX_OCCURRENCES = 50
"""Occurrences of each word that are looked at to find where the words are densest."""
_PHRASE = re.compile(r'"([^"]+)"|(\S+)')
_SPACE = re.compile(r"\s+")


class WordMatch(Struct, frozen=True):
    """How an entry's text matches the words: the occurrences of each word, and the length of the text.

    `scanned` is true if no index could have led here, because a word is too short for it or lies beyond its limit.
    """

    occurrences: tuple[int, ...]
    length: int
    scanned: bool


class Candidate(Struct, frozen=True):
    """An entry that contains all the words, before ranking. `order` grows with the time of appending."""

    order: int
    session: str
    entry: Entry
    position: int
    kind: str
    match: WordMatch
    text: str


def fold_case(text: str) -> str:
    """Folds a text for comparison: it ignores case, and replaces NUL, at which indexes stop reading."""
    return text.casefold().replace("\0", "\x01")


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


def get_searchable_text(entry: Entry) -> str:
    """Returns the text by which an entry is found: the whole text of an original, or a Block's summaries."""
    match entry:
        case MessageEntry() | BranchSummary():
            return "\n".join(_list_texts(entry.message))
        case Block():
            summaries = (
                s
                for r in entry.replacements
                for s in r.shown_items
                if isinstance(s, Substitute) and s.original_position is None
            )
            joined = "\n".join(text for summary in summaries for text in _list_texts(summary.message))
            return "\n".join((joined, *(format_batch(batch) for batch in entry.batches)))
        case CustomEntry():
            return entry.native.body.decode("utf-8", "replace")
        case Setting():
            return f"{entry.key} {entry.value}"
        case _:
            return ""


def get_indexed_text(entry: Entry) -> tuple[str, bool]:
    """Returns the folded text that an index holds of an entry, and whether some of it was left out."""
    text = fold_case(get_searchable_text(entry))
    return text[:INDEX_LIMIT], len(text) > INDEX_LIMIT


def match_words(text: str, words: Sequence[str]) -> WordMatch | None:
    """Matches the text with the folded words. Returns None if a word is missing."""
    folded = fold_case(text)
    places = [folded.find(word) for word in words]
    if min(places) < 0:
        return None
    scanned = any(len(w) < MIN_WORD_LENGTH or p + len(w) > INDEX_LIMIT for w, p in zip(words, places, strict=True))
    return WordMatch(tuple(folded.count(w) for w in words), len(folded), scanned)


def rank_candidates(candidates: Sequence[Candidate], words: Sequence[str], limit: int) -> list[Hit]:
    """Returns the best `limit` candidates as hits, ranked by BM25 among them, and then newest first.

    Every candidate contains every word. So a word is equally rare for all, and only frequency and length decide.
    """
    if not candidates:
        return []
    mean = max(1.0, sum(c.match.length for c in candidates) / len(candidates))
    scores = [(round(_compute_score(c.match, mean), 2), c.order, c) for c in candidates]
    scores.sort(key=lambda s: (-s[0], -s[1]))
    return [
        Hit(c.session, c.entry.id, c.position, c.kind, cut_snippet(c.text, words), score, c.match.scanned)
        for score, _, c in scores[:limit]
    ]


def cut_snippet(text: str, words: Sequence[str]) -> str:
    """Cuts out about `SNIPPET_LENGTH` characters where the folded words are densest, on one line."""
    at, length = _find_densest(text, words)
    start = max(0, min(at - (SNIPPET_LENGTH - length) // 2, len(text) - SNIPPET_LENGTH))
    stop = min(len(text), start + SNIPPET_LENGTH)
    opening, closing = "..." if start else "", "..." if stop < len(text) else ""
    return opening + _SPACE.sub(" ", sanitize_excerpt(text, start, stop)).strip() + closing


def sanitize_excerpt(text: str, start: int, stop: int) -> str:
    """Returns an excerpt of the text without secrets and control sequences.

    Those that an end of the excerpt would cut in two are removed as well.
    """
    low, high = max(0, start - _MARGIN), min(len(text), stop + _MARGIN)
    clean = sanitize(text[low:high])
    if clean == text[low:high]:
        return text[start:stop]
    before, after = sanitize(text[low:start]), sanitize(text[stop:high])
    return clean[_count_shared(clean, before) : len(clean) - _count_shared(clean[::-1], after[::-1])]


def _count_shared(text: str, other: str) -> int:
    """Counts the characters that two texts have in common at the beginning."""
    if text.startswith(other):
        return len(other)
    return next((i for i, (one, two) in enumerate(zip(text, other, strict=False)) if one != two), len(text))


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
    norm = K1 * (1 - B + B * match.length / mean)
    return sum(n * (K1 + 1) / (n + norm) for n in match.occurrences)


def _find_unfolded(text: str, word: str, near: int, drift: int) -> int:
    # A few letters fold to two. So a position in the folded text can lie up to `drift` characters too far.
    match = re.compile(re.escape(word), re.IGNORECASE).search(text, max(0, near - abs(drift)))
    return match.start() if match else min(near, max(0, len(text) - 1))


def _list_texts(message: Message) -> Iterator[str]:
    for part in message.parts:
        yield from list_part_texts(part)


def list_part_texts(part: Part) -> Iterator[str]:
    """Yields the texts by which one part of a message is found."""
    match part:
        case Text() | Thinking():
            yield part.text
        case ToolCall():
            yield f"{part.name} {part.arguments}"
            yield from _list_escaped_strings(part.arguments)
        case ToolResult():
            if part.name:
                yield part.name
            for inner in part.content:
                yield from list_part_texts(inner)
        case Document():
            yield from (t for t in (part.name, part.text, part.url) if t)
        case Image():
            if part.url and not part.url.startswith("data:"):
                yield part.url
        case OpaquePart():
            yield part.raw.decode("utf-8", "replace")


def _list_escaped_strings(arguments: str) -> Iterator[str]:
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
