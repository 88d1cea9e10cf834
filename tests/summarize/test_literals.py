"""The literals of a summary against its source: what is marked as unconfirmed, and what is not."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.compaction.facts.extractor import extract_facts
from tenfold.compaction.summarize.literals import UNCONFIRMED, SourceText, build_source, find_literals, mark_unconfirmed
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult
from tests.summarize.making import make_answer, make_user

MOST_MARKED = 0.02
"""The share of true literals that may be marked."""


class Conversation(msgspec.Struct):
    messages: list[list[str]]
    truths: list[str]
    planted: list[tuple[str, str]]


@cache
def read_conversations() -> dict[str, Conversation]:
    found = tomllib.loads(Path(__file__).with_name("literals.toml").read_text(encoding="utf-8"))
    return {name: msgspec.convert(value, Conversation) for name, value in found.items()}


def build_messages(rows: list[list[str]]) -> Iterator[Message]:
    for number, (speaker, *texts) in enumerate(rows):
        match speaker:
            case "user":
                yield make_user(texts[0])
            case "assistant":
                yield make_answer(texts[0])
            case "call":
                yield Message("assistant", (ToolCall(f"c{number}", texts[0], texts[1]),), "model")
            case _:
                yield Message("tool", (ToolResult(f"c{number - 1}", "", (Text(texts[0]),)),), "tool")


@cache
def get_source(name: str) -> SourceText:
    items = list(enumerate(build_messages(read_conversations()[name].messages)))
    return build_source(items, extract_facts(items), "")


def test_hardly_a_true_literal_is_marked() -> None:
    total, marked = 0, []
    for name, each in read_conversations().items():
        for sentence in each.truths:
            total += len(find_literals(sentence))
            told = mark_unconfirmed(sentence, get_source(name))
            marked += [told] * told.count(UNCONFIRMED)
    assert total >= 55
    assert len(marked) <= total * MOST_MARKED, marked


def test_every_planted_literal_is_marked() -> None:
    rows = [(name, *row) for name, each in read_conversations().items() for row in each.planted]
    assert len(rows) == 60
    missed = [row for row in rows if row[2] not in find_literals(row[1]) or get_source(row[0]).has(row[2])]
    assert missed == []
    assert all(UNCONFIRMED in mark_unconfirmed(sentence, get_source(name)) for name, sentence, _ in rows)


def test_the_mark_stands_behind_the_literal_and_nothing_else_changes() -> None:
    source = SourceText("read src/app.py and `make build`")
    text = 'It read src/app.py, ran `make test`, and wrote src/new.py.\nIt said "all of it is done" at 8812.'
    assert mark_unconfirmed(text, source) == (
        "It read src/app.py, ran `make test` [unconfirmed], and wrote src/new.py [unconfirmed].\n"
        'It said "all of it is done" [unconfirmed] at 8812 [unconfirmed].'
    )


def test_a_text_that_was_marked_is_not_marked_twice_and_confirms_nothing() -> None:
    source = SourceText("nothing of it")
    once = mark_unconfirmed("It wrote src/new.py then.", source)
    assert mark_unconfirmed(once, source) == once
    assert mark_unconfirmed("src/new.py", SourceText(once)) == "src/new.py [unconfirmed]"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("/repo/src/app/main.py", "src/app/main.py"),
        ("cd lib/tools; cat pack.py", "lib/tools/pack.py"),
        ("row_buffer", "RowBuffer"),
        ("mcp__browser__open and mcp__browser__close", "mcp__browser__*"),
        ("parserapi.c parserapi.h", "parserapi.c/.h"),
        ("src/a.py and src/b.py", "`src/{a,b}.py`"),
        ("Created at: /tmp/x", "`Created at: {createdPath}`"),
        ("def merge(groups: list[Label], prior: Label | None = None)", "`merge(groups, prior)`"),
        ("commit 4be1d09c7f21", "4be1d09"),
        ("took 38.46 seconds", "38.5"),
        ("12,480 rows", "about 12.5k or 12480"),
        ("Request failed with status code 403", "HTTP 403"),
        ("“so it is”, he said", '"so it is"'),
        ("total 18250", "182.50"),
        ("a share of 0.977", "97.7"),
        ("self.close()\n    self.flush()", "`self.close(); self.flush()`"),
        ("app\\main\\view.py", "app/main/view.py:12"),
    ],
)
def test_another_spelling_of_the_same_is_confirmed(said: str, told: str) -> None:
    assert mark_unconfirmed(told, SourceText(said)) == told


@given(st.text(alphabet='ab/._-`"{}()[]<>*0123456789 \n…', max_size=60), st.text(max_size=60))
def test_marking_adds_marks_and_nothing_else(text: str, source: str) -> None:
    assert mark_unconfirmed(text, SourceText(source)).replace(UNCONFIRMED, "") == text.replace(UNCONFIRMED, "")
    assert UNCONFIRMED not in mark_unconfirmed(text, SourceText(text))
