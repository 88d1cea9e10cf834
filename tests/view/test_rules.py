"""Each rule: every hand-made fault is named with its place, and what providers take is clean."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

import tenfold
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult
from tenfold.core.view.rules import check_messages, validate
from tenfold.core.wire import WIRES
from tenfold.errors import UnknownFormat
from tests.view.refused import (
    ACCEPTED,
    FAULTS,
    THOUGHT,
    Fault,
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


EACH_FAULT = [pytest.param(w, fault, id=f"{w}: {fault.name}") for w, faults in FAULTS.items() for fault in faults]
EACH_ACCEPTED = [pytest.param(w, m, id=f"{w}: {name}") for w, cases in ACCEPTED.items() for name, m in cases.items()]
WHILE_OPEN = frozenset({"last_message", "not_empty"})
"""The rules that hold for a list that is sent only. So do missing results at its end."""


@pytest.mark.parametrize(("wire", "fault"), EACH_FAULT)
def test_a_fault_is_named_with_its_place(wire: str, fault: Fault) -> None:
    found = validate(fault.messages, wire, sending=True)
    assert (fault.rule, fault.at, fault.path) in [(v.rule, v.index, v.path) for v in found]
    assert all(len(v.problem) > 20 for v in found)


@pytest.mark.parametrize(("wire", "messages"), EACH_ACCEPTED)
def test_what_a_provider_takes_is_clean(wire: str, messages: object) -> None:
    assert validate(messages, wire, sending=True) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("wire", FAULTS)
def test_an_open_end_is_fine_until_it_is_sent(wire: str) -> None:
    for fault in FAULTS[wire]:
        if fault.rule in WHILE_OPEN or (fault.rule == "call_answered" and "end" in fault.name):
            assert validate(fault.messages, wire) == [], fault.name


@pytest.mark.parametrize(("wire", "make"), [("anthropic", use), ("openai-chat", call)])
def test_a_violation_says_where_and_what_to_do(wire: str, make: Callable[..., object]) -> None:
    (found,) = tenfold.validate([ask(), make("t1")], wire, sending=True)
    assert (found.rule, found.index) == ("call_answered", 1)
    assert "'t1' has no result; add its result, or leave the call out" in found.problem


def test_a_path_leads_from_the_message_to_the_place() -> None:
    (found,) = tenfold.validate([ask(), use("t1", input=[]), give("t1")], "anthropic")
    assert (found.index, found.path) == (1, "content[0].input")
    assert found.problem == "an object belongs here, not a list"


def test_several_faults_are_all_named_in_order() -> None:
    found = tenfold.validate([ask(), use("a.b", input=""), ask()], "anthropic")
    assert [(v.rule, v.index) for v in found] == [("call_id", 1), ("part_fields", 1), ("call_answered", 1)]
