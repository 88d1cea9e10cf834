"""Sentences stay whole in every language: nothing is lost between them, and no dot that ends none tears one."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.core.text.language_tables import load_tables
from tenfold.core.text.sentences import find_sentences, split_sentences

SENTENCES = tomllib.loads(Path(__file__).with_name("sentences.toml").read_text("utf-8"))
FENCES = ("```py\nx = 1. Y = 2.\n\ndef f(): ...\n```", "~~~\nOne. Two!\n- three\n~~~")
WHOLE = (
    *(
        "https://a.example/b.c?d=e.f!g",
        "3.14",
        "1,000.50",
        "v1.2.3",
        "file.py",
        "`x. Y`",
        "(One. Two.)",
        "\u201cOne. Two.\u201d",
    ),
    *(
        "e.g. this",
        "z. B. das",
        "U.S. law",
        "J. R. Ode",
        "No. 5",
        "S. 4",
        "1. M\u00e4rz",
        "am 11. dann",
        "f(x, ...)",
        "[...]",
    ),
)
"""What stays in one sentence, wherever it stands."""
WORDS = (
    "word",
    "The",
    "und",
    "Stop.",
    "why?",
    "Yes!",
    "\u3002",
    "\u306f\u3044\u3002",
    "...",
    "\u0964",
    "- item",
    "# Title",
    "| a. B | c |",
)


def join_pieces(pieces: Sequence[tuple[str, str]]) -> str:
    return "".join(piece + gap for piece, gap in pieces)


def list_places(pieces: Sequence[tuple[str, str]], wanted: Sequence[str]) -> list[tuple[int, int]]:
    """Where the pieces that are among the wanted ones begin and end in the joined text."""
    places, at = [], 0
    for piece, gap in pieces:
        if piece in wanted:
            places.append((at, at + len(piece)))
        at += len(piece) + len(gap)
    return places


GAPS = st.sampled_from((" ", "  ", "\n", "\n\n", "\n  \n"))
PROSE = st.lists(st.tuples(st.sampled_from(WORDS + WHOLE), GAPS), max_size=30)
FENCED = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(WORDS), st.just("\n")),
        st.tuples(st.sampled_from(FENCES), st.sampled_from(("\n", "\n\n"))),
    ),
    max_size=12,
)


@given(st.one_of(st.text(max_size=200), PROSE.map(join_pieces), FENCED.map(join_pieces)))
def test_the_sentences_and_the_blanks_between_them_are_the_text(text: str) -> None:
    end = 0
    for start, stop in find_sentences(text):
        assert end <= start < stop
        assert not text[end:start].strip()
        assert text[start:stop] == text[start:stop].strip()
        end = stop
    assert not text[end:].strip()


@given(PROSE)
def test_no_sentence_ends_within_what_belongs_together(pieces: list[tuple[str, str]]) -> None:
    ends = {end for _, end in find_sentences(join_pieces(pieces))}
    assert [place for place in list_places(pieces, WHOLE) if any(place[0] < end < place[1] for end in ends)] == []


@given(FENCED)
def test_a_fenced_block_is_one_piece(pieces: list[tuple[str, str]]) -> None:
    found = list(find_sentences(join_pieces(pieces)))
    assert [place for place in list_places(pieces, FENCES) if place not in found] == []


@pytest.mark.parametrize("code", sorted(SENTENCES))
def test_real_sentences_of_a_language_stay_whole(code: str) -> None:
    blank = "" if code in {"ja", "zh"} else " "
    assert list(split_sentences(blank.join(SENTENCES[code]))) == SENTENCES[code]


def test_every_language_has_its_sentences() -> None:
    assert SENTENCES.keys() == load_tables().keys()


@pytest.mark.parametrize("code", sorted(load_tables()))
def test_no_abbreviation_ends_a_sentence(code: str) -> None:
    table = load_tables()[code]
    shown = [f"{before}{word}." for word in table.abbreviations for before in ("", "Und ", "(")]
    torn = [text for text in (f"Here {each} Name stands" for each in shown) if len(list(split_sentences(text))) != 1]
    torn += [text for text in (f"Here {each}. 5" for each in table.numbered) if len(list(split_sentences(text))) != 1]
    torn += [text for text in (f"Here {each}. and" for each in table.closing) if len(list(split_sentences(text))) != 1]
    torn += [
        text
        for text in (f"Es ist {each} 3. Wort" for each in table.before_ordinals)
        if len([*split_sentences(text)]) != 1
    ]
    torn += [
        text for text in (f"Es ist 3. {each}" for each in table.after_ordinals) if len([*split_sentences(text)]) != 1
    ]
    assert torn == []


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("- One. Two\n- three\n  four", ["- One.", "Two", "- three", "four"]),
        ("1. First\n2. Second", ["1. First", "2. Second"]),
        ("## Dr. No. The film\nText.", ["## Dr. No. The film", "Text."]),
        ("| a. B | c |\n|---|---|\n| d | e |", ["| a. B | c |", "|---|---|", "| d | e |"]),
        ("Title\nText follows. And more:\nyes", ["Title", "Text follows.", "And more:", "yes"]),
        (
            "This sentence was broken by an editor for its width and it\ngoes on with Dr. Ode. The end.",
            ["This sentence was broken by an editor for its width and it\ngoes on with Dr. Ode.", "The end."],
        ),
        (
            "This line is as long as one that was broken, with Frau Dr.\nWieland. Ende.",
            ["This line is as long as one that was broken, with Frau Dr.\nWieland.", "Ende."],
        ),
        ("use tabs\nno spaces", ["use tabs", "no spaces"]),
        ("\u201eHalt!\u201c Dann ging er.", ["\u201eHalt!\u201c", "Dann ging er."]),
        ("**Bold.** And *this.* End", ["**Bold.**", "And *this.*", "End"]),
        ("Look [... 12 characters ...] there. Go on", ["Look [... 12 characters ...] there.", "Go on"]),
        ("```py\nopen. Never\nclosed", ["```py\nopen. Never\nclosed"]),
        ("Go.\n```\na\n```\nThen.", ["Go.", "```\na\n```", "Then."]),
        ("", []),
        (" \n\t", []),
    ],
)
def test_where_pieces_end(text: str, sentences: list[str]) -> None:
    assert list(split_sentences(text)) == sentences
