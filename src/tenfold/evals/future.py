"""Measures future-use recall: how many of the facts that an agent later needed are within reach after a compaction.

An identifier is a needed fact if the agent used it after the cut, it occurred before the cut, and neither a user nor a
tool repeated it in between. The session's own future decides, so no fact is made up and no model judges.
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
"""The budgets, in tokens, over which the headline's area is taken."""
TOLERANCE = 1.02
"""A result above this multiple of its budget scores 0, because it would not have been sent."""
QUARTERS = 4
_TRIVIAL = 0.5
"""An identifier in more than this share of the past's messages is common knowledge."""
_QUERY_WORDS = 24
"""The most words of a query: about three sentences, as an agent would ask."""
_EARLY_WORDS = _QUERY_WORDS // 3
"""The most words of each of three earlier texts: the agent's last message, the last one to it, and the request."""
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
"""Returns what a query finds in the past, best first."""


class Fact(Struct, frozen=True):
    """A fact that the agent needed. `use_index` is the first message after the cut that used it.

    `age` and `age_tokens` run from the fact's last occurrence to the cut. `quarter` says in which quarter of the past's
    tokens that occurrence lies (1 is the oldest). `source_index` is the smallest past message that holds the fact, and
    `fetch_tokens` is what it costs to read that message again. `query` consists of the words around the use, up to the
    identifier. `early_query` consists of words that were there before the agent began that message. Neither query
    contains the identifier itself.
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
    """The score of one method on one case at one budget. All counts are of needed facts.

    `within` counts the facts that are in the view or one search away; it is None if the method has no search. `early`
    is the same with the search made before the agent begins its message. `refetch` is the number of tokens it takes to
    read the sources of the missing facts again. `kinds` and `quarters` map to (present, needed). `over` means that the
    result was above its budget, `own` that the budget is the size of the session's real summary, and `tenth` that it is
    a tenth of the past. `unable` is the reason if the method gave no result.
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
    """Returns the facts that the real future of a case needed, in the order of their use."""
    past = _Past(case)
    brought: list[str] = []
    decided: set[str] = set()
    facts: list[Fact] = []
    users = [_words_of(m) for m in case.past if role_of(m) == "user"]
    request, spoken = (users or [""])[-1], next((_said(m) for m in reversed(case.past) if _is_agent(m)), "")
    last_input = next((_words_of(m) for m in reversed(case.past) if not _is_agent(m)), "")
    for index, message in enumerate(case.future, case.cut):
        if not _is_agent(message):
            brought.append(text_of_message(message))
            last_input = _words_of(message)
            request = _words_of(message) if role_of(message) == "user" else request
            continue
        own_text = _said(message)
        new = {i.text: i.kind for i in identifiers(own_text) if i.text not in decided}
        decided |= new.keys()
        back = "\n".join(brought) if new else ""
        for text, kind in new.items():
            holders = past.holders(text) if not holds(back, text) else []
            if holders and not past.trivial(text, holders):
                before = own_text[: max(0, place_of(own_text, text))]
                query = query_of(text, before if _PLAIN.search(before) else spoken, request)
                early = query_of(text, spoken, last_input, request, words=_EARLY_WORDS)
                facts.append(past.fact(text, kind, index, holders, query, early))
        spoken = own_text
    return facts


class _Past:
    """The past of a case, indexed to look up which messages hold an identifier."""

    def __init__(self, case: Case) -> None:
        self.texts = [text_of_message(m) for m in case.past]
        self.whole = "\n".join(self.texts)
        self.sizes = sizes_of(case.past)
        self.system = "\n".join(t for t, m in zip(self.texts, case.past, strict=True) if role_of(m) == "system")
        self.before = [0]
        for size in self.sizes:
            self.before.append(self.before[-1] + size)

    def holders(self, text: str) -> list[int]:
        """Returns the indexes of the messages that hold the text."""
        if text not in self.whole:
            return []
        return [i for i, each in enumerate(self.texts) if holds(each, text)]

    def trivial(self, text: str, found: Sequence[int]) -> bool:
        """Whether the identifier is common knowledge: it is in the system prompt, or in most messages."""
        return len(found) > _TRIVIAL * len(self.texts) or holds(self.system, text)

    def fact(self, text: str, kind: str, use: int, found: Sequence[int], query: str, early: str) -> Fact:
        last, total = found[-1], self.before[-1]
        source = min(found, key=self.sizes.__getitem__)
        quarter = min(QUARTERS, 1 + self.before[last] * QUARTERS // max(1, total))
        age = len(self.texts) - last
        return Fact(text, kind, use, age, total - self.before[last], quarter, source, self.sizes[source], query, early)


def query_of(wanted: str, *texts: str, words: int = _QUERY_WORDS) -> str:
    """Builds the query that an agent would search with: words of each of the texts, newest words first.

    Takes at most `words` words from each text and at most `_MAX_QUERY_WORDS` in all. The needed identifier is cut out,
    so the query never contains its own answer.
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
    """Returns what the agent itself wrote: its text and its arguments' values, without the names in the schema."""
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


# -- what is left of the facts -----------------------------------------------------------------------------------------


def search_of(case: Case) -> Search:
    """Returns a function that searches the past as a model would, through Tenfold's own search tool."""
    place = Place(MemoryStore(), IDS.new())
    session = Session.create(place, policy_for("tenfold", counter()), model=MODEL)
    session.append(*WIRES["openai-chat"].decode([msgspec.json.encode(m) for m in case.past]))
    tools = RecallTools(place.store, place.namespace, place.session, count=counter().count)

    def search(query: str) -> list[str]:
        found = tools.search(query) if query.strip() else ""
        return within([found], FOUND) if found else []

    return search


def within(texts: Sequence[str], tokens: int) -> list[str]:
    """Returns the first of the texts that together take at most this many tokens."""
    fitting: list[str] = []
    for text, size in zip(texts, counter().count(list(texts)), strict=True):
        tokens -= size
        if tokens < 0:
            break
        fitting.append(text)
    return fitting


class Away(Struct, frozen=True):
    """The facts that one search would find: by `NeededFact.query`, and by `NeededFact.early_query`."""

    near: frozenset[str] = frozenset()
    early: frozenset[str] = frozenset()


def found_by(facts: Sequence[Fact], search: Search) -> Away:
    """Returns the facts that one search each would find."""

    def found(asked: Callable[[Fact], str]) -> frozenset[str]:
        return frozenset(f.text for f in facts if any(holds(hit, f.text) for hit in search(asked(f))))

    return Away(found(lambda fact: fact.query), found(lambda fact: fact.early))


def scored(score: Recall, made: Compacted, facts: Sequence[Fact], away: Away | None) -> Recall:
    """Returns the score, completed with what a compaction left of the facts. A result over its budget gets nothing.

    `found_facts` is None for a method that has no search.
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
    """Returns the facts that a view still shows word for word."""
    text = "\n".join(text_of_message(m) for m in messages)
    return {f.text for f in facts if holds(text, f.text)}


def _tally(facts: Sequence[Fact], kept: set[str], key: Callable[[Fact], str]) -> dict[str, tuple[int, int]]:
    out: dict[str, tuple[int, int]] = {}
    for fact in facts:
        have, of = out.get(key(fact), (0, 0))
        out[key(fact)] = (have + (fact.text in kept), of + 1)
    return dict(sorted(out.items()))


def area(points: Mapping[int, float]) -> float:
    """Returns the mean height of a score over the logarithm of its budgets, from 0 to 1, by the trapezoidal rule.

    A single point gives its own height.
    """
    budgets = sorted(points)
    if len(budgets) < 2:
        return points[budgets[0]] if budgets else 0.0
    total = 0.0
    for low, high in pairwise(budgets):
        total += (points[low] + points[high]) / 2 * math.log(high / low)
    return total / math.log(budgets[-1] / budgets[0])
