"""The memory for LlamaIndex, with the agents, chat engines, tools and model clients of LlamaIndex."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core", reason="make adapters installs it")

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import (
    AudioBlock,
    CacheControl,
    CachePoint,
    ChatMessage,
    CitableBlock,
    CitationBlock,
    DocumentBlock,
    ImageBlock,
    LLMMetadata,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    VideoBlock,
)
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.core.tools import BaseTool
from llama_index.core.workflow import Context
from llama_index.llms.openai import OpenAI
from pydantic import Field

import tenfold
from tenfold.apps.adapters.llama_index import RECALL, TenfoldMemory
from tenfold.core.meter.counters import choose_counter
from tenfold.errors import BadInput, UsageError
from tenfold.formats.objects.llama_index import CONVERTER
from tenfold.store.location import open_store
from tests.adapters.watched_store import WatchedStore
from tests.models.loopback import Got, Loopback, Served
from tests.models.provider_rules import find_refusal

Json = dict[str, Any]
Answer = Callable[[Sequence[ChatMessage]], ChatMessage]
PNG = b"\x89PNG\r\n\x1a\n" + b"\xfb\xff\xfe" * 20
WINDOW = 4_000
COUNTER = choose_counter(None).counter


class Scripted(MockFunctionCallingLLM):
    """LlamaIndex's own stand-in for a model, which keeps what it is sent, and is given tools as OpenAI's client is."""

    sent: list[list[ChatMessage]] = Field(default_factory=list)

    def __init__(self, answer: Answer) -> None:
        super().__init__(response_generator=lambda messages, **_: self.note(answer, messages), is_chat_model=True)

    def note(self, answer: Answer, messages: Sequence[ChatMessage]) -> ChatMessage:
        """Keeps the messages before they are answered."""
        self.sent.append(list(messages))
        return answer(messages)

    def _prepare_chat_with_tools(self, tools: Sequence[BaseTool], *args: object, **kwargs: Any) -> Json:  # noqa: ANN401 - its own
        prepared = super()._prepare_chat_with_tools(tools, *args, **kwargs)
        return {**prepared, "tools": [tool.metadata.to_openai_tool() for tool in tools]}

    @property
    def metadata(self) -> LLMMetadata:
        """The window that the tests use."""
        return LLMMetadata(
            is_function_calling_model=True, is_chat_model=True, context_window=WINDOW, model_name="scripted"
        )


def look(part: int) -> str:
    """Looks at a part."""
    return f"part {part} " + " ".join(f"word{part}x{n}" for n in range(120))


def call(number: int, name: str = "look", **arguments: object) -> ToolCallBlock:
    return ToolCallBlock(tool_call_id=f"call{number}", tool_name=name, tool_kwargs=arguments or {"part": number})


def say(*blocks: str | ToolCallBlock) -> ChatMessage:
    """Builds an answer."""
    return ChatMessage(
        role="assistant", blocks=[TextBlock(text=each) if isinstance(each, str) else each for each in blocks]
    )


def work(steps: int) -> Answer:
    """A model that looks at one part after the other, and then is done."""
    done = 0

    def answer(_: Sequence[ChatMessage]) -> ChatMessage:
        nonlocal done
        done += 1
        if done > steps:
            done = 0
            return say("Done.")
        return say(f"I look at part {done}.", call(done))

    return answer


def run(agent: Any, task: str, memory: TenfoldMemory | None, **settings: Any) -> str:  # noqa: ANN401 - of any kind
    async def wait() -> str:
        return str(await agent.run(task, memory=memory, max_iterations=200, **settings))

    return asyncio.run(wait())


def test_the_store_is_not_asked_on_the_event_loop(tmp_path: Path) -> None:
    """Nor are reports written there: other requests would wait for whoever holds the store or the session."""
    store = WatchedStore(tmp_path / "w.db")
    with Loopback(Served("Yes.", tokens=(900, 9))) as provider:
        model = OpenAI("gpt-4o", api_base=f"{provider.url}/v1", api_key="nothing", max_retries=0)
        run(FunctionAgent(tools=[look], llm=model, streaming=False), "Go.", TenfoldMemory("one", store=store))
    assert store.askers
    assert threading.get_ident() not in store.askers
    kept = tenfold.open_session("one", store=store).conversation.read_entries(range(2))
    assert [getattr(entry, "usage", None) is not None for entry in kept] == [False, True]


def test_a_memory_can_be_reset_and_set_before_and_after_it_is_used(store: Path) -> None:
    """LlamaIndex' own memory may be asked for all of it in any order, and then has what was put last."""

    async def work_with(memory: TenfoldMemory) -> list[list[ChatMessage]]:
        await memory.areset()
        seen = [await memory.aget()]
        await memory.aput(ChatMessage(role="user", content="One?"))
        seen.append(await memory.aget())
        await memory.areset()
        seen.append(await memory.aget())
        await memory.aset([ChatMessage(role="user", content="Two?"), say("Yes.")])
        return [*seen, await memory.aget(), await memory.aget_all()]

    seen = asyncio.run(work_with(TenfoldMemory("one", store=store)))
    assert [[message.content for message in each] for each in seen] == [[], ["One?"], [], *[["Two?", "Yes."]] * 2]
    assert list_sessions(store) == ["one"]


def list_sessions(store: Path) -> list[str]:
    return sorted(row.info.id for row in open_store(store).list_sessions("default"))


def render(messages: Sequence[ChatMessage]) -> str:
    return json.dumps([CONVERTER.read(message) for message in messages])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "tenfold.db"


# -- messages ----------------------------------------------------------------------------------------------------------

BLOCKS = [
    TextBlock(text="Hello"),
    call(1),
    ToolCallBlock(tool_call_id="call1", tool_name="look", tool_kwargs='{"part": 1}'),
    ToolCallBlock(tool_name="look", tool_kwargs="no JSON"),
    ThinkingBlock(content="I think.", num_tokens=3, additional_information={"signature": "c2ln", "id": "rs_1"}),
    ThinkingBlock(content=None, additional_information={"data": b"\x00\xff"}),
    ImageBlock(image=PNG, detail="low"),
    ImageBlock(url="https://example.org/a.png"),
    AudioBlock(audio=PNG, format="mp3"),
    VideoBlock(video=PNG, video_mimetype="video/mp4", fps=2),
    DocumentBlock(data=b"%PDF", title="a", document_mimetype="application/pdf"),
    DocumentBlock(url="https://example.org/a.pdf"),
    CitableBlock(title="a", source="b", content=[TextBlock(text="cited words"), ImageBlock(image=PNG)]),
    CitationBlock(cited_content="words", source="b", title="a", additional_location_info={"page": 1}),
    CachePoint(cache_control=CacheControl(type="ephemeral")),
]
"""Every kind of block that LlamaIndex has."""
CACHE = CachePoint(cache_control=CacheControl(type="ephemeral", ttl="1h"))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: type(block).__name__)
def test_every_kind_of_block_is_converted_and_back(block: Any) -> None:  # noqa: ANN401 - they share no class
    for message in (
        ChatMessage(role="user", blocks=[block]),
        ChatMessage(
            role="assistant", blocks=[TextBlock(text="Before"), block, CACHE], additional_kwargs={"a": [b"\xff"]}
        ),
        ChatMessage(role="tool", blocks=[block, CACHE], additional_kwargs={"tool_call_id": "call1", "name": "look"}),
        ChatMessage(role="developer", blocks=[block]),
        ChatMessage(role="chatbot", blocks=[block]),
    ):
        assert CONVERTER.build(json.loads(json.dumps(CONVERTER.read(message)))) == [message]
        assert tenfold.from_messages(tenfold.to_messages([message]), "llama_index") == [message]


def test_an_image_in_a_file_is_converted_and_back_while_the_file_is_there(tmp_path: Path) -> None:
    place = tmp_path / "a.png"
    place.write_bytes(PNG)
    message = ChatMessage(role="user", blocks=[ImageBlock(path=place)])
    (item,) = CONVERTER.read(message)
    assert CONVERTER.build([item]) == [message]
    place.unlink()
    assert CONVERTER.build([item])[0].content == f"[image {place} not shown]"


def test_blocks_that_anthropic_has_are_its_own() -> None:
    uses = ChatMessage(role="assistant", blocks=[BLOCKS[4], BLOCKS[0], call(1), call(2)])
    results = [ChatMessage(role="tool", content="x", additional_kwargs={"tool_call_id": f"call{n}"}) for n in (1, 2)]
    read = [item for message in (uses, *results) for item in CONVERTER.read(message)]
    assert (
        find_refusal("messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}, *read]}) is None
    )
    assert [block["type"] for block in read[0]["content"]] == ["thinking", "text", "tool_use", "tool_use"]


def test_results_that_were_put_into_one_message_are_messages_again() -> None:
    results = [ChatMessage(role="tool", content="x", additional_kwargs={"tool_call_id": f"call{n}"}) for n in (1, 2)]
    joined = [block for message in results for block in CONVERTER.read(message)[0]["content"]]
    built = CONVERTER.build([{"role": "user", "content": [*joined, {"type": "text", "text": "Go on."}]}])
    assert built == [*results, ChatMessage(role="user", content="Go on.")]


@pytest.mark.parametrize(
    "calls",
    [
        [{"id": "call1", "type": "function", "function": {"name": "look", "arguments": '{"part": 1}'}}],
        [{"id": "call1", "name": "look", "input": {"part": 1}}],
        [{"tool_id": "call1", "tool_name": "look", "tool_kwargs": {"part": 1}}],
    ],
)
def test_calls_beside_the_blocks_are_read_and_stay_there(calls: list[Json]) -> None:
    message = ChatMessage(role="assistant", content="Look.", additional_kwargs={"tool_calls": calls})
    (item,) = CONVERTER.read(message)
    use = item["content"][1]
    assert (use["type"], use["id"], use["name"], use["input"]) == ("tool_use", "call1", "look", {"part": 1})
    assert CONVERTER.build([item]) == [message]


def test_calls_that_stand_in_both_places_are_read_once() -> None:
    both = ChatMessage(role="assistant", blocks=[call(1)], additional_kwargs={"tool_calls": [{"id": "call1"}]})
    (item,) = CONVERTER.read(both)
    assert [block["id"] for block in item["content"]] == ["call1"]
    assert CONVERTER.build([item]) == [say(call(1))]


def test_what_is_no_message_is_named(store: Path) -> None:
    with pytest.raises(BadInput, match="str is no message of LlamaIndex: pass ChatMessage"):
        CONVERTER.read("Hello")
    memory = TenfoldMemory("x", store=store)
    with pytest.raises(BadInput, match="dict is no message of LlamaIndex: pass ChatMessage"):
        memory.put({"role": "user", "content": "Hello"})
    assert memory.get_all() == []
    with pytest.raises(UsageError, match="a memory is named by the id of its conversation"):
        TenfoldMemory(42)  # type: ignore[arg-type]


# -- an agent ----------------------------------------------------------------------------------------------------------


def test_a_short_conversation_goes_out_as_it_is(store: Path) -> None:
    model, memory = Scripted(work(2)), TenfoldMemory("x", store=store, window=50_000)
    memory.put_messages([ChatMessage(role="user", blocks=[TextBlock(text="See"), BLOCKS[6]]), say("I see.")])
    assert run(FunctionAgent(tools=[look], llm=model), "Begin.", memory) == "Done."
    everything = memory.get_all()
    assert [len(sent) for sent in model.sent] == [3, 5, 7]
    assert list(map(id, model.sent[-1])) == list(map(id, everything[:-1]))


@pytest.mark.parametrize("streaming", [True, False])
def test_a_run_of_sixty_steps_stays_in_the_window(store: Path, streaming: bool) -> None:  # noqa: FBT001 - one of two
    model, memory = Scripted(work(60)), TenfoldMemory("x", store=store, window=WINDOW)
    agent = FunctionAgent(tools=[look, *RECALL], llm=model, system_prompt="You look.", streaming=streaming)
    assert run(agent, "Look at all. Never touch the secret.", memory) == "Done."
    assert max(len(render(sent)) for sent in model.sent) / 4 < WINDOW
    assert all(sent[0].content == "You look." for sent in model.sent)
    assert len(memory.get_all()) == 122
    assert "word1x60" in render(memory.get_all())
    last = render(model.sent[-1])
    assert "word1x60" not in last
    assert "Never touch the secret" in last
    assert "recall_read" in last
    kept = set(map(id, memory.get_all()))
    assert all(id(message) in kept for message in model.sent[-1][-2:])
    assert list_sessions(store) == ["x"]


def test_a_react_agent_stays_in_the_window(store: Path) -> None:
    done = 0

    def answer(_: Sequence[ChatMessage]) -> ChatMessage:
        nonlocal done
        done += 1
        if done > 30:
            return say("Thought: I can answer without using any more tools.\nAnswer: All is seen.")
        return say(f'Thought: Part {done} is next.\nAction: look\nAction Input: {{"part": {done}}}')

    model, memory = Scripted(answer), TenfoldMemory("x", store=store, window=WINDOW)
    assert run(ReActAgent(tools=[look], llm=model), "Look at all.", memory) == "All is seen."
    assert max(len(render(sent[1:])) for sent in model.sent) / 4 < WINDOW
    assert "word30x119" in render(model.sent[-1])
    assert "word1x60" not in render(model.sent[-1])
    assert "word1x60" in render(memory.get_all())
    assert "All is seen." in render(memory.get_all()[-1:])


def test_calls_at_once_stay_with_their_results(store: Path) -> None:
    steps = iter(range(1, 40, 2))

    def answer(_: Sequence[ChatMessage]) -> ChatMessage:
        step = next(steps, None)
        return say("Done.") if step is None else say(call(step), call(step + 1))

    model, memory = Scripted(answer), TenfoldMemory("x", store=store, window=WINDOW)
    run(FunctionAgent(tools=[look], llm=model), "Look at all.", memory)
    for sent in model.sent:
        items = [item for message in sent for item in CONVERTER.read(message)]
        assert find_refusal("messages", {"max_tokens": 9, "messages": items}) is None
        assert len(render(sent)) / 4 < WINDOW


def test_what_stands_beside_the_messages_is_counted(store: Path) -> None:
    sizes: list[int] = []
    for number, prompt in enumerate(("You look.", "You keep to the rules. " * 350)):
        model, memory = Scripted(work(30)), TenfoldMemory(f"{number}", store=store, window=WINDOW)
        run(FunctionAgent(tools=[look], llm=model, system_prompt=prompt), "Look at all.", memory)
        sizes.append(max(len(render(sent[1:])) for sent in model.sent))
    assert sizes[1] < 0.75 * sizes[0]


def test_a_policy_may_put_its_summary_into_the_system_prompt(store: Path) -> None:
    policy = "clip" if "clip" in tenfold.POLICIES else "tenfold.designs.clip.policy:clip"
    model, memory = Scripted(work(40)), TenfoldMemory("x", store=store, window=WINDOW, policy=policy)
    run(FunctionAgent(tools=[look], llm=model, system_prompt="You look."), "Look at all.", memory)
    assert [message.role.value for message in model.sent[-1][:3]] == ["system", "system", "user"]
    assert model.sent[-1][0].content == "You look."
    assert (model.sent[-1][1].content or "").startswith("[Context Summary")


def test_the_state_of_an_agent_is_shown_with_the_task(store: Path) -> None:
    model, memory = Scripted(work(20)), TenfoldMemory("x", store=store, window=WINDOW)
    agent = FunctionAgent(tools=[look], llm=model, initial_state={"name": "Ada"})
    for task in ("Look at all.", "Once more."):
        assert run(agent, task, memory) == "Done."
    assert "Ada" in render(model.sent[0])
    assert len(memory.get_all()) == 84
    assert max(len(render(sent)) for sent in model.sent) / 4 < WINDOW


def test_a_run_that_is_stopped_early_sees_its_steps(store: Path) -> None:
    model, memory = Scripted(work(30)), TenfoldMemory("x", store=store, window=WINDOW)
    agent = FunctionAgent(tools=[look], llm=model, early_stopping_method="generate")

    async def wait() -> None:
        await agent.run("Look at all.", memory=memory, max_iterations=5)

    asyncio.run(wait())
    last = model.sent[-1]
    assert "word4x7" in render(last)
    assert [message.role.value for message in last[-2:]] == ["tool", "system"]
    items = [item for message in last[:-1] for item in CONVERTER.read(message)]
    assert find_refusal("messages", {"max_tokens": 9, "messages": items}) is None


def test_agents_that_hand_over_share_the_memory(store: Path) -> None:
    steps = iter(
        [
            say(call(1)),
            say(call(2, "handoff", to_agent="second", reason="It is your part.")),
            say(call(3)),
            say("Done."),
        ]
    )
    model, memory = Scripted(lambda _: next(steps)), TenfoldMemory("x", store=store, window=WINDOW)
    agents = [
        FunctionAgent(name=name, description=f"The {name} one.", tools=[look], llm=model)
        for name in ("first", "second")
    ]
    assert run(AgentWorkflow(agents=agents, root_agent="first"), "Begin.", memory) == "Done."
    assert "word1x7" in render(model.sent[-1])
    assert render(memory.get_all()).count("It is your part.") == 2
    assert list_sessions(store) == ["x"]


def test_an_agent_in_a_tool_is_apart(store: Path) -> None:
    inner = Scripted(work(2))

    async def ask(question: str) -> str:
        """Asks another agent."""
        helper = FunctionAgent(tools=[look], llm=inner)
        return str(await helper.run(question, memory=TenfoldMemory("x/helper", store=store, window=WINDOW)))

    steps = iter([say(call(1)), say(call(2, "ask", question="What else?")), say("Done.")])
    outer, memory = Scripted(lambda _: next(steps)), TenfoldMemory("x", store=store, window=WINDOW)
    assert run(FunctionAgent(tools=[look, ask], llm=outer), "Begin.", memory) == "Done."
    assert list_sessions(store) == ["x", "x/helper"]
    assert "Begin." not in render(inner.sent[-1])
    assert "word2x7" not in render(outer.sent[-1])
    assert len(memory.get_all()) == 6


def test_a_memory_takes_over_the_steps_of_its_own_run_alone(store: Path) -> None:
    other = TenfoldMemory("x", store=store, window=WINDOW)

    async def remember(part: int) -> str:
        """Looks into another memory."""
        return f"{part}: {await other.aget()}"

    steps = iter([say(call(1)), say(call(2, "remember")), say("Done.")])
    model = Scripted(lambda _: next(steps))
    run(FunctionAgent(tools=[look, remember], llm=model), "Begin.", None)
    assert other.get_all() == []
    assert "word1x7" in render(model.sent[-1])


def test_a_chat_engine_has_it_too(store: Path) -> None:
    model, memory = Scripted(lambda _: say("word " * 200)), TenfoldMemory("x", store=store, window=WINDOW)
    engine = SimpleChatEngine.from_defaults(llm=model, memory=memory, system_prompt="You talk.")
    for number in range(30):
        engine.chat(f"Question {number}")
    assert len(memory.get_all()) == 60
    assert max(len(render(sent)) for sent in model.sent) / 4 < WINDOW


# -- looking things up -------------------------------------------------------------------------------------------------


def test_the_model_looks_up_what_it_no_longer_sees(store: Path) -> None:
    model, memory = Scripted(work(30)), TenfoldMemory("x", store=store, window=WINDOW)
    agent = FunctionAgent(tools=[look, *RECALL], llm=model)
    run(agent, "Look at all.", memory)
    found = iter([say(call(99, "recall_search", words="word2x77")), say("Found.")])
    model.response_generator = lambda messages, **_: model.note(lambda _: next(found), messages)
    run(agent, "What did part 2 say?", memory)
    assert "word2x77" in (model.sent[-1][-1].content or "")


def test_nothing_is_said_of_tools_that_are_not_offered(store: Path) -> None:
    model, memory = Scripted(work(30)), TenfoldMemory("x", store=store, window=WINDOW)
    run(FunctionAgent(tools=[look], llm=model), "Look at all.", memory)
    assert "word1x60" not in render(model.sent[-1])
    assert "recall_" not in render(model.sent[-1])


def test_the_tools_say_which_memory_they_need() -> None:
    steps = iter([say(call(1, "recall_search", words="a")), say("Done.")])
    model = Scripted(lambda _: next(steps))
    run(FunctionAgent(tools=RECALL, llm=model), "Begin.", None)
    assert "run the agent with memory=TenfoldMemory" in (model.sent[-1][-1].content or "")


# -- restarts ----------------------------------------------------------------------------------------------------------


def test_a_restart_with_a_lost_list_goes_on(store: Path) -> None:
    for task in ("Look at all. The password is plover.", "Go on."):
        model, memory = Scripted(work(12)), TenfoldMemory("x", store=store, window=WINDOW)
        run(FunctionAgent(tools=[look], llm=model), task, memory)
    assert "plover" in render(model.sent[0])
    assert "plover" in render(model.sent[-1])
    assert max(len(render(sent)) for sent in model.sent) / 4 < WINDOW
    assert len(memory.get_all()) == 52
    assert "word1x60" in render(memory.get_all())
    assert list_sessions(store) == ["x"]
    assert "plover" in render(TenfoldMemory("x", store=store).get())


def test_a_host_that_keeps_the_list_itself_goes_on(store: Path) -> None:
    first, memory = Scripted(work(12)), TenfoldMemory("x", store=store, window=WINDOW)
    agent = FunctionAgent(tools=[look], llm=first)
    run(agent, "Look at all. The password is plover.", memory)
    kept = memory.get_all()
    second, memory = Scripted(work(12)), TenfoldMemory("x", store=store, window=WINDOW)
    run(FunctionAgent(tools=[look], llm=second), "Go on.", memory, chat_history=kept)
    assert render(second.sent[-1]).count("plover") == 1
    assert len(memory.get_all()) == 52
    assert max(len(render(sent)) for sent in second.sent) / 4 < WINDOW


def test_a_context_is_saved_and_goes_on(store: Path) -> None:
    model = Scripted(work(2))
    agent = FunctionAgent(tools=[look], llm=model)

    async def wait() -> None:
        context = Context(agent)
        await agent.run("The password is plover.", memory=TenfoldMemory("x", store=store, window=WINDOW), ctx=context)
        saved = json.loads(json.dumps(context.to_dict()))
        await agent.run("Go on.", ctx=Context.from_dict(agent, saved))

    asyncio.run(wait())
    assert "plover" in render(model.sent[-1])
    assert list_sessions(store) == ["x"]


def test_a_reset_forgets_all(store: Path) -> None:
    memory = TenfoldMemory("x", store=store, window=WINDOW)
    memory.put(ChatMessage(role="user", content="The password is plover."))
    memory.reset()
    assert list_sessions(store) == []
    assert memory.get() == memory.get_all() == []
    memory.put(ChatMessage(role="user", content="Hello"))
    assert [message.content for message in memory.get()] == ["Hello"]
    memory.set([ChatMessage(role="user", content="Hello"), say("Hi.")])
    assert [message.content for message in memory.get()] == ["Hello", "Hi."]


def test_a_memory_knows_the_window_of_its_model(store: Path) -> None:
    memory = TenfoldMemory.from_defaults("x", llm=Scripted(work(1)), store=store)
    assert memory.options == {"model": "scripted", "window": WINDOW, "store": str(store)}
    assert TenfoldMemory().session != TenfoldMemory().session


# -- the provider ------------------------------------------------------------------------------------------------------


def answer_steps(count: int, surplus: int = 0) -> Callable[[Got], Served]:
    """A provider whose model looks at so many parts, and says how many tokens each request was, and a surplus."""
    made = 0

    def answer(got: Got) -> Served:
        nonlocal made
        made += 1
        used = surplus + COUNTER.count([json.dumps(got.body["messages"])])[0]
        if made > count:
            return Served("Done.", tokens=(used, 10))
        return Served(finish="tool", call=(f"{made}", "look", {"part": made}), tokens=(used, 10))

    return answer


def make_client(provider: Loopback) -> OpenAI:
    return OpenAI("gpt-4o-mini", api_base=f"{provider.url}/v1", api_key="none", max_retries=0, reuse_client=False)


@pytest.mark.parametrize("surplus", [0, 2_700])
def test_what_was_used_is_reported(store: Path, surplus: int) -> None:
    """The counts of the provider say that the window is nearly full, those of the texts do not."""
    with Loopback(script=answer_steps(4, surplus)) as provider:
        agent = FunctionAgent(tools=[look, *RECALL], llm=make_client(provider), streaming=False)
        assert run(agent, "Look at all.", TenfoldMemory("x", store=store, window=WINDOW)) == "Done."
    said = json.dumps(provider.requests[-1].body["messages"])
    assert ("recall_" in said) == bool(surplus)


@pytest.mark.parametrize("streaming", [True, False])
def test_a_refusal_is_answered_by_a_shorter_request(store: Path, streaming: bool) -> None:  # noqa: FBT001 - one of two
    """LlamaIndex ends the run, and the next one goes on where it was."""
    error = "This model's maximum context length is 3000 tokens. However, your messages resulted in 3500 tokens."
    refused, answer = list[Got](), answer_steps(12)

    def refuse(got: Got) -> Served:
        if got.size > 9_000 and not refused:
            refused.append(got)
            return Served(status=400, body={"error": {"message": error, "code": "context_length_exceeded"}})
        return answer(got)

    memory = TenfoldMemory("x", store=store)
    with Loopback(script=refuse) as provider:
        agent = FunctionAgent(tools=[look], llm=make_client(provider), streaming=streaming)
        with pytest.raises(Exception, match="maximum context length"):
            run(agent, "Look at all.", memory)
        assert run(agent, "Go on.", memory) == "Done."
    after = provider.requests[provider.requests.index(refused[0]) + 1]
    assert after.size < refused[0].size
    assert "Look at all." in after.prompt
    assert all(got.size < 12_000 for got in provider.requests)
