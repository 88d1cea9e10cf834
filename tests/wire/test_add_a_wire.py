"""The wire of docs/wire.md, "Add a wire": registered exactly as it is printed there, and put to the test."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tenfold import CompactResult
from tenfold.core.record.message import Document, Image, Message, OpaquePart, Text, Thinking, ToolCall, ToolResult
from tenfold.core.view.rules import validate
from tenfold.core.wire import WIRES, detect_wire
from tenfold.session import Session
from tests.gateway.serving import RawAnswer, RawRequest, RawUpstream

PAGE = Path(__file__).parents[2] / "docs" / "wire.md"
SECTION = PAGE.read_text("utf-8").split("\n## Add a wire\n")[1].split("\n## ")[0]
(REQUEST,) = re.findall(r"```json\n(.*?)```", SECTION, re.DOTALL)
MODULE, USE, GATEWAY = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)


@pytest.fixture(scope="module")
def printed() -> Iterator[dict[str, Any]]:
    """What the page defines, while its wire is in the table."""
    try:
        with RawUpstream(answer_like_toy) as upstream:
            names: dict[str, Any] = {"upstream": upstream.url, "got": upstream.requests}
            for code in (MODULE, USE, GATEWAY):
                exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102 - the page is ours, and running it is the point
            yield names
    finally:
        WIRES.pop("toy", None)


def answer_like_toy(request: RawRequest) -> RawAnswer:
    """The provider of the page: it writes summaries, looks up what is hidden as soon as it can, and then answers."""
    asked = json.loads(request.body)
    names = [tool["name"] for tool in asked.get("tools", ())]
    turn: dict[str, Any] = {"role": "bot", "say": "## Goal\nTo know the weather.\n\n## Done\nThe sky was looked at."}
    if "recall_search" in names and asked["turns"][-1].get("for") != "r1":
        turn = {"role": "bot", "say": "", "uses": [{"id": "r1", "tool": "recall_search", "args": {"words": "grey"}}]}
    elif names:
        turn = {"role": "bot", "say": "It is dry."}
    ended = "use" if "uses" in turn else "done"
    answer = {"turn": turn, "ended": ended, "cost": {"read": len(request.body) // 4, "written": 5}}
    return RawAnswer((json.dumps(answer).encode(),))


def test_what_nobody_touched_comes_back_byte_for_byte(printed: dict[str, Any]) -> None:
    turns = [*json.loads(REQUEST)["turns"], {"role": "bot", "say": "No.", "mood": {"x": 1.50}}, *printed["turns"][:3]]
    items = [json.dumps(turn).encode() for turn in turns]
    messages = WIRES["toy"].decode(items)
    assert [item.raw for item in WIRES["toy"].encode(messages).items] == items
    assert [m.role for m in messages[:4]] == ["user", "assistant", "tool", "assistant"]
    assert [m.origin for m in messages[:4]] == ["human", "model", "tool", "model"]
    assert messages[1].parts == (ToolCall("u1", "look", '{"at": "sky"}'),)
    assert messages[2].parts == (ToolResult("u1", "look", (Text("grey, dry"),)),)


def test_a_list_is_recognised_and_judged(printed: dict[str, Any]) -> None:
    assert detect_wire(printed["turns"]) == "toy"
    assert validate(printed["turns"], "toy") == []
    (violation,) = validate(printed["turns"][2:3], "toy")
    assert violation.rule == "result_follows_call"


def test_a_list_is_compacted(printed: dict[str, Any]) -> None:
    result, turns = printed["result"], printed["turns"]
    assert isinstance(result, CompactResult)
    assert (result.outcome.status, result.outcome.violations, result.wire) == ("compacted", (), "toy")
    assert result.outcome.tokens_after <= 2_000
    assert result.messages[0] is turns[0]
    assert any(message is turns[-1] for message in result.messages)
    assert any("<tenfold-summary" in message["say"] for message in result.messages)
    assert validate(result.messages, "toy") == []


def test_a_request_is_compacted_around_the_call(printed: dict[str, Any]) -> None:
    session, request, turns = printed["session"], printed["request"], printed["turns"]
    assert isinstance(session, Session)
    assert session.outcome is not None
    assert session.outcome.status == "compacted"
    assert request["turns"][0] is turns[0]
    assert len(request["turns"]) < len(turns)
    assert (request["persona"], request["limit"]) == ("You know the weather.", 500)
    again = session.before_model({**request, "turns": [*request["turns"], *turns[1:3]]}, window=8_000)
    assert again["turns"][: len(request["turns"])] == request["turns"]
    reading = session.take_reading(window=8_000)
    assert reading.source == "reported"
    assert reading.tokens >= 3_100


def test_a_request_is_compacted_by_the_gateway(printed: dict[str, Any]) -> None:
    """Its model writes the summary, and what it looks up of the hidden part stands in the last request."""
    turns, response = printed["turns"], printed["response"]
    assert (response.status_code, response.json()["turn"]) == (200, {"role": "bot", "say": "It is dry."})
    before, after = map(int, response.headers["x-tenfold-tokens"].split("->"))
    assert before > 8_000 > after
    assert {request.path for request in printed["got"]} == {b"/talk"}
    *summaries, first, last = [json.loads(request.body) for request in printed["got"]]
    assert summaries
    assert all("tools" not in each and each["limit"] > 500 and each["model"] == "small" for each in summaries)
    assert first["turns"][0] == turns[0]
    assert len(first["turns"]) < len(turns)
    assert first["turns"][-1] == turns[-1]
    assert any("<tenfold-summary" in turn["say"] for turn in first["turns"])
    assert validate(first["turns"], "toy") == []
    assert (first["persona"], first["limit"], first["model"]) == ("You know the weather.", 500, "small")
    assert [tool["name"] for tool in first["tools"]] == ["look", "recall_search", "recall_read", "recall_expand"]
    assert last["turns"][:-2] == first["turns"]
    assert "grey, dry" in last["turns"][-1]["say"]


@pytest.mark.usefixtures("printed")
def test_a_message_of_another_provider_is_rendered_and_its_losses_are_named() -> None:
    parts = (Thinking("hm"), Text("a"), Image(url="https://example.org/x"), Document("n"), ToolCall("c1", "f", "[1]"))
    foreign = WIRES["openai-chat"].decode([b'{"role":"assistant","content":"first"}'])
    messages = [
        *foreign,
        Message("assistant", (*parts, OpaquePart("odd", b"{}")), "model"),
        Message("tool", (ToolResult("c1", "f", (Text("done"),)),), "tool"),
        Message("system", (Text("Be brief."),), "harness"),
    ]
    encoded = WIRES["toy"].encode(messages)
    assert [json.loads(item.raw) for item in encoded.items[1:]] == [
        {"role": "bot", "say": "first"},
        {
            "role": "bot",
            "say": "a\n[image not shown]\n[document n not shown]",
            "uses": [{"id": "c1", "tool": "f", "args": {"_raw": "[1]"}}],
        },
        {"role": "tool", "say": "done", "for": "c1"},
        {"role": "user", "say": "<system-note>\nBe brief.\n</system-note>"},
    ]
    assert [adjustment.kind for adjustment in encoded.adjustments] == [
        "opening_stub", "thinking_dropped", "image_dropped", "document_dropped", "opaque_dropped", "arguments_wrapped",
        "system_folded",
    ]  # fmt: skip
    again = WIRES["toy"].decode([item.raw for item in encoded.items])
    assert [(item.raw, item.exact) for item in WIRES["toy"].encode(again).items] == [
        (item.raw, True) for item in encoded.items
    ]


@pytest.mark.usefixtures("printed")
def test_system_texts_of_ours_go_where_the_provider_takes_them() -> None:
    add_system = WIRES["toy"].profile.add_system
    assert add_system is not None
    assert add_system({"turns": [], "persona": "A."}, ["B."]) == {"turns": [], "persona": "A.\n\nB."}
    leading = Message("system", (Text("Be brief."),), "harness")
    assert WIRES["toy"].encode([leading]).system == ("Be brief.",)
