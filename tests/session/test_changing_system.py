"""A host whose system prompt changes from request to request, with the time in it for instance."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai import Agent as Runner
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from tenfold.apps.agent import Memory
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.block import Block
from tenfold.session import Session, SessionAddress
from tenfold.store.sqlite.store import SqliteStore

WINDOW = 8_000
TURNS = 50


def create_session() -> Session:
    return Session.create(
        SessionAddress(SqliteStore(":memory:"), "s"), build_policy("tenfold", choose_counter("gpt-4o").counter)
    )


def get_blocks(log: Session) -> list[Block]:
    path = log.view.path
    return [b for p in range(path.length) if isinstance(b := path.get_entry(p), Block)]


@pytest.mark.parametrize("given_view", [False, True])
@pytest.mark.parametrize("several", [False, True])
def test_a_changed_system_prompt_is_no_rewrite(*, several: bool, given_view: bool) -> None:
    log = create_session()
    talk: list[dict[str, Any]] = []
    sent: list[dict[str, Any]] = []
    for turn in range(TURNS):
        system = [{"role": "system", "content": f"It is {turn} o'clock."}]
        if several:
            system.append({"role": "system", "content": f"The user has {turn} points."})
        talk.append({"role": "user", "content": f"question {turn} " + "words " * 200})
        request = {"model": "gpt-4o", "messages": [*system, *talk]}
        sent = log.before_model(request, window=WINDOW)["messages"]
        assert sent[: len(system)] == system, "the newest one is sent"
        if given_view:
            talk = sent[len(system) :]
        talk.append({"role": "assistant", "content": f"answer {turn} " + "words " * 100})
    assert len(get_blocks(log)) >= 2
    assert log.view.state.live_blocks, "what was compacted stays compacted"
    said = [log.view.path.get_entry(p) for p in range(log.view.length)]
    assert len(said) == 2 * TURNS - 1 + (2 if several else 1) + len(get_blocks(log)), "each message once, on one path"


def test_another_number_of_system_prompts_is_a_rewrite() -> None:
    log = create_session()
    user = {"role": "user", "content": "Hello."}
    log.before_model({"messages": [{"role": "system", "content": "Be brief."}, user]}, window=WINDOW)
    log.before_model({"messages": [user]}, window=WINDOW)
    assert log.view.length == 1


def test_an_agents_dynamic_system_prompt_keeps_its_session() -> None:
    log, turn = create_session(), 0

    def answer_request(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del messages, info
        return ModelResponse([TextPart("words " * 100)], usage=RequestUsage(output_tokens=100))

    runner = Runner(FunctionModel(answer_request), capabilities=[Memory(log, window=WINDOW)])

    @runner.system_prompt(dynamic=True)
    def get_time() -> str:
        return f"It is {turn} o'clock."

    history: list[ModelMessage] = []
    for turn in range(30):
        said = runner.run(f"question {turn} " + "words " * 200, message_history=history or None)
        history = asyncio.run(said).all_messages()
    assert len(get_blocks(log)) >= 2
    assert log.view.length == 61 + len(get_blocks(log))
    first = history[0].parts[0]
    assert (first.part_kind, getattr(first, "content", "")) == ("system-prompt", "It is 29 o'clock.")
