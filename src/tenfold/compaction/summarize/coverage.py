"""Chooses the passages of a story: those that tell the most per token, where what was told already counts little.

Terms weigh more the rarer they are, and what a tool printed weighs only if the conversation comes back to it. A passage
that is built like others, such as the tenth report of a kind, weighs little. The choice is greedy maximum coverage
under a budget (Lin and Bilmes, "A Class of Submodular Functions for Document Summarization", 2011).
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.text.excerpts import Count

MAX_RESULT_LINES = 8
"""Lines of one output that compete for the room."""
_MARK_TOKENS, _JOINT_TOKENS, _GAP_TOKENS = 6, 1, 2
"""Tokens that the mark of a line takes, what joins a passage to the one before, and the sign that more was printed."""
_FULL_LENGTH = 10
"""Terms of a passage that has its whole base weight. Shorter ones, such as "Done.", say little."""
_SINGLE_SHARE = 0.5
"""What a term counts that the conversation never comes back to."""
_VALUE_FACTOR = 1.5
"""How much more a term with a digit counts: an amount, an id, a version has to be looked up if it is not told."""
_SPOKEN_SHARE, _UNSPOKEN_SHARE = 0.6, 0.12
"""What a term of a tool's output, or of a paste, counts if people or the model use it as well, and if they never do."""
_TERM = re.compile(r"[^\W_](?:[\w./:@#$%+-]*\w)?")
EARLIER_ITEM = -1
"""The item of the lines of earlier summaries."""
NEWEST_CALL, NEWEST_HEAD = -1, -2
"""As a parent: the newest call, or the newest head of a list or table, before the passage."""


class PassageKind(Enum):
    """What a passage is."""

    REQUEST = auto()  # the first sentence of what the user asked: the story is told along these
    USER = auto()  # more of what the user said
    QUESTION = auto()  # what the user only asks: its answer says more
    PASTED = auto()  # what the user passes on: only its terms count
    ANSWER = auto()  # the first of the last words before the user's next message: what came of a request
    SENTENCE = auto()
    HEAD = auto()  # what opens a list or a table: it is told with what it opens, never alone
    THOUGHT = auto()  # what the model wrote as an argument of a call
    CALL = auto()
    FAILURE = auto()  # a call that failed
    CHANGE = auto()  # a call that changed something, or of whose result a part stands out
    CONTENT = auto()  # a line of what a change wrote
    RESULT = auto()  # a line that a tool printed: only its terms count
    EARLIER = auto()  # a line of an earlier summary, which was chosen before


_BASE_WEIGHTS = {
    PassageKind.REQUEST: 2.0,
    PassageKind.ANSWER: 3.0,
    PassageKind.CALL: 0.2,
    **dict.fromkeys((PassageKind.QUESTION, PassageKind.PASTED, PassageKind.RESULT), 0.0),
}
"""What telling a passage is worth besides its terms, in the weight of a term that occurs once. Any other: 1."""
_PASSED_ON = frozenset({PassageKind.RESULT, PassageKind.PASTED})
_TALKATIVE_KINDS = frozenset({PassageKind.USER, PassageKind.SENTENCE})
"""Of one item, each of these is worth less the more of the item is told, so that no long message takes all the room."""


class Passage(Struct, frozen=True):
    """A piece of text that is told whole or not at all.

    `item` is the index of its narrative item. `parent` says which passage must be told with it: a line of a result
    needs its call, a row of a table its head. `factor` scales its value. `lines` says of a call how many lines of its
    output compete.
    """

    item: int
    text: str
    kind: PassageKind
    parent: int | None = None
    factor: float = 1.0
    lines: int = 0


class PassageChoice:
    """The passages chosen so far, by what they tell per token. `spent` is an estimate of their tokens."""

    def __init__(
        self, passages: Sequence[Passage], weights: Sequence[Mapping[str, float]], count: Count, told: str
    ) -> None:
        """`weights` are those of each passage's terms."""
        self._passages, self._weights, self._parents = passages, weights, _find_parents(passages)
        sizes = count([p.text for p in passages]) if passages else []
        joints = [_JOINT_TOKENS + _GAP_TOKENS * (p.lines > 0) for p in passages]
        self._sizes = [size + joint for size, joint in zip(sizes, joints, strict=True)]
        self._unit = math.log(1 + _count_items(passages))
        self._told = set(split_terms(told))
        self._begun: Counter[int] = Counter()
        lengths = [min(1.0, len(terms) / _FULL_LENGTH) for terms in weights]
        self._bases = [
            _BASE_WEIGHTS.get(p.kind, 1.0) * self._unit * length for p, length in zip(passages, lengths, strict=True)
        ]
        self._is_talkative = [p.kind in _TALKATIVE_KINDS for p in passages]
        self.chosen: dict[int, None] = {}
        self.spent = 0
        competing = (index for index, passage in enumerate(passages) if passage.kind is not PassageKind.HEAD)
        self._heap = [(-self._measure_worth(index), index) for index in competing]
        heapq.heapify(self._heap)

    def fill(self, limit: int) -> None:
        """Chooses passages until none fits into `limit` tokens. A passage is valued anew when its turn comes."""
        skipped: list[tuple[float, int]] = []
        while self._heap and limit - self.spent > _JOINT_TOKENS:
            rank, index = heapq.heappop(self._heap)
            if index in self.chosen:
                continue
            if self.spent + self._get_cost(index) > limit:
                skipped.append((rank, index))
                continue
            now = -self._measure_worth(index)
            if self._heap and now > self._heap[0][0]:
                heapq.heappush(self._heap, (now, index))
                continue
            self._choose(index)
        self._heap += skipped
        heapq.heapify(self._heap)

    def drop_last(self) -> None:
        """Gives up the passages chosen last, a fiftieth of them at a time."""
        for index in list(self.chosen)[-max(1, len(self.chosen) // 50) :]:
            del self.chosen[index]

    def _choose(self, index: int) -> None:
        self.spent += self._get_cost(index)
        for each in (self._parents[index], index):
            if each is not None and each not in self.chosen:
                self.chosen[each] = None
                self._begun[self._passages[each].item] += 1
                self._told.update(self._weights[each].keys())

    def _get_cost(self, index: int) -> int:
        parent, item = self._parents[index], self._passages[index].item
        mark = 0 if self._begun[item] or item == EARLIER_ITEM else _MARK_TOKENS
        with_parent = parent is not None and parent not in self.chosen
        return self._sizes[index] + mark + (self._sizes[parent] if parent is not None and with_parent else 0)

    def _measure_worth(self, index: int) -> float:
        """Returns what telling the passage now is worth per token."""
        told = self._told
        gain = sum(weight for term, weight in self._weights[index].items() if term not in told)
        base = self._bases[index]
        if self._is_talkative[index]:
            base /= 1 + self._begun[self._passages[index].item] / 3
        return (gain + base) * self._passages[index].factor / self._get_cost(index)


def _count_items(passages: Sequence[Passage]) -> int:
    """Counts the items that passages come from, or the lines of earlier summaries where those are more."""
    items = 1 + max((passage.item for passage in passages), default=0)
    return max(items, sum(passage.item == EARLIER_ITEM for passage in passages))


def _find_parents(passages: Sequence[Passage]) -> list[int | None]:
    out: list[int | None] = []
    newest: dict[int | None, int] = {}
    for index, passage in enumerate(passages):
        if index and passages[index - 1].item != passage.item:
            newest = {}
        if passage.kind is PassageKind.HEAD:
            newest[NEWEST_HEAD] = index
        elif passage.kind in CALL_KINDS and passage.parent is None:
            newest[NEWEST_CALL] = index
        out.append(newest.get(passage.parent))
    return out


CALL_KINDS = frozenset({PassageKind.CALL, PassageKind.CHANGE, PassageKind.FAILURE})


def weigh_passages(passages: Sequence[Passage]) -> tuple[list[Passage], list[dict[str, float]]]:
    """Returns the passages that compete, each with its terms and what telling them is worth.

    A term weighs the more the fewer items it occurs in. In what a tool printed or the user passed on it weighs less, by
    whether people and the model speak of it. Of a long output, the lines with the heaviest terms compete.
    """
    texts = Counter(passage.text for passage in passages)  # the lines of a file that is read again are the same
    terms = {text: split_terms(text) for text in texts}
    times: Counter[str] = Counter()
    for item, group in groupby(passages, lambda passage: passage.item):
        own = [terms[passage.text] for passage in group]
        for each in map(set, own) if item == EARLIER_ITEM else [set[str]().union(*own)]:
            times.update(each)
    spoken = set[str]().union(*(terms[passage.text] for passage in passages if passage.kind not in _PASSED_ON))
    total = _count_items(passages)
    said = {
        term: math.log(1 + total / count)
        * (1.0 if count > 1 else _SINGLE_SHARE)
        * (_VALUE_FACTOR if not term.isalpha() and any(map(str.isdigit, term)) else 1.0)
        for term, count in times.items()
    }
    passed_on = {term: own * (_SPOKEN_SHARE if term in spoken else _UNSPOKEN_SHARE) for term, own in said.items()}

    def weigh(passage: Passage) -> dict[str, float]:
        table = passed_on if passage.kind in _PASSED_ON else said
        return {term: table[term] for term in terms[passage.text]}

    chosen = _select_result_lines(passages, lambda line: sum(weigh(line).values()))
    novelty = _measure_novelty(chosen, texts, terms)
    return [replace(p, factor=p.factor * new) for p, new in zip(chosen, novelty, strict=True)], list(map(weigh, chosen))


def split_terms(text: str) -> list[str]:
    """Splits a text into its words, in lower case, and what is written without blanks into pairs of signs."""
    words: list[str] = _TERM.findall(text.lower())
    if text.isascii() or not any(map(_UNSPACED.search, words)):
        return words
    return [term for word in words for term in (_split_pairs(word) if _UNSPACED.search(word) else (word,))]


def _split_pairs(word: str) -> list[str]:
    return [word[at : at + 2] for at in range(max(len(word) - 1, 1))]


_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
"""A sign of Thai, Lao, Burmese, Khmer, Japanese or Chinese."""


def _measure_novelty(
    chosen: Sequence[Passage], texts: Mapping[str, int], terms: Mapping[str, Sequence[str]]
) -> list[float]:
    """Returns for each passage the share of its sequences of three terms that no other has, numbers apart.

    `texts` are those of all passages, each with the number of times that it occurs, and `terms` the terms of each.

    Reports, announcements and small talk come again and again with another name or number in them. A passage that is
    built like no other says what nothing else does. A change counts each time, since its object is another.
    """
    times: Counter[str] = Counter()
    forms: dict[str, str] = {}
    shapes: dict[str, set[str]] = {passage.text: set() for passage in chosen}
    for text, count in texts.items():
        if text.isascii() or not _UNSPACED.search(text):
            words = [forms.get(term) or forms.setdefault(term, _DIGITS.sub("0", term)) for term in terms[text]]
        else:  # a number may lie in several pairs of signs
            words = split_terms(_DIGITS.sub("0", text))
        own = set(map(" ".join, zip(words, words[1:], words[2:], strict=False))) or {" ".join(words)}
        times.update(own)
        if count > 1:  # each of its sequences stands elsewhere too
            times.update(own)
        if text in shapes:
            shapes[text] = own
    new = {text: list(map(times.__getitem__, own)).count(1) for text, own in shapes.items()}
    return [
        1.0
        if passage.kind is PassageKind.CHANGE
        else _LEAST_NOVELTY + (1 - _LEAST_NOVELTY) * new[passage.text] / len(shapes[passage.text])
        for passage in chosen
    ]


_DIGITS = re.compile(r"\d+")
_LEAST_NOVELTY = 0.1
"""What is left of the worth of a passage whose every sequence of terms stands elsewhere too."""


def _select_result_lines(passages: Sequence[Passage], weigh: Callable[[Passage], float]) -> list[Passage]:
    """Returns all passages but the lightest lines of long outputs."""
    out: list[Passage] = []
    for is_output, group in groupby(passages, lambda passage: passage.kind is PassageKind.RESULT):
        found = list(group)
        if is_output and len(found) > MAX_RESULT_LINES:
            heaviest = sorted(range(len(found)), key=lambda index: -weigh(found[index]))[:MAX_RESULT_LINES]
            found = [found[index] for index in sorted(heaviest)]
        out += found
    return out
