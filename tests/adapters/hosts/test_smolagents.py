"""The step callback for smolagents, with its own agents, tools and steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("smolagents", reason="make adapters installs it")

from PIL import Image
from smolagents import CodeAgent, LogLevel, Model, MultiStepAgent, ToolCallingAgent, tool
from smolagents.memory import (
    ActionStep,
    FinalAnswerStep,
    MemoryStep,
    PlanningStep,
    SystemPromptStep,
    TaskStep,
    ToolCall,
)
from smolagents.models import (
    ChatMessage,
    ChatMessageStreamDelta,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
)
from smolagents.monitoring import Timing, TokenUsage
from smolagents.utils import AgentError, AgentGenerationError

import tenfold
from tenfold.apps.adapters.smolagents import TenfoldSteps
from tenfold.errors import BadInput, UsageError
from tenfold.formats.objects.smolagents import CONVERTER
from tenfold.store.location import open_store

LONG = "The belt of line seven runs at four metres a second. " * 60
Answer = Callable[[list[ChatMessage]], ChatMessage]


class Scripted(Model):
    """A model that answers by a function, and keeps what it was sent."""

    def __init__(self, answer: Answer, model: str = "gpt-4o") -> None:
        super().__init__(model_id=model)
        self.sent: list[list[ChatMessage]] = []
        self.offered: list[list[str]] = []
        self._answer = answer

    def generate(self, messages: list[ChatMessage], *_: Any, **more: Any) -> ChatMessage:  # noqa: ANN401 - as in Model
        self.sent.append(list(messages))
        self.offered.append([each.name for each in more.get("tools_to_call_from") or ()])
        return self._answer(messages)

    def generate_stream(self, messages: list[ChatMessage], *args: Any, **more: Any) -> Iterator[ChatMessageStreamDelta]:  # noqa: ANN401
        yield ChatMessageStreamDelta(content=self.generate(messages, *args, **more).content)


@tool
def measure(belt: str) -> str:
    """Measures a belt.

    Args:
        belt: Which one.
    """
    return f"{belt}: {'The belt of line seven runs at four metres a second. ' * 60}"


def call(name: str, **arguments: Any) -> ChatMessage:  # noqa: ANN401 - of any tool
    calls = [ChatMessageToolCall(ChatMessageToolCallFunction(arguments, name), f"c{len(arguments)}", "function")]
    return ChatMessage(MessageRole.ASSISTANT, "I go on.", calls)


def code(text: str) -> ChatMessage:
    return ChatMessage(MessageRole.ASSISTANT, f"I go on.\n<code>\n{text}\n</code>")


def work(steps: int) -> Answer:
    """Calls the tool so many times, and then says that it is done."""
    done = [0]

    def answer(_: list[ChatMessage]) -> ChatMessage:
        done[0] += 1
        is_end = done[0] % (steps + 1) == 0
        return call("final_answer", answer="All is measured.") if is_end else call("measure", belt=f"line {done[0]}")

    return answer


def work_in_code(steps: int) -> Answer:
    done = [0]

    def answer(_: list[ChatMessage]) -> ChatMessage:
        done[0] += 1
        is_end = done[0] % (steps + 1) == 0
        return code('final_answer("All is measured.")' if is_end else f'print(measure("line {done[0]}"))')

    return answer


def finish(text: str) -> Answer:
    return lambda _: call("final_answer", answer=text)


def build_steps(path: Path, session: str = "t", *, window: int = 8_000, **more: Any) -> TenfoldSteps:  # noqa: ANN401
    return TenfoldSteps(session, window=window, store=path / "s.db", **more)


def build_agent(model: Scripted, kind: Any = ToolCallingAgent, **more: Any) -> Any:  # noqa: ANN401 - an agent of either kind
    options: dict[str, Any] = {"max_steps": 100, "verbosity_level": LogLevel.OFF} | more
    return kind([measure], model, **options)


def render(messages: list[ChatMessage]) -> str:
    return "\n".join(f"{message.role.value}: {message.content}" for message in messages)


def count(messages: list[ChatMessage]) -> int:
    return len(render(messages)) // 4


def write_whole(agent: MultiStepAgent) -> list[ChatMessage]:
    """What the agent would write without Tenfold."""
    messages: list[ChatMessage] = MultiStepAgent.write_memory_to_messages(agent)
    return messages


def list_sessions(path: Path) -> set[str]:
    store = open_store(path / "s.db")
    names = {row.info.id for row in store.list_sessions("default")}
    store.close()
    return names


def read_path(path: Path, session: str = "t") -> list[Any]:
    return [message for _, message in tenfold.open_session(session, store=path / "s.db").view.path.list_messages()]


KINDS = [pytest.param(ToolCallingAgent, work, id="tools"), pytest.param(CodeAgent, work_in_code, id="code")]


# -- a run -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "work"), KINDS)
def test_a_long_run_stays_in_the_window_and_the_memory_is_whole(kind: Any, work: Any, tmp_path: Path) -> None:  # noqa: ANN401
    model = Scripted(work(30))
    agent = build_agent(model, kind, step_callbacks=[build_steps(tmp_path)])
    assert agent.run("Never touch line nine.") == "All is measured."
    assert len(agent.memory.steps) == 32
    assert max(map(count, model.sent)) < 9_000 < count(write_whole(agent))
    assert all("Never touch line nine." in render(sent) for sent in model.sent)
    assert model.sent[-1][0].role == MessageRole.SYSTEM
    assert measure("line 30").strip() in render(model.sent[-1][-1:])


@pytest.mark.parametrize(("kind", "work"), KINDS)
def test_what_fits_goes_out_as_it_was(kind: Any, work: Any, tmp_path: Path) -> None:  # noqa: ANN401
    model, steps = Scripted(work(2)), build_steps(tmp_path, window=100_000)
    agent = steps.attach(build_agent(model, kind))
    agent.run("Go.")
    assert all(map(lambda a, b: a is b, agent.write_memory_to_messages.fit(), agent.memory.steps))
    assert model.sent[-1] == write_whole(agent)[: len(model.sent[-1])]
    assert agent.write_memory_to_messages() == write_whole(agent)


def test_the_callback_may_be_named_for_a_type_of_step(tmp_path: Path) -> None:
    model = Scripted(work(30))
    build_agent(model, step_callbacks={ActionStep: build_steps(tmp_path)}).run("Go.")
    assert max(map(count, model.sent)) < 9_000


def test_a_run_may_be_streamed(tmp_path: Path) -> None:
    model = Scripted(work_in_code(30))
    agent = build_agent(model, CodeAgent, stream_outputs=True, step_callbacks=[build_steps(tmp_path)])
    *_, last = agent.run("Go.", stream=True)
    assert isinstance(last, FinalAnswerStep)
    assert max(map(count, model.sent)) < 9_000


def test_a_new_plan_is_made_from_the_view(tmp_path: Path) -> None:
    go_on = work(30)
    plan = ChatMessage(MessageRole.ASSISTANT, "Measure on.")
    model = Scripted(lambda sent: go_on(sent) if model.offered[-1] else plan)
    agent = build_agent(model, planning_interval=10, step_callbacks=[build_steps(tmp_path)])
    agent.run("Never touch line nine.")
    plans = [sent for sent, offered in zip(model.sent, model.offered, strict=True) if not offered]
    assert len(plans) == 4
    assert not any(message.role == MessageRole.ASSISTANT for message in plans[-1])
    assert max(map(count, model.sent)) < 9_000
    assert "Never touch line nine." in render(plans[-1])
    assert sum(isinstance(step, PlanningStep) for step in agent.memory.steps) == 4


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_a_new_process_with_an_empty_memory_goes_on_from_the_session(tmp_path: Path) -> None:
    build_steps(tmp_path).attach(build_agent(Scripted(finish("Noted.")))).run("The code of the safe is 7731.")
    model = Scripted(finish("7731"))
    agent = build_steps(tmp_path).attach(build_agent(model))
    agent.run("Which code was it?")
    assert "The code of the safe is 7731." in render(model.sent[0][1:2])
    assert "Noted." in render(model.sent[0])
    assert "Which code was it?" in render(model.sent[0][-1:])
    assert len(agent.memory.steps) == 2
    assert [message.role for message in read_path(tmp_path)].count("user") == 2


def test_a_callback_sees_the_session_after_the_first_step(tmp_path: Path) -> None:
    build_agent(Scripted(work(12)), step_callbacks=[build_steps(tmp_path)]).run("Never touch line nine.")
    answers = iter([call("measure", belt="line 13"), call("measure", belt="line 14"), finish("Done.")([])])
    model = Scripted(lambda _: next(answers))
    build_agent(model, step_callbacks=[build_steps(tmp_path)]).run("Go on.")
    sees = ["Never touch line nine." in render(sent) for sent in model.sent]
    assert sees == [False, True, True]
    assert all("Go on." in render(sent) for sent in model.sent)


def test_a_conversation_that_goes_on_is_not_stored_twice(tmp_path: Path) -> None:
    agent = build_agent(Scripted(work(12)), step_callbacks=[build_steps(tmp_path)])
    agent.run("One.")
    agent.run("Two.", reset=False)
    roles = [message.role for message in read_path(tmp_path)]
    assert roles.count("user") == 2
    assert roles.count("tool") == 26


def test_without_a_name_each_conversation_has_a_session_of_its_own(tmp_path: Path) -> None:
    model = Scripted(finish("Fine."))
    agent = build_steps(tmp_path, "").attach(build_agent(model))
    agent.run("I am Ada.")
    agent.run("Who am I?", reset=False)
    assert "Ada" in render(model.sent[-1])
    assert len(list_sessions(tmp_path)) == 1
    agent.run("Who am I?")
    assert "Ada" not in render(model.sent[-1])
    assert len(list_sessions(tmp_path)) == 2


def test_a_managed_agent_has_sessions_of_its_own(tmp_path: Path) -> None:
    steps = build_steps(tmp_path, window=100_000)
    helping = Scripted(finish("It is fine."))
    helper = build_agent(helping, name="helper", description="Looks at a belt.", step_callbacks=[steps])
    asked = iter([call("helper", task="Look at line 1."), call("helper", task="Look at line 2."), finish("Done.")([])])
    model = Scripted(lambda _: next(asked))
    build_agent(model, managed_agents=[helper], step_callbacks=[steps]).run("Go.")
    assert "Look at line 1." not in render(helping.sent[-1])
    assert "Go." not in render(helping.sent[-1])
    names = list_sessions(tmp_path)
    assert len(names) == 3
    assert sorted(name.split("/")[:2] for name in names) == [["t"], ["t", "helper"], ["t", "helper"]]
    assert [message.role for message in read_path(tmp_path)].count("tool") == 3


# -- refusals, usage and tools -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "work"), KINDS)
def test_a_refusal_as_too_long_is_answered_by_a_shorter_request(kind: Any, work: Any, tmp_path: Path) -> None:  # noqa: ANN401
    refused: list[int] = []
    go_on = work(10)

    def answer(messages: list[ChatMessage]) -> ChatMessage:
        if count(messages) > 6_000:
            refused.append(count(messages))
            raise ValueError("This model's maximum context length is 6000 tokens")
        return go_on(messages)

    agent = build_agent(Scripted(answer), kind, step_callbacks=[build_steps(tmp_path, window=100_000)])
    assert agent.run("Go.") == "All is measured."
    assert refused
    assert len(agent.memory.steps) == 12


def test_other_errors_of_the_provider_are_raised(tmp_path: Path) -> None:
    def answer(_: list[ChatMessage]) -> ChatMessage:
        raise ValueError("the key is wrong")

    agent = build_steps(tmp_path).attach(build_agent(Scripted(answer)))
    with pytest.raises(AgentGenerationError, match="the key is wrong"):
        agent.run("Go.")


def test_the_model_finds_what_it_no_longer_sees(tmp_path: Path) -> None:
    steps = build_steps(tmp_path)
    steps.attach(build_agent(Scripted(finish("Noted.")))).run("The code of the safe is 7731.")
    asked = iter([call("measure", belt="line 1"), call("recall_search", words="7731"), finish("Done.")([])])
    model = Scripted(lambda _: next(asked))
    agent = build_agent(model, step_callbacks=[steps])
    agent.run("Which code was it?")
    assert "The code of the safe is 7731." in agent.memory.steps[2].observations
    assert model.offered[0] == ["measure", "final_answer"]
    assert model.offered[1] == ["measure", "final_answer", "recall_search", "recall_read", "recall_expand"]
    assert "recall_search" in render(model.sent[1][:1])


def test_code_finds_what_the_model_no_longer_sees(tmp_path: Path) -> None:
    steps = build_steps(tmp_path)
    steps.attach(build_agent(Scripted(finish("Noted.")))).run("The code of the safe is 7731.")
    asked = iter(
        ["print(1)", 'print(recall_search("7731"))', 'print(recall_read("2", None, part=1))', 'final_answer("Done.")']
    )
    agent = build_agent(Scripted(lambda _: code(next(asked))), CodeAgent, step_callbacks=[steps])
    agent.run("Which code was it?")
    assert "The code of the safe is 7731." in agent.memory.steps[2].observations
    assert "I go on." in agent.memory.steps[3].observations


def test_the_tools_can_be_left_out(tmp_path: Path) -> None:
    model = Scripted(work(30))
    build_agent(model, step_callbacks=[build_steps(tmp_path, recall=False)]).run("Go.")
    assert model.offered[-1] == ["measure", "final_answer"]
    assert "recall_" not in render(model.sent[-1])


def test_usage_that_the_provider_reports_is_kept(tmp_path: Path) -> None:
    def answer(messages: list[ChatMessage]) -> ChatMessage:
        said = call("measure", belt="line 1") if len(messages) < 8 else call("final_answer", answer="Done.")
        said.token_usage = TokenUsage(2_000 + 300 * len(messages), 20)
        return said

    steps = build_steps(tmp_path, window=100_000)
    steps.attach(build_agent(Scripted(answer))).run("Go.")
    session = tenfold.open_session("t", store=tmp_path / "s.db")
    assert session.conversation.calibration.find_model("gpt-4o", session.policy.counter.name) is not None


def test_an_agent_with_the_tools_of_a_session_is_not_saved(tmp_path: Path) -> None:
    agent = build_steps(tmp_path).attach(build_agent(Scripted(finish("Fine."))))
    with pytest.raises(UsageError, match=r"recall_search belongs to a session: save the agent before"):
        agent.to_dict()


# -- steps -------------------------------------------------------------------------------------------------------------

PIXEL = Image.new("RGB", (4, 4), "red")
CALLS = [ToolCall("measure", {"belt": "línea 1"}, "c1"), ToolCall("measure", {"belt": "line 2"}, "c2")]


class Silent:
    """A logger that says nothing."""

    def log_error(self, _: str) -> None: ...


def act(**more: Any) -> ActionStep:  # noqa: ANN401 - fields of a step
    return ActionStep(**{"step_number": 3, "timing": Timing(0.0), "model_output": "I measure."} | more)


STEPS: dict[str, MemoryStep] = {
    "prompt": SystemPromptStep("Be brief."),
    "task": TaskStep("Hello"),
    "task with image": TaskStep("See:", [PIXEL]),
    "calls": act(tool_calls=CALLS, observations="4 m/s\n5 m/s"),
    "call alone": act(model_output=None, tool_calls=CALLS[:1], observations="4 m/s"),
    "code": act(tool_calls=[ToolCall("python_interpreter", "print(1)", "call_2")], observations="Execution logs:\n1"),
    "words": act(),
    "final answer": act(tool_calls=[ToolCall("final_answer", {"answer": "4"}, "c3")], observations="4"),
}


def flatten(steps: list[MemoryStep]) -> list[tuple[str, Any]]:
    """What is written to the model: roles and texts, and the sizes of images."""
    return [
        (message.role.value, part.get("text") or part["image"].size)
        for step in steps
        for message in step.to_messages()
        for part in message.content
    ]


@pytest.mark.parametrize("name", STEPS)
def test_every_step_is_written_as_it_was(name: str) -> None:
    step = STEPS[name]
    again = tenfold.from_messages(tenfold.to_messages([step]), "smolagents")
    assert flatten(again) == flatten([step])
    assert [CONVERTER.read(each) for each in again] == [CONVERTER.read(step)]


def test_a_call_and_what_it_gave_are_known_as_such() -> None:
    asked, first, second = CONVERTER.read(STEPS["calls"])
    assert [each["id"] for each in asked["tool_calls"]] == ["c1", "c2"]
    assert (first["role"], first["content"], second["content"]) == ("tool", "4 m/s\n5 m/s", "")


@pytest.mark.parametrize("calls", [None, CALLS[:1]])
def test_an_error_is_told_to_the_model(calls: list[ToolCall] | None) -> None:
    step = act(tool_calls=calls, error=AgentError("there is no line 12", Silent()))
    items = CONVERTER.read(step)
    assert items[1]["role"] == ("tool" if calls else "user")
    assert items[1]["content"].startswith("[tool error]\n" if calls else "Observation:\n")
    assert "there is no line 12" in render(CONVERTER.build(items)[-1].to_messages())


def test_a_plan_is_an_answer_and_a_note() -> None:
    said = ChatMessage(MessageRole.ASSISTANT, "First line 1.")
    items = CONVERTER.read(PlanningStep([], said, "First line 1.", Timing(0.0)))
    assert [item["role"] for item in items] == ["assistant", "user"]
    assert items[1]["content"].startswith("<system-note>\nNow proceed")


def test_images_that_a_step_gave_are_read() -> None:
    items = CONVERTER.read(act(tool_calls=CALLS[:1], observations="See:", observations_images=[PIXEL]))
    assert [item["role"] for item in items] == ["assistant", "tool", "user"]
    assert [part[1] for part in flatten(CONVERTER.build(items))][-1] == (4, 4)


def test_a_list_of_steps_is_compacted_to_steps() -> None:
    history: list[MemoryStep] = [TaskStep("Never touch line nine.")]
    history += [act(tool_calls=[ToolCall("measure", {"n": n}, f"c{n}")], observations=LONG) for n in range(20)]
    result = tenfold.compact(history, to=4_000)
    assert result.outcome.status == "compacted"
    assert all(isinstance(step, MemoryStep) for step in result.messages)
    assert result.messages[-1] is history[-1]


def test_what_is_no_step_is_named() -> None:
    with pytest.raises(BadInput, match=r"smolagents.models.ChatMessage is no step of smolagents: pass the steps in"):
        CONVERTER.read(ChatMessage(MessageRole.USER, "Hello"))
    with pytest.raises(BadInput, match=r"holds texts and images, and not 'https://example.com/a.png'"):
        CONVERTER.build(
            [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]}]
        )
    with pytest.raises(UsageError, match=r"str is no agent of smolagents: pass a CodeAgent"):
        TenfoldSteps("t").attach("agent")
    with pytest.raises(UsageError, match=r"session is int: pass the session's id"):
        TenfoldSteps(42)  # type: ignore[arg-type]
