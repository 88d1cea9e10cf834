"""Names in use: the paths, symbols, numbers and ids of a session, each under the file or program it was met with.

An agent goes on to use what it used lately. So each name has a score that adds up its uses and lets them fade, and a
summary shows the names with the highest ones: with a name, what is hidden can be searched for; without it, it cannot.

The score is forward decay (Cormode, Shkapenyuk, Srivastava, Xu, ICDE 2009): the logarithm to base 2 of the sum of
w * 2^(at / FADE) over all uses. It does not depend on when it is read, and those of two ranges add up.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec.structs import replace

from tenfold.record.block import Fact
from tenfold.redact import redacted
from tenfold.remembering import remembered
from tenfold.text import ending, head_of, uncut

FADE = 60
"""Messages after which a use counts half. Of 20, 60, 200 and 1,000 it found most of what sessions used next."""
HEARD = math.log2(1 / 50)
"""The weight of a name that only a tool printed, against one that the agent or the user wrote; a tenth found less."""
BEHIND = 20
"""Messages that a name read back from a section counts as older than the one told before it. Of 0, 3, 7 and 20 it
found most of what was used after ten compactions: 0.86, where taking all for equal found 0.82."""
SAID = "in words"
"""The owner of names that stand in prose."""
MOST_NAMES = 3_000
"""Names that are carried, the highest scores: about 85 KB of a Block. With 1,500 what was needed had gone by then."""

_EDGE = 24_000
"""Characters of an output that are read. Where the middle of a listing of 20,000 was not, 0.02 less was found."""
_OUTER, _INNER = _EDGE * 2 // 3, _EDGE // 3
_NAME = re.compile(r"(?<![\\\w])(?!(?<=<)/)(?:https?://[^\s\"'<>`\\)\]}*]{4,200}|[\w@~./-]{4,120})")
"""Not what follows a backslash: in a pattern, its letter is none of the name's."""
_TELLING = re.compile(r"(?=.*[^\W\d_])(?:.*[_/@]|.*[a-z][A-Z]|.*\.\w{1,5}$|.*\d\D*\d)|\d[\d-]{3,}$")
"""What makes a word a name: a letter with a sign, a capital inside, an ending or two digits; else four digits."""
_AMOUNT = re.compile(r"\d+(?:\.\d+)?[A-Za-z]{1,3}$")
"""A time or a size: it names nothing."""
_LONG = 60
"""Characters above which something without a slash is a blob rather than a name."""

Scores = dict[str, float]


class Names:
    """Collects the names of one extraction, by owner."""

    def __init__(self) -> None:
        self._owners: dict[str, Scores] = {}
        self._at: dict[str, int] = {}

    def read(self, at: int, text: str, owner: str, *, heard: bool = False) -> None:
        """Takes in one text met at a position. `heard` says that a tool printed it; then its edges are read."""
        found = names_in(text if not heard or len(text) <= _EDGE else f"{head_of(text, _OUTER)} {ending(text, _INNER)}")
        if not found:
            return
        scores = self._owners.setdefault(owner, {})
        self._at[owner] = at
        score = at / FADE + (HEARD if heard else 0.0)
        for name in found:
            scores[name] = _plus(scores[name], score) if name in scores else score

    def facts(self) -> list[Fact]:
        """A fact for each owner."""
        return [_fact(owner, scores, self._at[owner]) for owner, scores in self._owners.items()]


@remembered
def names_in(text: str) -> frozenset[str]:
    """The names in a text. Secrets are taken out first, while the words around them still tell them."""
    return frozenset(names_shown(redacted(text)))


def names_shown(text: str) -> set[str]:
    """The names that a text in view shows, to be compared with others only."""
    return set().union(*map(_in_word, set(text.split())))


@lru_cache(maxsize=16_384)
def _in_word(word: str) -> tuple[str, ...]:
    if len(word) < 4 or (word.isalpha() and word[1:].islower()):
        return ()
    out: list[str] = []
    for found in _NAME.findall(uncut(word)):
        name = found if "://" in found else found.strip("-").rstrip("./-")
        name = name if name.startswith(("/", ".")) else name.lstrip("./-")
        if len(name) >= 4 and _TELLING.match(name) and not _AMOUNT.match(name) and (len(name) <= _LONG or "/" in name):
            out.append(name)
    return tuple(out)


def joined_names(older: Fact, newer: Fact) -> Fact:
    """Two ranges' names of one owner as one fact."""
    scores = scores_of(older)
    for name, score in scores_of(newer).items():
        scores[name] = _plus(scores[name], score) if name in scores else score
    return _fact(newer.key, scores, max(older.at, newer.at))


def scores_of(fact: Fact) -> Scores:
    """The names of a fact with their scores. Where none are noted (a section that was read back) their places count."""
    names = fact.text.split()
    noted = fact.note.split()
    if len(noted) != len(names):
        return {name: (fact.at - number * BEHIND) / FADE for number, name in enumerate(names)}
    return {name: float(score) for name, score in zip(names, noted, strict=True)}


def bounded_names(facts: Sequence[Fact]) -> list[Fact]:
    """Facts of names with no more than `MOST_NAMES` in all: those with the highest scores stay."""
    if sum(1 + fact.text.count(" ") for fact in facts) <= MOST_NAMES:
        return list(facts)
    scored = [scores_of(fact) for fact in facts]
    best = sorted(((score, name, n) for n, each in enumerate(scored) for name, score in each.items()), reverse=True)
    kept: list[Scores] = [{} for _ in facts]
    for score, name, n in best[:MOST_NAMES]:
        kept[n][name] = score
    return [_fact(fact.key, each, fact.at) for fact, each in zip(facts, kept, strict=True) if each]


@lru_cache(maxsize=4)
def ranked_names(facts: tuple[Fact, ...]) -> tuple[tuple[str, Fact], ...]:
    """The names, best first, each with the fact of the owner it goes with most. One Block asks for it several times."""
    total: Scores = {}
    owner: dict[str, tuple[float, Fact]] = {}
    for fact in facts:
        for name, score in scores_of(fact).items():
            total[name] = _plus(total[name], score) if name in total else score
            if name not in owner or score > owner[name][0]:
                owner[name] = score, fact
    return tuple((name, owner[name][1]) for name in sorted(total, key=lambda name: (-total[name], name)))


def with_names(fact: Fact, names: Sequence[str]) -> Fact:
    """The fact with these of its names, in this order: for showing, not for carrying."""
    return replace(fact, text=" ".join(names), note="")


def _fact(owner: str, scores: Mapping[str, float], at: int) -> Fact:
    names = sorted(scores)
    return Fact("name", " ".join(names), owner, at, note=" ".join(f"{scores[name]:.2f}" for name in names))


def _plus(one: float, other: float) -> float:
    """The logarithm of the sum of two numbers given by their logarithms, to base 2."""
    low, high = (one, other) if one < other else (other, one)
    return high + math.log2(1 + 2 ** (low - high))
