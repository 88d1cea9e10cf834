"""Search by a question: messages that hold all of its words, and behind them those that hold some.

A store finds what holds every word it is given. A model asks in sentences, of which hardly a message holds every word:
so each word is looked for by itself, without its ending, and what holds many and rare ones comes first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from msgspec.structs import replace

from tenfold.log.base import Hit, Store
from tenfold.log.words import POOL, parse

WORDS = 24
"""Words of a question that are looked for one by one: the longest ones of a longer question."""
_EDGES = "\"'`()[]{}<>?!,;:."
_ENDINGS = re.compile(r"(?<=\w{4})(?:ies|ing|ed|es|ly|s|e|y)$")
"""English endings of words that stay long enough. A stem is found inside words, so one cut too short finds more."""
_PLAIN = re.compile(r"[a-z]+")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
"""Scripts that write no spaces between words."""


def asked(store: Store, namespace: str, words: str, *, session: str | None = None, limit: int = 20) -> list[Hit]:
    """The best hits for words or a question. Those that hold all the words come first.

    The score of the others is BM25 with the rarity of each word among the entries that were found; double quotes group
    a phrase. Raises `UsageError` where there is no word.
    """
    whole = store.search(namespace, words, session=session, limit=limit)
    stems = list(dict.fromkeys(stem for word in parse(words) for stem in _stems(word)))
    if len(whole) >= limit or len(stems) < 2:
        return whole
    found = {stem: _found(store, namespace, stem, session) for stem in sorted(stems, key=len, reverse=True)[:WORDS]}
    most = max(len({hit.entry for hits in found.values() for hit in hits}), 1)
    best: dict[str, tuple[float, float, Hit]] = {}
    for hits in found.values():
        rarity = math.log(1 + (most - len(hits) + 0.5) / (len(hits) + 0.5))
        for hit in hits:
            total, rarest, shown = best.get(hit.entry, (0.0, -1.0, hit))
            best[hit.entry] = (total + rarity * hit.score, *((rarity, hit) if rarity > rarest else (rarest, shown)))
    first = {hit.entry for hit in whole}
    rest = [replace(hit, score=round(total, 2)) for total, _, hit in best.values() if hit.entry not in first]
    rest.sort(key=lambda hit: (-hit.score, -hit.position))
    return [*whole, *rest[: limit - len(whole)]]


def _found(store: Store, namespace: str, stem: str, session: str | None) -> list[Hit]:
    return store.search(namespace, f'"{stem}"', session=session, limit=POOL)


def _stems(word: str) -> Iterator[str]:
    """What is looked for in place of a word: itself without its ending, or its pairs of characters."""
    bare = word.strip(_EDGES)
    wide = _WIDE.findall(bare)
    if wide:
        yield from (run[at : at + 2] for run in wide for at in range(max(1, len(run) - 1)))
    elif len(bare) > 2:
        yield _ENDINGS.sub("", bare) if _PLAIN.fullmatch(bare) else bare
