"""The model and the compaction strategy for Inspect, with Inspect's own evaluations, agents, tools and messages."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="make adapters installs it")

import inspect_ai
from inspect_ai import Task
from inspect_ai.agent import as_tool, react
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalSample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    ContentAudio,
    ContentData,
    ContentDocument,
    ContentImage,
    ContentReasoning,
    ContentText,
    ContentToolUse,
    ContentVideo,
    GenerateConfig,
    ModelAPI,
    ModelOutput,
    ModelUsage,
    get_model,
    modelapi,
)
from inspect_ai.tool import Tool, ToolCall, ToolCallError, ToolInfo, tool

import tenfold
from tenfold.apps.adapters.inspect_ai import TenfoldCompaction, tenfold_model
from tenfold.errors import BadInput, UsageError
from tenfold.formats.objects.inspect_ai import CONVERTER
from tenfold.store.location import open_store
from tests.adapters.watched_store import WatchedStore
from tests.models.loopback import Got, Loopback, Served

Answer = Callable[[list[ChatMessage]], ModelOutput]
WINDOW = 6_000
TASK = "Look at all parts. Never touch config/secret.toml."


@modelapi(name="scripted")
class Scripted(ModelAPI):
    """A model that keeps what it is sent, and counts three characters as a token."""

    def __init__(self, model_name: str, *_: object, answer: Answer | None = None, **__: object) -> None:
        super().__init__(model_name)
        self.answer = answer or work(20)
        self.sent: list[list[ChatMessage]] = []
        self.tools: list[str] = []

    async def generate(
        self, input: list[ChatMessage], tools: list[ToolInfo], tool_choice: object, config: GenerateConfig
    ) -> ModelOutput:
        """Gives the answer."""
        assert tool_choice
        assert config
        self.sent.append(input)
        self.tools = [each.name for each in tools]
        output = self.answer(input)
        offered = sum(len(each.model_dump_json(exclude_none=True)) for each in tools) // 3
        output.usage = ModelUsage(input_tokens=count(input) + offered, output_tokens=10)
        return output

    async def count_text_tokens(self, text: str) -> int:
        """Counts as the tests do."""
        return len(text) // 3


def count(messages: list[ChatMessage]) -> int:
    return sum(len(message.model_dump_json(exclude={"id"})) for message in messages) // 3


def say(text: str) -> ModelOutput:
    return ModelOutput.from_content("scripted", text)


def call(number: int, name: str = "look", **arguments: object) -> ModelOutput:
    given = arguments or {"part": number}
    text, name_of_call = f"I look at part {number}.", f"call{number}"
    return ModelOutput.for_tool_call("scripted", name, given, tool_call_id=name_of_call, content=text)


def work(steps: int) -> Answer:
    """A model that looks at one part after the other, and then is done."""
    done = 0

    def answer(_: list[ChatMessage]) -> ModelOutput:
        nonlocal done
        done += 1
        if done > steps:
            done = 0
            return say("Done.")
        return call(done)

    return answer


@tool
def look() -> Tool:
    async def execute(part: int) -> str:
        """Looks at a part.

        Args:
            part: Its number.
        """
        return f"part {part} " + " ".join(f"word{part}x{n}" for n in range(120))

    return execute


def run(agent: Any, model: Any, folder: Path, *samples: Sample, **settings: Any) -> list[EvalSample]:  # noqa: ANN401
    task = Task(dataset=list(samples) or [Sample(input=TASK, id=1)], solver=agent)
    (log,) = inspect_ai.eval(task, model=model, display="none", log_dir=str(folder / "logs"), **settings)
    assert log.status == "success", log.error
    return log.samples or []


def make_agent(store: Path, **settings: Any) -> Any:  # noqa: ANN401 - an agent
    tools = settings.pop("tools", [look()])
    return react(tools=tools, submit=False, model=tenfold_model(store=store, window=WINDOW, **settings))


def build_scripted(answer: Answer | None = None) -> Any:  # noqa: ANN401 - a model whose `api` is a Scripted
    return get_model("scripted/model", memoize=False, answer=answer)


def list_sessions(store: Path) -> list[str]:
    return sorted(row.info.id for row in open_store(store).list_sessions("default"))


def render(messages: list[ChatMessage]) -> str:
    return json.dumps([message.model_dump(mode="json") for message in messages])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "tenfold.db"


# -- messages ----------------------------------------------------------------------------------------------------------

CALLS = [ToolCall("functions.look:0", "look", {"part": [1, "ü"]})]
MESSAGES: list[ChatMessage] = [
    ChatMessageSystem(content="You look at parts."),
    ChatMessageUser(content="Hello", source="input", metadata={"key": 1}),
    ChatMessageUser(content=[ContentText(text="one"), ContentText(text="two")], tool_call_id=["a"]),
    ChatMessageUser(content=[ContentImage(image="data:image/png;base64,aaaa", detail="high"), ContentImage(image="i")]),
    ChatMessageUser(content=[ContentDocument(document="data:application/pdf;base64,aaaa", filename="a.pdf")]),
    ChatMessageUser(content=[ContentDocument(document="a", mime_type="text/odd", citations=True)]),
    ChatMessageUser(content=[ContentAudio(audio="a.mp3", format="mp3"), ContentVideo(video="b.mov", format="mov")]),
    ChatMessageAssistant(content="Hi", tool_calls=CALLS, model="m", source="generate"),
    ChatMessageAssistant(content="", tool_calls=[ToolCall("1", "look", {}, parse_error="bad", type="custom")]),
    ChatMessageAssistant(content=[ContentReasoning(reasoning="I think.", signature="s"), ContentText(text="So.")]),
    ChatMessageAssistant(
        content=[ContentReasoning(reasoning="x", redacted=True, summary="In short")], tool_calls=CALLS
    ),
    ChatMessageAssistant(
        content=[
            ContentText(text="Before", internal={"a": 1}),
            ContentToolUse(tool_type="web_search", id="w", name="search", arguments="q", result="found"),
            ContentText(text="After"),
            ContentData(data={"some": "data"}),
        ]
    ),
    ChatMessageTool(content="out", tool_call_id="1", function="look"),
    ChatMessageTool(content=[ContentText(text="out"), ContentImage(image="i")], tool_call_id="1", function="look"),
    ChatMessageTool(content="some", error=ToolCallError("timeout", "too slow"), tool_call_id="1", function="look"),
    ChatMessageTool(content="", error=ToolCallError("parsing", "no such part"), tool_call_id="1", function="look"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.role)
def test_every_kind_of_message_is_converted_and_back(message: ChatMessage) -> None:
    items = CONVERTER.read(message)
    assert CONVERTER.build(json.loads(json.dumps(items))) == [message]
    assert tenfold.to_messages([message]) == items


def test_what_the_model_thought_and_searched_is_read_as_text() -> None:
    thought, searched, failed = (CONVERTER.read(MESSAGES[at])[0] for at in (9, 11, 14))
    assert thought["reasoning_content"] == "I think."
    assert "found" in json.dumps(searched["content"])
    assert failed["content"] == "Error: too slow"


def test_what_is_not_in_the_form_of_inspect_is_built() -> None:
    function = {"name": "look", "arguments": "{broken"}
    built = CONVERTER.build(
        [
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "So",
                "tool_calls": [{"id": "1", "function": function}],
            },
            {"role": "tool", "tool_call_id": "1", "content": "[output removed]"},
        ]
    )
    assert built[0].tool_calls == [ToolCall("1", "look", {"arguments": "{broken"})]
    assert built[0].content == [ContentReasoning(reasoning="So")]
    assert built[1].tool_call_id == "1"


@pytest.mark.parametrize("wrong", ["text", {"role": "user", "content": "text"}, None])
def test_a_wrong_message_is_refused_with_what_to_pass(wrong: object) -> None:
    with pytest.raises(BadInput, match=r"no message of Inspect: pass ChatMessageUser"):
        CONVERTER.read(wrong)


# -- the model ---------------------------------------------------------------------------------------------------------


def test_the_window_is_kept_and_the_log_is_whole(tmp_path: Path, store: Path) -> None:
    model = build_scripted(work(40))
    (sample,) = run(make_agent(store), model, tmp_path)
    assert max(map(count, model.api.sent)) < WINDOW
    assert len(sample.messages) == 2 + 2 * 40 + 1
    assert "removed" not in render(sample.messages)
    assert "removed" in render(model.api.sent[-1])
    assert all(m.function == "look" for m in model.api.sent[-1] if isinstance(m, ChatMessageTool))
    assert [m.role for m in model.api.sent[-1]].count("system") == 1
    assert "Never touch config/secret.toml" in render(model.api.sent[-1])
    assert len(list_sessions(store)) == 1
    assert open_store(store).search("default", "word3x17")


def test_what_is_no_longer_seen_is_looked_up(tmp_path: Path, store: Path) -> None:
    model = build_scripted()

    def answer(messages: list[ChatMessage]) -> ModelOutput:
        if len(model.api.sent) <= 20:
            return call(len(model.api.sent))
        last = messages[-1]
        if isinstance(last, ChatMessageTool) and last.function == "recall_search":
            return say("Found." if "word2x17" in last.text else "Lost.")
        assert "word2x17" not in render(messages)
        return call(0, "recall_search", words="word2x17")

    model.api.answer = answer
    (sample,) = run(make_agent(store), model, tmp_path)
    assert sample.output.completion == "Found."
    assert [m.function for m in sample.messages if isinstance(m, ChatMessageTool)][-1] == "recall_search"


def test_a_lookup_beside_another_call_is_refused_and_the_other_is_made(tmp_path: Path, store: Path) -> None:
    def answer(messages: list[ChatMessage]) -> ModelOutput:
        if isinstance(messages[-1], ChatMessageTool):
            return say("Done.")
        both = call(1)
        assert both.message.tool_calls
        both.message.tool_calls.append(ToolCall("call2", "recall_search", {"words": "part"}))
        return both

    (sample,) = run(make_agent(store), build_scripted(answer), tmp_path)
    looked, refused = (message for message in sample.messages if isinstance(message, ChatMessageTool))
    assert "word1x5" in looked.text
    assert refused.error
    assert sample.output.completion == "Done."


def test_without_recall_no_tools_are_offered(tmp_path: Path, store: Path) -> None:
    model = build_scripted()
    run(make_agent(store, recall=False), model, tmp_path)
    assert model.api.tools == ["look"]
    assert "recall" not in render(model.api.sent[-1])


def test_a_named_session_goes_on_in_the_next_evaluation(tmp_path: Path, store: Path) -> None:
    run(make_agent(store, session="mine"), build_scripted(), tmp_path)
    model = build_scripted()
    run(make_agent(store, session="mine"), model, tmp_path, Sample(input="Go on.", id=1))
    assert list_sessions(store) == ["mine/1/1"]
    assert tenfold.open_session("mine/1/1", store=store).take_reading().source != "estimated"
    first = model.api.sent[0]
    assert [first[0].role, first[-1].text] == ["system", "Go on."]
    assert "word20x5" in render(first)
    assert max(map(count, model.api.sent)) < WINDOW


def test_each_sample_and_epoch_and_run_has_a_session_of_its_own(tmp_path: Path, store: Path) -> None:
    samples = [Sample(input=[ChatMessageUser(content=TASK)], id=number) for number in (1, 2)]
    for _ in range(2):
        run(make_agent(store), build_scripted(lambda _: say("Done.")), tmp_path, *samples, epochs=2)
    assert len(list_sessions(store)) == 8


def test_an_agent_that_another_one_runs_is_apart(tmp_path: Path, store: Path) -> None:
    model = tenfold_model(store=store, window=WINDOW, session="mine")
    inner = react(name="inner", description="Looks.", tools=[look()], submit=False, model=model)
    outer = react(tools=[as_tool(inner)], submit=False, model=model)
    told: list[str] = []

    def answer(messages: list[ChatMessage]) -> ModelOutput:
        last = messages[-1]
        if any("Look for me" in m.text for m in messages if m.role == "user"):
            if isinstance(last, ChatMessageTool) and last.function == "look":
                return call(3, "recall_search", words="secret")
            if isinstance(last, ChatMessageTool):
                told.append(last.text)
                return say("I have looked.")
            return call(1)
        return say("Done.") if last.role == "tool" else call(2, "inner", input="Look for me")

    run(outer, build_scripted(answer), tmp_path)
    names = list_sessions(store)
    assert len(names) == 2
    assert names[0] == "mine/1/1"
    assert names[1].startswith("mine/1/1/")
    assert told == ["nothing in this conversation holds 'secret'"]


def test_a_refused_request_is_sent_again_shorter(tmp_path: Path, store: Path) -> None:
    limit = 12_000
    said = work(14)

    def answer(got: Got) -> Served:
        if got.size > limit:
            error = {
                "message": "This model's maximum context length is 3000 tokens.",
                "code": "context_length_exceeded",
            }
            return Served(status=400, body={"error": {**error, "type": "invalid_request_error", "param": "messages"}})
        made = said([]).message.tool_calls
        if not made:
            return Served("Done.")
        return Served("Next.", "tool", call=(made[0].id, "look", made[0].arguments), tokens=(got.size // 4, 10))

    agent = react(tools=[look()], submit=False, model=tenfold_model(store=store, window=1_000_000))
    with Loopback(script=answer) as provider:
        model = get_model("openai/gpt-4.1-mini", base_url=f"{provider.url}/v1", api_key="nothing", memoize=False)
        (sample,) = run(agent, model, tmp_path)
    sizes = [got.size for got in provider.requests]
    refused = [at for at, size in enumerate(sizes) if size > limit]
    assert refused
    assert all(sizes[at + 1] < limit for at in refused)
    assert sample.output.completion == "Done."
    assert len(sample.messages) == 2 + 2 * 14 + 1


def test_what_cannot_be_made_shorter_ends_as_the_provider_says(tmp_path: Path, store: Path) -> None:
    refusal = ModelOutput.from_content("scripted", "prompt is too long", stop_reason="model_length")
    (sample,) = run(make_agent(store), build_scripted(lambda _: refusal), tmp_path)
    assert sample.output.stop_reason == "model_length"


def test_a_wrong_model_is_refused() -> None:
    with pytest.raises(UsageError, match="no model of Inspect"):
        tenfold_model(look())


# -- the strategy ------------------------------------------------------------------------------------------------------


def make_list(steps: int) -> list[ChatMessage]:
    messages: list[ChatMessage] = [
        ChatMessageSystem(content="You look."),
        ChatMessageUser(content=TASK, source="input"),
    ]
    for number in range(steps):
        answer = call(number).message
        answer.content = [ContentReasoning(reasoning="I think.", signature="s"), ContentText(text=f"Part {number}.")]
        words = f"part {number} " + " ".join(f"word{number}x{n}" for n in range(120))
        messages += [answer, ChatMessageTool(content=words, tool_call_id=f"call{number}", function="look")]
    return messages


def test_the_store_is_not_asked_on_the_event_loop(tmp_path: Path) -> None:
    """Nor are reports written there: other requests would wait for whoever holds the store or the session."""
    store = WatchedStore(tmp_path / "w.db")
    options: Any = {"store": store, "window": WINDOW}
    run(react(tools=[look()], submit=False, model=tenfold_model(**options)), build_scripted(work(1)), tmp_path)
    asyncio.run(TenfoldCompaction(session="mine", **options).compact(build_scripted(), make_list(2), []))
    assert store.askers
    assert threading.get_ident() not in store.askers


def test_a_list_is_compacted_and_what_stays_are_the_same_objects(store: Path) -> None:
    strategy, messages = TenfoldCompaction(store=store, window=WINDOW, session="mine"), make_list(20)
    shown, added = asyncio.run(strategy.compact(build_scripted(), messages, []))
    assert added is None
    assert count(shown) < count(messages) / 2
    assert shown[:2] == messages[:2]
    assert shown[-1] is messages[-1]
    kept = [message for message in shown if message in messages]
    assert {id(message) for message in kept} <= set(map(id, messages))
    assert len(kept) >= 6
    again, _ = asyncio.run(strategy.compact(build_scripted(), [*shown, ChatMessageUser(content="Go on.")], []))
    assert again[-1].text == "Go on."
    assert count(again) < count(shown)
    assert list_sessions(store) == ["mine"]


def test_react_takes_the_strategy_and_its_tools(tmp_path: Path, store: Path) -> None:
    strategy, model = TenfoldCompaction(store=store, window=WINDOW), build_scripted(work(40))
    agent = react(tools=[look(), strategy], submit=False, compaction=strategy)
    (sample,) = run(agent, model, tmp_path)
    assert model.api.tools == ["look", "recall_search", "recall_read", "recall_expand"]
    assert max(map(count, model.api.sent)) < WINDOW
    assert "gives it back" in render(model.api.sent[-1])
    assert len(sample.messages) == 2 + 2 * 40 + 1
    assert len(list_sessions(store)) == 1


def test_the_strategy_answers_a_refusal(tmp_path: Path, store: Path) -> None:
    said = work(20)

    def answer(messages: list[ChatMessage]) -> ModelOutput:
        if count(messages) > WINDOW:
            return ModelOutput.from_content("scripted", "prompt is too long", stop_reason="model_length")
        return said(messages)

    strategy = TenfoldCompaction(store=store, window=1_000_000)
    (sample,) = run(react(tools=[look()], submit=False, compaction=strategy), build_scripted(answer), tmp_path)
    assert sample.output.completion == "Done."


@pytest.mark.parametrize("threshold", [0, -1, "much"])
def test_a_wrong_threshold_is_refused(threshold: Any) -> None:  # noqa: ANN401 - that is the test
    with pytest.raises(UsageError, match="a share of the window"):
        TenfoldCompaction(threshold=threshold)


def test_a_threshold_is_a_share_of_the_window_or_tokens() -> None:
    assert TenfoldCompaction(window=1_000).threshold == 850
    assert TenfoldCompaction(threshold=0.5, window=1_000).threshold == 500
    assert TenfoldCompaction(threshold=700, window=1_000).threshold == 700
    assert TenfoldCompaction(threshold=0.5).threshold == 0.5
