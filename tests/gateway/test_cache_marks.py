"""The mark behind what a compaction replaced: Anthropic takes four at most, and none of an hour behind one of less."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from tenfold.apps.gateway.model_request import ModelRequest, parse_body
from tests.gateway.conversations import Talk, build_text
from tests.gateway.serving import run_gateway

Json = dict[str, Any]
HOUR: Json = {"type": "ephemeral", "ttl": "1h"}
SHORT: Json = {"type": "ephemeral", "ttl": "5m"}
PLAIN: Json = {"type": "ephemeral"}
SPACED = '{ "ttl": "1h", "type" :"ephemeral" }'
TOP = "top"


def build_request(places: dict[str, Json]) -> tuple[ModelRequest, list[bytes]]:
    """A view of six messages, of which the first two are not the client's, with the client's marks at some places."""
    tool: Json = {"name": "look", "input_schema": {"type": "object"}}
    system = build_text('Be brief. A text says "cache_control": {"type": "ephemeral"}.')
    messages: list[Json] = [
        {"role": "assistant" if n % 2 else "user", "content": [build_text(f"text {n}")]} for n in range(6)
    ]
    fields: Json = {"model": "claude-opus-4-6", "tools": [tool], "system": [system], "messages": messages}
    for place, mark in places.items():
        if place == TOP:
            fields["cache_control"] = mark
        else:
            holder = {"tools": tool, "system": system}.get(place) or messages[int(place)]["content"][0]
            holder["cache_control"] = mark
    request = parse_body("anthropic", json.dumps(fields).encode())
    assert request is not None
    return request, request.items[2:]


def list_marks(body: bytes) -> list[Json]:
    """All marks in the order in which the provider reads them."""
    fields = json.loads(body)
    blocks = [*fields.get("tools", ()), *fields.get("system", ())]
    for message in fields["messages"]:
        blocks += message["content"] if isinstance(message["content"], list) else ()
    top = [fields["cache_control"]] if fields.get("cache_control") else []
    return [block["cache_control"] for block in blocks if block.get("cache_control")] + top


def find_refusal(body: bytes) -> str:
    """What the provider would say of the marks, "" if it takes them."""
    marks = list_marks(body)
    if len(marks) > 4:
        return f"A maximum of 4 blocks with cache_control may be provided. Found {len(marks)}."
    lives = [mark.get("ttl", "5m") for mark in marks]
    is_late = any(a == "5m" and b == "1h" for a, b in itertools.pairwise(lives))
    return "a ttl='1h' cache_control block must not come after a ttl='5m' block" if is_late else ""


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ({"5": HOUR}, HOUR),
        ({"4": HOUR, "5": SHORT}, HOUR),
        ({"system": HOUR, "5": PLAIN}, PLAIN),
        ({"tools": HOUR, "system": HOUR, "3": SHORT}, SHORT),
        ({"tools": HOUR}, HOUR),
        ({"tools": HOUR, "system": SHORT}, SHORT),
        ({"system": HOUR, "0": HOUR}, HOUR),
        ({TOP: HOUR}, HOUR),
        ({TOP: PLAIN, "system": HOUR}, PLAIN),
        ({TOP: PLAIN, "system": HOUR, "4": HOUR}, HOUR),
        ({TOP: HOUR, "tools": HOUR, "system": HOUR, "4": HOUR}, None),
        ({"tools": HOUR, "system": HOUR, "4": HOUR, "5": HOUR}, None),
        ({"1": HOUR}, None),
        ({}, None),
    ],
)
def test_a_mark_is_that_of_the_next_one_or_of_the_last(places: dict[str, Json], expected: Json | None) -> None:
    request, own = build_request(places)
    assert find_refusal(request.body) == "", "the client's own marks are in order"
    marked = request.with_cache_mark(own)
    assert find_refusal(marked.body) == ""
    if expected is None:
        assert marked is request
        return
    assert json.loads(marked.items[1])["content"][0]["cache_control"] == expected
    assert len(list_marks(marked.body)) == len(places) + 1


def test_a_mark_is_copied_as_it_is_written() -> None:
    request, own = build_request({"5": HOUR})
    last = request.items[5].replace(b'{"type": "ephemeral", "ttl": "1h"}', SPACED.encode())
    request = request.with_items([*request.items[:5], last])
    marked = request.with_cache_mark([*own[:3], last])
    assert marked.body.count(SPACED.encode()) == 2
    assert request.with_items([*request.items[:5], last.replace(SPACED.encode(), b"null")]).items[5] != last


@pytest.mark.parametrize("top", [False, True])
def test_marks_are_in_order_through_a_run(top: bool) -> None:  # noqa: FBT001 - the two ways to mark
    """As Claude Code marks: the system prompt and the end of the list, all of an hour."""
    talk = Talk("messages")
    talk.extra = {"system": [{**build_text("You look at parts."), "cache_control": HOUR}], "tools": None}
    with run_gateway(window=8_000, recall="none", summary_model="auto") as (upstream, gateway):
        talk.add_user()
        for _ in range(14):
            talk.add_answer("word " * 500)
            talk.add_user()
            marked = talk.copy()
            if top:
                marked.extra["cache_control"] = HOUR
            else:
                marked.items[-1]["content"] = [{**build_text(talk.items[-1]["content"]), "cache_control": HOUR}]
            assert marked.send(gateway.url).status_code == 200
        assert gateway.gateway.log.totals.compactions >= 1
    bodies = [got.body for got in upstream.requests if b"cache_control" in got.body]
    assert [find_refusal(body) for body in bodies] == [""] * len(bodies)
    assert max(len(list_marks(body)) for body in bodies) == 3
