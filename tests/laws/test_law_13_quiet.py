"""Law 13: no model is called except for a Summarize Ask."""

from __future__ import annotations

import pytest

from tenfold.core.record.ask import Answer, Ask, ConsultAsk, ReadAsk, SummaryAsk
from tenfold.core.record.token_reading import Counted
from tenfold.session.drive import Answerer
from tests.laws import conversations
from tests.laws.conversations import Echo, NeverAsk, WasAsked, count_tokens


def test_only_a_summarize_ask_reaches_the_model() -> None:
    model = Echo()
    answerer = Answerer(model, before_hooks=(lambda _: None,), entry_reader=lambda _: [])
    asks: tuple[Ask, ...] = (ConsultAsk("plan", Counted(10), Counted(5)), ReadAsk((0, 1)))
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
