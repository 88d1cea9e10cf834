"""Each rule: what breaks it, what does not, and where the profile table makes the difference."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from tenfold.errors import UnknownFormat
from tenfold.record.message import Message, Text, ToolCall, ToolResult
from tenfold.view.rules import RULES, broken, check, validate
from tenfold.wire import PROFILES, WIRES

Native = dict[str, object]


def user(text: str = "q") -> Native:
    return {"role": "user", "content": text}


def chat_call(*ids: str) -> Native:
    calls = [{"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "tool_calls": calls}


def chat_result(call: str) -> Native:
    return {"role": "tool", "tool_call_id": call, "content": "o"}


def use(*ids: str) -> Native:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": i, "name": "f", "input": {}} for i in ids]}


def results(*ids: str) -> Native:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": i, "content": "o"} for i in ids]}


def think(*more: object) -> Native:
    return {"role": "assistant", "content": [{"type": "thinking", "thinking": "h", "signature": "s"}, *more]}


def parts(role: str, *given: object) -> Native:
    return {"role": role, "parts": list(given)}


FC: Native = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
FCO: Native = {"type": "function_call_output", "call_id": "a", "output": "o"}
RS: Native = {"type": "reasoning", "id": "rs_1", "summary": []}
GC: Native = {"functionCall": {"name": "f", "args": {}}}
GR: Native = {"functionResponse": {"name": "f", "response": {"output": "o"}}}

CASES: list[tuple[str, list[Native], list[tuple[str, int]]]] = [
    # results and calls
    ("openai-chat", [user(), chat_call("a", "b"), chat_result("b"), chat_result("a"), user()], []),
    ("openai-chat", [user(), chat_result("a")], [("result_follows_call", 1)]),
    ("openai-chat", [user(), chat_result("a"), chat_call("a")], [("result_follows_call", 1)]),
    ("openai-chat", [user(), chat_call("a"), user()], [("call_answered", 1)]),
    ("openai-chat", [user(), chat_call("a", "b"), chat_result("a")], []),
    ("openai-chat", [user(), chat_call("a", "b"), chat_result("a"), user()], [("call_answered", 1)]),
    (
        "openai-chat", [user(), chat_call("a", "b"), chat_result("a"), user(), chat_result("b")],
        [("results_together", 4)],
    ),
    ("openai-chat", [user(), chat_call("a"), chat_call("b"), chat_result("b")], [("call_answered", 1)]),
    ("anthropic", [user(), use("a", "b"), results("b", "a"), user()], []),
    ("anthropic", [user(), use("a"), use("b"), results("a"), results("b")], []),
    ("anthropic", [user(), use("a"), user("wait"), results("a")], [("results_together", 3)]),
    ("anthropic", [user(), results("a")], [("result_follows_call", 1)]),
    ("anthropic", [user(), use("a"), results("a", "a")], [("result_follows_call", 2)]),
    ("gemini", [parts("user", {"text": "q"}), parts("model", GC, GC), parts("user", GR, GR)], []),
    ("gemini", [parts("user", {"text": "q"}), parts("model", GC), parts("user", GR, GR)], [("result_follows_call", 2)]),
    (
        "gemini",
        [parts("user", {"text": "q"}), parts("model", GC, GC), parts("user", GR), parts("user", {"text": "x"})],
        [("call_answered", 1)],
    ),
    ("openai-responses", [user(), FC, user(), FCO], []),
    ("openai-responses", [user(), FC, user()], [("call_answered", 1)]),
    ("openai-responses", [user(), FCO], [("result_follows_call", 1)]),
    ("openai-responses", [user(), {"type": "item_reference", "id": "fc_1"}, FCO], []),
    # thinking
    ("anthropic", [user(), think({"type": "text", "text": "a"})], []),
    ("anthropic", [user(), think(), user()], [("thinking_with_step", 1)]),
    ("anthropic", [user(), think(), use("a"), results("a")], []),
    ("anthropic", [user(), {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}, user()],
     [("thinking_with_step", 1)]),
    ("openai-responses", [user(), RS, FC, FCO, RS, user()], [("thinking_with_step", 4)]),
    ("openai-responses", [user(), FC, FCO, RS, {"role": "assistant", "content": "a"}], []),
    ("openai-chat", [user(), {"role": "assistant", "content": None, "reasoning_content": "h"}], []),
    # the opening
    ("anthropic", [{"role": "assistant", "content": "a"}, user()], [("first_message", 0)]),
    ("gemini", [parts("model", {"text": "a"})], [("first_message", 0)]),
    ("openai-chat", [{"role": "assistant", "content": "a"}, user()], []),
    ("openai-responses", [{"role": "assistant", "content": "a"}, user()], []),
    # emptiness
    ("anthropic", [user(" ")], [("no_empty_text", 0)]),
    ("anthropic", [user(), {"role": "assistant", "content": []}, user()], [("no_empty_message", 1)]),
    ("anthropic", [user(), {"role": "assistant", "content": ""}], []),
    ("gemini", [parts("user")], [("no_empty_message", 0)]),
    ("openai-chat", [user(""), {"role": "assistant", "content": [{"type": "text", "text": ""}]}], []),
    # system
    ("openai-chat", [user(), {"role": "system", "content": "s"}, user()], []),
    ("anthropic", [user(), {"role": "system", "content": "s"}, {"role": "assistant", "content": "a"}], []),
    ("anthropic", [user(), {"role": "system", "content": "s"}, user()], [("system_place", 1)]),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "messages", "expected"), CASES)
def test_violations_by_name_and_place(wire: str, messages: list[Native], expected: list[tuple[str, int]]) -> None:
    assert [(v.rule, v.index) for v in validate(messages, wire)] == expected


def test_every_rule_has_a_case_that_breaks_it() -> None:
    seen = {rule for _, _, expected in CASES for rule, _ in expected} | {"alternation"}
    assert seen == {rule.name for rule in RULES}


def test_alternation_is_judged_where_a_profile_wants_it() -> None:
    strict = replace(PROFILES["openai-chat"], consecutive_roles=False)
    messages = WIRES["openai-chat"].decode([json.dumps(m).encode() for m in (user(), user(), chat_call("a", "b"))])
    messages += WIRES["openai-chat"].decode([json.dumps(chat_result(i)).encode() for i in "ab"])
    assert [(v.rule, v.index) for v in broken(messages, strict)] == [("alternation", 1)]
    assert broken(messages, PROFILES["openai-chat"]) == []


def test_violations_say_what_is_wrong() -> None:
    (violation,) = validate([user(), chat_call("call_7"), user()], "openai-chat")
    assert "'call_7' has no result" in violation.what


def test_json_text_bytes_and_dicts_are_judged_alike() -> None:
    native = {"role": "assistant", "content": "a"}
    text = json.dumps(native)
    assert {tuple(validate([form], "anthropic")) for form in (text, text.encode() )} == {
        tuple(validate([native], "anthropic"))
    }  # fmt: skip


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
    assert check(mended, wire) == [], "openings, empty text and later system messages are the encoder's to mend"
    dangling = [*mended[:5], Message("user", (Text("go on"),), "human")]
    assert [(v.rule, v.index) for v in check(dangling, wire)] == [("call_answered", 4), ("call_answered", 4)]
    orphan = [mended[0], mended[5]]
    assert [(v.rule, v.index) for v in check(orphan, wire)] == [("result_follows_call", 1)]
