"""What grows beside the messages is seen before a request is sent on unlooked-at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tenfold.store.base import Store
from tests.gateway.conversations import KINDS, Talk
from tests.gateway.loose_sessions import LooseSessions, go_on

LIMITS: dict[str, dict[str, Any]] = {
    "chat": {"max_tokens": 15_500},
    "messages": {"max_tokens": 15_500},
    "responses": {"max_output_tokens": 15_500},
    "generate": {"generationConfig": {"maxOutputTokens": 15_500}},
}


def grow_system(talk: Talk) -> None:
    talk.system = "Keep to all of this. " * 3_000
    if talk.kind == "chat":
        talk.items[0] = {"role": "system", "content": talk.system}


def grow_tools(talk: Talk) -> None:
    talk.tools = [f"look{number:05}" for number in range(700)]


def grow_answer(talk: Talk) -> None:
    talk.extra = LIMITS[talk.kind]


def grow_nothing(_: Talk) -> None:
    pass


@pytest.mark.parametrize(
    ("grow", "least"), [(grow_nothing, 0), (grow_system, 9_000), (grow_tools, 9_000), (grow_answer, 0)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_a_request_that_grew_beside_its_list_is_looked_at(
    kind: str, grow: Callable[[Talk], None], least: int, store: Store
) -> None:
    """Its session then counts what grew, also where it stands in the list and the log keeps the first one."""

    async def run() -> None:
        talk = Talk(kind)
        async with httpx.AsyncClient(timeout=500) as client:
            sessions = LooseSessions(store, client)
            talk.add_user()
            talk.add_steps(2)
            for _ in range(2):
                await sessions.learn(go_on(talk))
            grow(talk)
            prepared = await sessions.prepare(go_on(talk))
            assert (prepared.pending is not None) is (grow is grow_nothing), prepared.reason
            assert prepared.tokens_after >= least
            assert prepared.lane is not None
            await prepared.lane.finish_later_work()

    asyncio.run(run())
