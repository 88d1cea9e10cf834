"""The hooks for Haystack, with Haystack's own agents, tools, messages and pipelines."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("haystack", reason="make adapters installs it")

from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.components.generators.chat import MockChatGenerator
from haystack.dataclasses import ChatMessage, FileContent, ImageContent, ReasoningContent, TextContent, ToolCall
from haystack.tools import Tool, create_tool_from_function

import tenfold
from tenfold.apps.adapters.haystack import SESSION_KEY, ShorterRetry, TenfoldHook, WholeHistoryHook, build_hooks
from tenfold.errors import BadInput, UsageError
from tenfold.formats.objects.haystack import CONVERTER
from tenfold.store.location import open_store
from tests.adapters.watched_store import WatchedStore

LONG = "The belt of line seven runs at four metres a second. " * 60
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()
Answer = Callable[[list[ChatMessage]], ChatMessage]


def measure(belt: str) -> str:
    """Measures a belt."""
    return f"{belt}: {LONG}"


def call_measure(number: int) -> ChatMessage:
    call = ToolCall("measure", {"belt": f"line {number}"}, id=f"c{number}")
    return ChatMessage.from_assistant("I measure.", tool_calls=[call])


def work(steps: int) -> Answer:
    """Calls the tool so many times, and then says that it is done."""
    done = [0]

    def answer(_: list[ChatMessage]) -> ChatMessage:
        done[0] += 1
        return call_measure(done[0]) if done[0] % (steps + 1) else ChatMessage.from_assistant("All is measured.")

    return answer


class Model:
    """Haystack's own mock of a model, which answers by a function, and what it was sent."""

    def __init__(self, answer: Answer) -> None:
        self.sent: list[list[ChatMessage]] = []
        self.offered: list[list[str]] = []
        self._answer = answer
        self.generator = MockChatGenerator(response_fn=self._respond, model="gpt-4o")

    def _respond(self, messages: list[ChatMessage], tools: list[Tool]) -> ChatMessage:
        self.sent.append(list(messages))
        self.offered.append([tool.name for tool in tools or []])
        return self._answer(messages)


def build_agent(model: Model, path: Path, session: str = "t", *, window: int = 6_000, **more: Any) -> Agent:  # noqa: ANN401
    options = {"chat_generator": model.generator, "tools": [create_tool_from_function(measure)]} | more
    hooks = build_hooks(session, window=window, store=path / "s.db")
    return Agent(**{"system_prompt": "Measure the belts.", "hooks": hooks} | options)


def run(agent: Agent, *messages: ChatMessage | str, **more: Any) -> list[ChatMessage]:  # noqa: ANN401 - Haystack's
    given = [ChatMessage.from_user(each) if isinstance(each, str) else each for each in messages]
    result: list[ChatMessage] = agent.run(messages=given, **more)["messages"]
    return result


def render(messages: list[ChatMessage]) -> str:
    return "\n".join(str(message.to_dict()) for message in messages)


def count(messages: list[ChatMessage]) -> int:
    return len(render(messages)) // 4


def list_sessions(path: Path) -> set[str]:
    store = open_store(path / "s.db")
    names = {row.info.id for row in store.list_sessions("default")}
    store.close()
    return names


# -- a run -------------------------------------------------------------------------------------------------------------


def test_a_long_run_stays_in_the_window_and_the_history_is_whole(tmp_path: Path) -> None:
    model = Model(work(30))
    messages = run(build_agent(model, tmp_path), "Never touch line nine.")
    assert len(messages) == 63
    assert messages[3].tool_call_result.result == measure("line 1")
    assert max(map(count, model.sent)) < 7_000 < count(messages)
    assert "Never touch line nine." in render(model.sent[-1])
    assert [message.text for message in model.sent[-1]].count("Measure the belts.") == 1
    assert model.sent[-1][-1] is messages[-2]


def test_results_that_were_shortened_still_name_their_tool(tmp_path: Path) -> None:
    model = Model(work(20))
    messages = run(build_agent(model, tmp_path), "Go.")
    results = [result for message in model.sent[-1] if (result := message.tool_call_result) is not None]
    whole = {result.result for message in messages if (result := message.tool_call_result) is not None}
    assert any(result.result not in whole for result in results)
    assert {result.origin.tool_name for result in results} == {"measure"}


def test_what_fits_goes_out_as_the_same_objects(tmp_path: Path) -> None:
    model = Model(work(1))
    messages = run(build_agent(model, tmp_path, window=100_000), "Go.")
    assert [id(message) for message in model.sent[-1]] == [id(message) for message in messages[:-1]]


def test_without_the_second_hook_the_agent_works_from_the_view(tmp_path: Path) -> None:
    model = Model(work(30))
    hook = TenfoldHook("t", window=6_000, store=tmp_path / "s.db")
    messages = run(build_agent(model, tmp_path, hooks={"before_llm": [hook]}), "Never touch line nine.")
    assert max(map(count, model.sent)) < 7_000
    assert len(messages) < 40
    path = tenfold.open_session("t", store=tmp_path / "s.db").view.path
    assert sum(message.role == "tool" for _, message in path.list_messages()) == 30


def test_coroutines_see_the_same(tmp_path: Path) -> None:
    model = Model(work(20))
    agent = build_agent(model, tmp_path)
    result = asyncio.run(agent.run_async(messages=[ChatMessage.from_user("Go.")]))
    assert len(result["messages"]) == 43
    assert max(map(count, model.sent)) < 7_000


def test_the_store_is_not_asked_on_the_event_loop(tmp_path: Path) -> None:
    """Nor are reports written there: other requests would wait for whoever holds the store or the session."""
    store = WatchedStore(tmp_path / "w.db")
    usage = {"usage": {"prompt_tokens": 900, "completion_tokens": 9}}
    calls = iter([call_measure(1), ChatMessage.from_assistant("All is measured.")])
    generator = MockChatGenerator(response_fn=lambda *_, **__: next(calls), model="gpt-4o", meta=usage)
    tools, hooks = [create_tool_from_function(measure)], build_hooks("t", store=store)
    agent = Agent(chat_generator=generator, tools=tools, hooks=hooks)
    asyncio.run(agent.run_async(messages=[ChatMessage.from_user("Go.")]))
    assert store.askers
    assert threading.get_ident() not in store.askers


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_a_new_process_with_a_new_list_goes_on_from_the_session(tmp_path: Path) -> None:
    run(build_agent(Model(work(3)), tmp_path, window=100_000), "The code of the safe is 7731.")
    model = Model(lambda _: ChatMessage.from_assistant("7731"))
    messages = run(build_agent(model, tmp_path, window=100_000), "Which code was it?")
    assert [message.text for message in model.sent[0][:2]] == ["Measure the belts.", "The code of the safe is 7731."]
    assert [message.text for message in model.sent[0][-2:]] == ["All is measured.", "Which code was it?"]
    assert [message.text for message in messages] == ["Measure the belts.", "Which code was it?", "7731"]
    session = tenfold.open_session("t", store=tmp_path / "s.db")
    assert [message.role for message in session.view.get_messages()].count("user") == 2


def test_a_run_in_a_new_process_goes_on_after_its_view_was_compacted(tmp_path: Path) -> None:
    run(build_agent(Model(work(20)), tmp_path), "Never touch line nine.")
    model = Model(work(20))
    run(build_agent(model, tmp_path), "Go on.")
    assert max(map(count, model.sent)) < 7_000
    assert all("Never touch line nine." in render(sent) and "Go on." in render(sent) for sent in model.sent)


def test_a_history_that_is_passed_back_is_not_stored_twice(tmp_path: Path) -> None:
    model = Model(work(12))
    agent = build_agent(model, tmp_path)
    first = run(agent, "One.")
    run(agent, *first[1:], ChatMessage.from_user("Two."))
    path = tenfold.open_session("t", store=tmp_path / "s.db").view.path
    texts = [tenfold_message.role for _, tenfold_message in path.list_messages()]
    assert texts.count("user") == 2
    assert texts.count("tool") == 24


def test_a_run_can_name_its_session(tmp_path: Path) -> None:
    model = Model(lambda _: ChatMessage.from_assistant("Fine."))
    agent = build_agent(model, tmp_path, session="")
    run(agent, "I am Ada.", hook_context={SESSION_KEY: "ada"})
    run(agent, "I am Bob.", hook_context={SESSION_KEY: "bob"})
    run(agent, "Who am I?", hook_context={SESSION_KEY: "ada"})
    assert list_sessions(tmp_path) == {"ada", "bob"}
    assert "I am Ada." in render(model.sent[-1])
    assert "Bob" not in render(model.sent[-1])


def test_runs_without_a_name_are_apart(tmp_path: Path) -> None:
    model = Model(lambda _: ChatMessage.from_assistant("Fine."))
    agent = build_agent(model, tmp_path, session="")
    run(agent, "I am Ada.")
    run(agent, "Who am I?")
    assert "Ada" not in render(model.sent[-1])
    assert len(list_sessions(tmp_path)) == 2


@pytest.mark.parametrize("is_async", [False, True])
def test_an_agent_that_is_a_tool_has_sessions_of_its_own(tmp_path: Path, is_async: bool) -> None:  # noqa: FBT001
    helping = Model(lambda _: ChatMessage.from_assistant("It is fine."))
    hooks = build_hooks("t", window=100_000, store=tmp_path / "s.db")
    helper = Agent(chat_generator=helping.generator, hooks=hooks)

    def measure(belt: str) -> str:
        """Measures a belt."""
        return str(helper.run(messages=[ChatMessage.from_user(f"Look at {belt}.")])["last_message"].text)

    tool = create_tool_from_function(measure)
    model = Model(work(2))
    agent = Agent(chat_generator=model.generator, tools=[tool], hooks=hooks)
    given = [ChatMessage.from_user("Go.")]
    asyncio.run(agent.run_async(messages=given)) if is_async else agent.run(messages=given)
    agent.run(messages=[ChatMessage.from_user("And?")])
    assert [len(sent) for sent in helping.sent] == [1] * 4
    assert "Look at" not in render(model.sent[-1])
    names = list_sessions(tmp_path)
    assert len(names) == 5
    assert {name.partition("/")[0] for name in names} == {"t"}


# -- refusals, usage and tools -----------------------------------------------------------------------------------------


def refuse_long(answer: Answer, refused: list[int]) -> Answer:
    def respond(messages: list[ChatMessage]) -> ChatMessage:
        if count(messages) > 4_000:
            refused.append(count(messages))
            raise ValueError("This model's maximum context length is 3500 tokens")
        return answer(messages)

    return respond


@pytest.mark.parametrize("is_async", [False, True])
def test_a_refusal_as_too_long_is_answered_by_a_shorter_request(tmp_path: Path, is_async: bool) -> None:  # noqa: FBT001
    refused: list[int] = []
    model = Model(refuse_long(work(8), refused))
    agent = build_agent(model, tmp_path, window=100_000, chat_generator=ShorterRetry(model.generator))
    given = [ChatMessage.from_user("Go.")]
    result = asyncio.run(agent.run_async(messages=given)) if is_async else agent.run(messages=given)
    assert len(refused) == 1
    assert result["last_message"].text == "All is measured."
    assert len(result["messages"]) == 19
    assert max(map(count, model.sent[-3:])) < 4_000


def test_other_errors_of_the_provider_are_raised(tmp_path: Path) -> None:
    def answer(_: list[ChatMessage]) -> ChatMessage:
        raise ValueError("the key is wrong")

    model = Model(answer)
    with pytest.raises(ValueError, match="the key is wrong"):
        run(build_agent(model, tmp_path, chat_generator=ShorterRetry(model.generator)), "Go.")


def test_a_refusal_of_what_is_no_view_is_raised(tmp_path: Path) -> None:
    model = Model(refuse_long(work(1), []))
    run(build_agent(model, tmp_path), "Go.")
    with pytest.raises(ValueError, match="maximum context length"):
        ShorterRetry(model.generator).run([ChatMessage.from_user(LONG * 10)])


def test_the_model_finds_what_it_no_longer_sees(tmp_path: Path) -> None:
    def answer(messages: list[ChatMessage]) -> ChatMessage:
        result = messages[-1].tool_call_result
        if result is not None:
            return ChatMessage.from_assistant(str(result.result))
        return ChatMessage.from_assistant(tool_calls=[ToolCall("recall_search", {"words": "7731"}, id="r1")])

    run(build_agent(Model(lambda _: ChatMessage.from_assistant("Noted.")), tmp_path), "The code of the safe is 7731.")
    model = Model(answer)
    agent = build_agent(model, tmp_path)
    messages = run(agent, "Which code was it?")
    assert [tool.name for tool in agent.tools] == ["measure"]
    assert "The code of the safe is 7731." in str(messages[-1].text)
    assert model.offered[0] == ["measure", "recall_search", "recall_read", "recall_expand"]


def test_the_tools_can_be_left_out(tmp_path: Path) -> None:
    model = Model(work(20))
    hooks = build_hooks("t", recall=False, window=6_000, store=tmp_path / "s.db")
    run(build_agent(model, tmp_path, hooks=hooks), "Go.")
    assert model.offered[-1] == ["measure"]
    assert "recall_" not in render(model.sent[-1])


def test_an_agent_without_tools_gets_none(tmp_path: Path) -> None:
    model = Model(lambda _: ChatMessage.from_assistant("Fine."))
    said = [ChatMessage.from_user(LONG), ChatMessage.from_assistant(LONG)] * 5
    run(build_agent(model, tmp_path, tools=None), *said, "Go.")
    assert model.offered == [[]]
    assert count(model.sent[-1]) < count(said)
    assert "recall_" not in render(model.sent[-1])


def test_usage_that_the_provider_reports_is_kept(tmp_path: Path) -> None:
    def answer(messages: list[ChatMessage]) -> ChatMessage:
        usage = {"prompt_tokens": 400 + 260 * len(messages), "completion_tokens": 420}
        return ChatMessage.from_assistant("Noted. " * 200, meta={"usage": usage})

    agent = build_agent(Model(answer), tmp_path, window=100_000)
    first = run(agent, "word " * 600)
    run(agent, *first[1:], "And?")
    session = tenfold.open_session("t", store=tmp_path / "s.db", model="gpt-4o")
    assert session.conversation.calibration.find_model("gpt-4o", session.policy.counter.name) is not None


# -- pipelines ---------------------------------------------------------------------------------------------------------


def answer_in_pipeline(messages: list[ChatMessage]) -> str:
    return f"I saw {len(messages)}."


def test_a_pipeline_is_saved_and_loaded_with_the_hooks(tmp_path: Path) -> None:
    generator = ShorterRetry(MockChatGenerator(response_fn=answer_in_pipeline))
    hooks = build_hooks("t", window=100_000, store=tmp_path / "s.db", recall=False)
    pipeline = Pipeline()
    pipeline.add_component("agent", Agent(chat_generator=generator, hooks=hooks))
    text = pipeline.dumps()
    allowed = ["tenfold.*", __name__.partition(".")[0] + ".*", __name__]
    for number in (1, 3):
        loaded = Pipeline.loads(text, allowed_modules=allowed)
        result = loaded.run({"agent": {"messages": [ChatMessage.from_user(f"Hello {number}")]}})
        assert result["agent"]["last_message"].text == f"I saw {number}."
    assert loaded.dumps() == text
    assert isinstance(loaded.get_component("agent").hooks["after_run"][0], WholeHistoryHook)


def test_what_cannot_be_saved_is_named() -> None:
    hook = TenfoldHook("t", store=open_store(":memory:"))
    with pytest.raises(UsageError, match=r"store is tenfold.*SqliteStore"):
        hook.to_dict()


# -- messages ----------------------------------------------------------------------------------------------------------

CALL = ToolCall("measure", {"belt": "línea 1"}, id="c1", extra={"thought_signature": "abc"})
MESSAGES: list[ChatMessage] = [
    ChatMessage.from_system("Be brief."),
    ChatMessage.from_user("Hello", name="ada"),
    ChatMessage.from_user(content_parts=["See:", ImageContent(PIXEL, "image/png", detail="low", validation=False)]),
    ChatMessage.from_user(content_parts=[FileContent(PIXEL, "application/pdf", "a.pdf", validation=False), "Read it."]),
    ChatMessage.from_assistant("I measure.", tool_calls=[CALL, ToolCall("measure", {}, id="c2")]),
    ChatMessage.from_assistant(tool_calls=[CALL]),
    ChatMessage.from_assistant("Four.", reasoning=ReasoningContent("It is four.", {"signature": "xyz"})),
    ChatMessage.from_assistant(reasoning="Only a thought."),
    ChatMessage.from_assistant(meta={"refusal": "I will not."}),
    ChatMessage.from_assistant(""),
    ChatMessage.from_tool("4 m/s", origin=ToolCall("measure", {}, id="c1")),
    ChatMessage.from_tool("no such belt", origin=ToolCall("measure", {}, id="c1"), error=True),
    ChatMessage.from_tool(
        [TextContent("See:"), ImageContent(PIXEL, "image/png", validation=False)],
        origin=ToolCall("measure", {}, id="c1"),
        error=True,
    ),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.role.value)
def test_every_message_comes_back_as_it_was(message: ChatMessage) -> None:
    (again,) = tenfold.from_messages(tenfold.to_messages([message]), "haystack")
    expected = ChatMessage.from_assistant() if message.text == "" else message
    assert again.to_dict() == expected.to_dict()


def test_calls_without_an_id_belong_to_their_results() -> None:
    call = ToolCall("measure", {"belt": "line 1"})
    asked, told = ChatMessage.from_assistant(tool_calls=[call]), ChatMessage.from_tool("4 m/s", origin=call)
    items = tenfold.to_messages([asked, told])
    assert items[0]["tool_calls"][0]["id"] == items[1]["tool_call_id"]
    del items[1]["name"]
    assert tenfold.from_messages(items, "haystack")[1].tool_call_result.origin.tool_name == "measure"


def test_a_message_with_two_results_is_two_messages() -> None:
    parts = [ChatMessage.from_tool(text, origin=CALL).to_dict()["content"][0] for text in ("one", "two")]
    message = ChatMessage.from_dict({"role": "tool", "content": parts})
    assert [item["content"] for item in CONVERTER.read(message)] == ["one", "two"]


def test_a_list_of_messages_is_compacted_to_such_messages() -> None:
    history = [ChatMessage.from_user("Never touch line nine.")]
    for number in range(20):
        asked = call_measure(number)
        history += [asked, ChatMessage.from_tool(LONG, origin=asked.tool_calls[0])]
    result = tenfold.compact(history, to=4_000)
    assert result.outcome.status == "compacted"
    assert all(isinstance(message, ChatMessage) for message in result.messages)
    assert result.messages[-1] is history[-1]


def test_what_is_no_message_is_named() -> None:
    with pytest.raises(BadInput, match=r"str is no message of Haystack: pass a list of ChatMessage"):
        CONVERTER.read("Hello")
    with pytest.raises(BadInput, match=r"holds the data itself, and not 'https://example.com/a.png'"):
        CONVERTER.build(
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]}]
        )
    with pytest.raises(BadInput, match=r"no part for 'input_audio'"):
        CONVERTER.build([{"role": "user", "content": [{"type": "input_audio"}]}])
    function = {"name": "measure", "arguments": "{"}
    with pytest.raises(BadInput, match=r"the arguments of measure are no JSON object"):
        CONVERTER.build([{"role": "assistant", "tool_calls": [{"id": "c1", "function": function}]}])
    with pytest.raises(UsageError, match=r"session is int: pass the session's id"):
        build_hooks(42)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"chat_generator is str: pass a chat generator"):
        ShorterRetry("gpt-4o")
