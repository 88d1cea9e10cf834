"""The middleware for LangChain, with LangChain's own agents, tools and messages."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain", reason="make adapters installs it")

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver

import tenfold
from tenfold.apps.adapters.langchain import TenfoldMiddleware
from tenfold.errors import BadInput, UsageError
from tenfold.formats.objects.langchain import CONVERTER
from tests.adapters.watched_store import WatchedStore

LONG = "The belt of line seven runs at four metres a second. " * 60
Answer = Callable[[list[BaseMessage]], AIMessage]


class Scripted(BaseChatModel):
    """A chat model that answers by a function, and keeps what it saw."""

    answer: Answer
    seen: list[list[BaseMessage]]
    model_name: str = "gpt-4o"

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Scripted:  # noqa: ANN401 - as LangChain has it
        del tools
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:  # noqa: ANN401 - the same
        self.seen.append(list(messages))
        return ChatResult(generations=[ChatGeneration(message=self.answer(messages))])


def measure(belt: str) -> str:
    """Measures a belt."""
    return f"{belt}: {LONG}"


def call_measure(number: int) -> AIMessage:
    calls = [{"id": f"c{number}", "name": "measure", "args": {"belt": f"line {number}"}, "type": "tool_call"}]
    return AIMessage("I measure.", tool_calls=calls)


def work(steps: int) -> Answer:
    """Calls the tool so many times, by what it sees of the newest results, and then says that it is done."""
    done = [0]

    def answer(_: list[BaseMessage]) -> AIMessage:
        done[0] += 1
        return call_measure(done[0]) if done[0] % (steps + 1) else AIMessage("All is measured.")

    return answer


def build_agent(model: Scripted, path: Path, *, window: int = 6_000, **options: Any) -> Any:  # noqa: ANN401 - a graph
    middleware = TenfoldMiddleware(window=window, store=path / "s.db", **options)
    return create_agent(model, [measure], system_prompt="Measure the belts.", middleware=[middleware])


def run(agent: Any, text: str, thread: str = "t") -> list[BaseMessage]:  # noqa: ANN401 - a graph
    config = {"configurable": {"thread_id": thread}, "recursion_limit": 200}
    messages: list[BaseMessage] = agent.invoke({"messages": [("user", text)]}, config)["messages"]
    return messages


def count(messages: list[BaseMessage]) -> int:
    return sum(len(str(message.content)) for message in messages) // 4


def test_a_long_run_stays_in_the_window_and_the_state_is_whole(tmp_path: Path) -> None:
    model = Scripted(answer=work(30), seen=[])
    messages = run(build_agent(model, tmp_path), "Never touch line nine.")
    assert len(messages) == 62
    assert max(map(count, model.seen)) < 6_000 < count(messages)
    assert any("Never touch line nine." in str(message.content) for message in model.seen[-1])
    assert model.seen[-1][-1] is messages[-2] or model.seen[-1][-1] == messages[-2]


def test_what_fits_goes_out_as_the_same_objects(tmp_path: Path) -> None:
    model = Scripted(answer=work(1), seen=[])
    messages = run(build_agent(model, tmp_path, window=100_000), "Go.")
    assert [id(message) for message in model.seen[-1][1:]] == [id(message) for message in messages[:-1]]


def test_the_store_is_not_asked_on_the_event_loop(tmp_path: Path) -> None:
    """Nor are reports written there: other requests would wait for whoever holds the store or the session."""
    store = WatchedStore(tmp_path / "w.db")

    def answer(_: list[BaseMessage]) -> AIMessage:
        return AIMessage("Yes.", usage_metadata={"input_tokens": 900, "output_tokens": 9, "total_tokens": 909})

    agent = create_agent(Scripted(answer=answer, seen=[]), [measure], middleware=[TenfoldMiddleware(store=store)])
    asyncio.run(agent.ainvoke({"messages": [("user", "Go.")]}, {"configurable": {"thread_id": "t"}}))
    assert store.askers
    assert threading.get_ident() not in store.askers


def test_coroutines_see_the_same(tmp_path: Path) -> None:
    model = Scripted(answer=work(20), seen=[])
    agent = build_agent(model, tmp_path)
    asyncio.run(agent.ainvoke({"messages": [("user", "Go.")]}, {"recursion_limit": 200}))
    assert max(map(count, model.seen)) < 6_000


def test_a_new_process_with_an_empty_state_goes_on_from_the_session(tmp_path: Path) -> None:
    run(build_agent(Scripted(answer=work(3), seen=[]), tmp_path, window=100_000), "The code of the safe is 7731.")
    model = Scripted(answer=lambda _: AIMessage("7731"), seen=[])
    run(build_agent(model, tmp_path, window=100_000), "Which code was it?")
    assert "7731" in str(model.seen[0][1].content)
    assert model.seen[0][-1].content == "Which code was it?"
    session = tenfold.open_session("t", store=tmp_path / "s.db")
    assert [message.role for message in session.view.get_messages()].count("user") == 2


def test_a_checkpointed_thread_is_not_stored_twice(tmp_path: Path) -> None:
    model = Scripted(answer=work(2), seen=[])
    middleware = TenfoldMiddleware(window=100_000, store=tmp_path / "s.db")
    agent = create_agent(model, [measure], middleware=[middleware], checkpointer=InMemorySaver())
    run(agent, "One.")
    run(agent, "Two.")
    path = tenfold.open_session("t", store=tmp_path / "s.db").view.path
    assert path.length == len(model.seen[-1]) + 1  # and the last answer


def test_threads_have_sessions_of_their_own(tmp_path: Path) -> None:
    agent = build_agent(Scripted(answer=work(1), seen=[]), tmp_path)
    run(agent, "One.", "a")
    run(agent, "Two.", "b")
    store = tenfold.open_session("a", store=tmp_path / "s.db").address.store
    assert {row.info.id for row in store.list_sessions("default")} == {"a", "b"}


def test_an_agent_that_a_tool_runs_has_a_session_of_its_own(tmp_path: Path) -> None:
    helper = build_agent(Scripted(answer=lambda _: AIMessage("Line 1 is fine."), seen=[]), tmp_path)

    def measure(belt: str) -> str:
        """Measures a belt."""
        return str(helper.invoke({"messages": [("user", f"Look at {belt}.")]})["messages"][-1].content)

    model = Scripted(answer=work(1), seen=[])
    middleware = TenfoldMiddleware(window=100_000, store=tmp_path / "s.db")
    run(create_agent(model, [measure], middleware=[middleware]), "Go.")
    store = tenfold.open_session("t", store=tmp_path / "s.db").address.store
    rows = store.list_sessions("default")
    assert len(rows) == 2
    assert not any("Look at line 1" in str(message.content) for message in model.seen[-1])


def test_a_refusal_as_too_long_is_answered_by_a_shorter_request(tmp_path: Path) -> None:
    refused: list[int] = []

    def answer(messages: list[BaseMessage]) -> AIMessage:
        if count(messages) > 3_000:
            refused.append(count(messages))
            raise ValueError("This model's maximum context length is 3500 tokens")
        return work_on(messages)

    work_on = work(8)
    model = Scripted(answer=answer, seen=[])
    messages = run(build_agent(model, tmp_path, window=100_000), "Go.")
    assert refused
    assert messages[-1].content == "All is measured."


def test_another_error_of_the_provider_is_raised(tmp_path: Path) -> None:
    def answer(_: list[BaseMessage]) -> AIMessage:
        raise ValueError("the key is wrong")

    with pytest.raises(ValueError, match="the key is wrong"):
        run(build_agent(Scripted(answer=answer, seen=[]), tmp_path), "Go.")


def test_the_model_finds_what_it_no_longer_sees(tmp_path: Path) -> None:
    def answer(messages: list[BaseMessage]) -> AIMessage:
        if isinstance(messages[-1], ToolMessage):
            return AIMessage(str(messages[-1].content))
        calls = [{"id": "r1", "name": "recall_search", "args": {"words": "7731"}, "type": "tool_call"}]
        return AIMessage("", tool_calls=calls)

    run(build_agent(Scripted(answer=lambda _: AIMessage("Noted."), seen=[]), tmp_path), "The code of the safe is 7731.")
    messages = run(build_agent(Scripted(answer=answer, seen=[]), tmp_path), "Which code was it?")
    assert "7731" in str(messages[-1].content)


def test_usage_that_the_provider_reports_is_kept(tmp_path: Path) -> None:
    usage = {"input_tokens": 900, "output_tokens": 7, "total_tokens": 907}
    model = Scripted(answer=lambda _: AIMessage("Noted. " * 200, usage_metadata=usage), seen=[])
    agent = build_agent(model, tmp_path, window=100_000)
    run(agent, "word " * 600)
    run(agent, "And?")
    session = tenfold.open_session("t", store=tmp_path / "s.db")
    assert session.conversation.calibration.find_model("gpt-4o", session.policy.counter.name) is not None


MESSAGES: list[BaseMessage] = [
    SystemMessage("Be brief."),
    HumanMessage("Hello"),
    HumanMessage(
        [{"type": "text", "text": "See:"}, {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]
    ),
    call_measure(1),
    ToolMessage("4 m/s", tool_call_id="c1", name="measure"),
    AIMessage("Four metres a second."),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: f"{message.type}")
def test_every_message_comes_back_as_it_was(message: BaseMessage) -> None:
    (again,) = tenfold.from_messages(tenfold.to_messages([message]), "langchain")
    assert (again.type, again.content) == (message.type, message.content)
    assert getattr(again, "tool_calls", None) == getattr(message, "tool_calls", None)
    assert getattr(again, "tool_call_id", None) == getattr(message, "tool_call_id", None)


def test_a_list_of_messages_is_compacted_to_such_messages() -> None:
    history: list[BaseMessage] = [HumanMessage("Never touch line nine.")]
    for number in range(20):
        history += [call_measure(number), ToolMessage(LONG, tool_call_id=f"c{number}", name="measure")]
    result = tenfold.compact(history, to=4_000)
    assert result.outcome.status == "compacted"
    assert all(isinstance(message, BaseMessage) for message in result.messages)
    assert result.messages[-1] is history[-1]


def test_what_is_no_message_is_named() -> None:
    with pytest.raises(BadInput, match=r"str is no message of LangChain"):
        CONVERTER.read("Hello")
    with pytest.raises(UsageError, match="message 2"):
        tenfold.to_messages([HumanMessage("Hello"), {"role": "user", "content": "Hello"}])


# -- LangChain's own tests of tools, where they are installed ----------------------------------------------------------

with suppress(ImportError):
    from langchain_tests.unit_tests import ToolsUnitTests

    class RecallToolChecks(ToolsUnitTests):
        """What LangChain asks of every tool. `arguments` are those of a call."""

        name, arguments = "", dict[str, Any]()

        @property
        def tool_constructor(self) -> Any:  # noqa: ANN401 - as LangChain has it
            return next(tool for tool in TenfoldMiddleware(store=":memory:").tools if tool.name == self.name)

        @property
        def tool_invoke_params_example(self) -> dict[str, Any]:
            return self.arguments

    class TestSearchTool(RecallToolChecks):
        """The tool that searches."""

        name, arguments = "recall_search", {"words": "belt"}

    class TestReadTool(RecallToolChecks):
        """The tool that reads an entry."""

        name, arguments = "recall_read", {"entry": "01a2", "around": 1, "part": 1}

    class TestExpandTool(RecallToolChecks):
        """The tool that expands a Block."""

        name, arguments = "recall_expand", {"block": "01a2", "part": 1}
