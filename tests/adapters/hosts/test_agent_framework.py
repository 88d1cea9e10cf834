"""The context provider for Microsoft's Agent Framework, with the framework's own agents, sessions and clients."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agent_framework", reason="make adapters installs it")

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    InMemoryHistoryProvider,
    Message,
    ResponseStream,
    TruncationStrategy,
    UsageDetails,
    create_harness_agent,
)
from agent_framework.exceptions import ChatClientException
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient

import tenfold
from tenfold.apps.adapters.agent_framework import TenfoldProvider
from tenfold.core.meter.counters import choose_counter
from tenfold.errors import BadInput, UsageError
from tenfold.formats.objects.agent_framework import CONVERTER
from tenfold.store.location import open_store
from tests.adapters.watched_store import WatchedStore
from tests.models.loopback import Got, Loopback, Served

PNG = "data:image/png;base64,iVBORw0KGgo="
COUNTER = choose_counter(None).counter
REFUSED = "This model's maximum context length is 8000 tokens. However, your messages resulted in 20000 tokens."
Answer = Callable[[Sequence[Message]], Content]


class PlainClient(BaseChatClient[Any]):
    """A client of the framework that keeps what it is sent. It runs no functions.

    It reports the tokens of the messages as input, and those of `usage` besides, for what nobody else sees.
    """

    def __init__(self, *, answer: Answer, usage: UsageDetails | None = None) -> None:
        super().__init__()
        self.answer, self.usage, self.closed = answer, usage, 0
        self.seen: list[list[Message]] = []
        self.tools: list[set[str]] = []

    def _inner_get_response(
        self,
        *,
        messages: Sequence[Message],
        stream: bool,
        options: Mapping[str, Any],
        **_: Any,  # noqa: ANN401 - what another client takes
    ) -> Awaitable[ChatResponse] | ResponseStream[ChatResponseUpdate, ChatResponse]:
        self.seen.append(list(messages))
        self.tools.append({tool.name for tool in options.get("tools") or ()})
        contents = [self.answer(messages)]

        async def answer() -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", contents)], usage_details=self._add_usage(messages))

        async def pull() -> AsyncIterator[ChatResponseUpdate]:
            try:
                for content in contents:
                    yield ChatResponseUpdate(contents=[content], role="assistant")
            finally:
                self.closed += 1

        return ResponseStream(pull(), finalizer=ChatResponse.from_updates) if stream else answer()

    def _add_usage(self, messages: Sequence[Message]) -> UsageDetails | None:
        if self.usage is None:
            return None
        used = (self.usage["input_token_count"] or 0) + COUNTER.count([render(messages)])[0]
        return UsageDetails(**{**self.usage, "input_token_count": used})


class Client(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], PlainClient):
    """The same with the layers that every client of a provider has."""


def read_part(number: int) -> str:
    """Reads a part."""
    return f"part {number}: " + " ".join(f"word{number}x{n}" for n in range(120))


def call(name: str, **arguments: object) -> Content:
    number = "_".join(str(value) for value in arguments.values()).replace(" ", "")
    return Content.from_function_call(f"call_{number}", name, arguments=json.dumps(arguments))


def say(text: str) -> Answer:
    return lambda _: Content.from_text(text)


def read_parts(count: int) -> Answer:
    """A model that reads so many parts, says so, and begins anew."""
    numbers = cycle(range(count + 1))

    def answer(_: Sequence[Message]) -> Content:
        number = next(numbers)
        return call("read_part", number=number) if number < count else Content.from_text("All is read.")

    return answer


def test_the_store_is_not_asked_on_the_event_loop(tmp_path: Path) -> None:
    """Nor are reports written there: other requests would wait for whoever holds the store or the session."""
    store, usage = WatchedStore(tmp_path / "w.db"), UsageDetails(input_token_count=900, output_token_count=9)
    agent = Agent(Client(answer=say("Yes."), usage=usage), context_providers=[TenfoldProvider(store=store)])
    run(agent, "Go.", "On.", session=AgentSession(session_id="one"))
    assert store.askers
    assert threading.get_ident() not in store.askers


def render(messages: Sequence[Message]) -> str:
    return json.dumps([item for message in messages for item in CONVERTER.read(message)])


def run(agent: Agent[Any], *messages: str, session: AgentSession | None = None, stream: bool = False) -> list[str]:
    """Sends the messages one after the other, and returns the texts of the answers."""

    async def run_all() -> list[str]:
        said: list[str] = []
        for message in messages:
            if stream:
                updates = agent.run(message, session=session, stream=True)
                said.append("".join([update.text async for update in updates]))
                assert (await updates.get_final_response()).text.endswith(said[-1])
            else:
                said.append((await agent.run(message, session=session)).text)
        return said

    return asyncio.run(run_all())


def list_sessions(store: Path) -> dict[str, int]:
    """The sessions of a store, each with its number of entries."""
    opened = open_store(store)
    rows = {row.info.id: row.entry_count for row in opened.list_sessions("default")}
    opened.close()
    return rows


def build(client: Any, store: Path, *, window: int = 50_000, recall: bool = True, **settings: Any) -> Agent[Any]:  # noqa: ANN401 - any client
    """Builds an agent with one tool."""
    provider = TenfoldProvider(store=store, window=window, recall=recall)
    settings = {"tools": [read_part], "context_providers": [provider], **settings}
    client.function_invocation_configuration["max_iterations"] = 100
    return Agent(client, "Read all.", **settings)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The path of a store that is not there yet."""
    return tmp_path / "tenfold.db"


# -- messages ----------------------------------------------------------------------------------------------------------

CALL = Content.from_function_call("c1", "f", arguments='{"a": 1}')
KINDS = [
    Message("system", ["Be brief."]),
    Message("user", ["Hello"], author_name="ann"),
    Message("user", ["Look", Content.from_uri(PNG), Content.from_uri("https://a/b.jpg", media_type="image/jpeg")]),
    Message("user", [Content.from_data(b"%PDF", "application/pdf", additional_properties={"filename": "a.pdf"})]),
    Message("user", [Content.from_data(b"RIFF", "audio/wav")]),
    Message("user", [Content.from_uri("https://a/b.pdf", media_type="application/pdf")]),
    Message("user", [Content.from_hosted_file("file-1", media_type="text/plain")]),
    Message("user", [Content.from_text("", additional_properties={"cached": True})]),
    Message("user", []),
    Message("assistant", ["Hello", "there"]),
    Message("assistant", [Content.from_text("I cannot.", additional_properties={"openai": {"refusal": True}})]),
    Message("assistant", [Content.from_text("It is so.", annotations=[{"type": "citation", "url": "https://a"}])]),
    Message("assistant", [Content.from_text_reasoning(text="I think"), Content.from_text("Yes."), CALL]),
    Message(
        "assistant",
        [
            Content.from_text_reasoning(id="rs_1", text="I think", protected_data="c2VjcmV0"),
            Content.from_text_reasoning(id="rs_2", protected_data="bW9yZQ=="),
            Content.from_function_call("c1", "f", arguments="{}", additional_properties={"fc_id": "fc_1"}),
            Content.from_function_call("c2", "g", arguments=""),
        ],
    ),
    Message("assistant", [Content.from_mcp_server_tool_call("m1", "look", server_name="s", arguments={"q": None})]),
    Message("assistant", [Content.from_mcp_server_tool_result("m1", output=[Content.from_text("found")])]),
    Message("assistant", [Content.from_error(message="It broke", error_code="500")]),
    Message("assistant", [Content.from_function_approval_request("a1", CALL)]),
    Message("user", [Content.from_function_approval_response(True, "a1", CALL)]),
    Message("tool", [Content.from_function_result("c1", result="It is 5.")]),
    Message("tool", [Content.from_function_result("c1", result="")]),
    Message("tool", [Content.from_function_result("c1", result=[Content.from_text("A map:"), Content.from_uri(PNG)])]),
    Message("tool", [Content.from_function_result("c1", id="o1", result="no", status="failed")]),
]


@pytest.mark.parametrize(
    "message", KINDS, ids=lambda message: f"{message.role}-{'-'.join(c.type for c in message.contents)}"
)
def test_each_kind_of_message_is_converted_and_back(message: Message) -> None:
    read = json.loads(json.dumps(CONVERTER.read(message)))
    for built in (CONVERTER.build(read), tenfold.from_messages(tenfold.to_messages([message]), "agent_framework")):
        assert [(each.role, each.author_name) for each in built] == [(message.role, message.author_name)]
        assert built[0].contents == message.contents


def test_each_result_is_a_message_of_its_own() -> None:
    results = [Content.from_function_result(name, result=name) for name in ("c1", "c2")]
    together = Message("tool", results)
    hosted = Message("assistant", ["Look:", CALL, results[0], "Found."])
    assert [item["tool_call_id"] for item in CONVERTER.read(together)] == ["c1", "c2"]
    assert [item["role"] for item in CONVERTER.read(hosted)] == ["assistant", "tool", "assistant"]
    assert [each.contents for each in CONVERTER.build(CONVERTER.read(together))] == [[each] for each in results]


def test_the_arguments_of_a_call_are_json() -> None:
    message = Message("assistant", [Content.from_function_call("c1", "f", arguments={"path": "\u00e4"})])
    assert CONVERTER.read(message)[0]["tool_calls"][0]["function"]["arguments"] == '{"path": "\u00e4"}'


@pytest.mark.parametrize("wrong", ["Hello", Content.from_text("Hello"), {"role": "user", "content": "Hello"}])
def test_what_is_no_message_is_named(wrong: object) -> None:
    with pytest.raises(BadInput, match=r"is no message of the Agent Framework: pass agent_framework\.Message"):
        CONVERTER.read(wrong)


# -- the view ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_short_conversation_goes_out_as_it_is(store: Path, stream: bool) -> None:  # noqa: FBT001 - a column
    client = Client(answer=read_parts(2))
    assert run(build(client, store), "Begin.", stream=stream) == ["All is read."]
    assert [len(messages) for messages in client.seen] == [1, 3, 5]
    assert client.seen[-1][0].text == "Begin."
    for before, after in zip(client.seen, client.seen[1:], strict=False):
        assert list(map(id, after[: len(before)])) == list(map(id, before))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("by_call", [False, True])
def test_a_long_conversation_is_compacted_and_the_history_stays_whole(
    store: Path,
    stream: bool,  # noqa: FBT001 - a column
    by_call: bool,  # noqa: FBT001 - a column
) -> None:
    """With `by_call` the framework loads and keeps the history around each call of the model, as its harness does."""
    client = Client(answer=read_parts(30))
    provider = TenfoldProvider(store=store, window=8_000)
    settings: dict[str, Any] = {
        "context_providers": [provider, InMemoryHistoryProvider()],
        "require_per_service_call_history_persistence": by_call,
    }
    agent = build(client, store, **settings)
    session = agent.create_session(session_id="one")
    assert run(agent, "Begin.", session=session, stream=stream) == ["All is read."]
    history = session.state["in_memory"]["messages"]
    assert [message.role for message in history] == ["user", *["assistant", "tool"] * 30, "assistant"]
    assert not any(message.additional_properties.get("_excluded") for message in history)
    assert len(render(client.seen[-1])) < len(render(history)) / 2
    assert "word8x60" in render(history)
    assert "word8x60" not in render(client.seen[-1])
    assert "word29x119" in render(client.seen[-1])
    assert list(list_sessions(store)) == ["one"]


def test_what_stays_is_the_same_objects(store: Path) -> None:
    client = Client(answer=read_parts(30))
    run(build(client, store, window=8_000), "Begin.")
    old, new = ({id(message) for message in messages} for messages in client.seen[-2:])
    assert [id(message) in old for message in client.seen[-1][-4:]] == [True, True, False, False]
    assert len(old & new) >= len(new) / 2


def test_it_takes_the_place_of_the_own_compaction(store: Path) -> None:
    client = Client(answer=read_parts(5))
    agent = build(client, store, compaction_strategy=TruncationStrategy(max_n=4, compact_to=2))
    run(agent, "Begin.")
    assert [len(messages) for messages in client.seen] == [1, 3, 5, 7, 9, 11]


def test_what_the_framework_has_left_out_is_not_sent(store: Path) -> None:
    """Nor does a summary tell of it."""
    before, client = Client(answer=say("ok")), Client(answer=read_parts(30))
    session = Agent(before).create_session(session_id="one")
    run(Agent(before), "The secret word is plover.", session=session)
    session.state["in_memory"]["messages"][0].additional_properties["_excluded"] = True
    run(build(client, store, window=8_000), "Second.", session=session)
    assert "tenfold-summary" in render(client.seen[-1])
    assert not any("plover" in render(messages) for messages in client.seen)


def test_a_restart_with_a_lost_list_goes_on(store: Path) -> None:
    for message in ("The secret word is plover.", "Go on."):
        client = Client(answer=read_parts(3))
        agent = build(client, store)
        run(agent, message, session=agent.create_session(session_id="one"))
    assert [len(messages) for messages in client.seen] == [9, 11, 13, 15]
    assert "plover" in render(client.seen[-1])
    assert "word2x5" in render(client.seen[-1])
    assert list_sessions(store) == {"one": 17}


def test_a_restart_with_the_stored_session_goes_on(store: Path) -> None:
    kept = Agent(Client(answer=say(""))).create_session(session_id="one").to_dict()
    for message in ("The secret word is plover.", "Go on."):
        client, session = Client(answer=read_parts(12)), AgentSession.from_dict(json.loads(json.dumps(kept)))
        run(build(client, store, window=8_000), message, session=session)
        kept = session.to_dict()
    assert render(client.seen[-1]).count("plover") == 1
    assert "word11x119" in render(client.seen[-1])
    assert list(list_sessions(store)) == ["one"]


@pytest.mark.parametrize(
    ("usage", "full"),
    [
        ({"input_token_count": 900, "output_token_count": 9}, False),
        ({"input_token_count": 6_000, "output_token_count": 9}, True),
        ({"input_token_count": 6_000, "cache_read_input_token_count": 5_900}, True),
        (
            {"input_token_count": 9, "cache_read_input_token_count": 5_900, "anthropic.cache_read_input_tokens": 5_900},
            True,
        ),
    ],
)
def test_what_was_used_is_reported(store: Path, usage: UsageDetails, full: bool) -> None:  # noqa: FBT001 - a column
    """The counts of the provider may say that the window is nearly full, where those of the texts do not."""
    client = Client(answer=read_parts(8), usage=usage)
    run(build(client, store, window=8_000), "Begin.")
    assert ("tenfold" in render(client.seen[-1])) == full


def test_a_stream_that_is_left_early_is_closed(store: Path) -> None:
    client = Client(answer=say("ok"))

    async def leave() -> int:
        async with build(client, store).run("Begin.", stream=True) as updates:
            async for _ in updates:
                break
        return client.closed

    assert asyncio.run(leave()) == 1


def test_it_works_in_the_harness(store: Path) -> None:
    client = Client(answer=read_parts(30))
    client.function_invocation_configuration["max_iterations"] = 100
    agent = create_harness_agent(
        client,
        tools=[read_part],
        context_providers=[TenfoldProvider(store=store, window=16_000)],
        disable_compaction=True,
        disable_file_memory=True,
        disable_web_search=True,
    )
    assert run(agent, "Begin.", session=agent.create_session(session_id="one")) == ["All is read."]
    assert "word8x60" not in render(client.seen[-1])
    assert "word29x119" in render(client.seen[-1])


# -- tools -------------------------------------------------------------------------------------------------------------


def test_the_model_looks_up_what_it_no_longer_sees(store: Path) -> None:
    reads = read_parts(30)

    def answer(messages: Sequence[Message]) -> Content:
        if "recall_search" in str([each.name for each in messages[-2].contents] if len(messages) > 1 else ""):
            return Content.from_text("It is found.")
        known = reads(messages)
        return known if known.type == "function_call" else call("recall_search", words="word1x77")

    client = Client(answer=answer)
    assert run(build(client, store, window=8_000), "Begin.") == ["It is found."]
    assert "word1x78" not in render(client.seen[-1][:-1])
    assert "word1x78" in render(client.seen[-1][-1:])


def test_tools_are_offered_to_clients_that_run_them(store: Path) -> None:
    class Bare(ChatMiddlewareLayer[Any], PlainClient):
        """A client without functions."""

        function_invocation_configuration: dict[str, int] = {}  # noqa: RUF012 - it has none

    for client, recall, offered in (
        (Client(answer=say("ok")), True, True),
        (Client(answer=say("ok")), False, False),
        (Bare(answer=say("ok")), True, False),
    ):
        run(build(client, store, recall=recall), "Begin.")
        assert ("recall_search" in client.tools[0]) == offered


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_sessions_are_apart(store: Path) -> None:
    client = Client(answer=say("ok"))
    agent = build(client, store)
    for name in ("ann", "ben"):
        run(agent, f"I am {name}.", session=agent.create_session(session_id=name))
    assert "ann" not in render(client.seen[-1])
    assert list_sessions(store) == {"ann": 3, "ben": 3}


def test_runs_without_a_session_are_apart(store: Path) -> None:
    client = Client(answer=say("ok"))
    run(build(client, store), "First.", "Second.")
    assert [len(messages) for messages in client.seen] == [1, 1]
    assert list(list_sessions(store).values()) == [3, 3]


@pytest.mark.parametrize("shared", [False, True])
def test_an_agent_that_is_a_tool_of_another_one_is_apart(store: Path, shared: bool) -> None:  # noqa: FBT001 - a column
    helping, leading = (
        Client(answer=say("helped")),
        Client(answer=iterate(call("helper", task="Do_it"), Content.from_text("led"))),
    )
    provider = TenfoldProvider(store=store, window=50_000)
    helper = Agent(helping, name="helper", description="Helps.", context_providers=[provider])
    tool = helper.as_tool(propagate_session=shared)
    leader = Agent(leading, name="leader", tools=[tool], context_providers=[provider])
    assert run(leader, "Begin.", session=leader.create_session(session_id="one")) == ["led"]
    assert "Begin" not in render(helping.seen[-1])
    rows = list_sessions(store)
    assert rows.pop("one/leader") == 4
    assert list(rows.values()) == [2]
    assert (list(rows) == ["one/helper"]) == shared


def iterate(*contents: Content) -> Answer:
    """A model that gives these answers one after the other."""
    left = iter(contents)
    return lambda _: next(left)


# -- refusals ----------------------------------------------------------------------------------------------------------


def refuse_long(first: int, later: int) -> Callable[[Got], Served]:
    """A provider that has twenty parts read. It refuses a request with more bytes, and soon with fewer."""
    done: list[Got] = []

    def serve(got: Got) -> Served:
        number = len(done)
        if got.size > (first if number < 15 else later):
            return Served(status=400, error=REFUSED)
        done.append(got)
        if number < 20:
            return Served(finish="tool", call=(str(number), "read_part", {"number": number}), tokens=(0, 0))
        return Served("All is read.", tokens=(0, 0))

    return serve


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("by_call", [False, True])
def test_a_refusal_is_answered_by_a_shorter_request(
    store: Path,
    stream: bool,  # noqa: FBT001 - a column
    by_call: bool,  # noqa: FBT001 - a column
) -> None:
    with Loopback(script=refuse_long(12_000, 8_000)) as provider:
        client = OpenAIChatCompletionClient(model="gpt-4o", base_url=f"{provider.url}/v1", api_key="nothing")
        own = TenfoldProvider(store=store, window=1_000_000)
        settings: dict[str, Any] = {
            "context_providers": [own, InMemoryHistoryProvider()],
            "require_per_service_call_history_persistence": by_call,
        }
        agent = build(client, store, **settings)
        session = agent.create_session(session_id="one")
        assert run(agent, "Begin.", session=session, stream=stream) == ["All is read."]
        sizes = [got.size for got in provider.requests]
    assert len(sizes) > 22  # some were refused
    assert [message.role for message in session.state["in_memory"]["messages"]] == [
        "user", *["assistant", "tool"] * 20, "assistant"
    ]  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "served", [Served(status=400, error="The schema is invalid."), Served(status=401, error="No key.")]
)
def test_another_error_is_raised_as_it_is(store: Path, served: Served, stream: bool) -> None:  # noqa: FBT001 - a column
    with Loopback(served) as provider:
        client = OpenAIChatCompletionClient(model="gpt-4o", base_url=f"{provider.url}/v1", api_key="nothing")
        with pytest.raises(ChatClientException, match=served.error):
            run(build(client, store), "Begin.", stream=stream)
        assert len(provider.requests) == 1


# -- conversations that the provider keeps -----------------------------------------------------------------------------


def test_a_conversation_that_the_provider_keeps_is_refused(store: Path) -> None:
    responses = OpenAIChatClient(model="gpt-4o", base_url="http://127.0.0.1:9/v1", api_key="nothing")
    with pytest.raises(UsageError, match=r"OpenAIChatClient has its provider keep the conversation.*'store': False"):
        run(build(responses, store), "Begin.")
    agent = build(Client(answer=say("ok")), store)
    with pytest.raises(UsageError, match="a session without service_session_id"):
        run(agent, "Begin.", session=AgentSession(session_id="one", service_session_id="thread_1"))


def test_thoughts_go_back_to_the_provider_signed(store: Path) -> None:
    thought = ("I read it.", "c2VjcmV0")
    answers = Served(finish="tool", call=("1", "read_part", {"number": 1}), thought=thought), Served("Done.")
    with Loopback(*answers) as provider:
        client = OpenAIChatClient(model="gpt-5-mini", base_url=f"{provider.url}/v1", api_key="nothing")
        options = {"store": False, "include": ["reasoning.encrypted_content"]}
        assert run(build(client, store, default_options=options), "Begin.") == ["Done."]
        sent = provider.requests[1].body["input"]
    assert [item["encrypted_content"] for item in sent if item["type"] == "reasoning"] == ["c2VjcmV0"]
