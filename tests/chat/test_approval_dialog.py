"""The question before a change or a command: all of it can be read, and a yes counts once its end was in view."""

from __future__ import annotations

import asyncio
import html
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.capabilities import Toolset
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from textual import events
from textual.pilot import Pilot

from tenfold.apps.agent import Agent
from tenfold.apps.agent.coding_tools import Action, CodingTools, Section
from tenfold.apps.chat.app import Chat
from tenfold.apps.chat.screens import FullText, QuestionScreen, build_action_lines
from tenfold.store.sqlite.store import SqliteStore
from tests.chat import test_program
from tests.chat.recorded import create_session
from tests.chat.test_program import Held, get_lines, get_status, make_chat, send_text, wait_for_question, wait_until

SIZES = [(80, 24), (40, 15)]
Scenario = Callable[[Chat, Pilot[None]], Awaitable[None]]


def ask_about(folder: Path, tool: str, arguments: dict[str, Any], scenario: Scenario, size: tuple[int, int]) -> None:
    """Has a model call the tool once, waits until the question is open and takes keys, and plays the scenario."""

    async def call_once(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        del info
        if len(messages) == 1:
            yield {0: DeltaToolCall(tool, json.dumps(arguments), tool_call_id="c1")}
        else:
            yield "It is over."

    def open_agent(ui: Chat, _: str) -> Agent:
        return Agent(
            FunctionModel(stream_function=call_once, model_name="scripted"),
            session=create_session(SqliteStore(":memory:")),
            window=200_000,
            capabilities=[Toolset(CodingTools(folder, ui.approve).build_toolset())],
            extensions=(ui.extension,),
        )

    async def play() -> None:
        chat = Chat(open_agent)
        async with chat.run_test(size=size) as pilot:
            await send_text(chat, pilot, "Do it.")
            await wait_for_question(chat, pilot)
            await scenario(chat, pilot)

    asyncio.run(play())


def show(scenario: Callable[[Opened], Awaitable[None]], size: tuple[int, int]) -> None:
    """Runs a scenario that opens questions itself, without the pause that protects somebody who types."""

    async def play() -> None:
        chat = make_chat(Held("ok"))
        async with chat.run_test(size=size) as pilot:
            await scenario(Opened(chat, pilot))

    asyncio.run(play())


class Opened:
    """A chat that asks what a test wants it to."""

    def __init__(self, chat: Chat, pilot: Pilot[None]) -> None:
        self.chat, self.pilot = chat, pilot
        self.answers: list[str | None] = []

    async def ask(self, action: Action) -> str:
        """Opens the question; what is on the screen."""
        lines = build_action_lines(action)
        question = QuestionScreen("Look", lines, {"y": "yes", "n": "no"}, consent="y")
        self.chat.push_screen(question, self.answers.append)
        await wait_until(self.pilot, lambda: "n: no" in read_screen(self.chat), "it is open")
        return await self._read_settled()

    async def press(self, *keys: str) -> str:
        """Presses keys; what is on the screen then."""
        await self.pilot.press(*keys)
        return await self._read_settled()

    async def _read_settled(self) -> str:
        """What is on the screen once drawing it again changes nothing: a first drawing may not know its height yet."""
        seen = ""
        while seen != (seen := read_screen(self.chat)):
            await self.pilot.pause(0.05)
        return seen


def make_command(text: str) -> Action:
    return Action("command", "run something", (Section("", text),), "run_command", text, "/home/shop")


def read_rows(chat: Chat) -> list[str]:
    """The rows of the screen as they are drawn."""
    drawn = chat.export_screenshot(simplify=True)
    rows: dict[int, str] = {}
    for number, text in re.findall(
        r'<text[^>]* clip-path="url\([^)]*-line-(\d+)\)"[^>]*>(.*?)</text>', drawn, re.DOTALL
    ):
        rows[int(number)] = rows.get(int(number), "") + html.unescape(text).replace("\xa0", " ").strip("\n")
    return [rows[number] for number in sorted(rows)]


def read_screen(chat: Chat) -> str:
    """The screen as one text, without the frames, with what was wrapped joined."""
    rows = [row.strip("│╭╮╰╯─▁▂▃▄▅▆▇█") for row in read_rows(chat)]
    return " ".join("\n".join(rows).replace("\n ↪", " ").replace("\n+↪", " ").split())


def find_reversed(chat: Chat) -> list[str]:
    """What the text draws in reverse: the names of what does not show."""
    text = chat.screen.query_one(FullText)
    segments = [segment for y in range(text.size.height) for segment in text.render_line(y)]
    return [segment.text for segment in segments if segment.style is not None and segment.style.reverse]


async def answer(chat: Chat, pilot: Pilot[None], key: str) -> None:
    await test_program.answer(chat, pilot, key)
    await wait_until(pilot, lambda: "idle" in get_status(chat), "the run is over")


def squeeze(text: str) -> str:
    """Without blanks, so that it does not matter where a row ended."""
    return "".join(text.split())


def make_hostile(filler: str) -> str:
    return f"echo hello{filler}; touch owned"


@pytest.mark.parametrize("size", SIZES)
def test_a_short_command_takes_one_key(tmp_path: Path, size: tuple[int, int]) -> None:
    async def play(chat: Chat, pilot: Pilot[None]) -> None:
        assert "echo done > made.txt" in read_screen(chat)
        assert "y: yes" in read_screen(chat)
        await answer(chat, pilot, "y")
        assert "you said yes: run echo done > made.txt" in get_lines(chat)

    ask_about(tmp_path, "run_command", {"command": "echo done > made.txt"}, play, size)
    assert (tmp_path / "made.txt").read_text() == "done\n"


LONG = {
    "lines": "\n".join(f"echo line {n}" for n in range(200)),
    "words": " && echo x" * 400,
    "one word": "x" * 9_000,
    "wide": "\u4f60" * 3_000,
}


@pytest.mark.parametrize("size", SIZES)
def test_a_yes_to_what_was_not_seen_is_not_taken(size: tuple[int, int]) -> None:
    async def play(opened: Opened) -> None:
        for filler in LONG.values():
            opened.answers.clear()
            seen = await opened.ask(make_command(make_hostile(filler)))
            assert "owned" not in seen
            for keys in (("y",), ("Y",), ("pagedown", "y"), ("down", "y"), ("enter",)):
                seen = await opened.press(*keys)
                assert opened.answers == [], "the end was not in view yet"
                assert re.search(r"y is taken at the end: [\d,]+ more lines. PageDown or End scrolls", seen), seen
                assert "y: yes" not in seen
            seen = await opened.press("end")
            assert "owned" in seen
            assert "y: yes" in seen
            assert "y is taken" not in seen
            seen = await opened.press("home")
            assert "echo hello" in seen, "it can be read again"
            await opened.press("y")
            assert opened.answers == ["y"]

    show(play, size)


@pytest.mark.parametrize("size", SIZES)
def test_every_column_of_every_row_is_on_the_screen(size: tuple[int, int]) -> None:
    digits = "".join(f"{n:05}" for n in range(500))

    async def play(opened: Opened) -> None:
        rows: dict[str, None] = {}
        seen = await opened.ask(make_command(digits))
        while True:
            rows |= dict.fromkeys(re.findall(r"\d{5,}", "\n".join(read_rows(opened.chat))))
            if "y: yes" in seen:
                break
            seen = await opened.press("pagedown")
        assert "".join(rows) == digits
        await opened.press("n")

    show(play, size)


def test_the_end_may_be_reached_row_by_row_and_with_the_wheel() -> None:
    async def play(opened: Opened) -> None:
        await opened.ask(make_command("echo x\n" * 25 + "echo y"))
        text = opened.chat.screen.query_one(FullText)
        for below in range(text.count_rows_below() - 1, -1, -1):
            await opened.press("down")
            assert text.count_rows_below() == below
        await opened.press("n")
        await opened.ask(make_command("echo x\n" * 25 + "echo y"))
        text = opened.chat.screen.query_one(FullText)
        for _ in range(30):
            text.post_message(events.MouseScrollDown(text, 1, 1, 0, 1, 0, shift=False, meta=False, ctrl=False))
            await opened.pilot.pause()
        await wait_until(opened.pilot, lambda: "y: yes" in read_screen(opened.chat), "the end is in view")
        await opened.press("y")
        assert opened.answers == ["n", "y"]

    show(play, (80, 24))


@pytest.mark.parametrize("key", ["n", "escape"])
def test_a_no_is_taken_at_once(tmp_path: Path, key: str) -> None:
    async def play(chat: Chat, pilot: Pilot[None]) -> None:
        await answer(chat, pilot, key)

    ask_about(tmp_path, "run_command", {"command": "touch owned\n" * 500}, play, (80, 24))
    assert not (tmp_path / "owned").exists()


BLANKS = [
    (" " * 5_000, "<5,000 spaces>"),
    ("\n" * 3_000, "<3,000 line breaks>"),
    ("\t" * 300, "<300 tabs>"),
    (" \n" * 2_000, "<4,000 blank characters: 2,000 spaces, 2,000 line breaks>"),
    ("\u200b" * 700, "<700 x U+200B zero width space>"),
    ("\u2800" * 90, "<90 x U+2800 braille pattern blank>"),
    ("\u3164", "<U+3164 hangul filler>"),
    ("\u202e", "<U+202E right-to-left override>"),
    ("\x1b[8m", "<ESC>[8m"),
    ("\r", "<CR>"),
    ("\u00a0" * 40, "<40 x U+00A0 no-break space>"),
    ("\U000e0041\U000e0042", "<U+E0041 tag latin capital letter a>"),
    ("\ufe00" * 12, "<12 x U+FE00 variation selector-1>"),
    ("\n\u200b" * 500, "500 line breaks, 500 x U+200B zero width space>"),
]


@pytest.mark.parametrize("size", SIZES)
def test_what_looks_blank_is_named_and_hides_nothing(size: tuple[int, int]) -> None:
    async def play(opened: Opened) -> None:
        for filler, told in BLANKS:
            seen = squeeze(await opened.ask(make_command(make_hostile(filler))))
            assert "touchowned" in seen
            assert squeeze(told) in seen
            assert "Charactersthatdonotshow" in seen, "it tells of them"
            assert "y:yes" in seen, "it is short once they are named"
            await opened.press("n")

    show(play, size)


@pytest.mark.parametrize("size", SIZES)
def test_a_secret_is_no_hiding_place(tmp_path: Path, size: tuple[int, int]) -> None:
    command = "export API_KEY=sk-test-0123456789abcdefghij; touch owned"

    async def play(chat: Chat, pilot: Pilot[None]) -> None:
        assert "sk-test-0123456789abcdefghij" in re.sub(r"[ ↪]", "", read_screen(chat))
        await answer(chat, pilot, "n")
        assert "sk-test" not in "\n".join(get_lines(chat)), "the transcript has it redacted"

    ask_about(tmp_path, "run_command", {"command": command}, play, size)


def test_a_name_cannot_be_forged() -> None:
    async def play(opened: Opened) -> None:
        seen = await opened.ask(make_command("echo '<5,000 spaces>'"))
        assert "<5,000 spaces>" in seen
        assert "do not show" not in seen, "nothing is hidden"
        assert find_reversed(opened.chat) == []
        await opened.press("n")
        await opened.ask(make_command("echo" + " " * 5_000))
        assert find_reversed(opened.chat) == ["<5,000 spaces>"]

    show(play, (80, 24))


@pytest.mark.parametrize("size", SIZES)
def test_a_write_shows_all_of_its_content(tmp_path: Path, size: tuple[int, int]) -> None:
    content = "".join(f"value_{n} = {n}\n" for n in range(60)) + "import os; os.remove('x')"
    seen: list[str] = []

    async def play(chat: Chat, pilot: Pilot[None]) -> None:
        assert "write conf.py: " in read_screen(chat)
        assert "y: yes" not in read_screen(chat)
        while "y: yes" not in (seen or [""])[-1]:
            seen.append(read_screen(chat))
            await pilot.press("pagedown")
        assert all(any(line in screen for screen in seen) for line in content.splitlines())
        assert "no line break at the end" in read_screen(chat)
        await answer(chat, pilot, "y")

    ask_about(tmp_path, "write_file", {"path": "conf.py", "content": content}, play, size)
    assert (tmp_path / "conf.py").read_text() == content


@pytest.mark.parametrize("size", SIZES)
def test_an_edit_shows_old_and_new_lines(tmp_path: Path, size: tuple[int, int]) -> None:
    (tmp_path / "a.py").write_text("one\ntwo = 2\nthree\nfour\n")

    async def play(chat: Chat, pilot: Pilot[None]) -> None:
        rows = [row.strip(" │").rstrip() for row in read_rows(chat)]
        at = rows.index("- two = 2")
        assert rows[at : at + 3] == ["- two = 2", "+ two = 3", "+ more"]
        assert rows[at + 3] == "three"
        await answer(chat, pilot, "y")

    ask_about(tmp_path, "edit_file", {"path": "a.py", "old": "2\nth", "new": "3\nmore\nth"}, play, size)
    assert (tmp_path / "a.py").read_text() == "one\ntwo = 3\nmore\nthree\nfour\n"


def test_an_edit_of_the_last_line_break_alone_can_be_seen(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n")

    async def play(chat: Chat, pilot: Pilot[None]) -> None:
        seen = read_screen(chat)
        assert "- two + two<no line break at the end>" in seen
        await answer(chat, pilot, "n")

    ask_about(tmp_path, "edit_file", {"path": "a.py", "old": "two\n", "new": "two"}, play, (80, 24))


@pytest.mark.parametrize("height", [1, 2, 3])
def test_a_screen_too_small_to_show_the_end_takes_no_yes(height: int) -> None:
    async def play(opened: Opened) -> None:
        await opened.ask(make_command("echo x\n" * 100))
        await opened.pilot.resize_terminal(40, height)
        await opened.press("end", "y")
        assert opened.answers == []
        await opened.pilot.resize_terminal(80, 24)
        await opened.press("end", "y")
        assert opened.answers == ["y"]

    show(play, (80, 24))


def test_a_chat_that_goes_away_while_a_question_is_open_ends_without_an_error() -> None:
    async def play() -> None:
        chat = make_chat(Held("ok"))
        async with chat.run_test(size=(80, 24)) as pilot:
            asking = asyncio.create_task(chat.approve(make_command("touch owned")))
            await wait_until(pilot, lambda: isinstance(chat.screen, QuestionScreen), "the question is up")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    asyncio.run(play())
