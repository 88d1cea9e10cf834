"""Names in use: the paths, symbols, numbers and ids of a session, each under the file or program it was met with.

An agent mostly uses again what it used lately. So each name has a score that adds up its uses and fades with age, and a
summary shows the names with the highest scores. A name that is shown lets the model search for what is hidden.

The score is forward decay (Cormode, Shkapenyuk, Srivastava, Xu, ICDE 2009): the logarithm to base 2 of the sum of w *
2^(at / HALF_LIFE) over all uses. It does not depend on when it is read, and the scores of two ranges add up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec.structs import replace

from tenfold.core.record.block import Fact
from tenfold.core.text.excerpts import Keep, drop_cut_name, excerpt
from tenfold.core.text.memoize import memoize, memoize_short
from tenfold.core.text.redaction import redact_cached

HALF_LIFE = 60
"""Messages after which a use counts half. Of 20, 60, 200 and 1,000 it found most of what sessions used next."""
TOOL_WEIGHT = math.log2(1 / 50)
"""Weight (log2) of a name that only a tool printed, against one that the agent or the user wrote. 1/10 found less."""
PARSED_NAME_AGE = 20
"""How many messages older a name parsed from a section counts than the name before it. Of 0, 3, 7 and 20 it found
most of what was used after ten compactions: 0.86, where equal ages found 0.82."""
PROSE_OWNER = "in words"
"""The owner of names that occur in prose."""
MAX_NAMES = 3_000
"""Most names kept, by score: about 85 KB of a Block. With 1,500, names that were needed had been dropped."""

_MAX_OUTPUT_CHARS = 24_000
"""Most characters read of an output. Skipping the middle of a listing of 20,000 found 0.02 less."""
_NAME = re.compile(r"(?<![\\\w])(?!(?<=<)/)(?:https?://[^\s\"'<>`\\)\]}*]{4,200}|[\w@~./-]{4,120})")
"""Matches a name, but not after a backslash: the letter of an escape in a pattern is no part of the name."""
_NAME_SHAPE = re.compile(r"(?=.*[^\W\d_])(?:.*[_/@]|.*[a-z][A-Z]|.*\.\w{1,5}$|.*\d\D*\d)|\d[\d-]{3,}$")
"""What makes a word a name: a letter with a sign, an inner capital, a file ending or two digits; or four digits."""
_AMOUNT = re.compile(r"\d+(?:\.\d+)?[A-Za-z]{1,3}$")
"""A time or a size, which is no name."""
_LINE_NUMBER = re.compile(r"^[ \t]*\d+[:|\t\u2192]", re.MULTILINE)
"""The number of a line in a listing, which is no name."""
_LENGTH_NOTE = re.compile(r"\[\.\.\. [\d,]+ (?:more )?(?:characters|lines|tokens)\b[^\]\n]*\]")
"""What an excerpt says about the part it leaves out: its length is no name."""
_MAX_WORD_CHARS = 60
"""Longest name without a slash, in characters. Anything longer is a blob of data."""

Scores = dict[str, float]


class NameCollector:
    """Collects the names of one extraction, by owner."""

    def __init__(self) -> None:
        self._owners: dict[str, Scores] = {}
        self._positions: dict[str, int] = {}

    def read(self, position: int, text: str, owner: str, *, from_tool: bool = False) -> None:
        """Reads one text at a position. With `from_tool` a tool printed it.

        Names from a tool weigh less, and of a long output only the beginning and the end are read.
        """
        if from_tool:
            text = _LINE_NUMBER.sub("", excerpt(text, _MAX_OUTPUT_CHARS, Keep.EDGE_WORDS))
        found = find_names(text)
        if not found:
            return
        scores = self._owners.setdefault(owner, {})
        self._positions[owner] = position
        score = position / HALF_LIFE + (TOOL_WEIGHT if from_tool else 0.0)
        for name in found:
            scores[name] = _add_scores(scores[name], score) if name in scores else score

    def build_facts(self) -> list[Fact]:
        """Returns one fact for each owner."""
        return [_build_fact(owner, scores, self._positions[owner]) for owner, scores in self._owners.items()]


@memoize
def find_names(text: str) -> frozenset[str]:
    """Returns the names in a text. Secrets are removed first, while the words around them still reveal them."""
    return frozenset(find_visible_names(_LENGTH_NOTE.sub(" ", redact_cached(text))))


def find_visible_names(text: str) -> set[str]:
    """Returns the names that a text in view shows. Use it for comparison only: secrets are not removed."""
    return set().union(*map(_find_names_in_word, set(text.split())))


@memoize_short(16_384)
def _find_names_in_word(word: str) -> tuple[str, ...]:
    if len(word) < 4 or (word.isalpha() and word[1:].islower()):
        return ()
    out: list[str] = []
    for found in _NAME.findall(drop_cut_name(word)):
        name = found if "://" in found else found.strip("-").rstrip("./-")
        name = name if name.startswith(("/", ".")) else name.lstrip("./-")
        if (
            len(name) >= 4
            and _NAME_SHAPE.match(name)
            and not _AMOUNT.match(name)
            and (len(name) <= _MAX_WORD_CHARS or "/" in name)
        ):
            out.append(name)
    return tuple(out)


def join_names(older: Fact, newer: Fact) -> Fact:
    """Merges the names of one owner from two ranges into one fact."""
    scores = get_scores(older)
    for name, score in get_scores(newer).items():
        scores[name] = _add_scores(scores[name], score) if name in scores else score
    return _build_fact(newer.key, scores, max(older.position, newer.position))


def get_scores(fact: Fact) -> Scores:
    """Returns the names of a fact with their scores. Names parsed from a section have none: their order is used."""
    names = fact.text.split()
    stored_scores = fact.note.split()
    if len(stored_scores) != len(names):
        return {name: (fact.position - number * PARSED_NAME_AGE) / HALF_LIFE for number, name in enumerate(names)}
    return {name: float(score) for name, score in zip(names, stored_scores, strict=True)}


def limit_names(facts: Sequence[Fact]) -> list[Fact]:
    """Limits the facts to `MAX_NAMES` names in all. The names with the highest scores stay."""
    if sum(1 + fact.text.count(" ") for fact in facts) <= MAX_NAMES:
        return list(facts)
    scored = [get_scores(fact) for fact in facts]
    best = sorted(((score, name, n) for n, each in enumerate(scored) for name, score in each.items()), reverse=True)
    kept: list[Scores] = [{} for _ in facts]
    for score, name, n in best[:MAX_NAMES]:
        kept[n][name] = score
    return [_build_fact(fact.key, each, fact.position) for fact, each in zip(facts, kept, strict=True) if each]


@lru_cache(maxsize=4)
def rank_names(facts: tuple[Fact, ...]) -> tuple[tuple[str, Fact], ...]:
    """Returns the names, best first, each with the fact of the owner it belongs to most.

    The newest results are cached, because one Block asks for them several times.
    """
    total: Scores = {}
    owner: dict[str, tuple[float, Fact]] = {}
    for fact in facts:
        for name, score in get_scores(fact).items():
            total[name] = _add_scores(total[name], score) if name in total else score
            if name not in owner or score > owner[name][0]:
                owner[name] = score, fact
    return tuple((name, owner[name][1]) for name in sorted(total, key=lambda name: (-total[name], name)))


def with_names(fact: Fact, names: Sequence[str]) -> Fact:
    """Returns the fact with just these of its names, in this order. The scores are dropped: it is for showing only."""
    return replace(fact, text=" ".join(names), note="")


def _build_fact(owner: str, scores: Mapping[str, float], position: int) -> Fact:
    names = sorted(scores)
    return Fact("name", " ".join(names), owner, position, note=" ".join(f"{scores[name]:.2f}" for name in names))


def _add_scores(one: float, other: float) -> float:
    """Returns the base-2 logarithm of the sum of two numbers given by their base-2 logarithms."""
    low, high = (one, other) if one < other else (other, one)
    return high + math.log2(1 + 2 ** (low - high))
