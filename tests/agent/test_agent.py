"""The agent through real clients; its runs of hundreds of steps are in `test_long_runs`."""

from __future__ import annotations

import asyncio

import pytest
from pydantic_ai import Agent as Runner
from pydantic_ai.usage import UsageLimits

from tenfold.apps.agent import Agent, Memory
from tenfold.core.record.ask import Answer, ConsultAsk
from tenfold.core.record.message import get_text
from tenfold.errors import ContextOverflow, UsageError
from tenfold.models.provider import open_client
from tenfold.session.drive import Answerer
from tests.agent.working import (
    DONE,
    OPENAI,
    TASK,
    Provider,
    assert_log_complete,
    get_blocks,
    look,
    make_agent,
    make_session,
)
from tests.models.loopback import Got, Served, get_base_url

WINDOW = 32_000


def test_what_the_provider_refuses_as_too_long_is_compacted_for_and_sent_once_more() -> None:
    with Provider(60, 20_000) as provider:
        made = make_agent(provider)
        made.use(made.model, 200_000)  # what the agent believes
        assert asyncio.run(made.invoke(TASK)) == DONE
        assert provider.refused == []
        assert provider.overflows >= 1
    assert [b.reason.startswith("overflow") for b in get_blocks(made.session)]
    assert_log_complete(made.session, 60)


def test_where_no_compaction_helps_the_error_carries_the_arithmetic() -> None:
    with Provider(3, 150) as provider:
        made = make_agent(provider)
        made.use(made.model, 200_000)
        with pytest.raises(ContextOverflow, match=r"refused a request of [\d,]+ tokens .*larger window"):
            asyncio.run(made.invoke("word " * 2_000))
    assert made.phase == "idle"
    assert get_text(made.session.view.get_messages()[0]).startswith("word"), "what was said is kept"


def test_an_agent_of_somebody_else_needs_one_line() -> None:
    with Provider(80, WINDOW) as provider:
        memory = Memory(make_session(), window=WINDOW)
        client = open_client(OPENAI, get_base_url(OPENAI, provider))
        runner = Runner(client, tools=[look], capabilities=[memory])

        async def run_twice() -> list[str]:
            async with client:
                first = await runner.run(TASK, usage_limits=UsageLimits(request_limit=None))
                again = await runner.run("And now?", message_history=first.all_messages())
            return [first.output, again.output]

        assert asyncio.run(run_twice()) == [DONE, DONE]
        assert provider.refused == []
    assert get_blocks(memory.session)
    assert_log_complete(memory.session, 80)


def test_phases_requests_and_vetoes() -> None:
    asked: list[ConsultAsk] = []

    def veto(consult: ConsultAsk) -> Answer:
        asked.append(consult)
        return Answer(cancel=True, error="not now")

    with Provider(40, WINDOW) as provider:
        made = make_agent(provider, memory=make_session(answerer=Answerer(before_hooks=(veto,))))

        async def look_around(path: str) -> str:
            """Looks, and sees what the agent is doing."""
            with pytest.raises(RuntimeError, match="'running'"):
                await made.run_compaction()
            made.compact("the parts")
            return await look(path)

        look_around.__name__ = "look"
        made = Agent(made.model, session=made.session, window=WINDOW, tools=[look_around])
        assert asyncio.run(made.invoke(TASK)) == DONE
    assert len(asked) == 1, "one request, at the end of the run"
    assert asked[0].focus == "the parts"
    assert made.outcome is not None
    assert made.outcome.status == "cancelled"
    assert get_blocks(made.session) == []
    assert made.phase == "idle"


@pytest.mark.parametrize(("policy", "also"), [("tenfold", set()), ("clip", {"memory_read"})])
def test_the_tools_that_stubs_and_summaries_name_are_offered_and_work(policy: str, also: set[str]) -> None:
    asked = iter((("recall_search", {"words": "part3"}), ("recall_read", {"entry": "none-such"})))

    def ask_for_tool(done: int, got: Got) -> Served | None:
        del got
        call = next(asked, None) if done == 5 else None
        return Served(finish="tool", call=(call[0], *call)) if call is not None else None

    with Provider(6, WINDOW, also=ask_for_tool) as provider:
        made = make_agent(provider, memory=make_session(policy))
        assert asyncio.run(made.invoke(TASK)) == DONE
        offered = {tool["function"]["name"] for tool in provider.requests[0].body["tools"]}
        assert provider.refused == []
    assert offered == {"look", "compact", "recall_search", "recall_read", "recall_expand"} | also
    told = [get_text(m) for m in made.session.view.get_messages() if m.role == "tool"]
    assert any("(message" in text and "part3" in text for text in told)
    assert any("none-such" in text for text in told)


def test_a_model_by_name_without_its_key_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(UsageError, match="set the environment variable OPENAI_API_KEY"):
        Agent(OPENAI)
