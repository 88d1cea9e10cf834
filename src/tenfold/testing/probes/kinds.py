"""The types of the probes: their kinds, a `Probe`, the verdicts on it, and the words that stand for a text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Literal, get_args

from msgspec import Struct

ChatMessage = dict[str, object]
"""A message of OpenAI Chat as JSON: role, content, tool_calls, tool_call_id."""
ProbeKind = Literal[
    "edited",
    "read",
    "error",
    "outcome",
    "constraint",
    "correction",
    "decision",
    "identifier",
    "url",
    "number",
    "task",
    "todo",
    "planted",
]
PROBE_KINDS: tuple[ProbeKind, ...] = get_args(ProbeKind)
ProbeVerdict = Literal["present", "stale", "missing"]
"""`stale` means that the view answers with something that was superseded."""
Term = tuple[str, ...]
"""A word or phrase in lower case with its alternatives. One of them is enough."""
MAX_ANSWER_WORDS, MAX_ANCHOR_WORDS = 6, 10
"""The most words of a sentence in its answer and in its anchor. A window of 600 characters holds about 90 words."""


class Probe(Struct, frozen=True):
    """One question to a view. All of `answer` must lie in one window with at least half of `anchor`.

    `index` is the message that holds the answer. `text` is what a report of misses shows. `old_answers` are earlier
    answers to the same question, oldest first. `rivals` are words that would say the opposite of the answer's first
    term where only nearness tells which is meant, such as the statuses in a to-do list. `place` divides a kind further:
    top, middle or bottom for planted rules, open or resolved for errors.
    """

    kind: ProbeKind
    index: int
    text: str
    answer: tuple[Term, ...]
    anchor: tuple[Term, ...] = ()
    old_answers: tuple[tuple[Term, ...], ...] = ()
    rivals: Term = ()
    place: str = ""


_WORD = re.compile(r"\d+(?:[.,:]\d+)+|[a-z]+-\d+|\w+")
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """a about after again all also am an and any are as at be because been before being both but by can cannot
        could did do does doing done down each else few for from further get gets give go goes going got
        had has have having he her here him his how i if in into is it its just let lets like ll made make
        may me might more most much my no nor not now of off ok on once one only or other our out over own
        per please put re really s said same say see she should so some such t take than that the their
        them then there these they thing this those through to too try two up us use used using very want
        was way we well were what when where which while who will with would yes yet you your ve d m don
        doesn didn isn wasn won""",
    )
)


def split_words(text: str) -> list[str]:
    """Returns the words of a text in lower case, in order."""
    return _WORD.findall(text.lower())


def find_content_words(text: str) -> list[str]:
    """Returns the words that carry meaning, each once: no stop words, and at least three characters or a digit."""
    found = (w for w in split_words(text) if w not in _STOP_WORDS and (len(w) > 2 or any(c.isdigit() for c in w)))
    return list(dict.fromkeys(found))


def build_terms(words: Iterable[str]) -> tuple[Term, ...]:
    """Returns the words as terms without alternatives."""
    return tuple((word,) for word in words)


def split_into_halves(text: str, word_counts: Counter[str]) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """Splits a sentence into answer and anchor: the half of its words that is rarest in the session, and the rest.

    So a summary may use other words, but it must hold what is particular to the sentence.
    """
    found = find_content_words(text)
    ranked = sorted(range(len(found)), key=lambda i: (word_counts[found[i]], i))
    own = set(ranked[: min(MAX_ANSWER_WORDS, (len(found) + 1) // 2)])
    answer = [w for i, w in enumerate(found) if i in own]
    anchor = [w for i, w in enumerate(found) if i not in own]
    return build_terms(answer), build_terms(anchor[:MAX_ANCHOR_WORDS])
