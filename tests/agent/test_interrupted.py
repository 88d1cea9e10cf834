"""Runs that break off: what was said and done until then is in the log, and goes on from there."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from pydantic_ai import Agent as Runner
from pydantic_ai.exceptions import ModelAPIError, ToolFailed
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    RetryFeedbackPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tenfold.apps.agent import Agent, Memory
from tenfold.apps.agent.runtime import RESUME_PROMPT
from tenfold.config.extensions import Extension
from tenfold.core.record.message import get_text, get_tool_calls, get_tool_result
from tenfold.core.view.units import NO_RESULT
from tenfold.events import Event, RunEnd
from tests.agent.test_agent import WINDOW
from tests.agent.test_long_runs import stream_prompt
from tests.agent.working import ANTHROPIC, DONE, OPENAI, TASK, Provider, get_messages, make_agent, make_session
from tests.models.loopback import Got, Served


def make_breaking_provider(events: int, *, smoothly: bool) -> Provider:
    """A provider that ends its third stream after so many events."""
    broken: list[int] = []

    def break_stream(done: int, got: Got) -> Served | None:
        del got
        if done != 2 or broken:
            return None
        broken.append(done)
        call = ("b", "look", {"path": "src/part9.py"})
        return Served("What I found so far repeats.", finish="tool", call=call, breaks=events, smoothly=smoothly)

    return Provider(3, WINDOW, also=break_stream)


@pytest.mark.parametrize("smoothly", [True, False])
@pytest.mark.parametrize(
    ("model", "events", "calls"), [(OPENAI, 3, 0), (ANTHROPIC, 4, 0), (OPENAI, 7, 1), (ANTHROPIC, 9, 1)]
)
def test_a_stream_that_breaks_is_kept_as_a_partial_message(
    model: str, events: int, calls: int, *, smoothly: bool
) -> None:
    told: list[Event] = []
    watch = Extension("watch")
    watch.on(RunEnd)(told.append)
    with make_breaking_provider(events, smoothly=smoothly) as provider:
        made = make_agent(provider, model, tools=[look_at], extensions=[watch])
        with pytest.raises(ModelAPIError):
            asyncio.run(stream_prompt(made, TASK))
        (partial,) = [m for m in get_messages(made.session) if m.status != "ok"]
        assert get_text(partial).startswith("What I found")
        assert len(get_tool_calls(partial)) == calls
        shown = get_text(made.session.view.get_messages()[-1])
        assert shown.startswith("[this answer was aborted before it was complete")
        assert ("what it was about to call was not called: look" in shown) == bool(calls)
        assert "What I found" in shown
        assert asyncio.run(made.invoke("Go on.")) == DONE
        assert provider.refused == []
    assert not any(
        "src/part9.py" in call.arguments
        for m in get_messages(made.session)
        for call in get_tool_calls(m)
        if m.status == "ok"
    )
    assert [e.status for e in told if isinstance(e, RunEnd)] == ["failed", "ok"]


async def look_at(path: str) -> str:
    """Reads a file."""
    return f"{path} is short"


look_at.__name__ = "look"


@pytest.mark.parametrize("model", [OPENAI, ANTHROPIC])
def test_a_run_that_is_stopped_keeps_what_was_streamed(model: str) -> None:
    told: list[Event] = []
    watch = Extension("watch")
    watch.on(RunEnd)(told.append)

    async def stop_run(made: Agent) -> None:
        async with aclosing(made.stream(TASK)) as events:
            async for event in events:
                if isinstance(event, PartDeltaEvent):
                    return

    with Provider(3, WINDOW) as provider:
        made = make_agent(provider, model, tools=[look_at], extensions=[watch])
        asyncio.run(stop_run(made))
        assert made.phase == "idle"
        assert [m.status for m in get_messages(made.session)] == ["ok", "aborted"]
        assert asyncio.run(made.invoke("Go on.")) == DONE
        assert provider.refused == []
    assert [e.status for e in told if isinstance(e, RunEnd)] == ["stopped", "ok"]


def call_three_tools(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model that calls three tools at once, then says how many results it sees."""
    del info
    results = [part for m in messages for part in m.parts if part.part_kind in {"tool-return", "retry-prompt"}]
    if results:
        return ModelResponse([TextPart(f"{len(results)} results")])
    return ModelResponse([ToolCallPart("step", {"number": n}, f"c{n}") for n in (1, 2, 3)])


def test_results_are_in_the_log_while_other_calls_of_the_answer_still_run() -> None:
    memory = make_session()
    seen: dict[int, list[str]] = {}
    first, second = asyncio.Event(), asyncio.Event()

    async def step(number: int) -> str:
        """Works."""
        if number == 1:
            await second.wait()  # the second is done before the first
        if number == 2:
            second.set()
        if number == 3:
            await first.wait()
            seen[3] = [get_text(m) for m in get_messages(memory) if m.role == "tool"]
        return f"result {number}"

    class Watching(Memory):
        async def _record_result(self, part: ToolReturnPart | RetryFeedbackPart, run: str | None) -> None:
            await super()._record_result(part, run)
            if len([m for m in get_messages(memory) if m.role == "tool"]) == 2:
                first.set()

    runner = Runner(FunctionModel(call_three_tools), tools=[step], capabilities=[Watching(memory, window=WINDOW)])

    async def run() -> str:
        async with asyncio.timeout(30):
            return (await runner.run(TASK)).output

    assert asyncio.run(run()) == "3 results"
    assert seen[3] == ["result 1", "result 2"], "in the order of the calls, before the third is done"
    assert [get_text(m) for m in get_messages(memory) if m.role == "tool"] == ["result 1", "result 2", "result 3"]
    assert memory.view.path.length == 6, "nothing is there twice, nothing was branched off"


def test_a_call_that_fails_leaves_the_others_where_they_were() -> None:
    memory = make_session()

    async def step(number: int) -> str:
        """Works."""
        if number == 2:
            raise ToolFailed("no")
        return f"result {number}"

    runner = Runner(FunctionModel(call_three_tools), tools=[step], capabilities=[Memory(memory, window=WINDOW)])
    assert asyncio.run(runner.run(TASK)).output == "3 results"
    assert [get_text(m) for m in get_messages(memory) if m.role == "tool"] == ["result 1", "no", "result 3"]
    assert memory.view.path.length == 6


def test_a_run_stopped_in_a_tool_keeps_the_results_that_are_there_and_runs_no_call_again() -> None:
    memory = make_session()
    ran: list[int] = []
    third = asyncio.Event()

    async def step(number: int) -> str:
        """Works."""
        ran.append(number)
        if number == 3:
            third.set()
        if number == 2:
            await asyncio.sleep(3_600)
        return f"result {number}"

    made = Agent(FunctionModel(call_three_tools), session=memory, window=WINDOW, tools=[step])

    async def stop_run() -> None:
        task = asyncio.create_task(made.invoke(TASK))
        await third.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stop_run())
    assert made.phase == "idle"
    assert made.session.view.open_step is not None
    assert asyncio.run(made.invoke()) == "3 results", "nothing was said, and it goes on all the same"
    assert ran == [1, 2, 3]
    shown = made.session.view.get_messages()
    results = [found for m in shown if m.role == "tool" and (found := get_tool_result(m)) is not None]
    assert {"result 1", NO_RESULT} <= {get_text(m) for m in shown if m.role == "tool"}
    assert sorted(r.call_id for r in results) == ["c1", "c2", "c3"]
    assert get_text(shown[-2]) == RESUME_PROMPT
