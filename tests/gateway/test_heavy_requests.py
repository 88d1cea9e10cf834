"""A request too large to be looked at on the way is looked at in a thread, or goes as it came with the reason."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tenfold.apps.gateway.heavy_requests import (
    LARGE_BODY,
    MANY_VALUES,
    MAX_TEXT,
    MAX_VALUES,
    PLACES,
    HeavyRequests,
    find_bulk,
    is_heavy,
)
from tenfold.apps.gateway.live_sessions import PreparedRequest
from tenfold.apps.gateway.model_request import ModelRequest, count_marks, parse_request
from tenfold.store.base import Store
from tests.gateway.conversations import PATHS, Talk, list_sessions, post
from tests.gateway.loose_sessions import LooseSessions
from tests.gateway.serving import run_gateway

Json = dict[str, Any]
MANY_MESSAGES = MANY_VALUES // 3
MANY: Json = {
    "messages": [{"role": ("user", "assistant")[n % 2], "content": f"{n}"} for n in range(MAX_VALUES // 3 + 1)]
}


def build_list(*texts: object, **fields: object) -> bytes:
    """A conversation of the user and the model in turns."""
    items = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
    return json.dumps({"model": "gpt-4o", "messages": items, **fields}).encode()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (build_list("x" * (MAX_TEXT + 1), "Yes.", "Go on."), f"{MAX_TEXT:,} are looked at"),
        (build_list("a", "b", "c", tools=["x" * (MAX_TEXT + 1)]), f"{MAX_TEXT:,} are looked at"),
        (json.dumps({"model": "gpt-4o", **MANY}).encode(), f"{MAX_VALUES:,} are looked at"),
        (build_list("a", "b", [{"type": "text", "text": "c"}] * (MAX_VALUES // 3)), f"{MAX_VALUES:,} are looked at"),
        (build_list("a", "b", "c").replace(b'"c"', b"[" * MAX_VALUES + b"]" * MAX_VALUES), f"{MAX_VALUES:,} are look"),
    ],
    ids=["a message", "tools", "a list", "parts", "parts in parts"],
)
def test_what_is_too_large_goes_as_it_came_with_the_reason(body: bytes, reason: str, store: Store) -> None:
    with run_gateway(store=store, window=16_000, summary_model="auto") as (upstream, gateway):
        answer = post(gateway.url, "chat", body)
        view = httpx.post(
            f"{gateway.url}/tenfold/view",
            content=b'{"wire":"openai-chat",' + body[1:],
            headers={"content-type": "application/json"},
            timeout=500,
        )
        assert [got.body for got in upstream.requests] == [body]
    assert answer.status_code == 200
    assert reason in answer.headers["x-tenfold-bypass"]
    assert (view.status_code, reason in view.text) == (413, True)
    assert list_sessions(store) == []


def test_an_image_is_no_text() -> None:
    """However large it is, the session goes on."""
    data = "data:image/png;base64," + base64.b64encode(b"\0" * MAX_TEXT).decode()
    talk = Talk("chat")
    talk.add_user()
    talk.items[-1]["content"] = [{"type": "image_url", "image_url": {"url": data}}, {"type": "text", "text": "Look."}]
    talk.add_answer()
    talk.add_user()
    with run_gateway(window=1_000_000, summary_model="auto") as (upstream, gateway):
        answer = talk.send(gateway.url)
        assert len(upstream.requests) == 1
    assert "x-tenfold-bypass" not in answer.headers
    assert answer.headers["x-tenfold-session"]


def count_turns(store: Store, request: ModelRequest, check: Callable[[], None]) -> PreparedRequest:
    """Prepares a request while the loop counts its own turns, and runs `check` at each."""

    async def run() -> PreparedRequest:
        async with httpx.AsyncClient(timeout=500) as client:
            loose = LooseSessions(store, client)
            preparing = asyncio.ensure_future(loose.prepare_request(request))
            while not preparing.done():
                check()
                await asyncio.sleep(0.001)
            await loose.sessions.lanes.finish_later_work()
            return preparing.result()

    return asyncio.run(run())


@pytest.mark.parametrize(
    "body",
    [
        build_list(*(f"message {n}" for n in range(MANY_MESSAGES + 1))),
        build_list("look at this: " + "word " * (LARGE_BODY // 5), "Yes.", "Go on."),
    ],
    ids=["a list", "a message"],
)
def test_the_loop_turns_while_a_heavy_request_is_looked_at(body: bytes, store: Store) -> None:
    """It is compacted as any other."""
    request = parse_request(PATHS["chat"], body)
    assert request is not None
    turns: list[int] = []
    prepared = count_turns(store, request, lambda: turns.append(1))
    assert prepared.compaction == "compacted"
    assert len(prepared.sent.body) < len(body) / 2
    assert len(turns) > 20
    assert len(list_sessions(store)) == 1


VALUES: dict[str, tuple[bytes, bool]] = {
    "parts": (b'{"content":[' + b'{"type":"text","text":"a, b"},' * MAX_VALUES, True),
    "numbers": (b"[" + b"1," * MAX_VALUES + b"1,1]", True),
    "a long text": (b'["' + b"a," * (MAX_VALUES + 1) + b'"]', False),
    "quotes in a text": (b'["' + b'a,\\",' * MAX_VALUES + b'","b"]', False),
    "a text that never ends": (b'{"a":1,"b":"' + b'x,\\"' * (MAX_VALUES + 1) + b"\\", False),
    "commas after quotes": (b'"",' * (MAX_VALUES + 1), True),
    "lists in lists": (b"[" * (MAX_VALUES + 1), True),
    "objects in objects": (b'{"a":' * (MAX_VALUES + 1), True),
    "brackets in a text": (b'["' + b'[{\\"[' * MAX_VALUES + b'"]', False),
}


@pytest.mark.parametrize("kind", VALUES)
def test_values_are_counted_outside_of_texts(kind: str) -> None:
    body, expected = VALUES[kind]
    assert bool(find_bulk(body, count_marks(body))) is expected


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (json.dumps([{"type": "text", "text": "c"}] * MANY_VALUES).encode(), True),
        (b"[" * MANY_VALUES + b"]" * MANY_VALUES, True),
        (json.dumps("a, b, [c " * MANY_VALUES).encode(), False),
    ],
    ids=["parts", "parts in parts", "a long text"],
)
def test_many_parts_of_one_message_are_heavy_and_a_long_text_is_not(content: bytes, *, expected: bool) -> None:
    request = parse_request(PATHS["chat"], build_list("a", "b", "c").replace(b'"c"', content))
    assert request is not None
    assert is_heavy(request) is expected


def test_a_few_heavy_requests_are_looked_at_at_a_time_and_light_ones_wait_for_none() -> None:
    heavy = parse_request(PATHS["chat"], build_list(*("m" for _ in range(MANY_MESSAGES + 1))))
    light = parse_request(PATHS["chat"], build_list("a", "b", "c"))
    assert heavy is not None
    assert light is not None

    async def run() -> list[int]:
        limit, running, seen = HeavyRequests(), 0, []
        gate, full = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            nonlocal running
            async with limit.hold(heavy):
                running += 1
                seen.append(running)
                if running == PLACES:
                    full.set()
                await gate.wait()
                running -= 1

        tasks = [asyncio.ensure_future(hold()) for _ in range(PLACES + 3)]
        await full.wait()
        async with limit.hold(light) as excess:
            assert (excess, running) == ("", PLACES)
        gate.set()
        await asyncio.gather(*tasks)
        return seen

    assert max(asyncio.run(run())) == PLACES
