"""The condenser for OpenHands, with the events, agents, conversations and clients of its SDK."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openhands.sdk", reason="make adapters installs it")
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network for prices
os.environ["OPENHANDS_SUPPRESS_BANNER"] = "1"

from openhands.sdk import LLM, Agent, Conversation, LocalConversation
from openhands.sdk.context.condenser import CondenserBase, PipelineCondenser
from openhands.sdk.context.view import View
from openhands.sdk.conversation import get_agent_final_response
from openhands.sdk.conversation.exceptions import ConversationRunError
from openhands.sdk.event import (
    ActionEvent,
    AgentErrorEvent,
    Condensation,
    LLMConvertibleEvent,
    MessageEvent,
    ObservationEvent,
)
from openhands.sdk.event.condenser import CondensationRequest
from openhands.sdk.llm import (
    ImageContent,
    Message,
    MessageToolCall,
    ReasoningItemModel,
    RedactedThinkingBlock,
    TextContent,
    ThinkingBlock,
)
from openhands.sdk.llm.call_context import LLMCallContext, llm_call_context_scope
from openhands.sdk.tool import Observation

import tenfold
from tenfold.apps.adapters.openhands import RECALL, TenfoldCondenser
from tenfold.errors import BadInput, ContextOverflow, UsageError
from tenfold.formats.objects import from_messages, to_messages
from tenfold.formats.objects.openhands import CONVERTER
from tenfold.store.location import open_store
from tests.models.loopback import Got, Loopback, Served

PNG = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9Q"
WINDOW = 3_000


class Output(Observation):
    """The output of a tool."""


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Returns the place of a store."""
    return str(tmp_path / "tenfold.db")


@pytest.fixture
def provider() -> Iterator[Loopback]:
    """Serves a model that always says the same."""
    with Loopback("It is done.") as loopback:
        yield loopback


def text(words: str) -> list[TextContent]:
    """Builds the content of a message."""
    return [TextContent(text=words)]


def user(words: str, id: str) -> MessageEvent:
    """Builds the event of a user's message."""
    return MessageEvent(id=id, source="user", llm_message=Message(role="user", content=text(words)))


def build_step(at: int, *, calls: int = 1, size: int = 60) -> list[LLMConvertibleEvent]:
    """Builds the events of an answer with calls, and of their results. The answer has thought, and that is signed."""
    thoughts = [ThinkingBlock(thinking=f"Part {at} is next.", signature=f"signed-{at}")]
    actions = [
        ActionEvent(
            id=f"a{at}.{nth}",
            thought=text(f"I read part {at}.") if nth == 0 else [],
            thinking_blocks=thoughts if nth == 0 else [],
            tool_name="look",
            tool_call_id=f"c{at}.{nth}",
            tool_call=MessageToolCall(id=f"c{at}.{nth}", name="look", arguments="{}", origin="completion"),
            llm_response_id=f"r{at}",
        )
        for nth in range(calls)
    ]
    results = [
        ObservationEvent(
            id=f"o{at}.{nth}",
            observation=Output(content=text(f"line {at} of a long file\n" * size)),
            action_id=f"a{at}.{nth}",
            tool_name="look",
            tool_call_id=f"c{at}.{nth}",
        )
        for nth in range(calls)
    ]
    return [*actions, *results]


def build_events(steps: int, *, calls: int = 1) -> list[LLMConvertibleEvent]:
    """Builds a conversation of a user's message and so many steps."""
    events: list[LLMConvertibleEvent] = [user("Read all parts. Never touch secret.toml.", "u0")]
    for at in range(steps):
        events += build_step(at, calls=calls)
    return events


def show(events: Sequence[LLMConvertibleEvent]) -> str:
    """Renders what a model would be sent."""
    return str(LLMConvertibleEvent.events_to_messages(list(events)))


def condense(condenser: TenfoldCondenser, events: Sequence[LLMConvertibleEvent]) -> View:
    """Returns the view of events that ask for no condensation."""
    view = condenser.condense(View(events=list(events)))
    assert isinstance(view, View)
    return view


def build_llm(loopback: Loopback, **options: int) -> LLM:
    """Builds the client of a model behind the loopback server."""
    return LLM(model="openai/gpt-4o-mini", base_url=f"{loopback.url}/v1", api_key="nothing", num_retries=0, **options)


def build_agent(llm: LLM, condenser: CondenserBase | None) -> Agent:
    """Builds an agent with the tools to look things up."""
    return Agent(llm=llm, system_prompt="You help.", tools=[RECALL], include_default_tools=[], condenser=condenser)


def converse(agent: Agent, *words: str, **options: Any) -> LocalConversation:  # noqa: ANN401 - those of OpenHands
    """Says something to an agent in one conversation, each after the answer to the one before."""
    conversation = Conversation(agent, visualizer=None, **options)
    for each in words:
        conversation.send_message(each)
        conversation.run()
    return conversation


MESSAGES = [
    Message(role="system", content=[*text("You help."), *text("Today is Monday.")]),
    Message(role="user", content=text("What is this?")),
    Message(role="user", content=[*text("Look:"), ImageContent(image_urls=[PNG])]),
    Message(role="assistant", content=text("I see."), reasoning_content="It is a dot."),
    Message(
        role="assistant",
        content=[],
        tool_calls=[
            MessageToolCall(id="c1", name="look", arguments='{"at": 1}', origin="responses", responses_item_id="fc_1"),
            MessageToolCall(id="c2", name="look", arguments="{}", origin="responses"),
        ],
        responses_reasoning_item=ReasoningItemModel(id="rs_1", summary=["I look at it."], encrypted_content="f00"),
    ),
    Message(role="tool", tool_call_id="c1", name="look", content=[*text("A dot"), ImageContent(image_urls=[PNG])]),
    Message(role="tool", tool_call_id="c2", name="look", content=text("")),
    Message(
        role="assistant",
        content=text("A dot."),
        thinking_blocks=[ThinkingBlock(thinking="It is small.", signature="s1"), RedactedThinkingBlock(data="hidden")],
    ),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.role)
def test_every_message_comes_back_as_it_was(message: Message) -> None:
    """Text, images, calls, results, thoughts with their signatures and the system prompt."""
    (item,) = CONVERTER.read(message)
    assert CONVERTER.build([item]) == [message]


def test_a_session_takes_every_message_and_finds_what_was_thought(store: str) -> None:
    """Nothing in them is unknown to the wire."""
    session = tenfold.open_session("all", store=store, window=WINDOW)
    items = to_messages(MESSAGES)
    assert session.before_model({"messages": items}, wire=CONVERTER.wire)["messages"] == items
    for words in ("It is a dot.", "I look at it.", "It is small."):
        assert session.search(words), words
    assert from_messages(items, "openhands") == MESSAGES


@pytest.mark.parametrize("given", [user("Hello", "u0"), "Hello", {"role": "user", "content": "Hello"}])
def test_what_is_no_message_is_refused(given: object) -> None:
    """An event is none, and the error says how one becomes a message."""
    with pytest.raises(BadInput, match="events_to_messages"):
        CONVERTER.read(given)


def test_a_part_without_a_place_is_refused() -> None:
    """OpenHands has no audio."""
    with pytest.raises(BadInput, match="input_audio"):
        CONVERTER.build(
            [{"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}]}]
        )


def test_a_short_view_is_sent_as_it_is(store: str) -> None:
    """Where there is nothing to do, the view is the very object."""
    view = View(events=build_events(1))
    assert TenfoldCondenser(session="s", window=WINDOW, store=store).condense(view) is view


def test_a_long_view_gets_shorter_and_keeps_the_events_that_were_not_touched(store: str) -> None:
    """The newest are the framework's own objects, with what the model has signed. The given view is not changed."""
    events = build_events(30)
    view = View(events=events)
    condenser = TenfoldCondenser(session="s", window=WINDOW, store=store)
    shown = condense(condenser, view.events)
    assert len(show(shown.events)) < len(show(events)) / 3
    assert view.events == events
    own = set(map(id, events))
    kept = [event for event in shown.events if id(event) in own]
    assert kept[-2:] == events[-2:]
    assert "signed-29" in show(kept)
    assert "secret.toml" in show(shown.events)
    assert "line 0 of" in tenfold.open_session("s", store=store).tools.search("line 0 of a long file")


def test_calls_of_one_answer_stay_together_and_results_keep_the_name_of_their_tool(store: str) -> None:
    """What a model answered at once is several events. A client refuses a result without a name."""
    shown = condense(TenfoldCondenser(session="s", window=2 * WINDOW, store=store), build_events(20, calls=3))
    messages = LLMConvertibleEvent.events_to_messages(shown.events)
    calls = [call.id for message in messages for call in message.tool_calls or ()]
    results = [message for message in messages if message.role == "tool"]
    assert sorted(calls) == sorted(str(message.tool_call_id) for message in results)
    assert {message.name for message in results} == {"look"}
    assert any("output removed" in str(message.content) for message in results)
    newest = [message for message in messages if message.tool_calls][-1]
    assert [call.id for call in newest.tool_calls or ()] == ["c19.0", "c19.1", "c19.2"]


def test_a_lost_list_goes_on_from_the_session(store: str) -> None:
    """A new process with a new conversation of the same name sees what was said before."""
    condense(TenfoldCondenser(session="s", window=WINDOW, store=store), build_events(30))
    later = [user("Go on.", "u9"), *build_step(31)]
    shown = condense(TenfoldCondenser(session="s", window=WINDOW, store=store), later)
    assert "secret.toml" in show(shown.events)
    assert shown.events[-3:] == later
    assert len(open_store(store).list_sessions("default")) == 1


def test_a_new_process_with_the_whole_list_sees_the_same(store: str) -> None:
    """Two workers that serve one conversation send the same beginning, which a cache then has."""
    events = build_events(30)
    first = condense(TenfoldCondenser(session="s", window=WINDOW, store=store), events)
    second = condense(TenfoldCondenser(session="s", window=WINDOW, store=store), [*events, *build_step(30, size=1)])
    assert show(second.events).startswith(show(first.events)[:-1])


def test_conversations_are_apart(store: str) -> None:
    """A sub-agent that has the condenser of its caller has a session of its own."""
    condenser = TenfoldCondenser(session="s", window=WINDOW, store=store)
    with llm_call_context_scope(LLMCallContext().for_conversation("caller")):
        condense(condenser, build_events(30))
        with llm_call_context_scope(LLMCallContext().for_conversation("sub")):
            shown = condense(condenser, [user("Count the words.", "u5")])
        condense(condenser, build_events(31))
    assert len(shown.events) == 1
    assert {row.info.id for row in open_store(store).list_sessions("default")} == {"s", "s/sub"}


def test_a_wrong_object_is_refused() -> None:
    """The error says what to pass."""
    wrong: Any = build_events(1)
    with pytest.raises(UsageError, match=r"list is no View of OpenHands: View.from_events"):
        TenfoldCondenser(session="s").condense(wrong)


def test_a_refusal_is_answered_by_a_shorter_request(store: str) -> None:
    """The provider's window is smaller than ours. OpenHands says that it was refused, and the next view is shorter."""

    def answer(got: Got) -> Served:
        said = "This model's maximum context length is 2500 tokens. Please reduce the length of the messages."
        return Served("It is done.") if got.size < 10_000 else Served(status=400, error=said)

    with Loopback(script=answer) as loopback:
        condenser = TenfoldCondenser(store=store, window=100_000)
        words = [f"{at}: " + "Read this part and keep it in mind. " * 60 for at in range(6)]
        conversation = converse(build_agent(build_llm(loopback), condenser), *words)
        sizes = [got.size for got in loopback.requests]
    refused = next(at for at, size in enumerate(sizes) if size >= 10_000)
    assert sizes[refused + 1] < 10_000
    assert get_agent_final_response(conversation.state.events) == "It is done."
    forgotten = [event for event in conversation.state.events if isinstance(event, Condensation)]
    assert forgotten
    assert not any(event.forgotten_event_ids for event in forgotten)
    assert sum(isinstance(event, MessageEvent) for event in conversation.state.view.events) == 12


def test_a_request_that_cannot_be_made_shorter_ends_with_an_error(store: str) -> None:
    """Else it would be sent again and again."""
    with Loopback(Served(status=400, error="This model's maximum context length is 10 tokens.")) as loopback:
        agent = build_agent(build_llm(loopback), TenfoldCondenser(store=store, window=100_000))
        with pytest.raises(ConversationRunError) as caught:
            converse(agent, "Hello")
    assert isinstance(caught.value.__cause__, ContextOverflow)


def test_a_user_may_ask_for_a_condensation(store: str, provider: Loopback) -> None:
    """Then the next request is about half as long, and the request counts as handled."""
    agent = build_agent(build_llm(provider), TenfoldCondenser(store=store, window=100_000))
    words = [f"{at}: " + "Read this part and keep it in mind. " * 60 for at in range(6)]
    conversation = converse(agent, *words)
    conversation.condense()
    assert not conversation.state.view.unhandled_condensation_request
    conversation.send_message("Go on.")
    conversation.run()
    assert provider.requests[-1].size < 0.75 * provider.requests[-2].size


def test_a_request_to_condense_nothing_does_nothing(store: str) -> None:
    """A conversation of one message cannot get shorter."""
    condenser = TenfoldCondenser(session="s", window=WINDOW, store=store)
    view = View.from_events([user("Hello", "u0"), CondensationRequest()])
    assert isinstance(condenser.condense(view), Condensation)
    assert show(condense(condenser, view.events).events) == show(view.events)


def test_the_model_looks_up_what_it_no_longer_sees(store: str) -> None:
    """In the conversation that calls the tool, also where the condenser is one of a pipeline."""

    def answer(got: Got) -> Served:
        if len(got.body["messages"]) > 2:
            return Served("It is done.")
        return Served("I look.", "tool", call=("1", "recall_search", {"words": "locker zebra"}))

    condenser = TenfoldCondenser(store=store, window=100_000)
    with Loopback(script=answer) as loopback:
        agent = build_agent(build_llm(loopback), PipelineCondenser(condensers=[condenser]))
        conversation = converse(agent, "The locker is zebra-17.")
        offered = [tool["function"]["name"] for tool in loopback.requests[0].body["tools"]]
    assert offered == ["recall_search", "recall_read", "recall_expand"]
    (found,) = [event for event in conversation.state.events if isinstance(event, ObservationEvent)]
    assert "zebra-17" in found.observation.text
    (row,) = open_store(store).list_sessions("default")
    assert row.info.id == str(conversation.id)


def test_the_tools_without_the_condenser_say_what_is_missing() -> None:
    """They have no session to look into."""
    called = [Served("I look.", "tool", call=("1", "recall_search", {"words": "zebra"})), Served("It is done.")]
    with Loopback(*called) as loopback:
        conversation = converse(build_agent(build_llm(loopback), None), "Hello")
    (error,) = [event for event in conversation.state.events if isinstance(event, AgentErrorEvent)]
    assert "condenser=TenfoldCondenser()" in error.error


def test_an_async_agent_is_served_too(store: str, provider: Loopback) -> None:
    """With the same view, in the session of its conversation."""
    agent = build_agent(build_llm(provider), TenfoldCondenser(store=store, window=WINDOW))
    conversation = Conversation(agent, visualizer=None)
    for at in range(12):
        conversation.send_message(f"{at}: " + "Read this part and keep it in mind. " * 60)
        asyncio.run(conversation.arun())
    newest = provider.requests[-1]
    assert "tenfold-summary" in newest.prompt
    assert "recall_expand(block=" in newest.prompt
    assert [message["role"] for message in newest.body["messages"]].count("system") == 1
    assert newest.body["messages"][0]["content"][0]["text"] == "You help."
    (shown, *_) = tenfold.open_session(str(conversation.id), store=store).view.get_messages()
    assert shown.role == "system"
    assert max(got.size for got in provider.requests) < 5 * WINDOW
    assert [row.info.id for row in open_store(store).list_sessions("default")] == [str(conversation.id)]


def test_a_saved_conversation_goes_on(store: str, provider: Loopback, tmp_path: Path) -> None:
    """OpenHands keeps its own log, and saves the condenser with its options; the session has the id of both."""
    saved = {"persistence_dir": str(tmp_path / "saved"), "workspace": str(tmp_path)}
    words = [f"{at}: " + "Read this part and keep it in mind. " * 60 for at in range(12)]
    agent = build_agent(build_llm(provider), TenfoldCondenser(store=Path(store), window=WINDOW))
    first = converse(agent, *words[:11], **saved)
    first.close()
    restored = Agent.model_validate_json(agent.model_dump_json(context={"expose_secrets": True}))
    assert isinstance(restored.condenser, TenfoldCondenser)
    assert restored.condenser.options == {"store": store, "window": WINDOW}
    second = converse(restored, words[11], conversation_id=first.id, **saved)
    assert second.id == first.id
    old, new = (got.body["messages"] for got in provider.requests[-2:])
    assert new[: len(old)] == old
    (row,) = open_store(store).list_sessions("default")
    assert row.info.id == str(first.id)


def test_a_fork_is_apart(store: str, provider: Loopback) -> None:
    """OpenHands copies the condenser, and the copy knows which conversation the name belongs to."""
    condenser = TenfoldCondenser(session="s", store=store, window=WINDOW)
    conversation = converse(build_agent(build_llm(provider), condenser), "Hello")
    fork = conversation.fork()
    fork.send_message("Go another way.")
    fork.run()
    assert {row.info.id for row in open_store(store).list_sessions("default")} == {"s", f"s/{fork.id}"}


def test_the_meter_learns_from_what_is_reported(store: str) -> None:
    """What the provider counted is more than our estimate."""
    with Loopback(Served("It is done.", tokens=(700, 10))) as loopback:
        conversation = converse(build_agent(build_llm(loopback), TenfoldCondenser(store=store)), "Hello", "Go on.")
    reading = tenfold.open_session(str(conversation.id), store=store).take_reading()
    assert reading.source == "reported"
    assert reading.tokens > 700


def test_the_window_is_the_clients_if_none_is_named(store: str, provider: Loopback) -> None:
    """It says how much input the model may get."""
    llm = build_llm(provider, max_input_tokens=20_000, max_output_tokens=1_000)
    condenser = TenfoldCondenser(session="s", store=store)
    condenser.condense(View(events=build_events(1)), agent_llm=llm)
    long = condenser.condense(View(events=build_events(200)), agent_llm=llm)
    assert isinstance(long, View)
    assert len(show(long.events)) < len(show(build_events(200))) / 2
