"""The lookup tools that the gateway adds take their part of the window, as the client's own tools do."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tenfold.apps.gateway.live_sessions import PreparedRequest
from tenfold.core.meter.counters import choose_counter, get_family_factor, measure_messages
from tenfold.session.requests import read_request
from tenfold.store.base import Store
from tests.gateway.conversations import KINDS, Talk
from tests.gateway.loose_sessions import LooseSessions, go_on
from tests.gateway.recall_setting import RECALLS

WINDOW = 16_000
"""That of `LooseSessions`."""


def measure(prepared: PreparedRequest) -> int:
    """Counts all that is sent, as a provider does that counts by our tokenizer for its model."""
    sent = prepared.sent
    counter = choose_counter(sent.model).counter
    read = read_request(sent.build_mapping(), wire=sent.wire)
    counted = sum(counter.count(list(read.overhead_texts))) + sum(measure_messages(read.messages, counter))
    return round(get_family_factor(sent.model, counter.name) * counted)


@pytest.mark.parametrize("kind", KINDS)
def test_the_recall_tools_are_counted_from_the_first_request_that_has_them(kind: str, store: Store) -> None:
    async def run() -> None:
        talk = Talk(kind)
        talk.add_user()
        talk.add_steps(90, 120)
        async with httpx.AsyncClient(timeout=500) as client:
            sessions = LooseSessions(store, client)
            for count in range(1, 300, 13):
                talk.tools = [f"look{number:03}" for number in range(count)]
                go_on(talk).add_step(120)
                prepared = await sessions.prepare(talk)
                has_recall = [f'"name":"{name}"'.encode() in prepared.sent.body for name in RECALLS]
                assert has_recall == [prepared.has_recall] * len(RECALLS)
                assert prepared.has_recall or measure(prepared) + 200 > WINDOW, (
                    "they are left out where they do not fit"
                )
                assert prepared.tokens_after == measure(prepared)
                assert measure(prepared) <= WINDOW
                assert prepared.lane is not None
                await prepared.lane.finish_later_work()

    asyncio.run(run())


def test_what_is_undone_is_sent_without_the_tools_and_counted_so(store: Store) -> None:
    async def run() -> None:
        talk = Talk("chat")
        talk.add_user()
        talk.add_steps(60, 40)
        async with httpx.AsyncClient(timeout=500) as client:
            sessions = LooseSessions(store, client)
            lane = await sessions.learn(talk)
            session = lane.session.session
            session.compact(to=2_000)
            assert (await sessions.prepare(go_on(talk))).has_recall
            await lane.finish_later_work()
            session.undo()
            whole = await sessions.prepare(go_on(talk))
            await lane.finish_later_work()
            assert not whole.has_recall
            assert b"recall_" not in whole.sent.body
            assert session.take_reading(floor=session.conversation.sent_overhead).tokens == measure(whole)

    asyncio.run(run())
