"""Which lane a request is given, before its session knows of the one before."""

from __future__ import annotations

import json

from tenfold.config.presets import get_preset
from tenfold.gateway.lanes import Family, LaneTable
from tenfold.gateway.model_request import ModelRequest, parse_request
from tenfold.meter.counters import choose_counter
from tenfold.session import Session, SessionAddress
from tenfold.store.base import SessionInfo
from tenfold.store.location import open_store

FAMILY = Family("tenant", "openai-chat", "key")


def build_request(steps: int, *, last: str = "") -> ModelRequest:
    """A request after so many steps, with another text at the end if one is given."""
    messages = [{"role": "user", "content": "Look at it."}]
    for number in range(steps):
        messages.append({"role": "assistant", "content": f"Step {number}."})
        messages.append({"role": "user", "content": f"And part {number}?"})
    if last:
        messages[-1]["content"] = last
    request = parse_request("/v1/chat/completions", json.dumps({"model": "m", "messages": messages}).encode())
    assert request is not None
    return request


def open_table() -> LaneTable:
    """A table over a store in memory."""
    store = open_store(":memory:")
    policy = get_preset("tenfold")(choose_counter(None).counter)

    def open_session(address: SessionAddress, model: str, info: SessionInfo | None) -> Session:
        return Session.create(address, policy, model=model, info=info) if info else Session(address, policy)

    return LaneTable(store, open_session, namespace="default", limit=16)


def test_the_next_request_finds_its_lane_before_the_session_knows_of_the_last_one() -> None:
    table = open_table()
    first = table.find_lane(FAMILY, build_request(1))
    assert table.find_lane(FAMILY, build_request(2)) is first
    assert table.find_known_lane(FAMILY, build_request(3)) is first
    assert first.synced_count == 0


def test_two_conversations_that_differ_have_two_lanes_at_once() -> None:
    table = open_table()
    first = table.find_lane(FAMILY, build_request(2))
    other = table.find_lane(FAMILY, build_request(2, last="Something else."))
    assert other is not first
    assert table.find_known_lane(FAMILY, build_request(3)) is first
