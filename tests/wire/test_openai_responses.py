"""OpenAI Responses items: each feature by a small case."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenfold import compact
from tenfold.core.record.message import Image, Message, OpaquePart, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.core.view.rules import validate
from tenfold.core.wire import WIRES

Item = dict[str, Any]
NAME = "openai-responses"
WIRE = WIRES[NAME]
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "why"}],
    "encrypted_content": "gA",
}
SAID = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": '{"a":1.0}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "out"}


def decode(*natives: object) -> list[Message]:
    return WIRE.decode([json.dumps(n).encode() for n in natives])


def encode_messages(*messages: Message) -> list[dict[str, object]]:
    return [json.loads(item.raw) for item in WIRE.encode(messages).items]


def test_the_items_of_one_answer_are_one_message_and_come_back_as_items() -> None:
    items = [{"role": "user", "content": "q"}, REASONING, SAID, CALL, OUTPUT, {**REASONING, "id": "rs_2"}, SAID]
    messages = decode(*items)
    assert [m.role for m in messages] == ["user", "assistant", "tool", "assistant"]
    assert messages[1].parts == (Thinking("why", "gA"), Text("a"), ToolCall("c1", "f", '{"a":1.0}'))
    assert messages[2].parts == (ToolResult("c1", "f", (Text("out"),)),)
    encoded = WIRE.encode(messages)
    assert [json.loads(i.raw) for i in encoded.items] == items
    assert [i.indices for i in encoded.items] == [(0,), (1,), (1,), (1,), (2,), (3,), (3,)]
    assert all(i.exact for i in encoded.items)


@pytest.mark.parametrize(
    ("item", "role", "origin", "parts"),
    [
        ({"role": "user", "content": "q"}, "user", "human", (Text("q"),)),
        ({"role": "developer", "content": [{"type": "input_text", "text": "s"}]}, "system", "harness", (Text("s"),)),
        ({"role": "assistant", "content": "a"}, "assistant", "model", (Text("a"),)),
        ({**SAID, "content": [{"type": "refusal", "refusal": "no"}]}, "assistant", "model", (Text("no"),)),
        ({"type": "reasoning", "id": "rs_9", "summary": []}, "assistant", "model", (Thinking("", "rs_9"),)),
        (
            {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,QQ=="}]},
            "user", "human", (Image("image/png", "QQ=="),),
        ),
        (
            {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** raw"},
            "assistant", "model", (ToolCall("c", "patch", "*** raw"),),
        ),
        (
            {"type": "local_shell_call", "id": "l", "call_id": "c", "action": {"command": ["ls"]}},
            "assistant", "model", (ToolCall("c", "local_shell", '{"command": ["ls"]}'),),
        ),
        (
            {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "o"}]},
            "tool", "tool", (ToolResult("c", "", (Text("o"),)),),
        ),
        (
            {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "o", "stderr": "e"}]},
            "tool", "tool", (ToolResult("c", "", (Text("oe"),)),),
        ),
    ],
)  # fmt: skip
def test_items_by_type(item: object, role: str, origin: str, parts: tuple[Part, ...]) -> None:
    (message,) = decode(item)
    assert (message.role, message.origin, message.parts) == (role, origin, parts)


@pytest.mark.parametrize(
    "kind", ["compaction", "item_reference", "web_search_call", "mcp_list_tools", "from_the_future"]
)
def test_other_items_are_opaque(kind: str) -> None:
    item = {"type": kind, "id": "x_1", "encrypted_content": "gA"}
    (message,) = decode(item)
    (part,) = message.parts
    assert isinstance(part, OpaquePart)
    assert (part.kind, json.loads(part.raw)) == (kind, item)


def test_a_compaction_joins_no_answer() -> None:
    messages = decode(SAID, {"type": "compaction", "encrypted_content": "x"}, SAID)
    assert [len(m.parts) for m in messages] == [1, 1, 1]


@pytest.mark.parametrize(
    ("call", "output"),
    [
        ({"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "x"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "[cut]"}),
        ({"type": "local_shell_call", "id": "c", "action": {}, "status": "completed"},
            {"type": "local_shell_call_output", "id": "c", "output": "[cut]"}),
        ({"type": "apply_patch_call", "call_id": "c", "operation": {}, "status": "completed"},
            {"type": "apply_patch_call_output", "call_id": "c", "status": "completed", "output": "[cut]"}),
        (
            {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
            {
                "type": "shell_call_output",
                "call_id": "c",
                "output": [{"stdout": "[cut]", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
            },
        ),
        (CALL | {"call_id": "c"}, {"type": "function_call_output", "call_id": "c", "output": "[cut]"}),
    ],
)  # fmt: skip
def test_a_shortened_output_has_the_type_that_its_call_wants(call: object, output: object) -> None:
    (answer,) = decode(call)
    stub = Message("tool", (ToolResult("c", "f", (Text("[cut]"),)),), "tenfold")
    assert encode_messages(answer, stub) == [call, output]


SCREEN: Item = {"type": "computer_screenshot", "image_url": "data:image/png;base64," + "A" * 2_000}
LONG = "\n".join(f"{line}: nothing else of interest was found here" for line in range(300))
STEPS: dict[str, tuple[Item, Item]] = {
    "computer": ({"type": "computer_call", "action": {"type": "screenshot"}}, {"output": SCREEN}),
    "program": ({"type": "program", "code": "1", "fingerprint": "f"}, {"result": LONG, "status": "completed"}),
    "shell": ({"type": "shell_call", "action": {}}, {"output": [{"stdout": LONG, "stderr": "", "outcome": {}}]}),
    "local shell": ({"type": "local_shell_call", "action": {}}, {"output": LONG}),
    "patch": ({"type": "apply_patch_call", "operation": {}}, {"status": "completed", "output": LONG}),
    "custom": ({"type": "custom_tool_call", "name": "f", "input": "x"}, {"output": LONG}),
    "function": ({"type": "function_call", "name": "f", "arguments": "{}"}, {"output": LONG}),
    "a reference": ({"type": "item_reference"}, {"type": "custom_tool_call_output", "output": LONG}),
}


@pytest.mark.parametrize("policy", ["tenfold", "tiers", "blocks"])
@pytest.mark.parametrize("name", STEPS)
def test_an_output_is_of_its_calls_type_after_a_compaction_or_went_with_it(name: str, policy: str) -> None:
    call, output = STEPS[name]
    items: list[Item] = [{"role": "user", "content": "Look around."}]
    kind = output.get("type", f"{call['type']}_output")
    for number in range(30):
        items += [{"id": f"i{number}", **call}, {"id": f"o{number}", **output, "type": kind}]
        for item in items[-2:] if "reference" not in name else items[-1:]:
            item["call_id"] = f"c{number}"
    items.append({"role": "user", "content": "go on"})
    whole = compact(items, to=10**9, format=NAME).outcome.tokens_before
    result = compact(items, to=whole * 2 // 3, format=NAME, policy=policy)
    assert (result.outcome.status, result.outcome.violations) == ("compacted", ())
    calls, outputs = ([i for i in result.messages if i.get("type") == each] for each in (call["type"], kind))
    assert {i.get("type") for i in result.messages} <= {None, "message", call["type"], kind}
    assert len(calls) == len(outputs)
    if name in ("computer", "program", "a reference"):
        assert all(item in items for item in outputs)


def test_a_rewritten_answer_keeps_its_reasoning_only_before_what_it_led_to() -> None:
    kept = Message("assistant", (Thinking("why", "gA"), ToolCall("c1", "f")), "model")
    reasoning, _ = encode_messages(kept)
    assert reasoning == {
        "type": "reasoning", "summary": [{"type": "summary_text", "text": "why"}], "encrypted_content": "gA",
    }  # fmt: skip
    by_id = Message("assistant", (Thinking("", "rs_1"), Text("a")), "model")
    assert encode_messages(by_id)[0] == {"type": "reasoning", "id": "rs_1", "summary": []}
    alone = WIRE.encode([Message("assistant", (Text("a"), Thinking("why", "gA")), "model")])
    assert [a.kind for a in alone.adjustments] == ["thinking_dropped"]
    assert len(alone.items) == 1


@pytest.mark.parametrize("wire", ["anthropic", "openai-chat", "gemini"])
def test_a_call_that_is_only_named_is_made_for_another_provider(wire: str) -> None:
    named = {"type": "item_reference", "id": "fc_1"}
    messages = decode({"role": "user", "content": "q"}, named, OUTPUT, {"role": "user", "content": "go on"})
    encoded = WIRES[wire].encode(messages)
    assert [a.kind for a in encoded.adjustments if a.kind != "opaque_dropped"] == ["call_made"]
    assert validate([item.raw for item in encoded.items], wire) == []
