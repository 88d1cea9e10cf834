"""OpenAI Chat Completions: each feature by a small case."""

from __future__ import annotations

import json

import pytest

from tenfold.core.meter.counters import choose_counter, measure_messages
from tenfold.core.record.message import Document, Image, Message, OpaquePart, Part, Text, Thinking, ToolCall, ToolResult
from tenfold.core.wire import WIRES

WIRE = WIRES["openai-chat"]


def decode(*natives: object) -> list[Message]:
    return WIRE.decode([json.dumps(n).encode() for n in natives])


def encode_messages(*messages: Message) -> list[dict[str, object]]:
    return [json.loads(item.raw) for item in WIRE.encode(messages).items]


def make_call(arguments: str, **more: object) -> dict[str, object]:
    return {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}, **more}


@pytest.mark.parametrize(
    ("native", "role", "origin", "parts"),
    [
        ({"role": "system", "content": "s"}, "system", "harness", (Text("s"),)),
        ({"role": "developer", "content": "s"}, "system", "harness", (Text("s"),)),
        ({"role": "user", "content": "q", "name": "ann"}, "user", "human", (Text("q"),)),
        ({"role": "user", "content": ""}, "user", "human", ()),
        ({"role": "user", "content": "<environment_context>x</environment_context>"}, "user", "harness", None),
        ({"role": "assistant", "content": None}, "assistant", "model", ()),
        ({"role": "assistant"}, "assistant", "model", ()),
        ({"role": "assistant", "content": None, "refusal": "no"}, "assistant", "model", (Text("no"),)),
        ({"role": "assistant", "content": "a", "reasoning_content": "r"}, "assistant", "model",
            (Thinking("r"), Text("a"))),
        ({"role": "tool", "tool_call_id": "c", "content": "o"}, "tool", "tool", (ToolResult("c", "", (Text("o"),)),)),
        ({"role": "function", "name": "f", "content": "o"}, "user", "tool", (Text("o"),)),
    ],
)  # fmt: skip
def test_messages_by_role_and_content(native: object, role: str, origin: str, parts: tuple[Part, ...] | None) -> None:
    (message,) = decode(native)
    assert (message.role, message.origin) == (role, origin)
    assert parts is None or message.parts == parts


SEALED = "gAAA" * 2_000


def make_signed_call(signature: str) -> dict[str, object]:
    return make_call("{}", extra_content={"google": {"thought_signature": signature}})


@pytest.mark.parametrize(
    ("fields", "thoughts"),
    [
        ({"reasoning_details": [{"type": "reasoning.encrypted", "data": SEALED}]}, [Thinking("", SEALED)]),
        (
            {"reasoning": "why", "reasoning_details": [
                {"type": "reasoning.text", "text": "why", "signature": "s"},
                {"type": "reasoning.encrypted", "data": SEALED},
            ]},
            [Thinking("why", "s"), Thinking("", SEALED)],
        ),
        ({"reasoning_details": [{"type": "reasoning.summary", "summary": "why"}]}, [Thinking("why")]),
        ({"thinking_blocks": [{"type": "thinking", "thinking": "why", "signature": SEALED}]},
            [Thinking("why", SEALED)]),
        ({"thinking_blocks": [{"type": "redacted_thinking", "data": SEALED}]}, [Thinking("", SEALED)]),
        ({"extra_content": {"google": {"thought_signature": SEALED}}}, [Thinking("", SEALED)]),
        ({"tool_calls": [make_signed_call(SEALED)]}, [Thinking("", SEALED)]),
        ({"reasoning_details": [5, {"type": "note"}], "thinking_blocks": "?", "extra_content": {"google": 5}}, []),
    ],
)  # fmt: skip
def test_thinking_in_the_fields_of_routers_is_counted_and_comes_back_as_it_was(
    fields: dict[str, object], thoughts: list[Thinking]
) -> None:
    raw = json.dumps({"role": "assistant", "content": "x", **fields}).encode()
    (message,) = WIRE.decode([raw])
    assert [part for part in message.parts if isinstance(part, Thinking)] == thoughts
    assert [item.raw for item in WIRE.encode([message]).items] == [raw]
    sealed = sum(each.signature == SEALED for each in thoughts)
    assert sealed <= measure_messages([message], choose_counter(None).counter)[0] // 1_000


def test_argument_text_stays_as_it_was_even_where_it_is_no_json() -> None:
    (message,) = decode({"role": "assistant", "tool_calls": [make_call('{"a":1.0} '), make_call("{broken", index=1)]})
    assert [p.arguments for p in message.parts if isinstance(p, ToolCall)] == ['{"a":1.0} ', "{broken"]
    stub = Message("assistant", message.parts, "model")
    assert [c["function"]["arguments"] for c in encode_messages(stub)[0]["tool_calls"]] == ['{"a":1.0} ', "{broken"]  # type: ignore[attr-defined]


def test_media_parts() -> None:
    url = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ==", "detail": "low"}}
    link = {"type": "image_url", "image_url": {"url": "https://e.org/a.png"}}
    file = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="}}
    sound = {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}}
    (message,) = decode({"role": "user", "content": [url, link, file, sound]})
    image, linked, document, opaque = message.parts
    assert image == Image("image/png", "QQ==", detail="low")
    assert linked == Image(url="https://e.org/a.png")
    assert document == Document("a.pdf", "application/pdf", data="QQ==")
    assert isinstance(opaque, OpaquePart)
    (again,) = encode_messages(Message("user", message.parts, "human"))
    assert again["content"] == [
        url,
        link,
        {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="}},
        sound,
    ]


def test_members_beside_content_survive_a_rewritten_answer() -> None:
    legacy = {"name": "f", "arguments": "{}"}
    custom = {"id": "k", "type": "custom", "custom": {"name": "patch", "input": "*** raw"}}
    other = {"id": "z", "type": "telepathy", "telepathy": {}}
    (message,) = decode(
        {
            "role": "assistant",
            "content": "a",
            "function_call": legacy,
            "audio": {"id": "au"},
            "tool_calls": [custom, other],
        }
    )
    assert ToolCall("k", "patch", "*** raw") in message.parts
    (again,) = encode_messages(Message("assistant", (Text("shorter"), *message.parts[1:]), "model"))
    assert again["content"] == "shorter"
    assert again["function_call"] == legacy
    assert again["audio"] == {"id": "au"}
    assert other in again["tool_calls"]  # type: ignore[operator]


def test_error_flag_and_media_in_a_result_become_text_by_name() -> None:
    result = ToolResult("c", "f", (Text("boom"), Image(data="QQ=="), Document("n", text="body")), is_error=True)
    encoded = WIRE.encode([Message("assistant", (ToolCall("c", "f"),), "model"), Message("tool", (result,), "tool")])
    assert [a.kind for a in encoded.adjustments] == ["image_dropped", "document_as_text", "error_flag_in_text"]
    texts = [p["text"] for p in json.loads(encoded.items[1].raw)["content"]]
    assert texts == ["[tool error]\nboom", "[image not shown]", "[document n]\nbody"]


def test_a_user_message_with_injected_parts_is_split_and_joined() -> None:
    note = {"type": "text", "text": "<system-reminder>x</system-reminder>"}
    native = {"role": "user", "content": [note, {"type": "text", "text": "fix it"}], "name": "ann"}
    messages = decode(native)
    assert [m.origin for m in messages] == ["harness", "human"]
    assert encode_messages(*messages) == [native]
    assert encode_messages(messages[1])[0]["content"] == [{"type": "text", "text": "fix it"}]
