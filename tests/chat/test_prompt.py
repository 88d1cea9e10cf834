"""What helps to type: completions, the history, what is always allowed, and ASCII for terminals that have no more."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tenfold.apps.agent.coding_tools import Action, diff_texts
from tenfold.apps.chat.approvals import AllowRule, build_rule, escape_pattern, is_editable
from tenfold.apps.chat.ascii_screen import is_ascii_terminal, name_non_ascii, to_ascii
from tenfold.apps.chat.completion import CompletionSource, find_completions, list_recent_sessions
from tenfold.apps.chat.prompt import MAX_HISTORY, InputHistory
from tenfold.core.text.hidden import Piece, PieceKind
from tenfold.errors import UsageError
from tenfold.store.base import DEFAULT_NAMESPACE
from tenfold.store.sqlite.store import SqliteStore
from tests.chat.recorded import create_session

SESSIONS = [("01a2-b", "the discount of coupons"), ("01a3-c", "shipping")]


def make_command(text: str) -> Action:
    return Action("command", "run it", (), "run_command", text, "/home/shop")


def complete(typed: str, root: Path = Path()) -> list[str]:
    """What the text would become, one for each completion."""
    source = CompletionSource(root, lambda: SESSIONS, ("nord", "gruvbox"))
    return [typed[: each.start] + each.text for each in find_completions(typed, source)]


def test_commands_sessions_and_themes_are_completed() -> None:
    assert complete("/co") == ["/compact ", "/copy "]
    assert complete("/und") == ["/undo"]
    assert complete("/undo") == [], "there is nothing to add"
    assert complete("/resume 01a3") == ["/resume 01a3-c"]
    assert complete("/resume coupon") == ["/resume 01a2-b"], "by what it is about"
    assert complete("/theme n") == ["/theme nord"]
    assert complete("/search x") == complete("say /co") == complete("and/or") == []


def test_files_of_the_folder_are_completed_and_no_others(tmp_path: Path) -> None:
    root = tmp_path / "shop"
    (root / "src").mkdir(parents=True)
    for name in ("src/cart.py", "setup.py", ".env", "two words", "odd\u202e"):
        (root / name).write_text("")
    (tmp_path / "other.py").write_text("")
    assert complete("look at @", root) == ["look at @src/", "look at setup.py "]
    assert complete("look at @src/c", root) == ["look at src/cart.py "], "a whole path stands without the sign"
    assert complete("@.e", root) == [".env "]
    assert complete("@../", root) == complete("@/", root) == complete("@none/", root) == []
    assert complete("me@src", root) == [], "an address is no file"


def test_sessions_are_told_apart_by_what_was_said_first() -> None:
    store = SqliteStore(":memory:")
    create_session(store, "Where is\nthe discount?", "Here.")
    ((id_, about),) = list_recent_sessions(store, DEFAULT_NAMESPACE)
    assert (id_, about) == ("new", "Where is the discount?")


def test_the_history_goes_back_and_forth_and_keeps_the_draft() -> None:
    history = InputHistory()
    assert history.recall(-1, "draft") is None
    history.replace(["one"])
    history.add("two")
    history.add("two")
    assert [history.recall(-1, "draft"), history.recall(-1, "two"), history.recall(-1, "one")] == ["two", "one", None]
    assert [history.recall(1, "one"), history.recall(1, "two"), history.recall(1, "draft")] == ["two", "draft", None]
    for n in range(MAX_HISTORY * 2):
        history.add(str(n))
    back = [history.recall(-1, "") for _ in range(MAX_HISTORY + 1)]
    assert back[-2:] == [str(MAX_HISTORY), None]


@given(st.text(st.sampled_from("ab *?[]!.-/=\"'")), st.text(st.sampled_from("ab *?[]!.-/=\"'")))
def test_what_is_always_allowed_as_it_is_allows_nothing_else(subject: str, other: str) -> None:
    rule = AllowRule("run_command", escape_pattern(subject))
    assert rule.is_covering(make_command(subject))
    assert rule.is_covering(make_command(other)) == (subject == other)


@given(st.text(st.sampled_from("abx *;|&$`\n<>()\\")))
def test_a_pattern_never_allows_what_the_shell_may_take_for_several_commands(command: str) -> None:
    allowed = AllowRule("run_command", "*").is_covering(make_command(command))
    assert allowed == (set(command) <= set("abx *"))
    assert AllowRule("run_command", escape_pattern(command)).is_covering(make_command(command)), "but exactly it may be"


def test_a_rule_is_of_one_tool_and_allows_at_least_what_was_asked() -> None:
    write = Action("write", "write it", (), "write_file", "src/a.py", "/home/shop")
    rule = build_rule(write, " src/* ")
    assert str(rule) == "write_file src/*"
    assert rule.is_covering(Action("write", "", (), "write_file", "src/b/c.py", "/home/shop"))
    assert not rule.is_covering(Action("write", "", (), "write_file", "tests/a.py", "/home/shop"))
    assert not rule.is_covering(Action("write", "", (), "edit_file", "src/a.py", "/home/shop"))
    with pytest.raises(UsageError, match="does not match"):
        build_rule(write, "tests/*")
    with pytest.raises(UsageError, match="only exactly this command"):
        build_rule(make_command("pytest; rm x"), "pytest*")
    assert is_editable(write)
    assert not is_editable(make_command("one\ntwo"))


@given(st.text(), st.text())
def test_a_diff_of_two_texts_gives_the_new_one_back(before: str, after: str) -> None:
    sections = diff_texts(before, after)
    if not any(section.sign == "@" for section in sections):
        assert "".join(section.text for section in sections if section.sign != "-") == after
        assert "".join(section.text for section in sections if section.sign != "+") == before


def test_a_change_in_a_long_file_is_shown_with_a_few_lines_around_it() -> None:
    lines = [f"line {n}\n" for n in range(100)]
    after = [*lines[:40], "new\n", *lines[41:90], *lines[91:]]
    shown = diff_texts("".join(lines), "".join(after))
    assert [(s.sign, s.text.count("\n") or s.text) for s in shown] == [
        *(("@", "37 lines stay"), (" ", 3), ("-", 1), ("+", 1), (" ", 3), ("@", "43 lines stay"), (" ", 3), ("-", 1)),
        *((" ", 3), ("@", "6 lines stay")),
    ]


@given(st.text())
def test_ascii_is_as_wide_as_what_it_stands_for(text: str) -> None:
    drawn = "".join(char for char in text if char.isprintable() and cell_len(char))
    assert to_ascii(drawn).isascii()
    assert sum(map(cell_len, drawn)) == len(to_ascii(drawn))


def test_what_a_widget_draws_has_a_sign_of_its_own() -> None:
    assert to_ascii("╭─┬╮│● x → y…│└╯") == "+-++|* x > y.|++"
    assert to_ascii("caf\u00e9 \u4f60") == "caf? ??", "another letter would be another word"
    named = list(name_non_ascii([Piece("a\u0430"), Piece("<ESC>", PieceKind.NAME)]))
    assert "".join(piece.text for piece in named) == "a<U+0430 cyrillic small letter a><ESC>"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"LANG": "en_US.UTF-8"}, False),
        ({"LANG": "de_DE.utf8", "LC_CTYPE": "C"}, True),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),  # Python itself sets this LC_CTYPE
        ({"LANG": "C.UTF-8"}, False),
        ({"LC_ALL": "C.UTF-8"}, False),
        ({"LC_CTYPE": "UTF-8"}, False),
        ({"LANG": "de_DE.ISO-8859-1"}, True),
        ({}, True),
    ],
)
def test_the_locale_says_whether_there_is_more_than_ascii(environ: dict[str, str], expected: bool) -> None:  # noqa: FBT001
    assert is_ascii_terminal(environ) == expected
