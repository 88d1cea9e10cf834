"""The program in this process: what stands on its screen when a run fails, is stopped, or asks in the wrong moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Literal

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    ModelMessage,
    PartDeltaEvent,
    TextPartDelta,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from textual import events
from textual.pilot import Pilot
from textual.widgets import OptionList, Static

from tenfold.apps.agent import Agent
from tenfold.apps.agent.coding_tools import Action, ApprovalKind, Section
from tenfold.apps.chat import screens
from tenfold.apps.chat.app import Chat, describe_failure
from tenfold.apps.chat.screens import FullText, QuestionScreen
from tenfold.apps.chat.transcript import MAX_ITEMS, AnswerItem, RunDisplay
from tenfold.core.record.message import get_text
from tenfold.session import Session
from tenfold.store.sqlite.store import SqliteStore
from tests.chat.recorded import create_session

SECRET = "sk-test-0123456789abcdefghij"  # noqa: S105 - shaped as a key, so that masking has something to find
PATIENCE = 20_000
"""How often it is looked, with a hundredth of a second between, before something that is to appear has not."""
Answering = Callable[[list[ModelMessage], AgentInfo], AsyncIterator[str]]


class Held:
    """A model whose answers are held back until `go` is set, and said piece by piece."""

    def __init__(self, *pieces: str) -> None:
        self.pieces, self.go, self.asked = pieces, asyncio.Event(), 0

    async def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        del messages, info
        self.asked += 1
        yield self.pieces[0]
        await self.go.wait()
        for piece in self.pieces[1:]:
            yield piece


async def fail_stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
    """A provider that says no, and quotes the key."""
    del info
    if messages:
        told = f"Incorrect API key provided: {SECRET} [bold]x[/]"
        raise ModelHTTPError(401, "some-model", {"error": {"message": told}})
    yield ""


def make_chat(answering: Answering, session: Session | None = None) -> Chat:
    """The program over a model that answers so."""
    made = session or create_session(SqliteStore(":memory:"))

    def open_agent(ui: Chat, _: str) -> Agent:
        model = FunctionModel(stream_function=answering, model_name="scripted")
        return Agent(model, session=made, window=20_000, extensions=(ui.extension,))

    return Chat(open_agent)


def drive_chat(chat: Callable[[], Chat], scenario: Callable[[Chat, Pilot[None]], Awaitable[None]]) -> None:
    """Runs a scenario on a screen of 100 by 30."""

    async def run_chat() -> None:
        made = chat()
        async with made.run_test(size=(100, 30)) as pilot:
            await scenario(made, pilot)

    asyncio.run(run_chat())


async def wait_until(pilot: Pilot[None], seen: Callable[[], object], what: str) -> None:
    """Waits until it is so.

    Pressing a key does not wait for what comes of it: where other programs keep the processors busy, `Pilot` takes this
    one for idle. So whatever a key is to bring about is waited for.
    """
    for _ in range(PATIENCE):
        if seen():
            return
        await pilot.pause(0.01)
    raise AssertionError(what)


def get_lines(chat: Chat) -> list[str]:
    """What stands in the transcript."""
    items = chat.transcript.children
    return [item.source if isinstance(item, AnswerItem) else str(item.render()) for item in items]


def get_status(chat: Chat) -> str:
    return chat.status_line.render().plain


def make_action(kind: ApprovalKind, text: str) -> Action:
    tool = "run_command" if kind == "command" else "write_file"
    line = f"{'run' if kind == 'command' else kind} {text}"
    return Action(kind, line, (Section("", text),), tool, text, "/home/shop")


async def send_text(chat: Chat, pilot: Pilot[None], text: str) -> None:
    """Sends a line, and waits until the program has taken it."""
    chat.prompt.text = text
    await pilot.press("enter")
    await wait_until(pilot, lambda: not chat.prompt.text, f"{text} is taken")


def read_question(chat: Chat) -> list[str]:
    """The title, the warning and the keys of the question that is up. It has none of them before it is composed."""
    if not isinstance(chat.screen, QuestionScreen):
        return []
    return [str(each.render()) for each in chat.screen.query(Static)]


async def wait_for_question(chat: Chat, pilot: Pilot[None]) -> None:
    """Waits until a question is up and takes keys."""
    await wait_until(pilot, lambda: any("n: no" in text for text in read_question(chat)), "it listens")


async def answer(chat: Chat, pilot: Pilot[None], key: str) -> None:
    """Answers the question that is up, and waits until it is gone."""
    await pilot.press(key)
    await wait_until(pilot, lambda: not isinstance(chat.screen, QuestionScreen), "it is answered")


def test_a_provider_that_fails_is_a_line_and_the_input_goes_on_working() -> None:
    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        await send_text(chat, pilot, "hello")
        await wait_until(pilot, lambda: any("401" in line for line in get_lines(chat)), "the failure is shown")
        text = "\n".join(get_lines(chat))
        assert SECRET not in text
        assert "HTTP 401" in text
        assert "[bold]x[/]" in text, "what looks like markup is text"
        assert "Traceback" not in text
        await wait_until(pilot, lambda: "idle" in get_status(chat), "idle again")
        await send_text(chat, pilot, "/settings")
        await wait_until(pilot, lambda: any("policy tenfold" in line for line in get_lines(chat)), "commands go on")

    drive_chat(lambda: make_chat(fail_stream), play_scenario)


def test_what_is_typed_during_a_run_waits_and_is_sent_in_order() -> None:
    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        await send_text(chat, pilot, "first")
        await wait_until(pilot, lambda: model.asked == 1, "the run begins")
        await send_text(chat, pilot, "second")
        await send_text(chat, pilot, "/undo")
        await send_text(chat, pilot, "third")
        await wait_until(pilot, lambda: "3 queued" in get_status(chat), "three wait")
        assert "running" in get_status(chat)
        assert str(chat.queue_notice.render()) == "queued: second\nqueued: /undo\nqueued: third"
        await send_text(chat, pilot, "/model")
        await wait_until(
            pilot, lambda: any("the model is scripted" in line for line in get_lines(chat)), "looking waits for none"
        )
        assert model.asked == 1
        model.go.set()
        await wait_until(pilot, lambda: "idle" in get_status(chat), "all is done")
        mine = [line for line in get_lines(chat) if line.startswith("> ")]
        assert mine == ["> first", "> /model", "> second", "> /undo", "> third"]
        assert not chat.queue_notice.display

    model = Held("Well", ", yes.")
    drive_chat(lambda: make_chat(model), play_scenario)


def test_escape_stops_a_run_keeps_what_was_said_and_goes_on_with_what_waits() -> None:
    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        await send_text(chat, pilot, "first")
        await wait_until(pilot, lambda: any("Once upon" in line for line in get_lines(chat)), "the answer streams in")
        await send_text(chat, pilot, "second")
        await pilot.press("escape")
        await wait_until(pilot, lambda: "stopped" in get_lines(chat), "it says so")
        await wait_until(pilot, lambda: model.asked == 2, "what waits is sent")
        model.go.set()
        await wait_until(pilot, lambda: "idle" in get_status(chat), "all is done")
        said = [get_text(m) for m in chat.agent.session.view.get_messages()]
        assert said[0] == "first"
        assert any("Once upon" in text for text in said[1:2]), "the beginning of the answer is kept"
        assert said[-2:] == ["second", "Once upon a time, the end."]
        await pilot.press("escape")
        assert chat.is_running, "with nothing to stop it does nothing"

    model = Held("Once upon a ", "time, the end.")
    drive_chat(lambda: make_chat(model), play_scenario)


def test_half_a_secret_is_never_shown_while_it_streams_in() -> None:
    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        await send_text(chat, pilot, "what is the key?")
        await wait_until(pilot, lambda: any("The key" in line for line in get_lines(chat)), "the answer streams in")
        await pilot.pause(0.1)
        assert "sk-test" not in "\n".join(get_lines(chat))
        model.go.set()
        whole = "The key is [redacted] - keep it [red]safe[/red]"
        await wait_until(pilot, lambda: whole in get_lines(chat), "the whole answer is there")

    model = Held(f"The key is {SECRET[:12]}", SECRET[12:], " - keep it [red]safe[/red]", "\x1b]0;title\x07")
    drive_chat(lambda: make_chat(model), play_scenario)


def push_question(chat: Chat, text: str, pause: float) -> list[str | None]:
    """Opens a question about a command, which takes keys after this pause. Returns the list that gets the answer."""
    answers: list[str | None] = []
    lines = screens.build_action_lines(make_action("command", text))
    chat.push_screen(QuestionScreen("Look", lines, {"y": "yes", "n": "no"}, pause=pause), answers.append)
    return answers


def test_a_question_takes_no_key_before_the_pause_is_over() -> None:
    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        answers = push_question(chat, "rm -r [bold]build[/bold] \x1b[8m", 1e6)
        await wait_until(pilot, lambda: read_question(chat), "the question is up")
        text = chat.screen.query_one(FullText)
        shown = "rm -r [bold]build[/bold] <ESC>[8m"
        await wait_until(pilot, lambda: text.render_line(2).text.strip() == shown, "all of the command is shown")
        await pilot.press("y", "n", "escape")
        assert read_question(chat) == ["Look", screens.HIDDEN_NOTICE, ""]
        assert answers == []

    drive_chat(lambda: make_chat(Held("ok")), play_scenario)


def test_a_key_from_before_the_pause_is_no_answer_however_late_it_arrives() -> None:
    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        early = events.Key("y", "y")
        answers = push_question(chat, "rm -r build", 0.01)
        await wait_for_question(chat, pilot)
        chat.screen.post_message(early)
        while not answers:  # each key that comes too soon begins the pause anew
            await pilot.press("n")
            await pilot.pause(0.1)
        assert answers == ["n"]

    drive_chat(lambda: make_chat(Held("ok")), play_scenario)


def test_one_of_its_keys_answers_a_question() -> None:
    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        for key, is_yes in (("y", True), ("n", False), ("escape", False)):
            asked = asyncio.create_task(chat.approve(make_action("write", "a.txt")))
            await wait_for_question(chat, pilot)
            assert "asks you" in get_status(chat)
            await pilot.press("x", "enter")
            assert not asked.done(), "other keys are no answer"
            await answer(chat, pilot, key)
            assert await asked == is_yes
        assert get_lines(chat) == ["you said yes: write a.txt", *["you said no: write a.txt"] * 2]

    drive_chat(lambda: make_chat(Held("ok")), play_scenario)


def test_a_run_that_is_stopped_takes_its_question_away() -> None:
    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        asked = asyncio.create_task(chat.approve(make_action("write", "a.txt")))
        await wait_until(pilot, lambda: isinstance(chat.screen, QuestionScreen), "the question is up")
        asked.cancel()
        await wait_until(pilot, lambda: not isinstance(chat.screen, QuestionScreen), "the question is gone")
        assert asked.cancelled()

    drive_chat(lambda: make_chat(Held("ok")), play_scenario)


def read_tree(chat: Chat) -> str:
    """The row of the tree under the cursor."""
    options = chat.screen.query(OptionList)
    row = options.first().highlighted_option if options else None
    return str(row.prompt) if row is not None else ""


def test_the_transcript_stays_bounded_and_the_tree_is_quick_for_long_sessions() -> None:
    words = [f"word {n}" for n in range(4_000)]

    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        for n in range(MAX_ITEMS * 2):
            chat.transcript.add_line("note", f"line {n}")
        await wait_until(pilot, lambda: len(get_lines(chat)) <= MAX_ITEMS + 100, "old lines are gone")
        assert get_lines(chat)[-1] == f"line {MAX_ITEMS * 2 - 1}"
        await send_text(chat, pilot, "/tree")
        await wait_until(pilot, lambda: "you are here, after: word 3999" in read_tree(chat), "it is read")
        await pilot.press("home")
        await wait_until(pilot, lambda: read_tree(chat) == " ● word 0", "the cursor is at the beginning")
        await pilot.press("escape")
        await wait_until(pilot, lambda: not isinstance(chat.screen, screens.TreeScreen), "it is closed")

    drive_chat(lambda: make_chat(Held("ok"), create_session(SqliteStore(":memory:"), *words)), play_scenario)


def test_newlines_and_pastes_stay_in_the_input_without_control_sequences() -> None:
    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        await pilot.press("a", "ctrl+j", "b")
        await wait_until(pilot, lambda: chat.prompt.text == "a\nb", "two lines stand in the input")
        chat.prompt.prepend_text("\x1b[31mred\x1b[0m\nkey")
        assert chat.prompt.text == "red\nkey\na\nb", "what was being typed is not lost"
        await pilot.press("ctrl+c", "pageup", "pagedown")

    drive_chat(lambda: make_chat(Held("ok")), play_scenario)


@pytest.mark.parametrize("size", [(80, 24), (200, 60), (24, 10)])
def test_at_any_size_the_status_is_on_the_screen(size: tuple[int, int]) -> None:
    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        await pilot.resize_terminal(*size)
        await send_text(chat, pilot, "hello")
        await wait_until(pilot, lambda: "running" in get_status(chat) or "idle" in get_status(chat), "it runs")
        line = chat.status_line
        await wait_until(pilot, lambda: line.region.height == 1 and line.region.bottom <= size[1], "it is drawn")
        assert get_status(chat).startswith("[ctx: ")
        model.go.set()

    model = Held("Well", ", yes.")
    drive_chat(lambda: make_chat(model), play_scenario)


def test_a_frame_that_is_due_once_the_program_left_draws_nothing() -> None:
    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        display = RunDisplay(chat.transcript)
        await display.show_event(PartDeltaEvent(index=0, delta=TextPartDelta("Well, ")))
        chat.exit()
        await display.end()
        chat.transcript.add_line("note", "stopped")
        assert not chat.transcript.query(AnswerItem)
        await pilot.pause()

    drive_chat(lambda: make_chat(Held("ok")), play_scenario)


@pytest.mark.parametrize("outcome", ["success", "failed", "retried", "denied", "interrupted"])
def test_a_call_that_did_not_succeed_is_drawn_as_failed(
    outcome: Literal["success", "failed", "retried", "denied", "interrupted"],
) -> None:
    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        del pilot
        display = RunDisplay(chat.transcript)
        await display.show_event(FunctionToolCallEvent(ToolCallPart("look", {"path": "a"}, tool_call_id="c1")))
        await display.show_event(FunctionToolResultEvent(ToolReturnPart("look", "text", "c1", outcome=outcome)))
        failed = "" if outcome == "success" else "failed: "
        assert get_lines(chat)[-1] == f"* look path=a → {failed}text"

    drive_chat(lambda: make_chat(Held("ok")), play_scenario)


def test_errors_are_one_sentence_without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "a-strange-key-that-no-pattern-knows")
    told = describe_failure(
        ExceptionGroup("many", [OSError("no route\nto a-strange-key-that-no-pattern-knows \x1b[1m")])
    )
    assert told == "OSError: no route to [redacted]"
