"""Half of an emoji, from a provider's JSON that was cut, breaks no run. It is stored and shown as U+FFFD."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import tenfold
from tenfold.apps.agent import Agent
from tenfold.config.policies import POLICIES
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.ask import Answer, ConsultAsk, SummaryAsk
from tenfold.core.record.block import ModelCost
from tenfold.core.record.message import Message, Text, get_text
from tenfold.errors import UsageError
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.sqlite.store import SqliteStore
from tests.agent.working import make_session
from tests.engine.making import get_entries, open_session, reopen_session

Item = dict[str, Any]
CUT = "cut \ud83d here"
SHOWN = "cut \ufffd here"
WORDS = "The report says that nothing else was found, so it went on with the next one. " * 12
PLACES = ("request", "assistant", "arguments", "result", "last", "summary")


class Cut:
    """A model whose answer holds half of an emoji."""

    def __init__(self, text: str) -> None:
        self.text = text

    def answer(self, ask: SummaryAsk) -> Answer:
        return Answer(text=f"The parts were read, and {self.text}.", spent=ModelCost(1, 100, 10, ask.model))


def build_messages(place: str) -> list[Item]:
    def cut(at: str) -> str:
        return f" {CUT}" if at == place else ""

    function = {"name": "bash", "arguments": f'{{"command":"cat{cut("arguments")}"}}'}
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    messages: list[Item] = [
        {"role": "user", "content": f"Please go through the report.{cut('request')}"},
        {"role": "assistant", "content": WORDS + cut("assistant")},
        call,
        {"role": "tool", "tool_call_id": "c", "content": WORDS + cut("result")},
    ]
    for number in range(8):
        messages.append({"role": "assistant", "content": f"Part {number}. {WORDS}"})
        messages.append({"role": "user", "content": f"Go on.{cut('last') if number == 7 else ''}"})
    return messages


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("policy", POLICIES)
def test_no_place_breaks_a_compaction_with_any_policy(policy: str, place: str) -> None:
    model = Cut(CUT if place == "summary" else "no more")
    result = tenfold.compact(build_messages(place), to=1_500, policy=policy, summarizer=model)
    assert result.outcome.status in {"compacted", "nothing"}
    chosen = build_policy(policy, CharacterCounter(), models=("m",))
    session = open_session([], chosen, answerer=Answerer(model))
    request = {"model": "m", "messages": build_messages(place)}
    session.before_model(request, window=3_500)
    stored = len(get_entries(session))
    session.before_model(request, window=3_500)
    assert [e for e in get_entries(session)[stored:] if hasattr(e, "message")] == []


def test_what_a_model_wrote_is_shown_with_the_replacement_character_and_known_again() -> None:
    policy = build_policy("tenfold", CharacterCounter(), models=("m",))
    session = open_session([], policy, answerer=Answerer(Cut(CUT)))
    request = {"model": "m", "messages": build_messages("")}
    session.before_model(request, window=100_000)
    assert session.compact(to=1_500).rung == "model"
    sent = session.before_model(request, window=100_000)
    assert SHOWN in json.dumps(sent["messages"], ensure_ascii=False)
    before = len(get_entries(session))
    session.before_model(sent, window=100_000)
    assert len(get_entries(session)) == before


def test_appended_messages_and_rules_are_stored_with_the_replacement_character() -> None:
    session = open_session([Message("user", (Text(CUT),), "human")])
    session.add_rule(f"Never {CUT}.")
    assert [get_text(m) for m in reopen_session(session).view.get_messages()] == [SHOWN]
    assert [each.text for each in session.read_instructions() if each.is_rule] == [f"Never {SHOWN}."]


def test_a_list_that_is_synced_again_is_the_same_list() -> None:
    said = [Message("user", (Text(CUT),), "human"), Message("assistant", (Text(WORDS),), "model")]
    session = open_session()
    session.sync(said)
    before = get_entries(session)
    session.sync(said)
    assert get_entries(session) == before


def test_a_hook_may_give_one() -> None:
    def advise(ask: ConsultAsk) -> Answer:
        del ask
        return Answer(text=f"A hook wrote this, and {CUT}.")

    policy = build_policy("tenfold", CharacterCounter())
    session = open_session([], policy, answerer=Answerer(before_hooks=(advise,)))
    sent = session.before_model({"model": "m", "messages": build_messages("")}, window=3_500)
    assert SHOWN in json.dumps(sent["messages"], ensure_ascii=False)


@pytest.mark.parametrize("place", ["prompt", "answer", "result"])
def test_an_agents_memory_keeps_it_and_sends_what_utf_8_can_hold(place: str) -> None:
    def cut(at: str) -> str:
        return f" {CUT}" if at == place else ""

    seen: list[ModelMessage] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del info
        seen[:] = messages
        if len(messages) > 12:
            return ModelResponse([TextPart("Done.")])
        return ModelResponse([TextPart(f"I look.{cut('answer')}"), ToolCallPart("see", {"path": "a"})])

    async def see(path: str) -> str:
        """Shows a part."""
        return f"{path} {WORDS}{cut('result')}"

    log = make_session("tenfold")
    agent = Agent(FunctionModel(answer), session=log, window=16_000, tools=[see])
    assert asyncio.run(agent.invoke(f"Look at all parts.{cut('prompt')}")) == "Done."
    assert ModelMessagesTypeAdapter.dump_json(seen)
    assert any(SHOWN in str(m) for m in log.view.get_messages())
    assert log.compact(to=900).status == "compacted"


def test_a_name_with_half_of_a_character_is_refused_and_a_models_name_is_stored() -> None:
    store, policy = SqliteStore(":memory:"), build_policy("tenfold", CharacterCounter())
    for names in ({"session": "a\ud83d"}, {"session": "a", "namespace": "n\ud83d"}):
        with pytest.raises(UsageError, match="half of a character"):
            SessionAddress(store, **names)
    Session.create(SessionAddress(store, "s"), policy, model="m\ud83d")
    (row,) = store.list_sessions("default")
    assert row.info.model == "m\ufffd"
