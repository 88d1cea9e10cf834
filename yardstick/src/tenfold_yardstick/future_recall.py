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

from tenfold.config.settings import build_policy
from tenfold.core.wire import WIRES
from tenfold.recall.tools import SEARCH_BUDGET, RecallTools
from tenfold.session import Session, SessionAddress
from tenfold.session.conversation import Stamps
from tenfold.store.ids import IDS, ContentIdGenerator
from tenfold.store.sqlite.store import SqliteStore
from tenfold.testing.chats import MODEL, count_message_tokens, get_counter, get_role
from tenfold.testing.identifier_finder import find_identifiers, has_identifier, locate_identifier
from tenfold.testing.methods import MethodResult
from tenfold.testing.probes.chat_text import get_text, get_tool_calls
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.cases import Case
from tenfold_yardstick.methods import FULL_PAST

BUDGETS = (4_000, 8_000, 16_000, 32_000)
"""The budgets, in tokens, over which the headline's area is taken."""
TOLERANCE = 1.02
"""A result above this multiple of its budget scores 0, because it would not have been sent."""
QUARTERS = 4
_TRIVIAL_SHARE = 0.5
"""An identifier in more than this share of the past's messages is common knowledge."""
_MAX_QUERY_WORDS = 24
"""The most words of a query: about three sentences, as an agent would ask."""
_MAX_EARLY_WORDS = _MAX_QUERY_WORDS // 3
"""The most words of each of three earlier texts: the agent's last message, the last one to it, and the request."""
_PLAIN_WORD = re.compile(r"\w{3,}")
_STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "about after all also and any are because been before but can could did does doing done each for from get had "
        "has have here how into its just let make more need not now off one only our out over own please see should "
        "some such than that the their them then there these they this those too use using very want was were what "
        "when where which while who why will with would you your",
    )
)

TextSearch = Callable[[str], Sequence[str]]
"""Returns what a query finds in the past, best first."""


class NeededFact(Struct, frozen=True):
    """A fact that the agent needed. `use_index` is the first message after the cut that used it.

    `age` and `age_tokens` run from the fact's last occurrence to the cut. `quarter` says in which quarter of the past's
    tokens that occurrence lies (1 is the oldest). `source_index` is the smallest past message that holds the fact, and
    `fetch_tokens` is what it costs to read that message again. `query` consists of the words around the use, up to the
    identifier. `early_query` consists of words that were there before the agent began that message. Neither query
    contains the identifier itself.
    """

    text: str
    kind: str
    use_index: int
    age: int
    age_tokens: int
    quarter: int
    source_index: int
    fetch_tokens: int
    query: str
    early_query: str = ""


class RecallScore(Struct, frozen=True):
    """The score of one method on one case at one budget. All counts are of needed facts.

    `within` counts the facts that are in the view or one search away; it is None if the method has no search. `early`
    is the same with the search made before the agent begins its message. `refetch` is the number of tokens it takes to
    read the sources of the missing facts again. `kinds` and `quarters` map to (present, needed). `over` means that the
    result was above its budget, `own` that the budget is the size of the session's real summary, and `tenth` that it is
    a tenth of the past. `unable` is the reason if the method gave no result, and `refused` the gate of validity for
    which a provider would refuse the result.
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
    refused: str = ""


# -- what was needed ---------------------------------------------------------------------------------------------------


def find_needed_facts(case: Case) -> list[NeededFact]:
    """Returns the facts that the real future of a case needed, in the order of their use."""
    past = _PastIndex(case)
    brought: list[str] = []
    decided: set[str] = set()
    facts: list[NeededFact] = []
    users = [_get_last_text(m) for m in case.past if get_role(m) == "user"]
    request, spoken = (users or [""])[-1], next((_get_own_text(m) for m in reversed(case.past) if _is_agent(m)), "")
    last_input = next((_get_last_text(m) for m in reversed(case.past) if not _is_agent(m)), "")
    for index, message in enumerate(case.future, case.cut):
        if not _is_agent(message):
            brought.append(get_text(message))
            last_input = _get_last_text(message)
            request = _get_last_text(message) if get_role(message) == "user" else request
            continue
        own_text = _get_own_text(message)
        new = {i.text: i.kind for i in find_identifiers(own_text) if i.text not in decided}
        decided |= new.keys()
        back = "\n".join(brought) if new else ""
        for text, kind in new.items():
            holders = past.find_holders(text) if not has_identifier(back, text) else []
            if holders and not past.is_trivial(text, holders):
                before = own_text[: max(0, locate_identifier(own_text, text))]
                query = build_query(text, before if _PLAIN_WORD.search(before) else spoken, request)
                early = build_query(text, spoken, last_input, request, words=_MAX_EARLY_WORDS)
                facts.append(past.build_fact(text, kind, index, holders, query, early))
        spoken = own_text
    return facts


class _PastIndex:
    """The past of a case, indexed to look up which messages hold an identifier."""

    def __init__(self, case: Case) -> None:
        self.texts = [get_text(m) for m in case.past]
        self.full_text = "\n".join(self.texts)
        self.sizes = count_message_tokens(case.past)
        self.system_text = "\n".join(t for t, m in zip(self.texts, case.past, strict=True) if get_role(m) == "system")
        self.tokens_before = [0]
        for size in self.sizes:
            self.tokens_before.append(self.tokens_before[-1] + size)

    def find_holders(self, text: str) -> list[int]:
        """Returns the indexes of the messages that hold the text."""
        if text not in self.full_text:
            return []
        return [i for i, each in enumerate(self.texts) if has_identifier(each, text)]

    def is_trivial(self, text: str, holders: Sequence[int]) -> bool:
        """Whether the identifier is common knowledge: it is in the system prompt, or in most messages."""
        return len(holders) > _TRIVIAL_SHARE * len(self.texts) or has_identifier(self.system_text, text)

    def build_fact(
        self, text: str, kind: str, use_index: int, holders: Sequence[int], query: str, early_query: str
    ) -> NeededFact:
        last, total = holders[-1], self.tokens_before[-1]
        source = min(holders, key=self.sizes.__getitem__)
        quarter = min(QUARTERS, 1 + self.tokens_before[last] * QUARTERS // max(1, total))
        age = len(self.texts) - last
        return NeededFact(
            text,
            kind,
            use_index,
            age,
            total - self.tokens_before[last],
            quarter,
            source,
            self.sizes[source],
            query,
            early_query,
        )


def build_query(identifier: str, *texts: str, words: int = _MAX_QUERY_WORDS) -> str:
    """Builds the query that an agent would search with: words of each of the texts, newest words first.

    Takes at most `words` words from each text and at most `_MAX_QUERY_WORDS` in all. The needed identifier is cut out,
    so the query never contains its own answer.
    """
    found: dict[str, None] = {}
    for text in texts:
        own: dict[str, None] = {}
        for word in reversed(_PLAIN_WORD.findall(text.replace(identifier, " "))):
            if word.lower() not in _STOP_WORDS and len(own) < words:
                own.setdefault(word.lower())
        found |= own
    return " ".join(list(found)[:_MAX_QUERY_WORDS])


def _is_agent(message: ChatMessage) -> bool:
    return get_role(message) == "assistant"


def _get_own_text(message: ChatMessage) -> str:
    """Returns what the agent itself wrote: its text and its arguments' values, without the names in the schema."""
    parts = [get_text({"content": message.get("content")})]
    for _, _, arguments in get_tool_calls(message):
        try:
            parts.extend(_iter_values(msgspec.json.decode(arguments)))
        except msgspec.DecodeError:
            parts.append(arguments)
    return "\n".join(parts)


def _iter_values(value: object) -> Iterator[str]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _iter_values(inner)
    elif value is not None:
        yield value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _get_last_text(message: ChatMessage) -> str:
    return get_text(message)[-2_000:]


# -- what is left of the facts -----------------------------------------------------------------------------------------


def build_search(case: Case) -> TextSearch:
    """Returns a function that searches the past as a model would, through Tenfold's own search tool."""
    tools = build_recall_tools(case.past)

    def search(query: str) -> list[str]:
        found = tools.search(query) if query.strip() else ""
        return take_fitting([found], SEARCH_BUDGET) if found else []

    return search


def build_recall_tools(past: Sequence[ChatMessage]) -> RecallTools:
    """Returns Tenfold's recall tools over a session in memory that holds the whole past."""
    items = [msgspec.json.encode(message) for message in past]
    place = SessionAddress(SqliteStore(":memory:"), IDS.generate())
    stamps = Stamps(
        ContentIdGenerator(b"\0".join(items)).generate, message_time=lambda: None
    )  # the same ids every time
    session = Session.create(place, build_policy("tenfold", get_counter()), model=MODEL, stamps=stamps)
    session.append(*WIRES["openai-chat"].decode(items))
    return RecallTools(place.store, place.namespace, place.session, count=get_counter().count)


def take_fitting(texts: Sequence[str], tokens: int) -> list[str]:
    """Returns the first of the texts that together take at most this many tokens."""
    fitting: list[str] = []
    for text, size in zip(texts, get_counter().count(list(texts)), strict=True):
        tokens -= size
        if tokens < 0:
            break
        fitting.append(text)
    return fitting


class FoundFacts(Struct, frozen=True):
    """The facts that one search would find: by `NeededFact.query`, and by `NeededFact.early_query`."""

    by_query: frozenset[str] = frozenset()
    by_early_query: frozenset[str] = frozenset()


def find_by_search(facts: Sequence[NeededFact], search: TextSearch) -> FoundFacts:
    """Returns the facts that one search each would find."""

    def find_texts(get_query: Callable[[NeededFact], str]) -> frozenset[str]:
        return frozenset(f.text for f in facts if any(has_identifier(hit, f.text) for hit in search(get_query(f))))

    return FoundFacts(find_texts(lambda fact: fact.query), find_texts(lambda fact: fact.early_query))


def score_result(
    score: RecallScore, result: MethodResult, facts: Sequence[NeededFact], found_facts: FoundFacts | None
) -> RecallScore:
    """Returns the score, completed with what a compaction left of the facts.

    A result that is over its budget, or that the score calls refused, gets nothing. `found_facts` is None for a method
    that has no search.
    """
    over = is_over_budget(score.method, result.tokens, score.budget)
    is_lost = over or bool(score.refused)
    kept = set() if is_lost else find_present_facts(result.messages, facts)
    near, early = (
        (None, None)
        if found_facts is None
        else (0, 0)
        if is_lost
        else (len(kept | found_facts.by_query), len(kept | found_facts.by_early_query))
    )
    lost = {f.source_index: f.fetch_tokens for f in facts if f.text not in kept}
    return msgspec.structs.replace(
        score,
        tokens=result.tokens,
        seconds=round(result.seconds, 4),
        present=len(kept),
        within=near,
        early=early,
        refetch=sum(lost.values()),
        kinds=_count_kept(facts, kept, lambda f: f.kind),
        quarters=_count_kept(facts, kept, lambda f: str(f.quarter)),
        over=over,
    )


def is_over_budget(method: str, tokens: int, budget: int) -> bool:
    """Whether a result would not have been sent. No budget holds for the control that keeps everything."""
    return method != FULL_PAST and tokens > budget * TOLERANCE


def find_present_facts(messages: Sequence[ChatMessage], facts: Sequence[NeededFact]) -> set[str]:
    """Returns the facts that a view still shows word for word."""
    text = "\n".join(get_text(m) for m in messages)
    return {f.text for f in facts if has_identifier(text, f.text)}


def _count_kept(
    facts: Sequence[NeededFact], kept: set[str], get_key: Callable[[NeededFact], str]
) -> dict[str, tuple[int, int]]:
    out: dict[str, tuple[int, int]] = {}
    for fact in facts:
        have, of = out.get(get_key(fact), (0, 0))
        out[get_key(fact)] = (have + (fact.text in kept), of + 1)
    return dict(sorted(out.items()))


def compute_area(points: Mapping[int, float]) -> float:
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
