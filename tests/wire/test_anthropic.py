"""Anthropic Messages: each feature by a small case, and what becomes of partly replaced messages."""

from __future__ import annotations

import json

import pytest

from tenfold.core.record.message import (
    Document,
    Image,
    Message,
    OpaquePart,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    get_text,
)
from tenfold.core.view.rules import check_messages
from tenfold.core.wire import WIRES

WIRE = WIRES["anthropic"]
ADDITION = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "f"}}


def decode(*natives: object) -> list[Message]:
    return WIRE.decode([json.dumps(n).encode() for n in natives])


def encode_messages(messages: list[Message]) -> list[dict[str, object]]:
    return [json.loads(item.raw) for item in WIRE.encode(messages).items]


def decode_parts(role: str, *blocks: object) -> tuple[Part, ...]:
    return decode({"role": role, "content": list(blocks)})[0].parts


def make_png(data: str) -> dict[str, object]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


@pytest.mark.parametrize(
    ("role", "block", "part"),
    [
        ("user", {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}, Text("a")),
        ("assistant", {"type": "thinking", "thinking": "hm", "signature": "s"}, Thinking("hm", "s")),
        (
            "assistant",
            {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1.0}},
            ToolCall("t", "f", '{"a": 1.0}'),
        ),
        ("user", make_png("QQ=="), Image("image/png", "QQ==")),
        ("user", {"type": "image", "source": {"type": "url", "url": "https://e.org/a"}}, Image(url="https://e.org/a")),
        (
            "user",
            {"type": "document", "title": "n", "source": {"type": "text", "media_type": "text/plain", "data": "d"}},
            Document("n", "text/plain", "d"),
        ),
        (
            "user",
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "QQ=="}},
            Document("", "application/pdf", data="QQ=="),
        ),
        ("user", {"type": "file", "path": "a.py", "content": "x"}, Document("a.py", "text/plain", "x")),
    ],
)
def test_known_blocks_become_typed_parts(role: str, block: dict[str, object], part: Part) -> None:
    assert decode_parts(role, block) == (part,)


@pytest.mark.parametrize(
    "block",
    [
        {"type": "redacted_thinking", "data": "x"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "compaction", "content": "summary"},
        {"type": "never_heard_of", "text": "x"},
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "text"},
        {"no": "type"},
        "a bare string",
    ],
)
def test_other_blocks_are_opaque_with_their_json(block: object) -> None:
    (part,) = decode_parts("assistant", block)
    assert isinstance(part, OpaquePart)
    assert json.loads(part.raw) == block


def test_a_mixed_user_message_is_split_by_whose_words_they_are() -> None:
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "out"}
    note = {"type": "text", "text": "<system-reminder>\nbe brief\n</system-reminder>"}
    said = {"type": "text", "text": "go on"}
    messages = decode({"role": "user", "content": [result, {**result, "tool_use_id": "t2"}, note, said, said]})
    assert [(m.role, m.origin, len(m.parts)) for m in messages] == [
        ("tool", "tool", 1),
        ("tool", "tool", 1),
        ("user", "harness", 1),
        ("user", "human", 2),
    ]
    assert len({m.native.group for m in messages if m.native}) == 1


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("plain", (Text("plain"),)),
        ("", ()),
        (None, ()),
        ([{"type": "text", "text": "a"}, make_png("QQ==")], (Text("a"), Image("image/png", "QQ=="))),
        ([{"query": "a.py", "result": "text"}], (Text("text"),)),
    ],
)
def test_results_carry_text_or_blocks_and_the_name_of_their_tool(
    content: object, expected: tuple[Text | Image, ...]
) -> None:
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "grep", "input": {}}]}
    block = {"type": "tool_result", "tool_use_id": "t", "content": content, "is_error": True}
    _, message = decode(call, {"role": "user", "content": [block]})
    assert message.parts == (ToolResult("t", "grep", expected, is_error=True),)


def make_step(*, calls: int = 3, **beside: object) -> list[Message]:
    uses = [{"type": "tool_use", "id": f"t{n}", "name": "f", "input": {}} for n in range(calls)]
    results = [
        {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"out {n}", "cache_control": {"n": n}}
        for n in range(calls)
    ]
    said = {"type": "text", "text": "and now?"}
    return decode(
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": uses},
        {"role": "user", "content": [*results, said], **beside},
    )


def make_stub(call: str) -> Message:
    return Message("tool", (ToolResult(call, "f", (Text("[cut]"),)),), "tenfold")


@pytest.mark.parametrize("at", [0, 1, 2])
def test_one_replaced_result_leaves_its_siblings_blocks_and_stays_in_their_message(at: int) -> None:
    messages = make_step(ts=7)
    messages[2 + at] = make_stub(f"t{at}")
    encoded = WIRE.encode(messages)
    assert [item.exact for item in encoded.items[:2]] == [True, True]
    content = [b for m in encode_messages(messages)[2:] for b in m["content"]]  # type: ignore[attr-defined]
    assert [b["tool_use_id"] for b in content[:3]] == ["t0", "t1", "t2"]
    for n, block in enumerate(content[:3]):
        whole = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"out {n}", "cache_control": {"n": n}}
        assert block == ({"type": "tool_result", "tool_use_id": f"t{n}", "content": "[cut]"} if n == at else whole)
    assert content[3] == {"type": "text", "text": "and now?"}
    assert len(encode_messages(messages)) == 3, "results and the words that came with them are one message again"


def test_results_that_came_in_messages_of_their_own_are_joined_around_a_stub() -> None:
    question, calls, *_ = make_step()
    single = [
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{n}", "content": "o", "x": n}]}
        for n in (0, 2)
    ]
    first, third = decode(*single)
    encoded = WIRE.encode([question, calls, first, make_stub("t1"), third])
    (last,) = (json.loads(i.raw) for i in encoded.items[2:])
    assert [b.get("x") for b in last["content"]] == [0, None, 2]
    assert [a.kind for a in encoded.adjustments] == ["results_joined"] * 2
    untouched = WIRE.encode([question, calls, first, third])
    assert [json.loads(i.raw) for i in untouched.items[2:]] == single


def test_a_field_that_a_partly_replaced_message_loses_is_named() -> None:
    messages = make_step(ts=7)
    kept = [*messages[:2], make_stub("t0"), *messages[3:5], make_stub("t2")]
    assert "envelope_dropped" in [a.kind for a in WIRE.encode(kept[:2] + kept[2:4] + [make_stub("t2")]).adjustments]
    plain = make_step()
    kept = [*plain[:2], make_stub("t0"), *plain[3:]]
    assert "envelope_dropped" not in [a.kind for a in WIRE.encode(kept).adjustments]


def test_results_out_of_order_still_come_before_the_text() -> None:
    messages = make_step()
    question, calls, one, two, three, said = messages
    (_, _, last) = encode_messages([question, calls, said, three, two, one])
    kinds = [b["type"] for b in last["content"]]  # type: ignore[attr-defined]
    assert kinds == ["tool_result"] * 3 + ["text"]


def test_leading_system_text_is_taken_apart_and_a_later_one_folded() -> None:
    messages = [
        Message("system", (Text("be brief"),), "harness"),
        Message("user", (Text("q"),), "human"),
        Message("system", (Text("new rule"),), "harness"),
        Message("assistant", (Text("a"),), "model"),
    ]
    encoded = WIRE.encode(messages)
    assert encoded.system == ("be brief",)
    assert [a.kind for a in encoded.adjustments] == ["system_folded"]
    again = WIRE.decode([item.raw for item in encoded.items])
    assert [(m.role, m.origin) for m in again] == [("user", "human"), ("user", "harness"), ("assistant", "model")]
    assert "new rule" in get_text(again[1])


def test_system_messages_of_the_list_stand_where_newer_models_take_them() -> None:
    natives = [
        {"role": "user", "content": "first"},
        {"role": "system", "content": [{"type": "text", "text": "one"}]},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "second"},
        {"role": "system", "content": [ADDITION]},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "third"},
    ]
    first, one, a, _, two, b, third = messages = decode(*natives)
    untouched = WIRE.encode(messages)
    assert [json.loads(item.raw) for item in untouched.items] == natives
    assert untouched.adjustments == ()
    summary = Message("user", (Text("what came before"),), "tenfold")
    cases = (
        ([first, one, summary, a, third], ["user", "user", "system", "assistant", "user"]),
        ([one, summary, a, third], ["user", "system", "assistant", "user"]),
        ([one, first, summary], ["user", "user", "system"]),
    )
    for visible, roles in cases:
        encoded = WIRE.encode(visible)
        sent = [json.loads(item.raw) for item in encoded.items]
        assert [message["role"] for message in sent] == roles
        assert natives[1] in sent
        assert [each.kind for each in encoded.adjustments] == ["system_moved"]
        assert check_messages(visible, "anthropic") == []
    together = [json.loads(item.raw) for item in WIRE.encode([first, one, summary, two, b, third]).items]
    assert [message["role"] for message in together] == ["user", "user", "system", "assistant", "user"]
    assert together[2]["content"] == [{"type": "text", "text": "one"}, ADDITION]


def test_a_system_message_of_settings_alone_stands_where_it_is() -> None:
    natives = [
        {"role": "user", "content": "first"},
        {"role": "system", "content": [], "output_config": {"effort": "medium"}},
        {"role": "user", "content": "second"},
    ]
    messages = decode(*natives)
    assert [json.loads(item.raw) for item in WIRE.encode(messages).items] == natives
    assert check_messages(messages, "anthropic", sending=True) == []


def test_what_the_provider_refuses_is_left_out_by_name() -> None:
    messages = [
        Message("user", (Text("q"), Text(" ")), "human"),
        Message("assistant", (Thinking("unsigned"), ToolCall("a b", "f", "not json")), "model"),
        Message("tool", (ToolResult("a b", "f", (Image(), Text("x"))),), "tool"),
        Message("user", (Text(""),), "human"),
    ]
    encoded = WIRE.encode(messages)
    assert {a.kind for a in encoded.adjustments} == {
        "empty_text_dropped",
        "thinking_dropped",
        "id_changed",
        "arguments_wrapped",
        "image_dropped",
        "empty_message_dropped",
    }
    question, answer, result = (json.loads(i.raw) for i in encoded.items)
    assert question == {"role": "user", "content": "q"}
    (use,) = answer["content"]
    assert use["input"] == {"_raw": "not json"}
    assert result["content"][0]["tool_use_id"] == use["id"]
    assert " " not in use["id"]


def test_arguments_are_spliced_not_reencoded() -> None:
    raw = '{"n": 1.0, "big": 12345678901234567890, "dup": 1, "dup": 2}'
    message = Message("assistant", (ToolCall("t", "f", raw),), "model")
    assert raw.encode() in WIRE.encode([Message("user", (Text("q"),), "human"), message]).items[1].raw
