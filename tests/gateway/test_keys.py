"""Keys of a store at the gateway and at the MCP server: each opens one namespace, and no provider sees it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from msgspec.structs import replace

from tenfold.apps.gateway.application import Gateway
from tenfold.apps.gateway.gateway_routes import GatewayRoutes
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.server import GatewayThread
from tenfold.config.settings import load_settings
from tenfold.errors import UsageError
from tenfold.store.access import AccessKey, create_key
from tenfold.store.base import Store
from tenfold.store.ids import get_current_time
from tenfold.store.location import open_store
from tests.gateway.conversations import Talk
from tests.gateway.serving import RawAnswer, RawUpstream, wait_until
from tests.store.build import Growing

ANSWER = RawAnswer((b'{"ok":', b"true}"), headers=((b"content-type", b"application/json"),))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = open_store(tmp_path / "store.db")
    yield made
    made.close()


def add_key(store: Store, name: str, namespace: str, **options: int) -> tuple[AccessKey, str]:
    """A key in the store, and its text."""
    key, text = create_key(name, namespace, get_current_time())
    key = replace(key, **options)
    store.save_key(key)
    return key, text


def make_talk(tag: str) -> Talk:
    talk = Talk("chat", tag)
    talk.add_user()
    talk.add_step()
    return talk


def test_each_key_opens_its_namespace_and_the_provider_sees_none(store: Store) -> None:
    (_, anna), (_, bob) = add_key(store, "anna", "north"), add_key(store, "bob", "south")
    with (
        RawUpstream(ANSWER) as upstream,
        GatewayThread(Gateway(GatewaySettings(port=0, upstream=upstream.url, window=50_000), store)) as served,
    ):
        url = served.url
        assert make_talk("x").send(url).status_code == 401
        assert make_talk("x").send(url, **{"x-tenfold-key": anna[:-3]}).status_code == 401
        sent: tuple[tuple[str, str, dict[str, str]], ...] = (
            ("a", url, {"x-tenfold-key": anna}),
            ("b", url, {"authorization": f"Bearer {bob}"}),
            ("c", url, {"x-api-key": bob}),
            ("d", f"{url}/{anna}", {}),
        )
        for tag, address, headers in sent:
            assert make_talk(tag).send(address, **headers).status_code == 200
        seen = [str(got.headers) + got.path.decode() for got in upstream.requests]
        assert len(seen) == 4
        assert not any("tenfold_" in each for each in seen), "the key is taken off"
        assert "sk-one" in seen[0], "the provider's own credentials pass"
        wait_until(lambda: len(store.list_sessions("north")) == len(store.list_sessions("south")) == 2)
    assert store.list_sessions("default") == []


def test_the_sessions_of_two_keys_are_apart_even_in_one_namespace(store: Store) -> None:
    keys = [add_key(store, name, "team")[1] for name in ("anna", "bob")]
    with (
        RawUpstream(ANSWER) as upstream,
        GatewayThread(Gateway(GatewaySettings(port=0, upstream=upstream.url, window=50_000), store)) as served,
    ):
        for key in keys:
            assert make_talk("same").send(served.url, **{"x-tenfold-key": key}).status_code == 200
        wait_until(lambda: len(store.list_sessions("team")) == 2)
        assert len(upstream.requests) == 2


def test_a_program_that_the_owner_of_a_store_wraps_needs_no_key(store: Store) -> None:
    add_key(store, "anna", "north")
    settings = GatewaySettings(window=50_000)
    with RawUpstream(ANSWER) as upstream, GatewayRoutes(settings, store, load_settings(environ={})) as routes:
        assert make_talk("a").send(routes.route_address(upstream.url)).status_code == 200


def test_a_revoked_key_ends_while_the_gateway_runs(store: Store) -> None:
    key, text = add_key(store, "anna", "north")
    with (
        RawUpstream(ANSWER) as upstream,
        GatewayThread(Gateway(GatewaySettings(port=0, upstream=upstream.url), store)) as served,
    ):
        assert make_talk("a").send(served.url, **{"x-tenfold-key": text}).status_code == 200
        store.save_key(replace(key, revoked=1))
        wait_until(lambda: make_talk("a").send(served.url, **{"x-tenfold-key": text}).status_code == 401)
        assert make_talk("a").send(served.url).status_code == 401, "a store without a valid key is not open"


def test_what_a_key_may_not_is_refused_with_the_reason(store: Store) -> None:
    reading = add_key(store, "reader", "north", is_read_only=True)[1]
    full = add_key(store, "full", "south", max_bytes=10)[1]
    one = add_key(store, "one", "west", max_requests=1)[1]
    gate = threading.Event()
    answer = RawAnswer(ANSWER.chunks, headers=ANSWER.headers, wait=gate)
    with (
        RawUpstream(answer) as upstream,
        GatewayThread(Gateway(GatewaySettings(port=0, upstream=upstream.url, window=50_000), store)) as served,
    ):
        refused = make_talk("a").send(served.url, **{"x-tenfold-key": reading})
        assert (refused.status_code, "this key reads only" in refused.text) == (403, True)
        running = threading.Thread(target=lambda: make_talk("b").send(served.url, **{"x-tenfold-key": one}))
        running.start()
        wait_until(lambda: bool(upstream.requests))
        busy = make_talk("c").send(served.url, **{"x-tenfold-key": one})
        assert (busy.status_code, busy.headers["retry-after"]) == (429, "1")
        assert "with the key of one that run already: 1" in busy.text
        gate.set()
        running.join()
        Growing(store, "big", namespace="south").say("more than ten bytes")
        over = make_talk("d").send(served.url, **{"x-tenfold-key": full})
        assert (over.status_code, over.headers["retry-after"]) == (429, "1")
        assert "south takes" in over.text


def test_a_key_for_one_request_at_a_time_serves_a_client_that_asks_one_after_the_other(store: Store) -> None:
    """What the gateway does after an answer is complete is no request any more."""
    one = add_key(store, "one", "west", max_requests=1)[1]
    with (
        RawUpstream(ANSWER) as upstream,
        GatewayThread(Gateway(GatewaySettings(port=0, upstream=upstream.url, window=50_000), store)) as served,
    ):
        talk = make_talk("a")
        assert [talk.send(served.url, **{"x-tenfold-key": one}).status_code for _ in range(30)] == [200] * 30


def test_a_gateway_that_others_reach_needs_a_key_of_either_kind(store: Store) -> None:
    settings = GatewaySettings(host="0.0.0.0", port=0)  # noqa: S104 - that it is refused is the point
    with pytest.raises(UsageError, match="needs a key: make one with `tenfold keys create NAME`"):
        Gateway(settings, store)
    add_key(store, "anna", "north")
    Gateway(settings, store)
    Gateway(replace(settings, key="k"), store)


def test_without_keys_nothing_changes(store: Store) -> None:
    with (
        RawUpstream(ANSWER) as upstream,
        GatewayThread(Gateway(GatewaySettings(port=0, upstream=upstream.url), store)) as served,
    ):
        assert httpx.get(f"{served.url}/healthz").status_code == 200
        assert make_talk("a").send(served.url).status_code == 200
        assert make_talk("a").send(served.url, **{"x-tenfold-key": "stale"}).status_code == 200
