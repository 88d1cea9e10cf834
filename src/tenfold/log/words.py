"""What a search is: the words asked for, the text of an entry, whether one holds the other, and the order of hits.

Both stores use these functions, so that an index only ever narrows down where to look and never decides what is
found. Nothing here reads a store.
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
from tenfold.summarize.batches import stored
from tenfold.summarize.redact import redact

INDEX_BOUND = 65_536
"""Characters of one entry that an index holds; what lies behind is found by scan."""
SHORTEST = 3
"""Characters of the shortest word that a trigram index can hold."""
SNIPPET = 200
"""Characters of a snippet, at most."""
POOL = 200
"""Hits that are ranked, at least: the newest ones that hold all the words."""
_MARGIN = 600
_K1, _B = 1.2, 0.75
_PHRASE = re.compile(r'"([^"]+)"|(\S+)')
_SPACE = re.compile(r"\s+")


class Found(Struct, frozen=True):
    """Where an entry's text holds the words: the first place, how often each occurs, the text's size.

    `scanned` says that an index cannot have led here: a word is too short for it, or lies behind its bound.
    """

    first: int
    length: int
    often: tuple[int, ...]
    size: int
    scanned: bool


class Candidate(Struct, frozen=True):
    """An entry that holds all the words, before ranking. `order` grows with the time of appending."""

    order: int
    session: str
    entry: Entry
    position: int
    kind: str
    found: Found
    text: str


def fold(text: str) -> str:
    """The form in which texts and words are compared: without case, and without NUL, where indexes stop reading."""
    return text.casefold().replace("\0", "\x01")


def parse(words: str) -> tuple[str, ...]:
    """The folded words of a query; double quotes group a phrase. Raises `UsageError` when there are none."""
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
    """The text by which an entry is found: an original's whole text, or the summaries of a Block."""
    match entry:
        case Said() | Branch():
            return "\n".join(_texts(entry.message))
        case Block():
            says = (s for r in entry.replacements for s in r.show if isinstance(s, Say) and s.of is None)
            said = "\n".join(text for say in says for text in _texts(say.message))
            return "\n".join((said, *(stored(batch) for batch in entry.batches)))
        case Custom():
            return entry.native.body.decode("utf-8", "replace")
        case Setting():
            return f"{entry.key} {entry.value}"
        case _:
            return ""


def indexed(entry: Entry) -> tuple[str, bool]:
    """The folded text that an index holds of an entry, and whether some of it had to be left out."""
    text = fold(searchable(entry))
    return text[:INDEX_BOUND], len(text) > INDEX_BOUND


def find(text: str, words: Sequence[str]) -> Found | None:
    """Whether `text` holds every one of the folded words, and where; None if one is missing."""
    folded = fold(text)
    places = [folded.find(word) for word in words]
    if min(places) < 0:
        return None
    first = min(range(len(words)), key=places.__getitem__)
    scanned = any(len(w) < SHORTEST or p + len(w) > INDEX_BOUND for w, p in zip(words, places, strict=True))
    drift = len(folded) - len(text)
    start = _unfolded(text, words[first], places[first], drift) if drift else places[first]
    return Found(start, len(words[first]), tuple(folded.count(w) for w in words), len(folded), scanned)


def ranked(pool: Sequence[Candidate], limit: int) -> list[Hit]:
    """The best `limit` of the pool as hits: by BM25 within the pool, then the newest first.

    Every candidate holds every word, so a word's rarity is the same for all and only frequency and length decide.
    """
    if not pool:
        return []
    mean = max(1.0, sum(c.found.size for c in pool) / len(pool))
    scores = [(round(_score(c.found, mean), 2), c.order, c) for c in pool]
    scores.sort(key=lambda s: (-s[0], -s[1]))
    return [
        Hit(c.session, c.entry.id, c.position, c.kind, snippet(c.text, c.found), score, c.found.scanned)
        for score, _, c in scores[:limit]
    ]


def snippet(text: str, found: Found) -> str:
    """About `SNIPPET` characters around the first match, on one line, redacted before it is cut to size."""
    start = max(0, found.first - _MARGIN)
    stop = found.first + min(found.length, SNIPPET) + _MARGIN
    before = redact(text[start : found.first])
    whole = redact(text[start:stop])
    # Redaction may have shortened what stands before the match, or have hidden the match itself.
    word = fold(text[found.first : found.first + min(found.length, SNIPPET)])
    at = fold(whole).find(word, max(0, len(before) - len(word) - 8))
    at = at if at >= 0 else min(len(before), len(whole))
    left = max(0, at - (SNIPPET - min(len(word), SNIPPET)) // 2)
    cut = whole[left : left + SNIPPET]
    opening = "..." if start or left else ""
    closing = "..." if left + SNIPPET < len(whole) or stop < len(text) else ""
    return opening + _SPACE.sub(" ", cut).strip() + closing


def _score(found: Found, mean: float) -> float:
    norm = _K1 * (1 - _B + _B * found.size / mean)
    return sum(n * (_K1 + 1) / (n + norm) for n in found.often)


def _unfolded(text: str, word: str, near: int, drift: int) -> int:
    # A few letters fold to two, so a place in the folded text lies up to `drift` characters behind the real one.
    match = re.compile(re.escape(word), re.IGNORECASE).search(text, max(0, near - abs(drift)))
    return match.start() if match else min(near, max(0, len(text) - 1))


def _texts(message: Message) -> Iterator[str]:
    for part in message.parts:
        yield from _part(part)


def _part(part: Part) -> Iterator[str]:
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
                yield from _part(inner)
        case Document():
            yield from (t for t in (part.name, part.text, part.url) if t)
        case Image():
            if part.url and not part.url.startswith("data:"):
                yield part.url
        case Opaque():
            yield part.raw.decode("utf-8", "replace")


def _escaped(arguments: str) -> Iterator[str]:
    """The strings inside a call's arguments as a reader sees them, where JSON had to escape something."""
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
