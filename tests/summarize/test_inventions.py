"""The check against a set of inventions and of true sentences: how many of each it finds fault with."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest

from tenfold.compaction.facts.extractor import extract_facts
from tenfold.compaction.summarize.check import CheckFailure, Expectation, check_summary
from tenfold.compaction.summarize.evidence import build_source
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult
from tests.summarize.making import estimate_tokens, make_answer, make_user

MOST_PASSED, MOST_REMOVED = 4, 1
"""Inventions that may pass, of 40, and true sentences that may be removed, of 57."""


class Conversation(msgspec.Struct):
    messages: list[list[str]]
    inventions: list[str]
    truths: list[str]
    unseen: dict[str, list[str]] = {}

    def list_sentences(self, kind: str) -> list[str]:
        return [*(self.inventions if kind == "inventions" else self.truths), *self.unseen.get(kind, [])]


@cache
def read_conversations() -> dict[str, Conversation]:
    found = tomllib.loads(Path(__file__).with_name("inventions.toml").read_text(encoding="utf-8"))
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
def expect(name: str) -> Expectation:
    items = list(enumerate(build_messages(read_conversations()[name].messages)))
    facts = extract_facts(items)
    return Expectation(build_source(items, facts, ""), allotment=500)


def find_faults(name: str, sentence: str) -> tuple[CheckFailure, ...]:
    return check_summary(sentence, finish="stop", expected=expect(name), count=estimate_tokens)


def test_the_set_is_complete() -> None:
    conversations = read_conversations().values()
    assert sum(len(each.list_sentences("inventions")) for each in conversations) == 40
    assert sum(len(each.list_sentences("truths")) for each in conversations) == 57


def test_few_inventions_pass() -> None:
    passed = [
        sentence
        for name, each in read_conversations().items()
        for sentence in each.list_sentences("inventions")
        if not find_faults(name, sentence)
    ]
    assert len(passed) <= MOST_PASSED, passed


def test_few_true_sentences_are_removed() -> None:
    removed = [
        [sentence, *map(str, faults)]
        for name, each in read_conversations().items()
        for sentence in each.list_sentences("truths")
        if (faults := find_faults(name, sentence))
    ]
    assert len(removed) <= MOST_REMOVED, removed


@pytest.mark.parametrize("name", sorted(read_conversations()))
def test_a_conversation_passes_its_own_check(name: str) -> None:
    """What the assistant and the user wrote is true by definition: none of it may be removed."""
    faults = [
        fault
        for speaker, *texts in read_conversations()[name].messages
        if speaker == "assistant"
        for fault in find_faults(name, texts[0])
    ]
    assert faults == []
