"""pydantic-ai's list as a wire: what its parts mean, byte for byte there and back, and accepted by its own adapter."""

from __future__ import annotations

import asyncio
import json

import pytest
from msgspec.structs import replace
from pydantic_ai import Agent
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tenfold.core.record.message import Image, Message, Text, Thinking, ToolCall, ToolResult, get_text
from tenfold.core.wire import WIRES
from tenfold.core.wire.pydantic_ai import WIRE
from tenfold.errors import UnknownRole
from tests.models.loopback import Json

PICTURE = BinaryContent(data=b"\x89PNG", media_type="image/png")
LIST: list[ModelMessage] = [
    ModelRequest(parts=[SystemPromptPart("Be brief."), UserPromptPart("Look"), UserPromptPart(["at", PICTURE])]),
    ModelResponse(
        parts=[
            ThinkingPart("hm", signature="sig"),
            TextPart("I look."),
            ToolCallPart("read", '{"path": "a.py"}', tool_call_id="c1"),
            ToolCallPart("read", {"path": "b.py"}, tool_call_id="c2"),
        ]
    ),
    ModelRequest(
        parts=[
            ToolReturnPart("read", "text of a", tool_call_id="c1"),
            ToolReturnPart("read", {"lines": 3}, tool_call_id="c2", outcome="failed"),
            UserPromptPart("And?"),
        ],
        instructions="You read files.",
    ),
    ModelResponse(parts=[TextPart("Bo")], state="interrupted"),
    ModelRequest(parts=[UserPromptPart(ImageUrl(url="http://127.0.0.1/x.png").url)]),
]


def dump_raws() -> list[bytes]:
    return [ModelMessagesTypeAdapter.dump_json([message])[1:-1] for message in LIST]


def test_parts_mean_what_they_say() -> None:
    messages = WIRE.decode(dump_raws())
    roles = [(m.role, m.origin) for m in messages]
    asked, tool = ("user", "human"), ("tool", "tool")
    assert roles == [
        ("system", "harness"),
        asked,
        asked,
        ("assistant", "model"),
        tool,
        tool,
        asked,
        ("assistant", "model"),
        asked,
    ]
    assert messages[1].parts == (Text("Look"),)
    assert messages[2].parts == (Text("at"), Image("image/png", "iVBORw=="))
    calls = (ToolCall("c1", "read", '{"path": "a.py"}'), ToolCall("c2", "read", '{"path":"b.py"}'))
    assert messages[3].parts == (Thinking("hm", "sig"), Text("I look."), *calls)
    assert messages[4].parts == (ToolResult("c1", "read", (Text("text of a"),)),)
    assert messages[5].parts == (ToolResult("c2", "read", (Text('{"lines":3}'),), is_error=True),)
    assert [m.status for m in messages if m.role == "assistant"] == ["ok", "aborted"]


def test_untouched_messages_come_back_byte_for_byte() -> None:
    encoded = WIRE.encode(WIRE.decode(dump_raws()))
    assert [item.raw for item in encoded.items] == dump_raws()
    assert all(item.exact for item in encoded.items)
    assert encoded.adjustments == ()


@pytest.mark.parametrize("gone", range(9))
def test_what_is_replaced_or_gone_leaves_a_list_that_the_adapter_takes(gone: int) -> None:
    messages = WIRE.decode(dump_raws())
    stub = replace(messages[gone], parts=(Text("[shortened]"),), native=None)
    if messages[gone].role == "tool":
        (result,) = messages[gone].parts
        assert isinstance(result, ToolResult)
        stub = replace(stub, parts=(replace(result, content=(Text("[shortened]"),)),))
    for changed in ([*messages[:gone], stub, *messages[gone + 1 :]], [*messages[:gone], *messages[gone + 1 :]]):
        items = [item.raw for item in WIRE.encode(changed).items]
        taken = ModelMessagesTypeAdapter.validate_json(b"[" + b",".join(items) + b"]")
        again = WIRE.decode(items)
        assert [get_text(m) for m in again] == [get_text(m) for m in changed]
        assert [(m.role, m.parts) for m in again] == [(m.role, m.parts) for m in changed]
        assert len(taken) == len(items)


def test_a_persons_messages_stay_apart_where_the_framework_joins_requests() -> None:
    two = (Text("Look"), Text("again"))
    messages = [Message("user", parts, "human") for parts in ((Text("Look"),), two, (Text("Now"),))]
    items = [json.loads(item.raw) for item in WIRE.encode(messages).items]
    joined = {"parts": [part for item in items for part in item["parts"]], "kind": "request"}
    assert [m.parts for m in WIRE.decode([json.dumps(joined).encode()])] == [m.parts for m in messages]


def test_answers_stay_apart_where_the_framework_joins_those_of_no_model() -> None:
    messages = [Message("assistant", (Text(text),), "model") for text in ("One.", "Two.")]
    items = [item.raw for item in WIRE.encode(messages).items]
    history = ModelMessagesTypeAdapter.validate_json(b"[" + b",".join(items) + b"]")
    sent: list[ModelMessage] = []

    def answer(given: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del info
        sent.extend(given)
        return ModelResponse(parts=[TextPart("Three.")])

    asyncio.run(Agent(FunctionModel(answer)).run("And?", message_history=history))
    assert [type(message) for message in sent] == [ModelResponse, ModelResponse, ModelRequest]


@pytest.mark.parametrize("wire", WIRES)
def test_lists_of_the_providers_become_its_own_and_go_back(wire: str) -> None:
    plain = [m for m in WIRE.decode(dump_raws()) if m.status == "ok"]
    native = [json.loads(item.raw) for item in WIRES[wire].encode(plain).items]
    theirs: list[Message] = WIRES[wire].decode([json.dumps(item).encode() for item in native])
    items = [item.raw for item in WIRE.encode(theirs).items]
    ModelMessagesTypeAdapter.validate_json(b"[" + b",".join(items) + b"]")
    said = [get_text(m) for m in theirs if m.role != "system"]
    assert [get_text(m) for m in WIRE.decode(items) if m.role != "system"] == said
    assert "text of a" in "".join(said)


def test_what_the_framework_says_to_the_model_is_not_the_user() -> None:
    part: Json = {"content": "Answer again.", "part_kind": "retry-feedback"}
    (message,) = WIRE.decode([json.dumps({"parts": [part], "kind": "request"}).encode()])
    assert (message.role, message.origin) == ("user", "harness")


def test_another_kind_is_an_error_with_its_place() -> None:
    odd: Json = {"parts": [], "kind": "wish"}
    with pytest.raises(UnknownRole, match="message 1 is of kind 'wish'"):
        WIRE.decode([dump_raws()[0], json.dumps(odd).encode()])
