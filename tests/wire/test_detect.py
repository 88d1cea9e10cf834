"""What a host passes: the wire of a list of which nobody said what it is, and the SDKs' own typed objects."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest
from anthropic.types import Message as AnthropicMessage
from google.genai import types as google
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseFunctionToolCall, ResponseReasoningItem

from tenfold.core.record.message import Image, Text, Thinking, ToolCall, get_tool_calls
from tenfold.core.view.rules import validate
from tenfold.core.wire import WIRES, detect_wire, get_wire, splice, to_json_bytes
from tenfold.errors import BadInput, UnknownFormat
from tests.wire.arrays import get_arrays_by_name
from tests.wire.strategies import LISTS, quick


@pytest.mark.parametrize("name", get_arrays_by_name())
def test_recorded_arrays_are_recognised(name: str) -> None:
    session = get_arrays_by_name()[name]
    items = splice.slice_array(session.data).items
    told = any(b'"type"' in i or b'"parts"' in i for i in items)
    assert detect_wire(items) == (session.wire if told else "openai-chat")


@pytest.mark.parametrize(
    ("message", "wire"),
    [
        ({"role": "user", "parts": []}, "gemini"),
        ({"role": "model"}, "gemini"),
        ({"role": "assistant", "tool_calls": []}, "openai-chat"),
        ({"role": "tool", "content": "x"}, "openai-chat"),
        ({"role": "system", "content": "x"}, "openai-chat"),
        ({"role": "developer", "content": [{"type": "input_text", "text": "x"}]}, "openai-responses"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}, "openai-chat"),
        ({"role": "user", "content": [{"type": "file", "file": {}}]}, "openai-chat"),
        ({"role": "user", "content": [{"type": "image", "source": {}}]}, "anthropic"),
        ({"role": "assistant", "content": [{"type": "tool_use"}]}, "anthropic"),
        ({"type": "reasoning", "summary": []}, "openai-responses"),
        ({"type": "function_call_output"}, "openai-responses"),
        ({"type": "item_reference", "id": "x"}, "openai-responses"),
        ({"type": "message", "role": "user", "content": "x"}, "openai-responses"),
        ({"role": "user", "content": "only text"}, "openai-chat"),
    ],
)
def test_one_message_tells(message: dict[str, object], wire: str) -> None:
    assert detect_wire([{"role": "user", "content": "hello"}, message]) == wire


@quick
@given(data=st.data(), wire=st.sampled_from(["gemini", "openai-responses"]))
def test_generated_lists_are_recognised(data: st.DataObject, wire: str) -> None:
    assert detect_wire(data.draw(LISTS[wire]())) == wire


def test_what_is_none_of_them_is_refused_with_what_was_seen() -> None:
    with pytest.raises(UnknownFormat, match=r"messages like \{kind, body\}; pass format="):
        detect_wire([{"kind": "note", "body": "x"}])
    with pytest.raises(UnknownFormat, match="item 0 is no JSON object"):
        detect_wire(["[1]"])


def test_an_unknown_wire_is_refused_with_those_there_are() -> None:
    with pytest.raises(UnknownFormat, match=", ".join(WIRES)):
        get_wire("smoke-signals")


def test_what_is_no_message_is_refused_by_its_type() -> None:
    with pytest.raises(BadInput, match="not a value of type int"):
        to_json_bytes(7)
    with pytest.raises(BadInput, match=r"what JSON cannot: .*object"):
        to_json_bytes({"role": "user", "content": object()})


def make_chat_message() -> ChatCompletionMessage:
    return ChatCompletionMessage.model_validate(
        {
            "role": "assistant",
            "content": "a",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}],
        }
    )


def make_response_items() -> list[ResponseReasoningItem | ResponseFunctionToolCall]:
    return [
        ResponseReasoningItem(id="rs_1", summary=[], type="reasoning", encrypted_content="gA"),
        ResponseFunctionToolCall(type="function_call", call_id="c1", name="f", arguments='{"a": 1}'),
    ]


def make_claude_message() -> AnthropicMessage:
    return AnthropicMessage.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 1, "output_tokens": 1},
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}},
            ],
        }
    )


def make_gemini_content() -> google.Content:
    call = google.Part(function_call=google.FunctionCall(name="f", args={"a": 1}), thought_signature=b"\xff\xfe")
    return google.Content(role="model", parts=[call, google.Part.from_bytes(data=b"\xff\xd8", mime_type="image/png")])


CASES: dict[str, Callable[[], Sequence[object]]] = {
    "openai-chat": lambda: [make_chat_message()],
    "openai-responses": make_response_items,
    "anthropic": lambda: [make_claude_message()],
    "gemini": lambda: [make_gemini_content()],
}


@pytest.mark.parametrize("wire", CASES)
def test_sdk_objects_are_recognised_decoded_and_judged(wire: str) -> None:
    objects = CASES[wire]()
    assert detect_wire(objects) == wire
    messages = WIRES[wire].decode([to_json_bytes(o) for o in objects])
    (call,) = (c for m in messages for c in get_tool_calls(m))
    assert call.name == "f"
    assert json.loads(call.arguments) == {"a": 1}
    assert {v.rule for v in validate(objects, wire)} <= {"first_message"}


def test_what_the_objects_carry_arrives() -> None:
    assert WIRES["openai-chat"].decode([to_json_bytes(make_chat_message())])[0].parts[0] == Text("a")
    (answer,) = WIRES["openai-responses"].decode([to_json_bytes(o) for o in make_response_items()])
    assert answer.parts == (Thinking("", "gA"), ToolCall("c1", "f", '{"a": 1}'))
    assert WIRES["anthropic"].decode([to_json_bytes(make_claude_message())])[0].parts[0] == Thinking("hm", "s")
    (content,) = WIRES["gemini"].decode([to_json_bytes(make_gemini_content())])
    assert content.parts[0] == Thinking("", "__4=")
    assert content.parts[2] == Image("image/png", "_9g=")


def test_what_was_not_set_is_not_sent() -> None:
    assert set(json.loads(to_json_bytes(make_response_items()[1]))) == {"type", "call_id", "name", "arguments"}
    assert b"null" not in to_json_bytes(make_gemini_content())


def test_dicts_may_hold_objects() -> None:
    block = make_claude_message().content[1]
    (message,) = WIRES["anthropic"].decode([to_json_bytes({"role": "assistant", "content": [block]})])
    assert [c.id for c in get_tool_calls(message)] == ["c1"]


def test_bytes_in_dicts_are_base64() -> None:
    part = {"inline_data": {"mime_type": "image/png", "data": b"\x00\x01"}}
    (message,) = WIRES["gemini"].decode([to_json_bytes({"role": "user", "parts": [part]})])
    assert message.parts == (Image("image/png", "AAE="),)


def test_lone_surrogates_in_dicts_do_not_stop_anything() -> None:
    assert json.loads(to_json_bytes({"role": "user", "content": "a\ud83d"}))["content"] == "a\ufffd"


def test_what_json_cannot_hold_is_refused_beside_a_lone_surrogate_too() -> None:
    with pytest.raises(BadInput, match="a message holds what JSON cannot: a value of type object"):
        to_json_bytes({"role": "user", "content": "a\ud83d", "extra": object()})
