"""Agents with the official clients work through a gateway in a small window, and the upstream refuses nothing."""

from __future__ import annotations

import msgspec
import pytest

from tenfold.core.view.rules import check_messages
from tenfold.core.wire import get_wire
from tenfold.store.location import open_store
from tests.designs.hosts import HOSTS, Host
from tests.gateway.serving import build_script, fill, run_loopback
from tests.models.loopback import Got

WINDOW = 16_000
WIRES = {"chat": "openai-chat", "responses": "openai-responses", "messages": "anthropic"}


def run_agent(host: Host, url: str, steps: int) -> None:
    """Takes so many steps with a client that resends its whole history."""
    with host.open_client(url) as client:
        host.add({"role": "user", "content": "Look at all parts of the program. Never touch config/secret.toml."})
        for number in range(steps):
            calls = host.read_answer(host.get_call(client)(**host.build_request()))
            host.add_results({call: fill(number) for call, _, _ in calls})


def find_problems(got: Got) -> list[str]:
    """What a strict provider would refuse in a request."""
    wire = get_wire(WIRES[got.api])
    items = got.body[wire.profile.request.list_field]
    messages = wire.decode([msgspec.json.encode(item) for item in items])
    return [v.problem for v in check_messages(messages, wire.name, sending=True)]


@pytest.mark.parametrize("kind", HOSTS)
def test_a_client_stays_within_the_window_and_is_never_refused(kind: str) -> None:
    with run_loopback(build_script(), window=WINDOW) as (upstream, gateway):
        host = HOSTS[kind](keeps_own=True)
        run_agent(host, gateway.url, 60)
        calls = [got for got in upstream.requests if got.body.get("tools")]
        assert len(calls) == 60
        assert max(got.size for got in calls) < WINDOW * 4  # the server counts a token for four bytes
        assert len(host.said) > 120, "the client has its whole history"
        assert [problem for got in calls for problem in find_problems(got)] == []
        assert "Never touch config/secret.toml." in calls[-1].prompt
        totals = gateway.gateway.log.totals
        assert totals.compactions >= 3
        assert totals.tokens_after < totals.tokens_before * 0.6  # 0.48, and more where the background work comes later


@pytest.mark.parametrize("kind", HOSTS)
def test_the_session_can_be_searched_and_nothing_of_it_is_lost(kind: str) -> None:
    store = open_store(":memory:")
    with run_loopback(build_script(), window=WINDOW, store=store) as (_upstream, gateway):
        run_agent(HOSTS[kind](keeps_own=True), gateway.url, 40)
        (session,) = gateway.gateway.log.totals.sessions
    hits = store.search("default", "line3x27", session=session)
    assert hits, "what was hidden long ago is found"
    (row,) = store.list_sessions("default")
    assert row.block_count >= 1
    store.close()
