"""The SDKs' own typed objects, given as they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest
from anthropic.types import Message as AnthropicMessage
from google.genai import types as google
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseFunctionToolCall, ResponseReasoningItem

from tenfold.record.message import Image, Text, Thinking, ToolCall, calls_of
from tenfold.view.rules import validate
from tenfold.wire import WIRES, detect, raw_of


def chat() -> ChatCompletionMessage:
    return ChatCompletionMessage.model_validate(
        {
            "role": "assistant",
            "content": "a",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}],
        }
    )


def responses() -> list[ResponseReasoningItem | ResponseFunctionToolCall]:
    return [
        ResponseReasoningItem(id="rs_1", summary=[], type="reasoning", encrypted_content="gA"),
        ResponseFunctionToolCall(type="function_call", call_id="c1", name="f", arguments='{"a": 1}'),
    ]


def claude() -> AnthropicMessage:
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


def gemini() -> google.Content:
    call = google.Part(function_call=google.FunctionCall(name="f", args={"a": 1}), thought_signature=b"\xff\xfe")
    return google.Content(role="model", parts=[call, google.Part.from_bytes(data=b"\xff\xd8", mime_type="image/png")])


CASES: dict[str, Callable[[], Sequence[object]]] = {
    "openai-chat": lambda: [chat()],
    "openai-responses": responses,
    "anthropic": lambda: [claude()],
    "gemini": lambda: [gemini()],
}


@pytest.mark.parametrize("wire", CASES)
def test_sdk_objects_are_recognised_decoded_and_judged(wire: str) -> None:
    objects = CASES[wire]()
    assert detect(objects) == wire
    messages = WIRES[wire].decode([raw_of(o) for o in objects])
    (call,) = (c for m in messages for c in calls_of(m))
    assert call.name == "f"
    assert json.loads(call.arguments) == {"a": 1}
    assert {v.rule for v in validate(objects, wire)} <= {"first_message"}


def test_what_the_objects_carry_arrives() -> None:
    assert WIRES["openai-chat"].decode([raw_of(chat())])[0].parts[0] == Text("a")
    (answer,) = WIRES["openai-responses"].decode([raw_of(o) for o in responses()])
    assert answer.parts == (Thinking("", "gA"), ToolCall("c1", "f", '{"a": 1}'))
    assert WIRES["anthropic"].decode([raw_of(claude())])[0].parts[0] == Thinking("hm", "s")
    (content,) = WIRES["gemini"].decode([raw_of(gemini())])
    assert content.parts[0] == Thinking("", "__4=")
    assert content.parts[2] == Image("image/png", "_9g=")


def test_what_was_not_set_is_not_sent() -> None:
    assert set(json.loads(raw_of(responses()[1]))) == {"type", "call_id", "name", "arguments"}
    assert b"null" not in raw_of(gemini())


def test_dicts_may_hold_objects() -> None:
    block = claude().content[1]
    (message,) = WIRES["anthropic"].decode([raw_of({"role": "assistant", "content": [block]})])
    assert [c.id for c in calls_of(message)] == ["c1"]


def test_bytes_in_dicts_are_base64() -> None:
    part = {"inline_data": {"mime_type": "image/png", "data": b"\x00\x01"}}
    (message,) = WIRES["gemini"].decode([raw_of({"role": "user", "parts": [part]})])
    assert message.parts == (Image("image/png", "AAE="),)


def test_lone_surrogates_in_dicts_do_not_stop_anything() -> None:
    assert json.loads(raw_of({"role": "user", "content": "a\ud83d"}))["content"] == "a\ufffd"
