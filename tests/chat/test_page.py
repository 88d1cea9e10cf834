"""The page about the chat says what the program does, and its pictures show it."""

from __future__ import annotations

import re

import pytest

from tenfold.apps.agent.coding_tools import Action, CodingTools
from tenfold.apps.chat.slash_commands import COMMANDS, KEY_HELP
from tests.docs.test_links import MACHINE
from tests.shape.scan import ROOT

PAGE = ROOT / "docs" / "chat.md"


def test_the_table_of_commands_is_what_there_is() -> None:
    rows = re.findall(r"^\| `/(.+?)` \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert rows == [(f"{c.name} {c.argument}".strip(), c.description) for c in COMMANDS]


def test_the_keys_of_the_help_are_on_the_page() -> None:
    text = PAGE.read_text("utf-8")
    named = re.findall(r"Enter|Escape|Tab|Up|Down|Page\w+|Ctrl\+\w", " ".join(KEY_HELP))
    assert len(named) == 11
    assert [key for key in named if key not in text] == []


def test_every_tool_of_the_workbench_is_on_the_page(tmp_path_factory: pytest.TempPathFactory) -> None:
    async def approve(action: Action) -> bool:
        del action
        return False

    tools = CodingTools(tmp_path_factory.mktemp("work"), approve).build_toolset().tools
    text = PAGE.read_text("utf-8")
    assert [name for name in tools if f"`{name}`" not in text] == []


@pytest.mark.parametrize(
    ("picture", "holds"),
    [
        ("chat-compacted.svg", ("context compacted", "left the view", "[ctx:", "demonstration")),
        ("chat-tree.svg", ("you are here", "○")),
        ("chat-diff.svg", ("+", "a: always")),
    ],
)
def test_the_pictures_show_what_the_page_says_and_nothing_of_a_machine(picture: str, holds: tuple[str, ...]) -> None:
    text = (ROOT / "docs" / picture).read_text("utf-8").replace("&#160;", " ")
    assert [what for what in holds if what not in text] == []
    assert MACHINE.findall(text) == []
    assert "@font-face" not in text
