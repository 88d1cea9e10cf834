"""The session for the OpenAI Agents SDK, with the agents, runs, tools and model clients of the SDK."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents.run_config", reason="make adapters installs it")

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIProvider,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from agents.memory import Session
from agents.run_config import CallModelData, ModelInputData
from msgspec.structs import replace
from openai import AsyncOpenAI, BadRequestError

import tenfold
from tenfold.apps.adapters.openai_agents import RECALL, TenfoldModel, TenfoldSession
from tenfold.errors import BadInput, UsageError
from tenfold.store.location import open_store
from tests.adapters.watched_store import WatchedStore
from tests.models.loopback import Got, Loopback, Served
from tests.models.provider_rules import Issued, find_refusal

set_tracing_disabled(disabled=True)

Json = dict[str, Any]
WINDOW = 4_000
TOO_LONG = "Your input exceeds the context window of this model. Please adjust your input and try again."


class Provider(Loopback):
    """OpenAI's server: it refuses what the real one refuses, and a request that is longer than the window."""

    def __init__(self, answer: Callable[[Json], Served], *, window: int = 10 * WINDOW) -> None:
        self.issued, self.answer, self.window = Issued(), answer, window
        self.refused = 0
        super().__init__(script=self._answer, sent=self.issued.note)

    def _answer(self, got: Got) -> Served:
        tokens = got.size // 4
        refusal = find_refusal(got.api, got.body, issued=self.issued, tokens=tokens, window=self.window)
        if refusal is not None:
            self.refused += 1
            return Served(status=refusal.status, body=refusal.body)
        return replace(self.answer(got.body), tokens=(tokens, 20))

    @property
    def bodies(self) -> list[Json]:
        """The bodies of the requests."""
        return [got.body for got in self.requests]

    def config(self) -> RunConfig:
        """A configuration with this server."""
        return make_config(self)


def make_config(provider: Loopback) -> RunConfig:
    client = AsyncOpenAI(api_key="nothing", base_url=f"{provider.url}/v1")  # the SDK's own one outlives its event loop
    return RunConfig(model_provider=OpenAIProvider(openai_client=client))


def call(number: int, name: str = "look", **arguments: object) -> Served:
    return Served(finish="tool", call=(f"{number:03}", name, arguments or {"part": number}))


def work(steps: int) -> Callable[[Json], Served]:
    """A model that looks at one part after the other, and then is done. Each run has as many steps."""
    done = 0

    def answer(_: Json) -> Served:
        nonlocal done
        done += 1
        return Served(f"Done {done}.", call=(f"e{done}", "", {})) if done % (steps + 1) == 0 else call(done)

    return answer


def say(text: str) -> Callable[[Json], Served]:
    counted = iter(range(1_000))
    return lambda _: Served(text, call=(f"m{next(counted)}", "", {}))


@function_tool
def look(part: int) -> str:
    """Looks at a part."""
    return f"part {part}: " + "the total value of this result is known, " * 25 + f"and it ends with word{part}x119"


def make_agent(*tools: Any, **settings: Any) -> Agent[Any]:  # noqa: ANN401 - those of an Agent
    settings = {"name": "worker", "instructions": "Look at the parts.", "model": "gpt-4o", **settings}
    return Agent(tools=[look, *tools], **settings)


def run(agent: Agent[Any], text: str, session: TenfoldSession, config: RunConfig) -> str:
    done = Runner.run_sync(agent, text, session=session, run_config=session.config(config), max_turns=100)
    return str(done.final_output)


def list_sessions(store: Path) -> list[str]:
    return sorted(row.info.id for row in open_store(store).list_sessions("default"))


def get_texts(items: Sequence[Json]) -> list[str]:
    return [str(item["content"]) for item in items if item.get("role") == "user"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "tenfold.db"


# -- items -------------------------------------------------------------------------------------------------------------

ITEMS: list[Json] = [
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "What is in the picture?"},
    {
        "role": "user",
        "content": [
            {"type": "input_text", "text": "This one."},
            {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"},
        ],
    },
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "A."}], "encrypted_content": "x"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
    },
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": '{"part": 1}'},
    {"type": "function_call_output", "call_id": "call_1", "output": "one"},
    {
        "type": "function_call",
        "id": "fc_2",
        "call_id": "call_2",
        "name": "look",
        "arguments": "{}",
        "status": "completed",
    },
    {"type": "function_call_output", "call_id": "call_2", "output": [{"type": "input_text", "text": "two"}]},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "ü"}},
    {"type": "custom_tool_call", "call_id": "call_3", "name": "patch", "input": "*** Begin"},
    {"type": "custom_tool_call_output", "call_id": "call_3", "output": "done"},
]


def test_a_session_of_the_sdk_keeps_every_item_as_it_is(store: Path) -> None:
    async def keep() -> list[Json]:
        session = TenfoldSession("one", store=store, window=WINDOW)
        await session.add_items(ITEMS[:4])
        await session.add_items(ITEMS[4:])
        return await session.get_items()

    assert isinstance(TenfoldSession("one", store=store), Session)
    assert asyncio.run(keep()) == ITEMS
    assert asyncio.run(TenfoldSession("one", store=store).get_items()) == ITEMS
    assert asyncio.run(TenfoldSession("one", store=store).get_items(3)) == ITEMS[-3:]
    assert asyncio.run(TenfoldSession("one", store=store).get_items(0)) == []
    assert asyncio.run(TenfoldSession("other", store=store).get_items()) == []


def test_what_is_not_replaced_is_sent_as_the_same_object(store: Path) -> None:
    items = [dict(item) for item in ITEMS]
    session = TenfoldSession("one", store=store, window=WINDOW)
    show: Any = session.config().call_model_input_filter
    shown = asyncio.run(show(CallModelData(ModelInputData(items, "Be kind."), make_agent(), None)))
    assert [*map(id, shown.input)] == [*map(id, items)]
    assert shown.instructions == "Be kind."


def test_an_answer_without_an_id_comes_back_as_it_was_given(store: Path) -> None:
    parts = [{"type": "output_text", "text": "It is sunny.", "annotations": []}]
    items: list[Json] = [
        {"role": "user", "content": "And?"},
        {"type": "message", "role": "assistant", "content": parts},
    ]
    asyncio.run(TenfoldSession("one", store=store).add_items(items))
    assert asyncio.run(TenfoldSession("one", store=store).get_items()) == items


def test_what_was_taken_back_is_gone_for_every_process(store: Path) -> None:
    async def correct() -> list[Json]:
        session = TenfoldSession("one", store=store)
        await session.add_items([{"role": "user", "content": text} for text in ("One?", "Two?", "Three?")])
        await session.get_items()
        assert await session.pop_item() == {"role": "user", "content": "Three?"}
        return await session.get_items()

    left = [{"role": "user", "content": text} for text in ("One?", "Two?")]
    assert asyncio.run(correct()) == left
    assert asyncio.run(TenfoldSession("one", store=store).get_items()) == left


def test_threads_that_add_items_at_once_lose_none(store: Path) -> None:
    session = TenfoldSession("one", store=store)
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda n: asyncio.run(session.add_items([{"role": "user", "content": f"{n}?"}])), range(10)))
    assert sorted(get_texts(asyncio.run(session.get_items()))) == [f"{n}?" for n in range(10)]


def test_items_can_be_taken_back(store: Path) -> None:
    async def correct() -> list[Json]:
        session = TenfoldSession("one", store=store)
        await session.add_items([{"role": "user", "content": "Two?"}, *ITEMS[4:5]])
        assert await session.pop_item() == ITEMS[4]
        assert await session.pop_item() == {"role": "user", "content": "Two?"}
        assert await session.pop_item() is None
        await session.add_items([{"role": "user", "content": "Three?"}])
        return await TenfoldSession("one", store=store).get_items()

    assert asyncio.run(correct()) == [{"role": "user", "content": "Three?"}]


def test_a_session_that_is_cleared_is_gone(store: Path) -> None:
    session = TenfoldSession("one", store=store)
    asyncio.run(session.add_items(ITEMS))
    asyncio.run(session.clear_session())
    assert list_sessions(store) == []
    assert asyncio.run(session.get_items()) == []


def test_the_store_is_not_asked_on_the_event_loop(tmp_path: Path) -> None:
    """Nor are reports written there: other requests would wait for whoever holds the store or the session."""
    store = WatchedStore(tmp_path / "w.db")

    async def work_and_clear() -> None:
        session = TenfoldSession("one", store=store)
        await Runner.run(make_agent(), "Look.", session=session, run_config=session.config(provider.config()))
        await Runner.run(
            make_agent(), "Look.", session=TenfoldSession("two", store=store), run_config=provider.config()
        )
        await TenfoldSession("one", store=store).clear_session()

    with Provider(work(2)) as provider:
        asyncio.run(work_and_clear())
    assert store.askers
    assert threading.get_ident() not in store.askers


def test_a_session_that_was_never_used_is_in_no_store(store: Path) -> None:
    session = TenfoldSession("one", store=store)
    assert asyncio.run(session.get_items()) == []
    asyncio.run(session.clear_session())
    assert list_sessions(store) == []


def test_what_is_no_item_is_refused_with_the_reason() -> None:
    session = TenfoldSession("one", store=":memory:")
    with pytest.raises(BadInput, match="str is no item of the Responses API"):
        asyncio.run(session.add_items(["Hello"]))  # type: ignore[list-item]
    with pytest.raises(UsageError, match="named by the id of its conversation"):
        TenfoldSession(SQLiteSession("one"))
    with pytest.raises(UsageError, match="takes a RunConfig of the SDK"):
        session.config({"workflow_name": "x"})


# -- runs --------------------------------------------------------------------------------------------------------------


def test_a_long_run_is_compacted_and_its_own_items_stay_whole(store: Path) -> None:
    with Provider(work(20), window=WINDOW) as provider:
        session = TenfoldSession("one", store=store, window=WINDOW)
        done = Runner.run_sync(
            make_agent(), "Go.", session=session, run_config=session.config(provider.config()), max_turns=100
        )
    assert done.final_output == "Done 21."
    assert provider.refused == 0
    assert all(body["instructions"] == "Look at the parts." for body in provider.bodies)
    assert "word6x119" not in json.dumps(provider.bodies[-1])
    assert len(done.to_input_list()) == 42
    assert list_sessions(store) == ["one"]
    assert tenfold.open_session("one", store=store).search("word6x119")


def test_a_new_process_goes_on(store: Path) -> None:
    with Provider(work(12), window=WINDOW) as provider:
        assert run(make_agent(), "Go.", TenfoldSession("one", store=store, window=WINDOW), provider.config())
        before = provider.bodies[-1]["input"]
        assert run(make_agent(), "Go on.", TenfoldSession("one", store=store), provider.config()) == "Done 26."
    assert provider.refused == 0
    after = provider.bodies[13]["input"]
    assert after[: len(before)] == before
    assert "Done 13." in json.dumps(after[len(before)])
    assert get_texts(after)[-1] == "Go on."


def test_the_same_words_twice_are_two_messages(store: Path) -> None:
    with Provider(say("Yes.")) as provider:
        for _ in range(3):
            run(make_agent(), "Is it so?", TenfoldSession("one", store=store), provider.config())
    assert get_texts(provider.bodies[-1]["input"]) == ["Is it so?"] * 3


def test_streamed_runs_are_the_same(store: Path) -> None:
    async def stream(provider: Provider) -> str:
        session = TenfoldSession("one", store=store, window=WINDOW)
        config = session.config(provider.config())
        done = Runner.run_streamed(make_agent(), "Go.", session=session, run_config=config, max_turns=100)
        async for _ in done.stream_events():
            pass
        return str(done.final_output)

    with Provider(work(20), window=WINDOW) as provider:
        assert asyncio.run(stream(provider)) == "Done 21."
    assert provider.refused == 0
    assert all(got.streamed for got in provider.requests)
    assert list_sessions(store) == ["one"]


@pytest.mark.parametrize("streamed", [False, True])
def test_a_refusal_as_too_long_is_answered_by_a_shorter_request(store: Path, *, streamed: bool) -> None:
    async def ask(provider: Provider) -> None:
        session = TenfoldSession("one", store=store, window=100 * WINDOW)
        options: Json = {"session": session, "run_config": session.config(provider.config()), "max_turns": 100}
        if streamed:
            done = Runner.run_streamed(make_agent(), "Go.", **options)
            async for _ in done.stream_events():
                pass
        else:
            await Runner.run(make_agent(), "Go.", **options)

    with Provider(work(20), window=WINDOW) as provider:
        asyncio.run(ask(provider))
    assert provider.refused
    sizes = [got.size for got in provider.requests]
    refused = next(at for at, size in enumerate(sizes) if size // 4 > WINDOW)
    assert sizes[refused + 1] < sizes[refused]
    assert provider.bodies[refused + 1]["instructions"] == "Look at the parts."


def test_other_errors_are_raised_as_they_are(store: Path) -> None:
    with Loopback(Served(status=400, error="The model does not exist.")) as provider:
        config, session = make_config(provider), TenfoldSession("one", store=store)
        with pytest.raises(BadRequestError, match="does not exist"):
            run(make_agent(), "Go.", session, config)
    assert len(provider.requests) == 1


def test_what_a_request_took_is_reported(store: Path) -> None:
    with Provider(work(3)) as provider:
        run(make_agent(), "Go.", TenfoldSession("one", store=store, window=WINDOW), provider.config())
    reading = tenfold.open_session("one", store=store).take_reading()
    assert reading.source == "reported"


def test_a_model_as_an_object_is_asked_through_a_tenfold_model(store: Path) -> None:
    refusal = {"error": {"message": "maximum context length is 4000 tokens", "code": "context_length_exceeded"}}
    answers = [Served("Hello " * 400), Served(status=400, body=refusal), Served("Bye."), Served("Gone.")]
    with Loopback(*answers) as provider:
        client = AsyncOpenAI(api_key="nothing", base_url=f"{provider.url}/v1")
        model = TenfoldModel(OpenAIChatCompletionsModel("gpt-4o", client))
        assert model.model == "gpt-4o"
        agent, session = make_agent(model=model), TenfoldSession("one", store=store, window=100 * WINDOW)
        for text in ("Say hello. " * 300, "Say bye."):
            done = Runner.run_sync(agent, text, session=session, run_config=session.config())
        assert done.final_output == "Bye."
        session = TenfoldSession("one", store=store)
        done = Runner.run_sync(agent, "Are you there?", session=session, run_config=session.config())
    assert done.final_output == "Gone."
    assert [got.api for got in provider.requests] == ["chat"] * 4
    assert provider.requests[2].size < provider.requests[1].size
    assert (
        provider.requests[3].body["messages"][: len(provider.requests[2].body["messages"])]
        == provider.requests[2].body["messages"]
    )


@pytest.mark.parametrize("streamed", [False, True])
def test_the_model_object_of_an_agent_is_wrapped_or_said_to_be_unwrapped(
    store: Path, caplog: pytest.LogCaptureFixture, *, streamed: bool
) -> None:
    async def ask(agent: Agent[Any], session: TenfoldSession) -> None:
        options: Json = {"session": session, "run_config": session.config(), "max_turns": 100}
        if streamed:
            async for _ in Runner.run_streamed(agent, "Go.", **options).stream_events():
                pass
        else:
            await Runner.run(agent, "Go.", **options)

    async def run_twice(provider: Provider) -> None:
        async with AsyncOpenAI(api_key="nothing", base_url=f"{provider.url}/v1", max_retries=0) as client:
            model = OpenAIResponsesModel("gpt-4o", client)
            agent, session = make_agent(model=model), TenfoldSession("one", store=store, window=100 * WINDOW)
            for _ in range(2):
                await ask(agent, session)
            assert isinstance(agent.model, TenfoldModel)
            await ask(agent.clone(), session)

    with Provider(work(12), window=WINDOW) as provider:
        asyncio.run(run_twice(provider))
    assert provider.refused
    assert tenfold.open_session("one", store=store).take_reading().source != "estimated"
    unwrapped = [message for message in caplog.messages if "TenfoldModel" in message]
    assert len(unwrapped) == streamed, "the SDK takes the model of a streamed run before it shows the agent"
    assert all("'worker'" in message and "model=TenfoldModel(model)" in message for message in unwrapped)


def test_conversations_of_one_task_are_apart(store: Path) -> None:
    async def talk(provider: Provider) -> None:
        for name in ("one", "two", "one"):
            session = TenfoldSession(name, store=store, window=WINDOW)
            await Runner.run(
                make_agent(), f"I am {name}.", session=session, run_config=session.config(provider.config())
            )

    with Provider(work(1)) as provider:
        asyncio.run(talk(provider))
    assert list_sessions(store) == ["one", "two"]
    assert [get_texts(body["input"]) for body in provider.bodies[1::2]] == [
        ["I am one."],
        ["I am two."],
        ["I am one."] * 2,
    ]


def test_a_run_that_was_interrupted_goes_on_in_its_session(store: Path) -> None:
    erase = function_tool(lambda part: f"{part} is gone", name_override="erase", needs_approval=True)

    async def ask(provider: Provider) -> str:
        session = TenfoldSession("one", store=store, window=WINDOW)
        options: Json = {"session": session, "run_config": session.config(provider.config())}
        done = await Runner.run(make_agent(erase), "Erase part 2.", **options)
        state = done.to_state()
        state.approve(done.interruptions[0])
        done = await Runner.run(make_agent(erase), state, **options)
        return str(done.final_output)

    steps = iter([call(1), call(2, "erase", part="2"), call(3), Served("Erased.", call=("e", "", {}))])
    with Provider(lambda _: next(steps)) as provider:
        assert asyncio.run(ask(provider)) == "Erased."
    assert list_sessions(store) == ["one"]
    assert "2 is gone" in json.dumps(asyncio.run(TenfoldSession("one", store=store).get_items()))


def test_without_the_configuration_the_conversation_is_compacted_between_two_runs(store: Path) -> None:
    with Provider(say("The total value is known. " * 50), window=WINDOW) as provider:
        session = TenfoldSession("one", store=store, window=WINDOW // 2, model="gpt-4o")
        for number in range(20):
            Runner.run_sync(make_agent(), f"Question {number}?", session=session, run_config=provider.config())
    assert provider.refused == 0
    assert "<tenfold-summary" in json.dumps(provider.bodies[-1])


def test_a_run_without_the_configuration_is_warned_of_once(store: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Provider(work(2)) as provider:
        session = TenfoldSession("one", store=store)
        configured = session.config(provider.config())
        Runner.run_sync(make_agent(), "Go.", session=session, run_config=configured)
        asyncio.run(session.get_items())
        assert not caplog.messages
        for _ in range(2):
            Runner.run_sync(make_agent(), "Go on.", session=session, run_config=provider.config())
    (message,) = caplog.messages
    assert "session='one'" in message
    assert "pass run_config=session.config()" in message


def test_a_filter_of_ones_own_is_given_the_view(store: Path) -> None:
    seen: list[int] = []

    def add_time(data: CallModelData[Any]) -> ModelInputData:
        seen.append(len(json.dumps(data.model_data.input)))
        items: list[Any] = [*data.model_data.input, {"role": "user", "content": "It is noon."}]
        return ModelInputData(items, data.model_data.instructions)

    with Provider(work(20), window=WINDOW + 100) as provider:
        config = provider.config()
        config.call_model_input_filter = add_time
        run(make_agent(), "Go.", TenfoldSession("one", store=store, window=WINDOW), config)
    assert all(get_texts(body["input"])[-1] == "It is noon." for body in provider.bodies)
    assert max(seen) < 4 * WINDOW < 20 * 1_000
    assert not tenfold.open_session("one", store=store).search("noon")


# -- several agents ----------------------------------------------------------------------------------------------------


def test_an_agent_that_is_a_tool_has_a_session_of_its_own_for_each_call(store: Path) -> None:
    question = "What is in part 7?"
    expert = make_agent(name="expert", instructions="You are the expert.")
    agent = Agent("worker", tools=[expert.as_tool("ask", "Asks the expert.")], model="gpt-4o")
    calls = iter(range(100))

    def answer(body: Json) -> Served:
        outputs = sum(item.get("type") == "function_call_output" for item in body["input"])
        number = next(calls)
        if body.get("instructions") == "You are the expert.":
            return call(number, part=7) if outputs < 2 else Served("It is blue.", call=(f"e{number}", "", {}))
        return call(number, "ask", input=question) if outputs < 2 else Served("Blue.", call=(f"e{number}", "", {}))

    with Provider(answer) as provider:
        assert run(agent, question, TenfoldSession("one", store=store, window=WINDOW), provider.config()) == "Blue."
    names = list_sessions(store)
    assert [re.sub(r"-.*", "", name) for name in names] == ["one", "one/expert", "one/expert"]
    for body in provider.bodies:
        assert ("word7x119" in json.dumps(body)) <= (body.get("instructions") == "You are the expert.")
        assert len(body["input"]) <= 5
    main, *parts = (tenfold.open_session(name, store=store) for name in names)
    assert main.view.length == 6
    assert [part.view.length for part in parts] == [
        5,
        5,
    ]  # the SDK tells nobody the answer of such a run but its caller
    assert not main.search("word7x119")


def test_an_agent_that_is_handed_the_conversation_goes_on_with_it(store: Path) -> None:
    expert = make_agent(name="expert", instructions="You are the expert.")
    agent = make_agent(handoffs=[expert])
    steps = iter([call(1), call(2, "transfer_to_expert", reason="x"), call(3), Served("Blue.", call=("e", "", {}))])
    with Provider(lambda _: next(steps)) as provider:
        assert run(agent, "Go.", TenfoldSession("one", store=store, window=WINDOW), provider.config()) == "Blue."
    assert list_sessions(store) == ["one"]
    assert tenfold.open_session("one", store=store).view.length == 8


# -- looking things up -------------------------------------------------------------------------------------------------


def test_the_model_looks_up_what_it_no_longer_sees(store: Path) -> None:
    done = iter(range(1, 100))

    def answer(body: Json) -> Served:
        number = next(done)
        if number == 21:
            assert "word6x119" not in json.dumps(body)
            return call(number, "recall_search", words="word6x119")
        return Served("Done.", call=("e", "", {})) if number == 22 else call(number)

    with Provider(answer, window=WINDOW) as provider:
        run(make_agent(*RECALL), "Go.", TenfoldSession("one", store=store, window=WINDOW), provider.config())
    assert provider.refused == 0
    assert "word6x119" in provider.bodies[-1]["input"][-1]["output"]
    assert "recall_read" in json.dumps(provider.bodies[-1]["input"])


def test_without_the_tools_no_stub_names_them(store: Path) -> None:
    with Provider(work(20), window=WINDOW) as provider:
        run(make_agent(), "Go.", TenfoldSession("one", store=store, window=WINDOW), provider.config())
    assert "output removed" in json.dumps(provider.bodies[-1]["input"])
    assert "recall_read" not in json.dumps(provider.bodies[-1])
