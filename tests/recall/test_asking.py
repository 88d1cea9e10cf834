"""Search by a question: sentences of which no message holds every word."""

from __future__ import annotations

import pytest

from tenfold.errors import UsageError
from tenfold.log.memory import MemoryStore
from tenfold.meter.counters import counter_for
from tenfold.recall.asking import asked
from tenfold.recall.tools import SEARCH, RecallTools
from tenfold.record.message import Message, Text
from tenfold.session import Place, Session
from tenfold.settings import policy_for

SAID = (
    "The database listens on port 6432, and the queue on 7001.",
    "We deployed the billing service on Tuesday; it failed for want of a certificate.",
    "The weather is fine, and so is the coffee.",
    "Tests of the billing service run in eleven minutes.",
    "\u6570\u636e\u5e93\u7684\u7aef\u53e3\u662f 6432\u3002",
    "The certificate was renewed, the deployment went through.",
)


@pytest.fixture
def session() -> Session:
    made = Session.create(Place(MemoryStore(), "s"), policy_for("tenfold", counter_for("gpt-4o").counter))
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
def test_a_question_finds_what_answers_it(session: Session, question: str, best: int) -> None:
    assert session.search(question)[0].position == best


def test_what_holds_all_the_words_comes_first(session: Session) -> None:
    found = session.search("billing certificate")
    assert found[0].position == 1
    assert {hit.position for hit in found} == {1, 3, 5}
    assert session.search('"the billing certificate"') == [], "a phrase is one word"


def test_no_more_than_were_asked_for_and_none_twice(session: Session) -> None:
    found = session.search("the billing service of Tuesday", limit=2)
    assert len({hit.entry for hit in found}) == len(found) == 2


def test_another_session_is_not_searched(session: Session) -> None:
    store = session.place.store
    other = Session.create(Place(store, "other"), policy_for("tenfold", counter_for("gpt-4o").counter))
    other.append(Message("user", (Text("The port of the other database is 9999."),), "human"))
    assert {hit.session for hit in session.search("Which port has the database?")} == {"s"}
    assert {hit.session for hit in asked(store, "default", "Which port has the database?")} == {"s", "other"}


def test_nothing_is_found_where_no_word_is_known(session: Session) -> None:
    tools = RecallTools(session.place.store, "default", "s", count=counter_for("gpt-4o").counter.count)
    assert tools.handle(SEARCH, {"words": "xyzzy plugh"}) == "nothing in this conversation holds 'xyzzy plugh'"
    with pytest.raises(UsageError, match="at least one word"):
        session.search("  ")
