"""Answers a question from the store: finds the passages that match it, and chooses which lines of them to show.

Both stores nominate passages with an index of terms. This module then ranks them and builds the snippets. The key of a
passage is made of its entry's place in the order of appending and its number within the entry.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest

from msgspec import Struct
from msgspec.structs import replace

from tenfold.record.entry import Entry
from tenfold.store.base import Hit
from tenfold.store.terms import collect_terms, extract_terms, get_plain_text, split_passages
from tenfold.store.word_search import K1, SNIPPET_LENGTH, B, sanitize_excerpt

NEWEST_LIMIT = 2_048
"""Passages of a common term that are looked at: the newest ones. In the others the rarer terms decide."""
_KEY_SHIFT = 12
_POOL_SIZE = 64
"""Passages that are read and ranked, at least."""
_HITS_PER_EXTRA = 2
"""One passage more for as many hits: lines of the next best passages of an entry that is shown in any case."""
_COVERAGE_BONUS = 3
"""How much what speaks of all that was asked counts above what repeats a little of it: up to four times as much. One
search away stood, with the view: at 0 0.967 of what sessions used next, at 1 0.969, at 3 0.970, at 10 0.971."""
_LINE_LENGTH = 200
"""Characters of a line that are shown or left out together."""
_FOLLOWER_SHARE = 0.1
"""The share of a message's score that the next one has too: an answer stands behind its question, a tool's output
behind its call, and often neither repeats the other's words."""
_NEIGHBOR_SHARES = (0.125, 0.5, 1.0, 0.5, 0.125)
"""How much of their neighbours' weight lines share: what stands beside a match is shown before what stands far off."""
_PASSAGE_SHARE = 0.1
"""How much of its passage's score a line has by itself."""
NEXT_MESSAGE = " [next message] "
"""Stands in a hit before what was said right after it: a question and its answer, a call and its output."""
_SPACE = re.compile(r"\s+")
_LINES = re.compile(rf"\S(?:[^\n]{{0,{_LINE_LENGTH - 2}}}(?=\s|\Z)|[^\n]{{0,{_LINE_LENGTH - 1}}})")


class StoredEntry(Struct, frozen=True):
    """An entry as a store read it. `order` grows with the time of appending."""

    order: int
    session: str
    position: int
    kind: str
    entry: Entry


class _Passage(Struct, frozen=True):
    """A passage with the score of its terms."""

    key: int
    score: float
    source: StoredEntry
    text: str
    start: int
    stop: int


class _SnippetLine(Struct, frozen=True):
    """A line of a passage that may be shown in the hit of an `entry`. `order` sorts the lines of a hit."""

    weight: float
    entry: str
    order: tuple[int, int, int]
    text: str


def list_passage_terms(order: int, entry: Entry) -> Iterator[tuple[int, set[str]]]:
    """Yields the key and the terms of each passage of an entry."""
    text = get_plain_text(entry)
    for number, (start, stop) in enumerate(split_passages(text)):
        found = collect_terms(text[start:stop])
        if found:
            yield (order << _KEY_SHIFT) | number, found


def find_best_hits(
    keys_by_term: Mapping[str, Sequence[int]],
    read: Callable[[Sequence[int]], Iterable[StoredEntry]],
    *,
    total: int,
    limit: int,
) -> list[Hit]:
    """Finds the best hits for the terms of a question.

    `keys_by_term` holds the newest passages that contain each term. `total` is the number of passages, or of entries if
    there are very many passages. The rarity of their terms nominates passages. These are read and ranked by BM25.
    Passages that contain more of the terms count more, equal ones are sorted newest first, and repeated text is shown
    once. The message after a hit gets a share of its score.

    A hit shows the lines of its best passages that match the question best: `SNIPPET_LENGTH` characters per hit on
    average, and more for a better hit. If short hits leave characters over, the next message follows behind
    `NEXT_MESSAGE`.
    """
    rarity = _compute_rarity(keys_by_term, total)
    nominated: dict[int, float] = {}
    for term, places in keys_by_term.items():
        for key in places:
            nominated[key] = nominated.get(key, 0.0) + rarity[term]
    best = [key for _, key in nlargest(max(_POOL_SIZE, 4 * limit), zip(nominated.values(), nominated, strict=True))]
    sources = {source.order: source for source in read(sorted({key >> _KEY_SHIFT for key in best}))}
    pool = _score_passages([(key, sources[key >> _KEY_SHIFT]) for key in best if key >> _KEY_SHIFT in sources], rarity)
    follows = read(sorted({passage.source.order + 1 for passage in pool}))
    after = {source.entry.parent: source for source in follows}
    chosen = _choose_passages(_raise_followers(pool, after), limit)
    texts = _build_snippets(chosen, after, rarity, limit * SNIPPET_LENGTH)
    hits: dict[str, Hit] = {}
    for passage in chosen:
        entry, source = passage.source.entry.id, passage.source
        if entry not in hits:
            score = round(passage.score, 2)
            hits[entry] = Hit(source.session, entry, source.position, source.kind, texts.get(entry, ""), score)
    return list(hits.values())


def _compute_rarity(keys_by_term: Mapping[str, Sequence[int]], total: int) -> dict[str, float]:
    most = max(total, len(set[int]().union(*keys_by_term.values())))
    return {
        term: math.log(1 + (most - len(keys) + 0.5) / (len(keys) + 0.5)) for term, keys in keys_by_term.items() if keys
    }


def _score_passages(nominated: Sequence[tuple[int, StoredEntry]], rarity: Mapping[str, float]) -> list[_Passage]:
    """Scores the passages against their mean length, and sorts them by score and then newest first."""
    cut: dict[int, tuple[str, list[tuple[int, int]]]] = {}
    read: list[tuple[int, StoredEntry, tuple[int, int], list[str]]] = []
    for key, source in nominated:
        if source.order not in cut:
            text = get_plain_text(source.entry)
            cut[source.order] = text, split_passages(text)
        text, places = cut[source.order]
        number = key - (source.order << _KEY_SHIFT)
        if number < len(places):
            start, stop = places[number]
            read.append((key, source, (start, stop), list(extract_terms(text[start:stop]))))
    mean = max(1.0, sum(len(held) for *_, held in read) / max(1, len(read)))
    out: list[_Passage] = []
    for key, source, (start, stop), held in read:
        norm = K1 * (1 - B + B * len(held) / mean)
        often = {term: n for term in rarity if (n := held.count(term))}
        score = sum(rarity[term] * n * (K1 + 1) / (n + norm) for term, n in often.items())
        score *= 1 + _COVERAGE_BONUS * len(often) / max(1, len(rarity))
        out.append(_Passage(key, score, source, cut[source.order][0], start, stop))
    out.sort(key=_rank_passage)
    return out


def _rank_passage(passage: _Passage) -> tuple[float, int]:
    return -round(passage.score, 6), -passage.key


def _raise_followers(pool: Sequence[_Passage], after: Mapping[str | None, StoredEntry]) -> list[_Passage]:
    """Raises the scores of the messages that follow the hits.

    `after` holds the next entries by the id of the entry before.
    """
    best: dict[str, _Passage] = {}
    for passage in pool:
        best.setdefault(passage.source.entry.id, passage)
    raised: dict[int, _Passage] = {passage.key: passage for passage in pool}
    for entry, before in best.items():
        next_one = _get_first_passage(after.get(entry))
        if next_one is None:
            continue
        own = best.get(next_one.source.entry.id, next_one)
        raised[own.key] = replace(own, score=own.score + _FOLLOWER_SHARE * before.score)
    return sorted(raised.values(), key=_rank_passage)


def _get_first_passage(source: StoredEntry | None) -> _Passage | None:
    """Returns an entry's first passage, with a score of 0."""
    text = get_plain_text(source.entry) if source is not None else ""
    if source is None or not text.strip():
        return None
    start, stop = split_passages(text)[0]
    return _Passage(source.order << _KEY_SHIFT, 0.0, source, text, start, stop)


def _choose_passages(pool: Sequence[_Passage], limit: int) -> list[_Passage]:
    """Chooses the best `limit` passages, and more from the same entries if they rank next."""
    said: set[str] = set()
    entries: set[str] = set()
    out: list[_Passage] = []
    for passage in pool:
        text = passage.text[passage.start : passage.stop].strip()
        if text in said or (len(out) >= limit and passage.source.entry.id not in entries):
            continue
        said.add(text)
        entries.add(passage.source.entry.id)
        out.append(passage)
        if len(out) >= limit + limit // _HITS_PER_EXTRA:
            break
    return out


def _build_snippets(
    selection: Sequence[_Passage], after: Mapping[str | None, StoredEntry], rarity: Mapping[str, float], budget: int
) -> dict[str, str]:
    """Builds the snippet of each entry within the budget of characters.

    Each entry gets its best line first. Then come the best lines of all, and then the beginnings of the next messages.
    """
    lines = sorted(
        (line for p in selection for line in _split_lines(p, rarity, p.source.entry.id)), key=lambda li: -li.weight
    )
    first = {line.entry: line for line in reversed(lines)}
    taken = {id(line): line for line in first.values()}
    said = {line.text for line in taken.values()}
    budget -= sum(len(line.text) for line in taken.values())
    for line in lines:
        if line.text not in said and len(line.text) <= budget:
            taken[id(line)] = line
            said.add(line.text)
            budget -= len(line.text) + 1
    for line in _list_following_lines(selection, after):
        if len(line.text) > budget:
            break
        taken[id(line)] = line
        budget -= len(line.text) + 1
    out: dict[str, str] = {}
    last: dict[str, tuple[int, int, int]] = {}
    for line in sorted(taken.values(), key=lambda li: li.order):
        before = last.get(line.entry)
        glue = _get_separator(before, line.order) if before else ""
        out[line.entry] = out.get(line.entry, "") + glue + line.text
        last[line.entry] = line.order
    return out


def _list_following_lines(
    selection: Sequence[_Passage], after: Mapping[str | None, StoredEntry]
) -> Iterator[_SnippetLine]:
    """Yields the lines that follow each shown entry, for the best entry first, unless they are shown anyway."""
    entries = dict.fromkeys(passage.source.entry.id for passage in selection)
    for entry in entries:
        follows = _get_first_passage(after.get(entry))
        if follows is not None and follows.source.entry.id not in entries:
            yield from _split_lines(follows, {}, entry)


def _get_separator(previous: tuple[int, int, int], current: tuple[int, int, int]) -> str:
    if previous[0] != current[0]:
        return NEXT_MESSAGE
    return " " if previous == (*current[:2], current[2] - 1) else " ... "


def _split_lines(passage: _Passage, rarity: Mapping[str, float], entry: str) -> Iterator[_SnippetLine]:
    text = sanitize_excerpt(passage.text, passage.start, passage.stop)
    pieces = [clean for match in _LINES.finditer(text) if (clean := _SPACE.sub(" ", match.group()).strip())]
    weights = [sum(rarity[term] for term in collect_terms(piece) if term in rarity) for piece in pieces]
    for number, piece in enumerate(pieces):
        near = weights[max(0, number - 2) : number + 3]
        shares = _NEIGHBOR_SHARES[max(0, 2 - number) : max(0, 2 - number) + len(near)]
        weight = sum(share * each for share, each in zip(shares, near, strict=True)) + _PASSAGE_SHARE * passage.score
        yield _SnippetLine(weight, entry, (passage.source.order, passage.start, number), piece)
