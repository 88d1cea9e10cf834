"""Each rule: what breaks it, what does not, and where the profile table makes the difference."""

from __future__ import annotations

import json

import pytest

from tenfold.core.record.message import Message, Text, ToolCall, ToolResult
from tenfold.core.view.rules import RULES, check_messages, validate
from tenfold.core.wire import WIRES
from tenfold.errors import UnknownFormat
from tests.view.refused import FAULTS

Native = dict[str, object]


def make_user(text: str = "q") -> Native:
    return {"role": "user", "content": text}


def make_chat_call(*ids: str) -> Native:
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "tool_calls": calls}


def make_chat_result(call: str) -> Native:
    return {"role": "tool", "tool_call_id": call, "content": "o"}


def make_tool_use(*ids: str) -> Native:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": "f", "input": {}} for i in ids]}


def make_tool_results(*ids: str) -> Native:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": i, "content": "o"} for i in ids]}


def make_thinking(*more: object) -> Native:
    return {"role": "assistant", "content": [{"type": "thinking", "thinking": "h", "signature": "s"}, *more]}


def make_gemini_message(role: str, *given: object) -> Native:
    return {"role": role, "parts": list(given)}


FC: Native = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
FCO: Native = {"type": "function_call_output", "call_id": "a", "output": "o"}
RS: Native = {"type": "reasoning", "id": "rs_1", "summary": []}
GC: Native = {"functionCall": {"name": "f", "args": {}}}
GR: Native = {"functionResponse": {"name": "f", "response": {"output": "o"}}}

CASES: list[tuple[str, list[Native], list[tuple[str, int]]]] = [
    # results and calls
    (
        "openai-chat",
        [make_user(), make_chat_call("a", "b"), make_chat_result("b"), make_chat_result("a"), make_user()],
        [],
    ),
    ("openai-chat", [make_user(), make_chat_result("a")], [("result_follows_call", 1)]),
    ("openai-chat", [make_user(), make_chat_result("a"), make_chat_call("a")], [("result_follows_call", 1)]),
    ("openai-chat", [make_user(), make_chat_call("a"), make_user()], [("call_answered", 1)]),
    ("openai-chat", [make_user(), make_chat_call("a", "b"), make_chat_result("a")], []),
    (
        "openai-chat",
        [make_user(), make_chat_call("a", "b"), make_chat_result("a"), make_user()],
        [("call_answered", 1)],
    ),
    (
        "openai-chat",
        [make_user(), make_chat_call("a", "b"), make_chat_result("a"), make_user(), make_chat_result("b")],
        [("results_together", 4)],
    ),
    (
        "openai-chat",
        [make_user(), make_chat_call("a"), make_chat_call("b"), make_chat_result("b")],
        [("call_answered", 1)],
    ),
    ("anthropic", [make_user(), make_tool_use("a", "b"), make_tool_results("b", "a"), make_user()], []),
    (
        "anthropic",
        [make_user(), make_tool_use("a"), make_tool_use("b"), make_tool_results("a"), make_tool_results("b")],
        [],
    ),
    (
        "anthropic",
        [make_user(), make_tool_use("a"), make_user("wait"), make_tool_results("a")],
        [("results_together", 3)],
    ),
    ("anthropic", [make_user(), make_tool_results("a")], [("result_follows_call", 1)]),
    ("anthropic", [make_user(), make_tool_use("a"), make_tool_results("a", "a")], [("result_follows_call", 2)]),
    (
        "gemini",
        [
            make_gemini_message("user", {"text": "q"}),
            make_gemini_message("model", GC, GC),
            make_gemini_message("user", GR, GR),
        ],
        [],
    ),
    (
        "gemini",
        [
            make_gemini_message("user", {"text": "q"}),
            make_gemini_message("model", GC),
            make_gemini_message("user", GR, GR),
        ],
        [("result_follows_call", 2)],
    ),
    (
        "gemini",
        [
            make_gemini_message("user", {"text": "q"}),
            make_gemini_message("model", GC, GC),
            make_gemini_message("user", GR),
            make_gemini_message("user", {"text": "x"}),
        ],
        [("call_answered", 1)],
    ),
    ("openai-responses", [make_user(), FC, make_user(), FCO], []),
    ("openai-responses", [make_user(), FC, make_user()], [("call_answered", 1)]),
    ("openai-responses", [make_user(), FCO], [("result_follows_call", 1)]),
    ("openai-responses", [make_user(), {"type": "item_reference", "id": "fc_1"}, FCO], []),
    # thinking
    ("anthropic", [make_user(), make_thinking({"type": "text", "text": "a"})], []),
    ("anthropic", [make_user(), make_thinking(), make_user()], [("thinking_with_step", 1)]),
    ("anthropic", [make_user(), make_thinking(), make_tool_use("a"), make_tool_results("a")], []),
    (
        "anthropic",
        [make_user(), {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}, make_user()],
        [("thinking_with_step", 1)],
    ),
    ("openai-responses", [make_user(), RS, FC, FCO, {**RS, "id": "rs_2"}, make_user()], [("thinking_with_step", 4)]),
    ("openai-responses", [make_user(), FC, FCO, RS, {"role": "assistant", "content": "a"}], []),
    ("openai-chat", [make_user(), {"role": "assistant", "content": None, "reasoning_content": "h"}], []),
    # the opening
    ("anthropic", [{"role": "assistant", "content": "a"}, make_user()], [("first_message", 0)]),
    ("gemini", [make_gemini_message("model", {"text": "a"})], [("first_message", 0)]),
    (
        "gemini",
        [
            make_gemini_message("user", {"text": "q"}),
            make_gemini_message("model", {"text": "a"}),
            make_gemini_message("model", GC),
            make_gemini_message("user", GR),
        ],
        [("call_after_user", 2)],
    ),
    ("openai-chat", [{"role": "assistant", "content": "a"}, make_user()], []),
    ("openai-responses", [{"role": "assistant", "content": "a"}, make_user()], []),
    # emptiness
    ("anthropic", [make_user(" ")], [("no_empty_text", 0)]),
    ("anthropic", [make_user(), {"role": "assistant", "content": []}, make_user()], [("no_empty_message", 1)]),
    ("anthropic", [make_user(), {"role": "assistant", "content": ""}], []),
    ("gemini", [make_gemini_message("user")], [("no_empty_message", 0)]),
    ("openai-chat", [make_user(""), {"role": "assistant", "content": [{"type": "text", "text": ""}]}], []),
    # system
    ("openai-chat", [make_user(), {"role": "system", "content": "s"}, make_user()], []),
    ("anthropic", [make_user(), {"role": "system", "content": "s"}, {"role": "assistant", "content": "a"}], []),
    ("anthropic", [make_user(), {"role": "system", "content": "s"}, make_user()], [("system_place", 1)]),
]


@pytest.mark.parametrize(("wire", "messages", "expected"), CASES)
def test_violations_by_name_and_place(wire: str, messages: list[Native], expected: list[tuple[str, int]]) -> None:
    assert [(v.rule, v.index) for v in validate(messages, wire)] == expected


def test_every_rule_has_a_case_that_breaks_it() -> None:
    seen = {rule for _, _, expected in CASES for rule, _ in expected}
    seen |= {fault.rule for faults in FAULTS.values() for fault in faults}
    assert set(RULES) <= seen


def test_violations_say_what_is_wrong() -> None:
    (violation,) = validate([make_user(), make_chat_call("call_7"), make_user()], "openai-chat")
    assert "'call_7' has no result" in violation.problem


def test_json_text_bytes_and_dicts_are_judged_alike() -> None:
    native = {"role": "assistant", "content": "a"}
    text = json.dumps(native)
    assert {tuple(validate([form], "anthropic")) for form in (text, text.encode())} == {
        tuple(validate([native], "anthropic"))
    }


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
