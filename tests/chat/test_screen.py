"""The program in this process: answers as Markdown, completions, the palette, the pager, and what is always allowed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from pydantic_ai.capabilities import Toolset
from pydantic_ai.messages import ModelMessage, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from textual.command import CommandPalette
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from tenfold.apps.agent import Agent
from tenfold.apps.agent.coding_tools import CodingTools
from tenfold.apps.chat.app import Chat, drop_empty_session
from tenfold.apps.chat.screens import PagerScreen, RuleScreen
from tenfold.apps.chat.transcript import (
    MAX_DRAWN_ANSWERS,
    MAX_LEFT_LINES,
    AnswerItem,
    CodeBlock,
    build_left_note,
    build_parser,
)
from tenfold.config.settings import build_policy
from tenfold.core.record.block import Block
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo
from tenfold.store.sqlite.store import SqliteStore
from tests.chat.recorded import COUNTER, create_session, make_agent, store_session
from tests.chat.test_approval_dialog import read_rows, read_screen
from tests.chat.test_program import (
    Held,
    answer,
    drive_chat,
    get_lines,
    get_status,
    make_chat,
    send_text,
    wait_for_question,
    wait_until,
)

MARKDOWN = """## Found
Line one of README.md
line two <b>bold</b>

| a | b |
|---|---|
| 1 | 2 |

- point

```python
def f(): return 1
```
"""


def test_an_answer_is_drawn_as_markdown_while_it_arrives() -> None:
    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        await send_text(chat, pilot, "look")
        await wait_until(pilot, lambda: chat.query("MarkdownTable"), "the table is there before the answer is complete")
        assert not chat.query(CodeBlock)
        model.go.set()
        await wait_until(pilot, lambda: "idle" in get_status(chat), "it is over")
        await wait_until(pilot, lambda: len(chat.query(CodeBlock)) == 1, "the code is drawn")
        assert [len(chat.query(kind)) for kind in ("MarkdownH2", "MarkdownTable", "MarkdownBulletList")] == [1, 1, 1]
        assert chat.query_one(AnswerItem).source == MARKDOWN.strip()
        shown = read_rows(chat)
        assert any("line two <b>bold</b>" in row for row in shown), "HTML is text, and lines stay lines"
        assert not any("README.md line two" in row for row in shown)

    at = MARKDOWN.index("- point")
    model = Held(MARKDOWN[:at], MARKDOWN[at:])
    drive_chat(lambda: make_chat(model), play_scenario)


def test_a_table_in_a_narrow_terminal_keeps_its_text() -> None:
    """Prices were cut to `1,299…`."""
    words = ["WB-900", "Workbench", "1,299.99", "SAW-3000-X", "Japanese", "36.99"]
    table = f"| SKU | Name | Price |\n|---|---|--:|\n| {' | '.join(words[:3])} |\n| {' | '.join(words[3:])} |\n"

    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        await pilot.resize_terminal(28, 40)
        await send_text(chat, pilot, "prices")
        await wait_until(pilot, lambda: "idle" in get_status(chat) and chat.query("MarkdownTable"), "it is over")
        cells = [cell.render_line(y).text.strip() for cell in chat.query(".cell") for y in range(cell.size.height)]
        await wait_until(pilot, lambda: "…" not in "".join(read_rows(chat)), "nothing is cut")
        drawn = "".join(cells)
        assert all(word in drawn for word in words), cells

    model = Held(table, "")
    model.go.set()
    drive_chat(lambda: make_chat(model), play_scenario)


def test_only_whole_addresses_are_links() -> None:
    (line,) = (token for token in build_parser().parse("README.md or a@b.de, https://x.example/y") if token.children)
    assert [token.attrs["href"] for token in line.children or () if token.type == "link_open"] == [
        "https://x.example/y"
    ]


def test_underscores_belong_to_names_and_asterisks_emphasize() -> None:
    (line,) = (token for token in build_parser().parse("shop/__main__.py and __init__ are **two**") if token.children)
    shown = [(token.type, token.content) for token in line.children or () if token.type != "text" or token.content]
    assert shown == [
        ("text", "shop/__main__.py and __init__ are "),
        *(("strong_open", ""), ("text", "two"), ("strong_close", "")),
    ]


def test_answers_far_back_are_shown_as_they_were_written() -> None:
    said = [text for n in range(MAX_DRAWN_ANSWERS + 5) for text in (f"ask {n}", f"answer **{n}**")][-38:]

    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        await wait_until(pilot, lambda: len(get_lines(chat)) == len(said), "all is shown")
        for n in range(3):
            await chat.transcript.add_answer(f"more *{n}*")
        await wait_until(pilot, lambda: len(chat.query(AnswerItem)) == MAX_DRAWN_ANSWERS, "as many as may be")
        expected = [f"> {text}" if at % 2 == 0 else text for at, text in enumerate(said)]
        assert get_lines(chat) == [*expected, "more *0*", "more *1*", "more *2*"], "none is lost, and none moves"

    drive_chat(lambda: make_chat(Held("ok"), create_session(SqliteStore(":memory:"), *said)), play_scenario)


def test_what_is_typed_is_completed_and_called_back(tmp_path: Path) -> None:
    (tmp_path / "cart.py").write_text("")
    session = create_session(SqliteStore(":memory:"), "an old question", "an answer")

    def open_chat() -> Chat:
        return Chat(lambda _ui, _: Agent(FunctionModel(stream_function=Held("ok")), session=session), root=tmp_path)

    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        await pilot.press("slash", "u")
        await wait_until(pilot, lambda: chat.completions.display, "it is offered")
        await pilot.press("tab")
        await wait_until(pilot, lambda: chat.prompt.text == "/undo", "it is taken")
        await wait_until(pilot, lambda: not chat.completions.display, "and the list goes")
        chat.prompt.text = ""
        await pilot.press(*"@ca")
        await wait_until(pilot, lambda: chat.completions.display, "files are offered")
        await pilot.press("tab")
        await wait_until(pilot, lambda: chat.prompt.text == "cart.py ", "the path is taken")
        await pilot.press("up")
        await wait_until(pilot, lambda: chat.prompt.text == "an old question", "what was sent before comes back")
        await pilot.press("down")
        await wait_until(pilot, lambda: chat.prompt.text == "cart.py ", "and the draft after it")

    drive_chat(open_chat, play_scenario)


def test_the_palette_holds_the_commands_and_carries_them_out() -> None:
    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+p")
        await wait_until(pilot, lambda: isinstance(chat.screen, CommandPalette), "it is open")
        await pilot.press(*"/settings")
        await wait_until(
            pilot, lambda: "shows the policy" in read_screen(chat) and "/undo" not in read_screen(chat), "it is found"
        )
        await pilot.press("enter")
        await wait_until(pilot, lambda: any("policy tenfold" in line for line in get_lines(chat)), "it is done")

    drive_chat(lambda: make_chat(Held("ok")), play_scenario)


def test_themes_copies_and_rules_answer_in_a_line() -> None:
    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        await send_text(chat, pilot, "/theme nord")
        await wait_until(pilot, lambda: chat.theme == "nord", "it is changed")
        await send_text(chat, pilot, "/theme nort")
        await wait_until(pilot, lambda: any("did you mean 'nord'" in line for line in get_lines(chat)), "it is told")
        await send_text(chat, pilot, "/copy 2")
        await wait_until(pilot, lambda: chat.clipboard == "**first**", "the answer before the newest is copied")
        await send_text(chat, pilot, "/copy 3")
        await wait_until(pilot, lambda: any("no such answer" in line for line in get_lines(chat)), "there is no third")
        await send_text(chat, pilot, "/allowed")
        await wait_until(pilot, lambda: any("you are asked before each" in line for line in get_lines(chat)), "none")

    session = create_session(SqliteStore(":memory:"), "a", "**first**", "b", "second")
    drive_chat(lambda: make_chat(Held("ok"), session), play_scenario)


def test_a_long_text_is_read_in_a_pager_and_searched() -> None:
    text = "\n".join(f"line {n}" for n in range(500))

    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        await send_text(chat, pilot, "/expand 0")
        await wait_until(pilot, lambda: isinstance(chat.screen, PagerScreen) and chat.screen.query(TextArea), "open")
        area = chat.screen.query_one(TextArea)
        assert area.text.endswith(text), "all of it"
        await pilot.press("slash")
        await wait_until(pilot, lambda: chat.screen.query_one(Input).display, "the search is open")
        await pilot.press(*"LINE 44", "enter")
        await wait_until(pilot, lambda: area.selected_text == "line 44", "the first one is found")
        await wait_until(pilot, lambda: any("line 44" in row for row in read_rows(chat)), "and in view")
        await pilot.press("n")
        await wait_until(pilot, lambda: area.selection.start[0] == area.text.split("\n").index("line 440"), "the next")
        half = area.size.height // 2
        for key, wanted in (("g", 0), ("j", 1), ("k", 0), ("ctrl+d", half), ("ctrl+u", 0), ("ctrl+f", 2 * half)):
            await pilot.press(key)
            await wait_until(pilot, lambda at=wanted: area.scroll_y == at, f"{key} scrolls to {wanted}")  # type: ignore[misc]
        assert isinstance(chat.screen, PagerScreen), "Ctrl+D left the whole chat"
        await pilot.press("q")
        await wait_until(pilot, lambda: not isinstance(chat.screen, PagerScreen), "it is closed")

    drive_chat(lambda: make_chat(Held("ok"), create_session(SqliteStore(":memory:"), text)), play_scenario)


def test_what_left_the_view_is_listed(tmp_path: Path) -> None:
    store, session = store_session(tmp_path)
    agent = make_agent(store, session)
    outcome = agent.session.compact(to=8_000)
    block = agent.session.view.path.get_entry(agent.session.view.state.live_blocks[-1])
    assert isinstance(block, Block)
    assert block.id == outcome.block
    lines = build_left_note(block).text.splitlines()
    assert lines[1] == f"  entries 0 to {block.replacements[0].last}  {block.replacements[0].reason}"
    assert len(lines) == 1 + min(len(block.replacements), MAX_LEFT_LINES + 1)
    store.close()


Scenario = Callable[[Chat, Pilot[None]], Awaitable[None]]


def drive_commands(folder: Path, commands: list[str], scenario: Scenario) -> None:
    """A chat whose model runs these commands, one for each message of the user."""

    async def run_next(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        del info
        asked = sum(isinstance(part, UserPromptPart) for message in messages for part in message.parts)
        if isinstance(messages[-1].parts[-1], UserPromptPart):
            yield {
                0: DeltaToolCall("run_command", json.dumps({"command": commands[asked - 1]}), tool_call_id=f"{asked}")
            }
        else:
            yield "It is over."

    def open_agent(ui: Chat, _: str) -> Agent:
        return Agent(
            FunctionModel(stream_function=run_next, model_name="scripted"),
            session=create_session(SqliteStore(":memory:")),
            window=200_000,
            capabilities=[Toolset(CodingTools(folder, ui.approve).build_toolset())],
        )

    drive_chat(lambda: Chat(open_agent), scenario)


def test_what_is_always_allowed_is_asked_once_and_nothing_else_is(tmp_path: Path) -> None:
    async def play(chat: Chat, pilot: Pilot[None]) -> None:
        await send_text(chat, pilot, "one")
        await wait_for_question(chat, pilot)
        assert f"in {tmp_path}" in "".join(read_screen(chat).split(" ↪")), "the folder is shown"
        await pilot.press("a")
        await wait_until(
            pilot, lambda: isinstance(chat.screen, RuleScreen) and chat.screen.query(Input), "it asks what"
        )
        field = chat.screen.query_one(Input)
        assert field.value == "touch one"
        field.value = "rm *"
        await pilot.press("enter")
        await wait_until(pilot, lambda: "does not match" in read_screen(chat), "this would not allow it")
        field.value = "touch *"
        await pilot.press("enter")
        await wait_until(pilot, lambda: (tmp_path / "one").exists() and "idle" in get_status(chat), "it is run")
        await send_text(chat, pilot, "two")
        await wait_until(
            pilot, lambda: (tmp_path / "two").exists() and "idle" in get_status(chat), "without a question"
        )
        assert "allowed by run_command touch *: run touch two" in get_lines(chat)
        await send_text(chat, pilot, "three")
        await wait_for_question(chat, pilot)
        await answer(chat, pilot, "n")
        await wait_until(pilot, lambda: "idle" in get_status(chat), "two commands in one are asked about")
        assert not (tmp_path / "four").exists()
        await send_text(chat, pilot, "/allowed clear")
        await send_text(chat, pilot, "four")
        await wait_for_question(chat, pilot)
        await pilot.press("a")
        await wait_until(pilot, lambda: isinstance(chat.screen, RuleScreen), "it asks what")
        await pilot.press("escape")
        await wait_for_question(chat, pilot)
        await answer(chat, pilot, "n")

    commands = ["touch one", "touch two", "touch three; touch four", "touch five"]
    drive_commands(tmp_path, commands, play)


def test_a_command_of_several_lines_is_always_allowed_as_it_is(tmp_path: Path) -> None:
    async def play(chat: Chat, pilot: Pilot[None]) -> None:
        await send_text(chat, pilot, "one")
        await wait_for_question(chat, pilot)
        await answer(chat, pilot, "a")
        await wait_until(pilot, lambda: "idle" in get_status(chat), "it is run")
        assert (tmp_path / "two").exists()
        (tmp_path / "two").unlink()
        await send_text(chat, pilot, "two")
        await wait_until(
            pilot, lambda: (tmp_path / "two").exists() and "idle" in get_status(chat), "without a question"
        )

    drive_commands(tmp_path, ["touch one\ntouch two"] * 2, play)


def test_another_session_is_resumed_and_an_empty_one_leaves_nothing_behind() -> None:
    store = SqliteStore(":memory:")
    create_session(store, "where is the discount?", "in the cart")

    def open_agent(_ui: Chat, name: str) -> Agent:
        address = SessionAddress(store, name or "empty")
        made = Session.create(address, build_policy("tenfold", COUNTER), info=SessionInfo(address.session))
        return Agent(FunctionModel(stream_function=Held("ok")), session=made, window=20_000)

    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        assert len(store.list_sessions(DEFAULT_NAMESPACE)) == 2
        await send_text(chat, pilot, "/resume")
        await wait_until(pilot, lambda: any("new  where is the" in line for line in get_lines(chat)), "it is listed")
        await send_text(chat, pilot, "/resume new")
        await wait_until(pilot, lambda: "this is session new" in get_lines(chat), "it goes on")
        assert get_lines(chat)[:2] == ["> where is the discount?", "in the cart"]
        await pilot.press("up")
        await wait_until(pilot, lambda: chat.prompt.text == "where is the discount?", "its history is the prompt's")

    drive_chat(lambda: Chat(open_agent), play_scenario)
    assert [row.info.id for row in store.list_sessions(DEFAULT_NAMESPACE)] == ["new"]


def test_only_an_empty_session_of_the_chat_itself_is_dropped() -> None:
    store = SqliteStore(":memory:")
    agent = Agent(FunctionModel(stream_function=Held("ok")), session=create_session(store, "said"))
    assert not drop_empty_session(agent)
    address = SessionAddress(store, "read")
    read = Session.create(address, build_policy("tenfold", COUNTER), info=SessionInfo("read", format="pi"))
    assert not drop_empty_session(Agent(FunctionModel(stream_function=Held("ok")), session=read))
    assert len(store.list_sessions(DEFAULT_NAMESPACE)) == 2


@pytest.mark.parametrize("size", [(80, 24), (30, 12)])
def test_in_ascii_nothing_else_is_drawn(size: tuple[int, int]) -> None:
    async def play() -> None:
        session = create_session(SqliteStore(":memory:"), "caf\u00e9 \u2192", MARKDOWN)
        model = FunctionModel(stream_function=Held("ok"), model_name="scripted")
        chat = Chat(lambda ui, _: Agent(model, session=session, extensions=(ui.extension,)), is_ascii=True)
        async with chat.run_test(size=size) as pilot:
            await wait_until(pilot, lambda: chat.query(CodeBlock), "it is shown")
            await pilot.press("slash")
            await wait_until(pilot, lambda: chat.completions.display, "completions too")
            rows = read_rows(chat)
            assert [row for row in rows if not row.isascii()] == []
            assert any("-----" in row for row in rows), "there are lines"

    asyncio.run(play())
