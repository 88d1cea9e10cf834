"""Ranks hits so that the newer of two comes first where their scores hardly differ, or where both print a value.

An agent prints the same value again and again: a port, a count of failures, a generation. All these hits match a
question equally well, apart from their lengths, and only the newest is still true.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from tenfold.store.search.entry_text import fold_text

NEAR_TIE = 0.04
"""Scores that lie at most this share below the best of them count as equal to it."""
_MAX_LINES = 20
"""Lines of one text that are looked at for values, the last ones."""
_SHORTEST_STEM, _ENDING_LENGTH = 4, 3
"""A name matches a term without its ending: `generations` asks for `generation`."""
_MAX_NAME = 64
_PRINTED_VALUE = re.compile(
    r"(?<![\w.-])([^\W\d][\w.-]{0,63})[\"'`)\]]{0,2}"
    r"(?:\s?(?::=|[:=]{1,2}>?|->)\s?|\s(?:is|was)\s(?:now\s)?|\s(?=[0-9][\w.%]{0,63}[.,;)]{0,2}$))"
    r"[\"'`(\[]{0,2}([^\s\"'`,;()\[\]]{1,64})"
)
"""Matches a name and its value in a line: `port: 80`, `"port": 80`, `port = 80`, `port is now 80`, `port 80` last."""
Scored = tuple[int, float]
"""A key, which is the higher the newer a text is, and the text's score."""


class _Print(Struct, frozen=True):
    """A line that prints a value of a name, and how many of the terms it holds."""

    name: str
    value: str
    coverage: int


def rank_near_ties(scored: Iterable[Scored]) -> list[Scored]:
    """Ranks by score, and near ties newest first."""
    groups: list[list[Scored]] = []
    for each in sorted(scored, key=lambda each: -each[1]):
        if groups and each[1] >= groups[-1][0][1] * (1 - NEAR_TIE):
            groups[-1].append(each)
        else:
            groups.append([each])
    return [each for group in groups for each in sorted(group, reverse=True)]


def arrange_series(
    ranked: Sequence[Scored], texts: Mapping[int, str], terms: Sequence[str]
) -> tuple[list[Scored], list[int]]:
    """Finds the texts that print values of a name that the terms ask for, and puts them newest first.

    They share the ranks that they had. Returns everything as it is ranked now, and the keys of the series in order.
    """
    places = [place for place, (key, _) in enumerate(ranked) if key in texts]
    places = [places[index] for index in find_series([texts[ranked[place][0]] for place in places], terms)]
    series = sorted((ranked[place] for place in places), reverse=True)
    out = list(ranked)
    for place, each in zip(places, series, strict=True):
        out[place] = each
    return out, [key for key, _ in series]


def find_series(texts: Sequence[str], terms: Sequence[str]) -> list[int]:
    """Returns the indexes of the texts that print values of one name, those whose lines hold most of the terms.

    There are none if the lines hold less than half of the terms, or if the value is the same everywhere.
    """
    stems = [term[: max(_SHORTEST_STEM, len(term) - _ENDING_LENGTH)] for term in terms]
    found: dict[tuple[int, str], dict[int, str]] = defaultdict(dict)
    for index, text in enumerate(texts):
        for each in _list_prints(text, stems):
            found[each.coverage, each.name].setdefault(index, each.value)
    changing = [(key, values) for key, values in found.items() if len(set(values.values())) > 1]
    if not changing:
        return []
    _, best = max(changing, key=lambda item: (item[0][0], len(item[1])))
    return sorted(best)


def _list_prints(text: str, stems: Sequence[str]) -> Iterator[_Print]:
    """Yields the values that a text prints of names with one of the stems, the last ones first.

    Only lines that hold half of the stems count.
    """
    folded = fold_text(text)
    end = len(folded)
    for _ in range(_MAX_LINES):
        end = max((at for stem in stems if (at := folded.rfind(stem, 0, end)) >= 0), default=-1)
        if end < 0:
            break
        start, stop = folded.rfind("\n", 0, end) + 1, folded.find("\n", end)
        line = folded[start:stop] if stop >= 0 else folded[start:]
        coverage = sum(stem in line for stem in stems)
        starts = _find_names(line, stems) if 2 * coverage >= len(stems) else ()
        for match in filter(None, (_PRINTED_VALUE.match(line, at) for at in starts)):
            yield _Print(match.group(1), match.group(2), coverage)
        end = start


def _find_names(line: str, stems: Sequence[str]) -> Iterator[int]:
    """Yields where the words begin that hold one of the stems."""
    for stem in stems:
        at = line.find(stem)
        while at >= 0:
            start = at
            while start > max(0, at - _MAX_NAME) and (line[start - 1].isalnum() or line[start - 1] in "_.-"):
                start -= 1
            yield start
            at = line.find(stem, at + len(stem))
