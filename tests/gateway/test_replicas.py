"""Several gateways share one PostgreSQL, and no client sticks to one of them."""

from __future__ import annotations

import itertools
import re
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tenfold.store.location import open_store
from tests.gateway.conversations import KINDS, list_sessions
from tests.gateway.program import ServeProgram
from tests.gateway.replicas import ANSWER, FLAGS, begin_talk, go_on, send_until_answered
from tests.gateway.serving import RawUpstream, serve_gateway
from tests.postgres import create_database

GATEWAYS = 2
_MADE_HERE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{21}|hash=\\?\"[0-9a-f]+")
"""What differs from run to run: ids are made from the time, and a summary's hash covers its id."""


def test_any_replica_sends_the_same_bytes() -> None:
    """The provider gets what it would get from one gateway, whichever of them a request comes to."""
    sent: list[list[str]] = []
    for count in (1, GATEWAYS):
        talk, turn = begin_talk("chat", "same", 20), itertools.count()
        with ExitStack() as stack:
            database = stack.enter_context(create_database())
            upstream = stack.enter_context(RawUpstream(ANSWER))
            gateways = [stack.enter_context(ServeProgram(database, upstream.url, *FLAGS)) for _ in range(count)]
            for gateway in gateways:
                gateway.wait_until_ready()
            urls = [gateway.url for gateway in gateways]
            for _ in range(16):
                go_on(talk)
                send_until_answered(talk, urls, turn)
            bodies = [_MADE_HERE.sub("*", got.body.decode()) for got in upstream.requests]
            sent.append(bodies)
    one, several = sent
    assert any("tenfold-summary" in body for body in one), "nothing was compacted"
    assert several == one


@pytest.mark.parametrize("kind", KINDS)
def test_the_very_next_request_of_a_new_conversation_may_come_to_another(kind: str, tmp_path: Path) -> None:
    """Whatever a gateway has answered, another knows of."""
    with ExitStack() as stack:
        upstream = stack.enter_context(RawUpstream(ANSWER))
        stores = [stack.enter_context(closing(open_store(tmp_path / "store.db"))) for _ in range(2)]
        served = [stack.enter_context(serve_gateway(upstream.url, store=s, window=100_000)) for s in stores]
        for number in range(6):
            talk = begin_talk(kind, f"t{number}", 1)
            for turn in range(4):
                sent = talk.send(served[(number + turn) % 2].url)
                assert sent.status_code == 200
                go_on(talk)
        assert len(list_sessions(stores[0])) == 6, "one session for each conversation"
