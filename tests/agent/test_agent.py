"""The agent through real clients; its runs of hundreds of steps are in `test_long_runs`."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from pydantic_ai import Agent as Runner
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import UsageLimits

from tenfold.apps.agent import Agent, Memory
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.ask import Answer, ConsultAsk
from tenfold.core.record.block import Block
from tenfold.core.record.message import get_text, get_tool_calls
from tenfold.errors import ContextOverflow, UsageError
from tenfold.models.provider import open_client
from tenfold.models.scripted_model import ScriptedModel, ScriptedReply
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.sqlite.store import SqliteStore
from tests.agent.working import DONE, Provider, look
from tests.models.loopback import Got, Served, get_base_url

OPENAI, ANTHROPIC = "openai:gpt-4o-mini", "anthropic:claude-haiku-4-5"
WINDOW = 32_000
TASK = "Please look at every part. Never touch lib/old.py."


def make_session(policy: str = "tenfold", *, answerer: Answerer | None = None) -> Session:
    place = SessionAddress(SqliteStore(":memory:"), "s")
    chosen = build_policy(policy, choose_counter("gpt-4o").counter)
    return Session.create(place, chosen, answerer=answerer)


def make_agent(provider: Provider, model: str = OPENAI, *, memory: Session | None = None) -> Agent:
    client = open_client(model, get_base_url(model, provider))
    settings = ModelSettings(max_tokens=1_000)
    given = memory or make_session()
    return Agent(
        client, session=given, window=provider.window, instructions="Be brief.", settings=settings, tools=[look]
    )


def assert_log_complete(log: Session, steps: int) -> None:
    """Every call and its result is in the log, once and in order."""
    path = log.view.path
    said = [m for p in range(path.length) if (m := getattr(path.get_entry(p), "message", None)) is not None]
    calls = [call.arguments for m in said for call in get_tool_calls(m)]
    results = [m for m in said if m.role == "tool"]
    assert len(calls) == len(results) == steps
    assert all(f"src/part{n}.py" in call for n, call in enumerate(calls, 1))


def get_blocks(log: Session) -> list[Block]:
    path = log.view.path
    return [b for p in range(path.length) if isinstance(b := path.get_entry(p), Block)]


def test_it_goes_on_where_it_was_in_another_process_and_an_open_call_is_not_run_again(tmp_path: Path) -> None:
    ran: list[str] = []

    async def die_at_third(path: str) -> str:
        """Reads a file."""
        ran.append(path)
        if len(ran) == 3:
            raise KeyboardInterrupt
        return "fine"

    def open_session() -> Session:
        place = SessionAddress(SqliteStore(tmp_path / "log.db"), "s")
        return Session.create(place, build_policy("tenfold", choose_counter("gpt-4o").counter))

    die_at_third.__name__ = "look"
    with Provider(6, WINDOW) as provider:
        client = open_client(OPENAI, get_base_url(OPENAI, provider))
        first = Agent(client, session=open_session(), window=WINDOW, tools=[die_at_third])
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(first.invoke(TASK))
        memory = open_session()
        assert memory.view.open_step is not None, "the call is in the log, its result is not"
        second = Agent(client, session=memory, window=WINDOW, tools=[die_at_third])
        assert asyncio.run(second.invoke("Where were you? Go on.")) == DONE
        assert provider.refused == []
    assert len(ran) == len(set(ran)) == 6, "no call is run twice"
    shown = [get_text(m) for m in memory.view.get_messages() if m.role == "tool"]
    assert len(shown) == 6
    assert shown.count("fine") == 5


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


def test_a_model_makes_room_itself_and_is_told_what_was_kept() -> None:
    def ask_for_compaction(done: int, got: Got) -> Served | None:
        if done == 40 and '"compact"' in got.prompt and "call_c40" not in got.prompt:
            return Served(finish="tool", call=("c40", "compact", {"focus": "the values"}), tokens=(9_000, 10))
        return None

    with Provider(45, WINDOW, also=ask_for_compaction) as provider:
        made = make_agent(provider)
        assert asyncio.run(made.invoke(TASK)) == DONE
        assert provider.refused == []
    (block,) = get_blocks(made.session)
    assert block.reason.startswith("tool")
    told = [get_text(m) for m in made.session.view.get_messages() if m.role == "tool"]
    assert any("compacted" in text for text in told)


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


def test_an_aborted_compaction_appends_nothing() -> None:
    gate = threading.Event()
    slow = ScriptedModel([ScriptedReply(text="late", delay=1.0)], repeat=True, sleep=lambda _: (gate.wait(60), None)[1])
    with Provider(40, WINDOW) as provider:
        made = make_agent(provider, memory=make_session("threshold", answerer=Answerer(model=slow)))
        asyncio.run(made.invoke(TASK))

        async def abort_compaction() -> str:
            task = asyncio.create_task(made.run_compaction())
            while not slow.asks and not task.done():  # noqa: ASYNC110 - the model is asked on another thread
                await asyncio.sleep(0.01)
            made.abort_compaction()
            return (await task).status

        assert asyncio.run(abort_compaction()) == "cancelled"
        gate.set()
    assert get_blocks(made.session) == []
    assert made.phase == "idle"


@pytest.mark.parametrize("model", [OPENAI, ANTHROPIC])
def test_the_streaming_form_tells_events_and_ends_with_the_result(model: str) -> None:
    async def collect_event_names(made: Agent) -> list[str]:
        return [type(event).__name__ async for event in made.stream(TASK)]

    with Provider(3, WINDOW) as provider:
        made = make_agent(provider, model)
        names = asyncio.run(collect_event_names(made))
        assert provider.refused == []
    assert names.count("FunctionToolResultEvent") == 3
    assert names[-1] == "AgentRunResultEvent"
    assert "PartDeltaEvent" in names
    assert_log_complete(made.session, 3)


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
