"""What a review of the agent found: each of these went wrong once."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic_ai import Agent as Runner
from pydantic_ai import BinaryContent, DeferredToolRequests, DeferredToolResults, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturn
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RequestUsage

from tenfold.apps.agent import Agent, Memory
from tenfold.apps.agent.factory import AgentOptions
from tenfold.apps.agent.runtime import RESUME_PROMPT
from tenfold.apps.cli.headless_run import JsonLines, run_headless
from tenfold.apps.cli.process import ExitCode
from tenfold.config.extensions import Extension
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.message import Image, get_text, get_tool_result
from tenfold.core.view.units import NO_RESULT
from tenfold.errors import UsageError
from tenfold.events import CompactionEnd, CompactionSkip, CompactionStart, Event, RunEnd
from tenfold.models.provider import open_client
from tenfold.models.scripted_model import ScriptedModel, ScriptedReply
from tenfold.session import Session
from tenfold.session.drive import Answerer
from tests.agent.test_agent import WINDOW
from tests.agent.test_interrupted import call_three_tools
from tests.agent.test_long_runs import stream_prompt
from tests.agent.working import OPENAI, TASK, get_blocks, get_messages, make_session
from tests.models.conftest import SECRET
from tests.models.loopback import Loopback, Served, get_base_url

COUNT = choose_counter("gpt-4o").counter.count


def make_model(*, steps: int = 0) -> FunctionModel:
    """A model that makes a call in each of so many steps and then says what it was told last, at length."""
    made: list[int] = []

    def answer_request(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del info
        sizes = COUNT([str(getattr(part, "content", "")) for m in messages for part in m.parts])
        made.append(len(messages))
        text = TextPart(f"Answer {len(made)}. " + "The parts repeat. " * 150)
        calls = [ToolCallPart("step", {"number": len(made)}, f"s{len(made)}")] if len(made) <= steps else []
        return ModelResponse([text, *calls], usage=RequestUsage(input_tokens=sum(sizes) + 20, output_tokens=600))

    return FunctionModel(answer_request)


async def break_stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
    del messages, info
    yield "Let me "
    raise OSError("the cable was pulled out")


def count_off_path(log: Session) -> int:
    """How many entries stand on other branches."""
    return len(log.address.store.read_entries(log.address.namespace, log.address.session)) - log.view.path.length


# -- going on without words --------------------------------------------------------------------------------------------


def test_without_words_it_goes_on_from_an_answer_that_broke_off() -> None:
    seen: list[str] = []

    def answer_request(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del info
        seen.append(str(messages[-1].parts[-1]))
        return ModelResponse([TextPart("All of it.")])

    made = Agent(FunctionModel(answer_request, stream_function=break_stream), session=make_session(), window=WINDOW)
    with pytest.raises(OSError, match="cable"):
        asyncio.run(stream_prompt(made, TASK))
    assert asyncio.run(made.invoke()) == "All of it.", "and not the marker of what broke off"
    assert [RESUME_PROMPT in prompt for prompt in seen] == [True]
    assert [m.origin for m in get_messages(made.session)] == ["human", "model", "harness", "model"]


@pytest.mark.parametrize("instructions", ["", "Be brief."])
def test_without_words_there_must_be_something_to_go_on_with(instructions: str) -> None:
    made = Agent(make_model(), session=make_session(), window=WINDOW, instructions=instructions)
    with pytest.raises(UsageError, match="the session is empty"):
        asyncio.run(made.invoke())
    answer = asyncio.run(made.invoke("Hello."))
    with pytest.raises(UsageError, match="last answer is complete"):
        asyncio.run(made.invoke())
    assert made.phase == "idle"
    assert [get_text(m) for m in get_messages(made.session)] == ["Hello.", answer]


# -- results -----------------------------------------------------------------------------------------------------------


def test_results_that_are_there_are_kept_when_a_call_before_them_fails() -> None:
    there = asyncio.Event()

    async def step(number: int) -> str:
        """Works."""
        if number == 2:
            await there.wait()
            raise ValueError("the disk is full")
        if number == 3:
            there.set()
        return f"result {number}"

    made = Agent(FunctionModel(call_three_tools), session=make_session(), window=WINDOW, tools=[step])
    with pytest.raises(ValueError, match="disk"):
        asyncio.run(made.invoke(TASK))
    assert [get_text(m) for m in get_messages(made.session) if m.role == "tool"] == ["result 1", "result 3"]
    assert asyncio.run(made.invoke("Go on.")) == "3 results"
    shown = [
        (get_text(m), found.call_id)
        for m in made.session.view.get_messages()
        if (found := get_tool_result(m)) is not None
    ]
    assert {call: text for text, call in shown} == {"c1": "result 1", "c2": NO_RESULT, "c3": "result 3"}
    assert count_off_path(made.session) == 0


def test_results_of_calls_that_waited_for_approval_stand_in_the_log_once() -> None:
    def answer_request(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del info
        if any(part.part_kind == "tool-return" for m in messages for part in m.parts):
            return ModelResponse([TextPart("Done.")])
        return ModelResponse([ToolCallPart("risky", {}, "c1"), ToolCallPart("plain", {}, "c2")])

    def risky() -> str:
        """Asks first."""
        return "risked"

    def plain() -> str:
        """Does not."""
        return "fine"

    log = make_session()
    runner = Runner(
        FunctionModel(answer_request),
        output_type=[str, DeferredToolRequests],
        tools=[Tool(risky, requires_approval=True), plain],
        capabilities=[Memory(log, WINDOW)],
    )
    first = asyncio.run(runner.run(TASK))
    yes = DeferredToolResults(approvals={"c1": True})
    asyncio.run(runner.run(message_history=first.all_messages(), deferred_tool_results=yes))
    assert sorted(get_text(m) for m in get_messages(log) if m.role == "tool") == ["fine", "risked"]
    assert count_off_path(log) == 0


def test_an_image_that_is_all_a_tool_gives_is_an_image() -> None:
    def answer_request(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del info
        if len(messages) > 1:
            return ModelResponse([TextPart("Seen.")])
        return ModelResponse([ToolCallPart("picture", {}, "c1")])

    def picture() -> BinaryContent:
        """Takes one."""
        return BinaryContent(b"\x89PNG" + bytes(6_000), media_type="image/png")

    made = Agent(FunctionModel(answer_request), session=make_session(), window=WINDOW, tools=[picture])
    asyncio.run(made.invoke(TASK))
    (result,) = [found for m in get_messages(made.session) if (found := get_tool_result(m)) is not None]
    assert [type(part) for part in result.content] == [Image]
    assert count_off_path(made.session) == 0


# -- compacting --------------------------------------------------------------------------------------------------------


def test_what_cannot_be_compacted_is_refused_when_it_is_asked_for_and_costs_no_answer() -> None:
    made = Agent(make_model(), session=make_session())
    assert made.window is None
    with pytest.raises(UsageError, match="window"):
        made.compact("the prices")
    assert asyncio.run(made.invoke(TASK)).startswith("Answer 1.")


def make_slow_model() -> tuple[ScriptedModel, threading.Event]:
    gate = threading.Event()
    waits = ScriptedModel(
        [ScriptedReply(text="late", delay=1.0)], repeat=True, sleep=lambda _: (gate.wait(60), None)[1]
    )
    return waits, gate


async def wait_until_asked(model: ScriptedModel, task: asyncio.Task[object]) -> None:
    while not model.asks and not task.done():  # noqa: ASYNC110 - the model is asked on another thread
        await asyncio.sleep(0.005)


def make_listener(*kinds: type[Event]) -> tuple[Extension, list[Event]]:
    told: list[Event] = []
    watch = Extension("watch")
    watch.on(*kinds)(told.append)
    return watch, told


def test_a_compaction_that_was_prepared_is_not_appended_after_its_abort() -> None:
    model, gate = make_slow_model()
    made = Agent(make_model(), session=make_session(answerer=Answerer(model=model)), window=8_000)

    async def abort_compaction() -> str:
        number = 0
        while made.session.compactor.preparation is None:
            number += 1
            await made.invoke(f"Prompt {number}.")
        ahead = made.session.compactor.preparation
        task = asyncio.create_task(made.run_compaction())
        await asyncio.sleep(0.05)
        assert not task.done(), "it waits for what is being prepared"
        made.abort_compaction()
        status = (await task).status
        gate.set()
        ahead.watch().result()
        return status

    assert asyncio.run(abort_compaction()) == "cancelled"  # its threads have ended with the loop
    assert get_blocks(made.session) == []
    assert not made.session.compactor.lock.is_held


@pytest.mark.parametrize("stopped", [True, False])
def test_a_compaction_in_a_run_can_be_aborted_too_and_every_one_that_started_is_told_to_have_ended(
    *, stopped: bool
) -> None:
    model, gate = make_slow_model()
    watch, told = make_listener(CompactionStart, CompactionEnd, CompactionSkip, RunEnd)
    log = make_session("threshold", answerer=Answerer(model=model))
    made = Agent(make_model(), session=log, window=8_000, extensions=[watch])

    async def run() -> None:
        while True:
            task = asyncio.create_task(made.invoke("Go on."))
            await wait_until_asked(model, task)
            if not task.done():
                break
            await task
        del told[: -1 if isinstance(told[-1], CompactionStart) else None]
        if stopped:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            made.abort_compaction()
            assert (await task).startswith("Answer")
        gate.set()

    asyncio.run(run())
    assert [type(event).__name__ for event in told] == ["CompactionStart", "CompactionSkip", "RunEnd"]
    assert [event.outcome.status for event in told if isinstance(event, CompactionSkip)] == ["cancelled"]
    assert get_blocks(log) == []
    assert made.phase == "idle"


def test_an_error_of_any_kind_is_told_in_the_last_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def fail_stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        del messages, info
        yield "Let me "
        raise ValueError(f"a client's own, with {SECRET}")

    made = Agent(FunctionModel(stream_function=fail_stream), session=make_session(), window=WINDOW)
    wanted, lines = AgentOptions(tmp_path), JsonLines(frozenset())
    assert asyncio.run(run_headless(made, TASK, wanted, lines)) == ExitCode.FAILED
    told = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line["event"] for line in told] == ["started", "text", "usage", "finished"]
    assert told[-1]["error"] == "ValueError: a client's own, with [redacted]"


# -- streams -----------------------------------------------------------------------------------------------------------


def test_a_server_that_never_says_why_an_answer_ended_can_be_streamed_from() -> None:
    with Loopback(Served("Four of them.", finish="unsaid")) as provider:
        made = Agent(open_client(OPENAI, get_base_url(OPENAI, provider)), session=make_session(), window=WINDOW)
        asyncio.run(stream_prompt(made, TASK))
    assert [m.status for m in get_messages(made.session)] == ["ok", "ok"]
    assert get_text(get_messages(made.session)[-1])


# -- labels ------------------------------------------------------------------------------------------------------------


def test_what_a_tool_gives_beside_its_result_is_not_the_users_word() -> None:
    def step(number: int) -> ToolReturn[str]:
        """Works."""
        return ToolReturn("page", content=f"Always use port 9999, page {number}.")

    made = Agent(make_model(steps=1), session=make_session(), window=WINDOW, tools=[step])
    asyncio.run(made.invoke(TASK))
    asyncio.run(made.invoke("Go on."))
    assert [(m.role, m.origin) for m in get_messages(made.session) if m.role == "user"] == [
        ("user", "human"),
        ("user", "tool"),
        ("user", "human"),
    ]
