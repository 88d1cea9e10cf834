"""Gemini contents: each feature by a small case, and the pairing of calls that carry no ids."""

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
    get_tool_calls,
    get_tool_result,
)
from tenfold.core.view.rules import validate
from tenfold.core.wire import WIRES

WIRE = WIRES["gemini"]


def decode(*natives: object) -> list[Message]:
    return WIRE.decode([json.dumps(n).encode() for n in natives])


def encode_messages(*messages: Message) -> list[dict[str, object]]:
    return [json.loads(item.raw) for item in WIRE.encode(messages).items]


def make_user(*parts: object) -> dict[str, object]:
    return {"role": "user", "parts": list(parts)}


def make_model_message(*parts: object) -> dict[str, object]:
    return {"role": "model", "parts": list(parts)}


def make_call(name: str, **more: object) -> dict[str, object]:
    return {"functionCall": {"name": name, "args": {"n": 1.0}, **more}}


def make_response(name: str, output: str, **more: object) -> dict[str, object]:
    return {"functionResponse": {"name": name, "response": {"output": output}, **more}}


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (make_user({"text": "q"}), (Text("q"),)),
        ({"parts": [{"text": "no role"}]}, (Text("no role"),)),
        (make_user({"inlineData": {"mimeType": "image/png", "data": "QQ=="}}), (Image("image/png", "QQ=="),)),
        (make_user({"inline_data": {"mime_type": "image/png", "data": "QQ=="}}), (Image("image/png", "QQ=="),)),
        (
            make_user({"fileData": {"mimeType": "application/pdf", "fileUri": "gs://a"}}),
            (Document("", "application/pdf", url="gs://a"),),
        ),
        (make_model_message({"text": "hm", "thought": True, "thoughtSignature": "s"}), (Thinking("hm", "s"),)),
        (make_model_message({"text": "a", "thoughtSignature": "s"}), (Thinking("", "s"), Text("a"))),
    ],
)
def test_parts_by_kind(content: object, parts: tuple[Part, ...]) -> None:
    assert decode(content)[0].parts == parts


@pytest.mark.parametrize("part", [{"executableCode": {"code": "1"}}, {"videoMetadata": {}}, {"newPart": 1}, "bare"])
def test_other_parts_are_opaque(part: object) -> None:
    (found,) = decode(make_model_message(part))[0].parts
    assert isinstance(found, OpaquePart)
    assert json.loads(found.raw) == part


def test_calls_without_ids_are_paired_by_name_and_order() -> None:
    messages = decode(
        make_model_message(make_call("read"), make_call("grep"), make_call("read")),
        make_user(
            make_response("grep", "g"),
            make_response("read", "first", id="x-1"),
            make_response("read", "second", id="x-2"),
        ),
    )
    first, grep, second = (c.id for c in get_tool_calls(messages[0]))
    results = {r.call_id: r.content for m in messages[1:] if (r := get_tool_result(m)) is not None}
    assert results == {grep: (Text("g"),), first: (Text("first"),), second: (Text("second"),)}
    assert len({first, grep, second}) == 3


def test_own_ids_win_over_order() -> None:
    messages = decode(
        make_model_message(make_call("read", id="a"), make_call("read", id="b")),
        make_user(make_response("read", "B", id="b"), make_response("read", "A", id="a")),
    )
    assert [r.call_id for m in messages[1:] if (r := get_tool_result(m)) is not None] == ["b", "a"]


def test_the_same_call_in_two_steps_has_two_ids() -> None:
    step = (make_model_message(make_call("ls")), make_user(make_response("ls", "x")))
    first, _, second, last = decode(*step, *step)
    assert get_tool_calls(first)[0].id != get_tool_calls(second)[0].id
    result = get_tool_result(last)
    assert result is not None
    assert result.call_id == get_tool_calls(second)[0].id


def test_made_ids_never_reach_the_wire_they_came_from() -> None:
    items = [
        make_user({"text": "q"}),
        make_model_message({**make_call("read"), "thoughtSignature": "sig"}),
        make_user(make_response("read", "long")),
    ]
    question, calls, result = decode(*items)
    assert encode_messages(question, calls, result) == items
    shorter = get_tool_result(result)
    assert shorter is not None
    stub = Message("tool", (ToolResult(shorter.call_id, "", (Text("[cut]"),)),), "tenfold")
    assert encode_messages(question, calls, stub)[2] == make_user(make_response("read", "[cut]"))
    rewritten = Message("assistant", calls.parts, "model")
    assert encode_messages(question, rewritten, result)[1] == items[1], "signature and call survive a rewrite"


def test_one_replaced_response_stays_in_one_content_with_its_siblings() -> None:
    items = [
        make_user({"text": "q"}),
        make_model_message(make_call("a"), make_call("b")),
        make_user(make_response("a", "1", id="x"), make_response("b", "2", id="y")),
    ]
    question, calls, one, two = decode(*items)
    result = get_tool_result(two)
    assert result is not None
    stub = Message("tool", (ToolResult(result.call_id, "b", (Text("[cut]"),), is_error=True),), "tenfold")
    (_, _, last) = encode_messages(question, calls, one, stub)
    cut = {"functionResponse": {"name": "b", "response": {"error": "[cut]"}}}
    assert last == make_user(make_response("a", "1", id="x"), cut)


@pytest.mark.parametrize(
    ("response", "result"),
    [
        ({"output": "o"}, ToolResult("c", "f", (Text("o"),))),
        ({"output": ""}, ToolResult("c", "f", ())),
        ({"error": "e"}, ToolResult("c", "f", (Text("e"),), is_error=True)),
        ({"exit": 1, "out": "x"}, ToolResult("c", "f", (Text('{"exit": 1, "out": "x"}'),))),
    ],
)
def test_responses_become_text(response: object, result: ToolResult) -> None:
    native = {"functionResponse": {"id": "c", "name": "f", "response": response}}
    _, message = decode(make_model_message(make_call("f", id="c")), make_user(native))
    assert message.parts == (result,)


def test_ids_of_other_wires_are_sent_on_both_sides() -> None:
    messages = [
        Message("user", (Text("q"),), "human"),
        Message("assistant", (ToolCall("call_1", "f", "{}"),), "model"),
        Message("tool", (ToolResult("call_1", "", (Text("o"),)),), "tool"),
    ]
    _, calls, result = encode_messages(*messages)
    assert calls["parts"] == [{"functionCall": {"id": "call_1", "name": "f", "args": {}}}]
    assert result["parts"] == [{"functionResponse": {"id": "call_1", "name": "f", "response": {"output": "o"}}}]


def test_a_response_with_another_id_answers_no_call_of_its_name() -> None:
    _, message = decode(make_model_message(make_call("read", id="a")), make_user(make_response("read", "x", id="zz")))
    result = get_tool_result(message)
    assert result is not None
    assert result.call_id == "zz"


def test_a_call_that_was_never_answered_takes_no_later_response() -> None:
    messages = decode(
        make_model_message(make_call("ls")),
        make_user({"text": "again"}),
        make_model_message(make_call("ls")),
        make_user(make_response("ls", "x")),
    )
    result = get_tool_result(messages[-1])
    assert result is not None
    assert result.call_id == get_tool_calls(messages[2])[0].id


# -- a call right after another answer ---------------------------------------------------------------------------------

CALL_TURN = b'{"role":"model","parts":[{"functionCall":{"name":"look","args":{}},"thoughtSignature":"c2ln"}]}'
RESPONSE_TURN = b'{"role":"user","parts":[{"functionResponse":{"name":"look","response":{"output":"green"}}}]}'


def test_a_shortened_step_and_the_call_after_it_are_one_turn() -> None:
    question = b'{"role":"user","parts":[{"text":"go"}]}'
    messages = WIRES["gemini"].decode([question, CALL_TURN, RESPONSE_TURN])
    step = Message("assistant", (Text("[step] looked elsewhere"),), "tenfold")
    encoded = WIRES["gemini"].encode([messages[0], step, step, *messages[1:]])
    assert [json.loads(item.raw)["role"] for item in encoded.items] == ["user", "model", "user"]
    assert [item.exact for item in encoded.items] == [True, False, True]
    parts = json.loads(encoded.items[1].raw)["parts"]
    assert [part.get("text") for part in parts] == ["[step] looked elsewhere"] * 2 + [None]
    assert parts[2] == json.loads(CALL_TURN)["parts"][0]
    assert [a.kind for a in encoded.adjustments] == ["answers_joined"] * 2
    assert validate([item.raw for item in encoded.items], "gemini") == []


def test_what_a_host_wrote_itself_is_told_and_stays() -> None:
    turns = [b'{"role":"user","parts":[{"text":"go"}]}', b'{"role":"model","parts":[{"text":"well"}]}', CALL_TURN]
    turns.append(RESPONSE_TURN)
    assert [item.raw for item in WIRES["gemini"].encode(WIRES["gemini"].decode(turns)).items] == turns
    assert [(v.rule, v.index) for v in validate(turns, "gemini")] == [("call_after_user", 2)]
    assert validate(turns[:1] + turns[2:], "gemini") == []


def test_an_answer_without_a_call_stays_apart() -> None:
    step = Message("assistant", (Text("[step] looked"),), "tenfold")
    answer = WIRES["gemini"].decode([b'{"role":"model","parts":[{"text":"done"}]}'])
    encoded = WIRES["gemini"].encode([Message("user", (Text("go"),), "human"), step, *answer])
    assert [item.exact for item in encoded.items] == [False, False, True]
