"""Gemini contents: each feature by a small case, and the pairing of calls that carry no ids."""

from __future__ import annotations

import json

import pytest

from tenfold.errors import UnknownRole
from tenfold.record.message import (
    Document,
    Image,
    Message,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    calls_of,
    result_of,
)
from tenfold.wire import WIRES

WIRE = WIRES["gemini"]


def decode(*natives: object) -> list[Message]:
    return WIRE.decode([json.dumps(n).encode() for n in natives])


def sent(*messages: Message) -> list[dict[str, object]]:
    return [json.loads(item.raw) for item in WIRE.encode(messages).items]


def user(*parts: object) -> dict[str, object]:
    return {"role": "user", "parts": list(parts)}


def model(*parts: object) -> dict[str, object]:
    return {"role": "model", "parts": list(parts)}


def call(name: str, **more: object) -> dict[str, object]:
    return {"functionCall": {"name": name, "args": {"n": 1.0}, **more}}


def answer(name: str, output: str, **more: object) -> dict[str, object]:
    return {"functionResponse": {"name": name, "response": {"output": output}, **more}}


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (user({"text": "q"}), (Text("q"),)),
        ({"parts": [{"text": "no role"}]}, (Text("no role"),)),
        (user({"inlineData": {"mimeType": "image/png", "data": "QQ=="}}), (Image("image/png", "QQ=="),)),
        (user({"inline_data": {"mime_type": "image/png", "data": "QQ=="}}), (Image("image/png", "QQ=="),)),
        (
            user({"fileData": {"mimeType": "application/pdf", "fileUri": "gs://a"}}),
            (Document("", "application/pdf", url="gs://a"),),
        ),
        (model({"text": "hm", "thought": True, "thoughtSignature": "s"}), (Thinking("hm", "s"),)),
        (model({"text": "a", "thoughtSignature": "s"}), (Thinking("", "s"), Text("a"))),
    ],
)
def test_parts_by_kind(content: object, parts: tuple[Part, ...]) -> None:
    assert decode(content)[0].parts == parts


@pytest.mark.parametrize("part", [{"executableCode": {"code": "1"}}, {"videoMetadata": {}}, {"newPart": 1}, "bare"])
def test_other_parts_are_opaque(part: object) -> None:
    (found,) = decode(model(part))[0].parts
    assert isinstance(found, Opaque)
    assert json.loads(found.raw) == part


def test_calls_without_ids_are_paired_by_name_and_order() -> None:
    messages = decode(
        model(call("read"), call("grep"), call("read")),
        user(answer("grep", "g"), answer("read", "first", id="x-1"), answer("read", "second", id="x-2")),
    )
    first, grep, second = (c.id for c in calls_of(messages[0]))
    results = {r.call: r.content for m in messages[1:] if (r := result_of(m)) is not None}
    assert results == {grep: (Text("g"),), first: (Text("first"),), second: (Text("second"),)}
    assert len({first, grep, second}) == 3


def test_own_ids_win_over_order() -> None:
    messages = decode(
        model(call("read", id="a"), call("read", id="b")),
        user(answer("read", "B", id="b"), answer("read", "A", id="a")),
    )
    assert [r.call for m in messages[1:] if (r := result_of(m)) is not None] == ["b", "a"]


def test_the_same_call_in_two_steps_has_two_ids() -> None:
    step = (model(call("ls")), user(answer("ls", "x")))
    first, _, second, last = decode(*step, *step)
    assert calls_of(first)[0].id != calls_of(second)[0].id
    result = result_of(last)
    assert result is not None
    assert result.call == calls_of(second)[0].id


def test_made_ids_never_reach_the_wire_they_came_from() -> None:
    items = [user({"text": "q"}), model({**call("read"), "thoughtSignature": "sig"}), user(answer("read", "long"))]
    question, calls, result = decode(*items)
    assert sent(question, calls, result) == items
    shorter = result_of(result)
    assert shorter is not None
    stub = Message("tool", (ToolResult(shorter.call, "", (Text("[cut]"),)),), "tenfold")
    assert sent(question, calls, stub)[2] == user(answer("read", "[cut]"))
    rewritten = Message("assistant", calls.parts, "model")
    assert sent(question, rewritten, result)[1] == items[1], "signature and call survive a rewrite"


def test_one_replaced_response_stays_in_one_content_with_its_siblings() -> None:
    items = [user({"text": "q"}), model(call("a"), call("b")), user(answer("a", "1", id="x"), answer("b", "2", id="y"))]
    question, calls, one, two = decode(*items)
    result = result_of(two)
    assert result is not None
    stub = Message("tool", (ToolResult(result.call, "b", (Text("[cut]"),), error=True),), "tenfold")
    (_, _, last) = sent(question, calls, one, stub)
    cut = {"functionResponse": {"name": "b", "response": {"error": "[cut]"}}}
    assert last == user(answer("a", "1", id="x"), cut)


@pytest.mark.parametrize(
    ("response", "result"),
    [
        ({"output": "o"}, ToolResult("c", "f", (Text("o"),))),
        ({"output": ""}, ToolResult("c", "f", ())),
        ({"error": "e"}, ToolResult("c", "f", (Text("e"),), error=True)),
        ({"exit": 1, "out": "x"}, ToolResult("c", "f", (Text('{"exit": 1, "out": "x"}'),))),
    ],
)
def test_responses_become_text(response: object, result: ToolResult) -> None:
    native = {"functionResponse": {"id": "c", "name": "f", "response": response}}
    _, message = decode(model(call("f", id="c")), user(native))
    assert message.parts == (result,)


def test_ids_of_other_wires_are_sent_on_both_sides() -> None:
    messages = [
        Message("user", (Text("q"),), "human"),
        Message("assistant", (ToolCall("call_1", "f", "{}"),), "model"),
        Message("tool", (ToolResult("call_1", "", (Text("o"),)),), "tool"),
    ]
    _, calls, result = sent(*messages)
    assert calls["parts"] == [{"functionCall": {"id": "call_1", "name": "f", "args": {}}}]
    assert result["parts"] == [{"functionResponse": {"id": "call_1", "name": "f", "response": {"output": "o"}}}]


def test_an_unknown_role_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownRole, match=r"content 0 has role 'assistant'; .*user, model, function"):
        decode({"role": "assistant", "parts": []})


def test_a_response_with_another_id_answers_no_call_of_its_name() -> None:
    _, message = decode(model(call("read", id="a")), user(answer("read", "x", id="zz")))
    result = result_of(message)
    assert result is not None
    assert result.call == "zz"


def test_a_call_that_was_never_answered_takes_no_later_response() -> None:
    messages = decode(model(call("ls")), user({"text": "again"}), model(call("ls")), user(answer("ls", "x")))
    result = result_of(messages[-1])
    assert result is not None
    assert result.call == calls_of(messages[2])[0].id
