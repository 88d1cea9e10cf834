"""Whatever a tool or a user pastes, reading and compacting it takes time in proportion to its size."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import tenfold
from tenfold import Session, SessionAddress, open_store
from tenfold.compaction.facts.extractor import extract_facts
from tenfold.compaction.facts.ledger import settle_rules
from tenfold.compaction.facts.redacted_messages import redact_message
from tenfold.core.record.fact import Rule
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult
from tenfold.core.text.excerpts import Keep, excerpt, flatten, strip_escapes
from tenfold.core.text.memoize import SIZES
from tenfold.core.text.sentences import find_sentences
from tenfold.core.view.rules import validate
from tenfold.errors import BadInput
from tenfold.formats import read_data

SIZE, GROWTH, FASTER = SIZES[1][0] + 2_000, 4, 9.0
"""Work that grows as the text does takes 4 times as long for 4 times the text, quadratic work 16 times. Both texts are
of the longest that are remembered: else the shorter one is redacted once where the longer one is for each use."""
assert SIZES[1][0] < SIZE < SIZES[2][0] // GROWTH
NOISE = 0.05
"""Seconds of the processor below which a measure says nothing."""
PASTED = (
    *" \n\t.-/\\\"'`([{<#_0~;\r",
    *('"\\', "((", "\n ", "- [ ] a\n", "Never do this or that again.\n", "key: a\n", "```\n"),
    *("z. ", "1. ", "(a. ", "...", "| a\n", "\u3002", "\u201ea. "),
    *("sk-_", "re_", "pa-", "cio"),
)
Work = Callable[[str], object]


def run(text: str, name: str = "bash", arguments: str = '{"command":"ls"}') -> list[Message]:
    return [
        Message("assistant", (ToolCall("c", name, arguments),), "model"),
        Message("tool", (ToolResult("c", name, (Text(text),)),), "tool"),
    ]


def compact_result(text: str) -> object:
    function = {"name": "bash", "arguments": '{"command": "ls"}'}
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "do it"},
        call,
        {"role": "tool", "tool_call_id": "c", "content": text},
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "next"},
    ]
    return tenfold.compact(messages, to=100)


def compact_words(text: str) -> object:
    said = [{"role": "user", "content": text}, {"role": "assistant", "content": text}]
    return tenfold.compact([*said, {"role": "user", "content": "next"}], to=100)


def read_file(text: str) -> None:
    with suppress(BadInput):
        read_data(text.encode(), file="pasted")


def search(text: str) -> None:
    session = Session.create(SessionAddress(open_store(":memory:"), "s"), "tenfold")
    session.before_model({"messages": [{"role": "user", "content": f"needle {text} needle"}]}, window=10**8)
    assert session.search("needle")


def read_pieces(text: str) -> object:
    """Reads an answer as Gemini CLI prints it, in very many lines."""
    pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
    lines = [{"type": "init", "session_id": "s"}]
    lines += [{"type": "message", "role": "assistant", "content": piece, "delta": "true"} for piece in pieces]
    return read_data("\n".join(map(json.dumps, lines)).encode(), file="f")


WORKS: dict[str, Work] = {
    "facts of a command": lambda text: list(extract_facts(enumerate(run(text)))),
    "facts of an edit": lambda text: list(extract_facts(enumerate(run(text, "edit", '{"path": "a.py"}')))),
    "facts of arguments": lambda text: list(extract_facts(enumerate(run("ok", "bash", json.dumps({"command": text}))))),
    "facts of words": lambda text: list(extract_facts([(0, Message("user", (Text(text),), "human"))])),
    "redaction": lambda text: [redact_message(message) for message in run(text, "bash", json.dumps({"a": text}))],
    "excerpts": lambda text: [excerpt(text, 500, keep) for keep in Keep] + [flatten(text), strip_escapes(text)],
    "sentences": lambda text: list(find_sentences(text)),
    "detection": read_file,
    "validate": lambda text: validate([{"role": "user", "content": text}], "anthropic"),
    "search": search,
    "compaction of a result": compact_result,
    "compaction of words": compact_words,
    "an answer in pieces": read_pieces,
}


def measure(work: Work, text: str) -> float:
    start = time.thread_time()
    work(text)
    return time.thread_time() - start


@pytest.mark.parametrize("name", WORKS)
def test_work_grows_as_what_was_pasted(name: str) -> None:
    work, faster = WORKS[name], []
    work("warm up " * 200)
    for pasted in PASTED:
        for attempt in range(3):  # another end each time, since much is remembered by its text
            large = measure(work, (pasted * SIZE * GROWTH)[: SIZE * GROWTH] + f" {attempt}")
            if large < NOISE or large < FASTER * measure(work, (pasted * SIZE)[:SIZE] + f" {attempt}"):
                break
        else:
            faster.append(pasted)
    assert faster == []


def compact_messages(said: str, pairs: int) -> None:
    messages = [
        {"role": role, "content": said.format(number) if role == "user" else f"done {number}"}
        for number in range(pairs)
        for role in ("user", "assistant")
    ]
    tenfold.compact([*messages, {"role": "user", "content": "next"}], to=len(messages) * 2)


def settle(said: str, count: int) -> None:
    settle_rules([Rule(said.format(number), number, live=False, effect="states") for number in range(count)])


@pytest.mark.parametrize(
    ("work", "said", "count"),
    [
        (compact_messages, "{} Never touch file{{}} again.", 300),
        (compact_messages, "{} Keep answers under {{}} words.", 300),
        (settle, "{} There are {{}} files.", 5_000),
    ],
)
def test_work_grows_as_the_number_of_messages(work: Callable[[str, int], None], said: str, count: int) -> None:
    work(said.format("warm up"), 10)
    for attempt in range(3):  # other texts each time, since much is remembered by its text
        start = time.thread_time()
        work(said.format(attempt), count)
        middle = time.thread_time()
        work(said.format(attempt), count * GROWTH)
        if time.thread_time() - middle < FASTER * (middle - start):
            return
    pytest.fail(f"{GROWTH} times {count} messages take more than {FASTER:.0f} times as long")
