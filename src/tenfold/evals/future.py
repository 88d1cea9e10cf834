"""Future-use recall: of what an agent really went on to need, how much does a compaction leave within reach?

An identifier is a needed fact when the agent used it after the cut, it occurred before the cut, and neither a user nor
a tool brought it back in between. No fact is made up and no model judges: the session's own future decides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec
from msgspec import Struct

from tenfold.evals.cases import MODEL, Case, ChatMessage, calls_in, counter, role_of, sizes_of, text_of_message
from tenfold.evals.identifiers import holds, identifiers, place_of
from tenfold.evals.methods import Compacted
from tenfold.log.ids import IDS
from tenfold.log.memory import MemoryStore
from tenfold.recall.tools import FOUND, RecallTools
from tenfold.session import Place, Session
from tenfold.settings import policy_for
from tenfold.wire import WIRES

BUDGETS = (4_000, 8_000, 16_000, 32_000)
"""The sizes between which the headline's area is taken, in tokens."""
TOLERANCE = 1.02
"""A result above this share of its budget scores 0: it would not have been sent."""
QUARTERS = 4
_TRIVIAL = 0.5
"""An identifier in more than this share of the past's messages is known to everyone."""
_QUERY_WORDS = 24
"""Words of a query, at most: about three sentences, as an agent would ask."""
_EARLY_WORDS = _QUERY_WORDS // 3
"""Words of each of the three texts that stood there before: what the agent said, what it was told, what was asked."""
_PLAIN = re.compile(r"\w{3,}")
_STOP = frozenset(
    re.findall(
        r"\w+",
        "about after all also and any are because been before but can could did does doing done each for from get had "
        "has have here how into its just let make more need not now off one only our out over own please see should "
        "some such than that the their them then there these they this those too use using very want was were what "
        "when where which while who why will with would you your",
    )
)

Search = Callable[[str], Sequence[str]]
"""What a query brings back from the past, best first."""


class Fact(Struct, frozen=True):
    """Something the agent needed. `use` is the index of the message that used it first after the cut.

    Its age runs from its last occurrence to the cut, in messages and in tokens; `quarter` is where in the past's
    tokens that lies (1: oldest). `source` is the smallest past message that holds it, which takes `fetch` tokens to
    read again. `query` asks in the words around the use, up to it, and `early` in those that stood there before the
    agent began that message; the identifier itself is in neither.
    """

    text: str
    kind: str
    use: int
    age: int
    age_tokens: int
    quarter: int
    source: int
    fetch: int
    query: str
    early: str = ""


class Recall(Struct, frozen=True):
    """The score of one method on one case at one budget. Counts are of needed facts.

    `within` counts those present in the view or one search away (None: the method has no search), `early` the same
    where the search is made before the agent begins its message; `refetch` is what reading the others' sources again
    takes, in tokens. `kinds` and `quarters` map to (present, needed). `over` says
    that the result was above its budget, `own` that the budget is the size of the session's real summary, `tenth`
    that it is a tenth of the past, `unable` why the method gave no result.
    """

    session: str
    cut: int
    kind: str
    method: str
    budget: int
    rounds: int
    needed: int
    past_tokens: int
    tokens: int = 0
    seconds: float = 0.0
    present: int = 0
    within: int | None = None
    early: int | None = None
    refetch: int = 0
    kinds: dict[str, tuple[int, int]] = {}
    quarters: dict[str, tuple[int, int]] = {}
    over: bool = False
    own: bool = False
    tenth: bool = False
    unable: str = ""


# -- what was needed ---------------------------------------------------------------------------------------------------


def needed(case: Case) -> list[Fact]:
    """The facts that the real future of a case needed, in the order of their use."""
    past = _Past(case)
    brought: list[str] = []
    decided: set[str] = set()
    facts: list[Fact] = []
    users = [_words_of(m) for m in case.past if role_of(m) == "user"]
    request, spoken = (users or [""])[-1], next((_said(m) for m in reversed(case.past) if _is_agent(m)), "")
    told = next((_words_of(m) for m in reversed(case.past) if not _is_agent(m)), "")
    for index, message in enumerate(case.future, case.cut):
        if not _is_agent(message):
            brought.append(text_of_message(message))
            told = _words_of(message)
            request = _words_of(message) if role_of(message) == "user" else request
            continue
        said = _said(message)
        new = {i.text: i.kind for i in identifiers(said) if i.text not in decided}
        decided |= new.keys()
        back = "\n".join(brought) if new else ""
        for text, kind in new.items():
            found = past.holders(text) if not holds(back, text) else []
            if found and not past.trivial(text, found):
                before = said[: max(0, place_of(said, text))]
                query = query_of(text, before if _PLAIN.search(before) else spoken, request)
                early = query_of(text, spoken, told, request, words=_EARLY_WORDS)
                facts.append(past.fact(text, kind, index, found, query, early))
        spoken = said
    return facts


class _Past:
    """The past of a case, to be asked where it holds what."""

    def __init__(self, case: Case) -> None:
        self.texts = [text_of_message(m) for m in case.past]
        self.whole = "\n".join(self.texts)
        self.sizes = sizes_of(case.past)
        self.system = "\n".join(t for t, m in zip(self.texts, case.past, strict=True) if role_of(m) == "system")
        self.before = [0]
        for size in self.sizes:
            self.before.append(self.before[-1] + size)

    def holders(self, text: str) -> list[int]:
        """The messages that hold it."""
        if text not in self.whole:
            return []
        return [i for i, each in enumerate(self.texts) if holds(each, text)]

    def trivial(self, text: str, found: Sequence[int]) -> bool:
        """Whether everyone knows it: from the system prompt, or from most messages."""
        return len(found) > _TRIVIAL * len(self.texts) or holds(self.system, text)

    def fact(self, text: str, kind: str, use: int, found: Sequence[int], query: str, early: str) -> Fact:
        last, total = found[-1], self.before[-1]
        source = min(found, key=self.sizes.__getitem__)
        quarter = min(QUARTERS, 1 + self.before[last] * QUARTERS // max(1, total))
        age = len(self.texts) - last
        return Fact(text, kind, use, age, total - self.before[last], quarter, source, self.sizes[source], query, early)


def query_of(wanted: str, *texts: str, words: int = _QUERY_WORDS) -> str:
    """What an agent would search for at that moment: words of each of the texts, the newest words first.

    Of each text at most so many `words`, of all of them `_QUERY_WORDS`. The needed identifier is cut out wherever it
    stands, so the answer never asks.
    """
    found: dict[str, None] = {}
    for text in texts:
        own: dict[str, None] = {}
        for word in reversed(_PLAIN.findall(text.replace(wanted, " "))):
            if word.lower() not in _STOP and len(own) < words:
                own.setdefault(word.lower())
        found |= own
    return " ".join(list(found)[:_QUERY_WORDS])


def _is_agent(message: ChatMessage) -> bool:
    return role_of(message) == "assistant"


def _said(message: ChatMessage) -> str:
    """What the agent itself wrote: its text and the values of its arguments, not the names that a schema gives."""
    parts = [text_of_message({"content": message.get("content")})]
    for _, arguments in calls_in(message):
        try:
            parts.extend(_values(msgspec.json.decode(arguments)))
        except msgspec.DecodeError:
            parts.append(arguments)
    return "\n".join(parts)


def _values(value: object) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _values(inner)
    elif value is not None:
        yield value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _words_of(message: ChatMessage) -> str:
    return text_of_message(message)[-2_000:]


# -- what is left of it ------------------------------------------------------------------------------------------------


def search_of(case: Case) -> Search:
    """One search in the past, as a model makes it: the answer of Tenfold's own tool, as it gives it."""
    place = Place(MemoryStore(), IDS.new())
    session = Session.create(place, policy_for("tenfold", counter()), model=MODEL)
    session.append(*WIRES["openai-chat"].decode([msgspec.json.encode(m) for m in case.past]))
    tools = RecallTools(place.store, place.namespace, place.session, count=counter().count)

    def search(query: str) -> list[str]:
        found = tools.search(query) if query.strip() else ""
        return within([found], FOUND) if found else []

    return search


def within(texts: Sequence[str], tokens: int) -> list[str]:
    """The first of the texts that together take no more than that many tokens."""
    kept: list[str] = []
    for text, size in zip(texts, counter().count(list(texts)), strict=True):
        tokens -= size
        if tokens < 0:
            break
        kept.append(text)
    return kept


class Away(Struct, frozen=True):
    """The facts that one search each would bring back, by `Fact.query` and by `Fact.early`."""

    near: frozenset[str] = frozenset()
    early: frozenset[str] = frozenset()


def found_by(facts: Sequence[Fact], search: Search) -> Away:
    """The facts that one search each would bring back."""

    def found(asked: Callable[[Fact], str]) -> frozenset[str]:
        return frozenset(f.text for f in facts if any(holds(hit, f.text) for hit in search(asked(f))))

    return Away(found(lambda fact: fact.query), found(lambda fact: fact.early))


def scored(score: Recall, made: Compacted, facts: Sequence[Fact], away: Away | None) -> Recall:
    """The score with what a compaction left of the facts; none where it is over its budget.

    `away` is None for a method that has no search.
    """
    over = made.tokens > score.budget * TOLERANCE
    kept = set() if over else present(made.messages, facts)
    near, early = (None, None) if away is None else (0, 0) if over else (len(kept | away.near), len(kept | away.early))
    lost = {f.source: f.fetch for f in facts if f.text not in kept}
    return msgspec.structs.replace(
        score,
        tokens=made.tokens,
        seconds=round(made.seconds, 4),
        present=len(kept),
        within=near,
        early=early,
        refetch=sum(lost.values()),
        kinds=_tally(facts, kept, lambda f: f.kind),
        quarters=_tally(facts, kept, lambda f: str(f.quarter)),
        over=over,
    )


def present(messages: Sequence[ChatMessage], facts: Sequence[Fact]) -> set[str]:
    """The facts that a view still shows, word for word."""
    text = "\n".join(text_of_message(m) for m in messages)
    return {f.text for f in facts if holds(text, f.text)}


def _tally(facts: Sequence[Fact], kept: set[str], key: Callable[[Fact], str]) -> dict[str, tuple[int, int]]:
    out: dict[str, tuple[int, int]] = {}
    for fact in facts:
        have, of = out.get(key(fact), (0, 0))
        out[key(fact)] = (have + (fact.text in kept), of + 1)
    return dict(sorted(out.items()))


def area(points: Mapping[int, float]) -> float:
    """The mean height of a score over the logarithm of its budgets: trapezoids, 0 to 1. One point: its height."""
    budgets = sorted(points)
    if len(budgets) < 2:
        return points[budgets[0]] if budgets else 0.0
    total = 0.0
    for low, high in pairwise(budgets):
        total += (points[low] + points[high]) / 2 * math.log(high / low)
    return total / math.log(budgets[-1] / budgets[0])
