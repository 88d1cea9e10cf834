from __future__ import annotations

from tenfold.apps.cli.main import COMMANDS
from tests.docs.commands import PAGE, build_page


def test_the_page_is_what_the_command_says() -> None:
    assert PAGE.read_text("utf-8") == build_page(), "run `python -m tests.docs.commands --write`"


def test_a_default_is_quoted_and_none_is_empty() -> None:
    text = build_page()
    assert "Default: `.`." in text
    assert [line for line in text.splitlines() if "Default: ." in line or "``" in line] == []


def test_every_command_is_on_it() -> None:
    text = PAGE.read_text("utf-8")
    assert {"compact", "serve", "undo"} <= set(COMMANDS)
    assert [n for n in COMMANDS if f"## tenfold {n}" not in text] == []
