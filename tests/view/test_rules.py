"""Each rule: what breaks it, what does not, and where the profile table makes the difference."""

from __future__ import annotations

import json

import pytest

from tenfold.core.record.message import Message, Text, ToolCall, ToolResult
from tenfold.core.view.rules import check_messages, validate
from tenfold.core.wire import WIRES
from tenfold.errors import UnknownFormat
from tests.view.refused import (
    THOUGHT,
    Native,
    answer,
    ask,
    blocks,
    call,
    content,
    function,
    give,
    output,
    reason,
    say,
    text,
    use,
)  # fmt: skip

REDACTED = {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}
LATER = {"role": "system", "content": "s"}
STEP = [function(), output()]
"""A call and its output, as items of OpenAI Responses."""

CASES: list[tuple[str, list[Native], list[tuple[str, int]]]] = [
    ("openai-chat", [ask(), answer("a"), call("a")], [("result_follows_call", 1)]),
    ("openai-chat", [ask(), call("a", "b"), answer("a")], []),
    ("openai-chat", [ask(), call("a", "b"), answer("a"), ask()], [("call_answered", 1)]),
    ("openai-chat", [ask(), call("a", "b"), answer("a"), ask(), answer("b")], [("results_together", 4)]),
    ("openai-chat", [ask(), call("a"), call("b"), answer("b")], [("call_answered", 1)]),
    ("anthropic", [ask(), use("a"), use("b"), give("a"), give("b")], []),
    ("openai-responses", [ask(), function(), ask(), output()], []),
    ("anthropic", [ask(), blocks("assistant", THOUGHT), use("a"), give("a")], []),
    ("anthropic", [ask(), REDACTED, ask()], [("thinking_with_step", 1)]),
    ("openai-responses", [ask(), reason(), *STEP, reason("rs_2"), ask()], [("thinking_with_step", 4)]),
    ("openai-responses", [ask(), *STEP, reason(), say()], []),
    ("gemini", [content("model", {"text": "a"})], [("first_message", 0)]),
    ("openai-chat", [say(), ask()], []),
    ("openai-responses", [say(), ask()], []),
    ("anthropic", [ask(" ")], [("no_empty_text", 0)]),
    ("anthropic", [ask(), say("")], []),
    ("openai-chat", [ask(""), blocks("assistant", text(""))], []),
    ("openai-chat", [ask(), LATER, ask()], []),
]
"""What the tables of `refused` do not have: the rest of what is taken, and lists whose end is open."""


@pytest.mark.parametrize(("wire", "messages", "expected"), CASES)
def test_violations_by_name_and_place(wire: str, messages: list[Native], expected: list[tuple[str, int]]) -> None:
    assert [(v.rule, v.index) for v in validate(messages, wire)] == expected


def test_json_text_bytes_and_dicts_are_judged_alike() -> None:
    written = json.dumps(say())
    first, *others = [validate([form], "anthropic") for form in (say(), written, written.encode())]
    assert others == [first, first]


def test_an_unknown_wire_is_refused() -> None:
    with pytest.raises(UnknownFormat):
        validate([], "morse")


@pytest.mark.parametrize("wire", WIRES)
def test_check_judges_what_would_be_sent(wire: str) -> None:
    mended = [
        Message("assistant", (Text("hello"),), "model"),
        Message("user", (Text(" "),), "human"),
        Message("system", (Text("later"),), "harness"),
        Message("user", (), "human"),
        Message("assistant", (ToolCall("a", "f"), ToolCall("b", "f")), "model"),
        *(Message("tool", (ToolResult(i, "f", (Text("o"),)),), "tool") for i in "ab"),
    ]
    assert check_messages(mended, wire) == [], (
        "openings, empty text and later system messages are the encoder's to mend"
    )
    dangling = [*mended[:5], Message("user", (Text("go on"),), "human")]
    assert [(v.rule, v.index) for v in check_messages(dangling, wire)] == [("call_answered", 4), ("call_answered", 4)]
    orphan = [mended[0], mended[5]]
    assert [(v.rule, v.index) for v in check_messages(orphan, wire)] == [("result_follows_call", 1)]
