"""What the user is asked to approve is shown whole: every character of it, on every row, in both halves of a diff."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from tenfold.apps.agent.coding_tools import MAX_CONTEXT, CodingTools, diff_edit
from tenfold.apps.chat.screens import SignedLine, wrap_line
from tenfold.core.text.hidden import MAX_COMBINING, MAX_SPACES, TAB, PieceKind, escape_hidden, is_hidden, reveal_lines
from tests.agent.bench import Asked

ODD = "\t\n\r\x00\x1b\x7f\x85\xa0\xad\u034f\u115f\u200b\u200e\u2028\u202e\u2060\u2800\u3000\u3164\ufe0f\ufeff\uffa0"
texts = st.text(st.sampled_from(" ab.\u00e9\u4f60\u0301\U0001f600" + ODD + "\U000e0041\U0001d159\ud800\ue000"))


def reveal(text: str) -> str:
    """The text with its names, as one string."""
    return "\n".join("".join(piece.text for piece in line) for line in reveal_lines(text))


@pytest.mark.parametrize("char", ODD.replace("\n", "").replace("\t", "") + "\U000e0041\U0001d159\ud800\ue000\u0378")
def test_each_character_without_ink_is_named(char: str) -> None:
    (line,) = reveal_lines(f"a{char}b")
    assert [piece.kind for piece in line] == [PieceKind.TEXT, PieceKind.NAME, PieceKind.TEXT]
    assert line[1].text.startswith("<")
    assert is_hidden(char)
    assert escape_hidden(f"a{char}b").isprintable()
    assert char not in escape_hidden(f"a{char}b")


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    if x:\n        return 'caf\u00e9 \u65e5\u672c'\n\n\nclass A:\n    pass\n",
        "e\u0301 \u0928\u0940 \u05e9\u05c1\u05b8\u05dc\u05d5\u05dd \U0001f600",
        "a" + " " * MAX_SPACES + "b",
        "echo a | sed 's/a/b/' > c\n",
    ],
)
def test_ordinary_text_is_shown_as_it_is(text: str) -> None:
    assert reveal(text) == text
    assert all(piece.kind is PieceKind.TEXT for line in reveal_lines(text) for piece in line)


def test_tabs_and_spaces_at_the_end_of_a_line_can_be_seen() -> None:
    assert reveal("\tx  \ny ") == f"{TAB}x··\ny·"
    assert reveal("x\u0301" + "\u0301" * MAX_COMBINING) == "x\u0301\u0301\u0301<U+0301 combining acute accent>"


@given(texts)
@example(" \u00e9 x ")
@example("\u4f60 ")
def test_no_letter_is_lost_and_no_hidden_character_is_drawn(text: str) -> None:
    lines = reveal_lines(text)
    assert not any(is_hidden(char) for line in lines for piece in line for char in piece.text)
    drawn = "".join(piece.text for line in lines for piece in line if piece.kind is PieceKind.TEXT)
    inked = [char for char in text if not is_hidden(char) and char not in " \u0301"]
    assert [char for char in drawn if char not in " \u0301"] == inked
    if not any(piece.kind is PieceKind.NAME for line in lines for piece in line):
        signs = {PieceKind.SPACE: lambda told: told.replace(TAB, "\t").replace("·", " ")}
        back = "\n".join("".join(signs.get(p.kind, str)(p.text) for p in line) for line in lines)
        assert back == text


@given(texts, st.integers(2, 20))
def test_wrapping_loses_nothing_and_no_row_is_too_wide(text: str, width: int) -> None:
    for line in reveal_lines(text):
        rows = list(wrap_line(SignedLine("+", line), width))
        assert "".join(piece.text for row in rows for piece in row.pieces) == "".join(piece.text for piece in line)
        assert all(cell_len("".join(piece.text for piece in row.pieces)) <= width for row in rows)
        assert [row.is_continuation for row in rows] == [False] + [True] * (len(rows) - 1)


@given(
    st.text("ab\n", max_size=20), st.text("ab\n", min_size=1, max_size=8), st.text("ab\n", max_size=8), st.booleans()
)
def test_a_diff_holds_all_that_goes_and_all_that_comes(around: str, old: str, new: str, far: bool) -> None:  # noqa: FBT001
    head = around + "x" * (MAX_CONTEXT + 1) * far
    text = head + old + "y" + around
    sections = diff_edit(text, len(head), old, new)
    gone = "".join(section.text for section in sections if section.sign != "+")
    come = "".join(section.text for section in sections if section.sign != "-")
    assert old in gone
    assert new in come
    assert text.replace(gone, come, 1) == head + new + "y" + around


def test_an_edit_within_a_very_long_line_shows_its_place_alone() -> None:
    text = "x" * 1_000_000 + "old" + "y" * 1_000_000
    assert [tuple(section) for section in diff_edit(text, 1_000_000, "old", "new")] == [("-", "old"), ("+", "new")]


def test_what_is_shown_is_what_is_written_and_run(tmp_path: Path) -> None:
    asked = Asked()
    work = CodingTools(tmp_path, asked)
    content = "a\r\n\tb \u202e\u200b\u3164" + " " * 500 + "\n\n\n\n\nend"
    asyncio.run(work.write_file("f", content))
    assert (tmp_path / "f").read_bytes() == "".join(section.text for section in asked.sections[0]).encode()
    command = "printf %s '" + content + "' > out"
    asyncio.run(work.run_command(command))
    assert "".join(section.text for section in asked.sections[1]) == command
    assert (tmp_path / "out").read_bytes() == content.encode()


def test_a_very_long_text_is_prepared_in_linear_steps() -> None:
    text = "word \u00e9\t" * 8_000 + "x" * 100_000 + "\n" * 100_000
    rows = [row for line in reveal_lines(text) for row in wrap_line(SignedLine("+", line), 60)]
    assert "<100,000 line breaks>" in rows[-2].pieces[-1].text
