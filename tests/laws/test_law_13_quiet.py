"""Law 13: no model is called except for a Summarize Ask."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.drive import Answerer
from tenfold.engine import Call
from tenfold.log.base import DEFAULT_NAMESPACE
from tenfold.record.ask import Answer, Ask, Consult, Read, Summarize
from tenfold.record.entry import Usage
from tenfold.session import Session
from tests.laws import conversations
from tests.laws.conversations import Echo, NeverAsk, WasAsked, entries, sent, tokens
from tests.laws.strategies import ENGINE, Log


@ENGINE
@given(conversations.long_logs(), st.integers(10, 60))
def test_nothing_but_a_compaction_asks_a_model(log: Log, percent: int) -> None:
    using = conversations.policy(models=("m",))
    made = conversations.opened(log, using, Answerer(Echo()))
    size = tokens(made.view.messages())
    assume(made.compact(to=max(1, size * percent // 100)).status == "compacted")
    session = Session(made.place, using, answerer=Answerer(NeverAsk()))
    block = session.view.path.at(session.view.marks.live[-1]).id
    before, held = sent(session), entries(session)
    session.reading(window=size)
    session.search("report on part")
    assert session.expand(block)
    assert session.expand(block, deep=True)
    session.preview(to=max(1, size // 20))
    session.preview(window=size)
    session.violations("anthropic")
    session.refresh()
    assert session.place.store.verify(DEFAULT_NAMESPACE) == []
    assert (sent(session), entries(session)) == (before, held)
    session.compact(replace(Call(window=10 * size), demand="check"))
    session.used(Usage(size))
    session.sync(session.view.messages())
    session.append(*conversations.messages(log)[:2])
    assert session.undo() == block
    assert session.preview(to=max(1, size // 20))


def test_only_a_summarize_ask_reaches_the_model() -> None:
    model = Echo()
    answerer = Answerer(model, before=(lambda _: None,), read=lambda _: [])
    asks: tuple[Ask, ...] = (Consult("plan", 10, 5), Read((0, 1)))
    assert [answerer.answer(ask) for ask in asks] == [Answer(), Answer()]
    assert model.calls == 0
    answerer.answer(Summarize("", "text", 10))
    assert model.calls == 1


def test_a_compaction_with_models_does_ask_and_the_refusal_is_heard() -> None:
    session = conversations.opened(conversations.seeded(1), conversations.policy(models=("m",)), Answerer(NeverAsk()))
    with pytest.raises(WasAsked):
        session.compact(to=tokens(session.view.messages()) // 4)
