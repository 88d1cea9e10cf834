"""Search by a question: sentences of which no message holds every word."""

from __future__ import annotations

import pytest

from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.message import Message, Text
from tenfold.errors import UsageError
from tenfold.recall.search import search_store
from tenfold.recall.tools import SEARCH, SEARCH_BUDGET, RecallTools
from tenfold.session import Session, SessionAddress
from tenfold.store.base import HIT_LIMIT
from tenfold.store.sqlite.store import SqliteStore

SAID = (
    "The database listens on port 6432, and the queue on 7001.",
    "We deployed the billing service on Tuesday; it failed for want of a certificate.",
    "The weather is fine, and so is the coffee.",
    "Tests of the billing service run in eleven minutes.",
    "\u6570\u636e\u5e93\u7684\u7aef\u53e3\u662f 6432\u3002",
    "The certificate was renewed, the deployment went through.",
)


@pytest.fixture
def talk() -> Session:
    made = Session.create(
        SessionAddress(SqliteStore(":memory:"), "s"), build_policy("tenfold", choose_counter("gpt-4o").counter)
    )
    for text in SAID:
        made.append(Message("user", (Text(text),), "human"))
    return made


@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("Which port does the database listen on?", 0),
        ("Why did the deployment of the billing service fail?", 1),
        ("How long do the billing tests take to run?", 3),
        ("\u54ea\u4e2a\u7aef\u53e3\u5c5e\u4e8e\u6570\u636e\u5e93\uff1f", 4),
    ],
)
def test_a_question_finds_what_answers_it(talk: Session, question: str, best: int) -> None:
    assert talk.search(question)[0].position == best


def test_what_holds_all_the_words_comes_first(talk: Session) -> None:
    found = talk.search("billing certificate")
    assert found[0].position == 1
    assert {hit.position for hit in found[1:3]} == {3, 5}
    assert [hit.position for hit in found[3:]] == [2, 4], "what follows them comes last"
    assert talk.search('"the billing certificate"') == [], "a phrase is one word"


def test_no_more_than_were_asked_for_and_none_twice(talk: Session) -> None:
    found = talk.search("the billing service of Tuesday", limit=2)
    assert len({hit.entry for hit in found}) == len(found) == 2


def test_a_single_word_that_is_found_is_taken_as_it_stands(talk: Session) -> None:
    assert [hit.position for hit in talk.search("ertific")] == [5, 1], "a part of a word, where every index is blind"
    assert [hit.position for hit in talk.search("deployed")] == [1]
    assert next(hit.position for hit in talk.search("deploying")) == 1, "nobody said it, so its stem counts"


def test_a_models_search_is_bounded_and_says_where_each_hit_stands(talk: Session) -> None:
    count = choose_counter("gpt-4o").counter.count
    for n in range(8):
        said = f"valve {n} of the reactor: " + " ".join(f"opened at {n * 100 + k} and shut again," for k in range(90))
        talk.append(Message("user", (Text(said),), "human"))
    found = talk.search("which reactor valves were opened", limit=HIT_LIMIT)
    whole = "\n".join(f"{hit.position} (message):\n{hit.snippet}" for hit in found)
    assert len(found) == HIT_LIMIT
    for room in range(60, SEARCH_BUDGET + 100, 40):
        tools = RecallTools(talk.address.store, "default", "s", count=count, cap=room)
        answer = tools.handle(SEARCH, {"words": "which reactor valves were opened"})
        assert count([answer])[0] <= min(room, SEARCH_BUDGET)
        assert whole.startswith(answer)
        assert not answer.split("\n")[-1].endswith("(message):"), "no hit of which nothing is shown"
    assert count([answer])[0] > SEARCH_BUDGET * 0.8


def test_another_session_is_not_searched(talk: Session) -> None:
    store = talk.address.store
    other = Session.create(SessionAddress(store, "other"), build_policy("tenfold", choose_counter("gpt-4o").counter))
    other.append(Message("user", (Text("The port of the other database is 9999."),), "human"))
    assert {hit.session for hit in talk.search("Which port has the database?")} == {"s"}
    assert {hit.session for hit in search_store(store, "default", "Which port has the database?")} == {"s", "other"}


def test_nothing_is_found_where_no_word_is_known(talk: Session) -> None:
    tools = RecallTools(talk.address.store, "default", "s", count=choose_counter("gpt-4o").counter.count)
    assert tools.handle(SEARCH, {"words": "xyzzy plugh"}) == "nothing in this conversation holds 'xyzzy plugh'"
    with pytest.raises(UsageError, match="at least one word"):
        talk.search("  ")
