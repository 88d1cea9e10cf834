"""Law 13: no model is called except for a Summarize Ask."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.compaction.engine.call import Call
from tenfold.core.record.ask import Answer, Ask, ConsultAsk, ReadAsk, SummaryAsk
from tenfold.core.record.entry import Usage
from tenfold.session import Session
from tenfold.session.drive import Answerer
from tenfold.store.base import DEFAULT_NAMESPACE
from tests.laws import conversations
from tests.laws.conversations import Echo, NeverAsk, WasAsked, count_tokens, encode_view, read_entries
from tests.laws.strategies import ENGINE, Log


@ENGINE
@given(conversations.long_logs(), st.integers(10, 60))
def test_nothing_but_a_compaction_asks_a_model(log: Log, percent: int) -> None:
    using = conversations.make_policy(models=("m",))
    made = conversations.open_session(log, using, Answerer(Echo()))
    size = count_tokens(made.view.get_messages())
    assume(made.compact(to=max(1, size * percent // 100)).status == "compacted")
    session = Session(made.address, using, answerer=Answerer(NeverAsk()))
    block = session.view.path.get_entry(session.view.state.live_blocks[-1]).id
    before, held = encode_view(session), read_entries(session)
    session.take_reading(window=size)
    session.search("report on part")
    assert session.expand(block)
    assert session.expand(block, deep=True)
    session.preview(to=max(1, size // 20))
    session.preview(window=size)
    session.conversation.find_violations("anthropic")
    session.refresh()
    assert session.address.store.verify(DEFAULT_NAMESPACE) == []
    assert (encode_view(session), read_entries(session)) == (before, held)
    session.compact(replace(Call(window=10 * size), demand="check"))
    session.requests.record_usage(Usage(size))
    session.sync(session.view.get_messages())
    session.append(*conversations.extract_messages(log)[:2])
    assert session.undo() == block
    assert session.preview(to=max(1, size // 20))


def test_only_a_summarize_ask_reaches_the_model() -> None:
    model = Echo()
    answerer = Answerer(model, before_hooks=(lambda _: None,), entry_reader=lambda _: [])
    asks: tuple[Ask, ...] = (ConsultAsk("plan", 10, 5), ReadAsk((0, 1)))
    assert [answerer.answer(ask) for ask in asks] == [Answer(), Answer()]
    assert model.calls == 0
    answerer.answer(SummaryAsk("", "text", 10))
    assert model.calls == 1


def test_a_compaction_with_models_does_ask_and_the_refusal_is_heard() -> None:
    session = conversations.open_session(
        conversations.build_seeded_log(1), conversations.make_policy(models=("m",)), Answerer(NeverAsk())
    )
    with pytest.raises(WasAsked):
        session.compact(to=count_tokens(session.view.get_messages()) // 4)
