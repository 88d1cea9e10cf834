"""Requests as they happen: what gateways tell and what the store shows, to each visitor that of the own namespace."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import count
from pathlib import Path

import httpx
import pytest
import uvicorn
from msgspec.structs import replace
from starlette.testclient import TestClient

from tenfold.apps.gateway.application import Gateway
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.server import GatewayThread, ServerThread
from tenfold.apps.inspector.application import Inspector
from tenfold.apps.inspector.live import (
    GatewayState,
    LiveItem,
    LiveRequest,
    StoreWatch,
    find_near,
    follow_gateway,
    follow_store,
    put_off,
)
from tenfold.apps.inspector.visits import OpenSessions, PageSources
from tenfold.session import Session, SessionAddress
from tenfold.store.base import SessionInfo, Store
from tenfold.store.location import open_store
from tests.engine.making import make_reply, make_user_message
from tests.gateway.serving import RawAnswer, RawUpstream, wait_until
from tests.gateway.test_keys import add_key, make_talk
from tests.inspector.browser import Browser
from tests.inspector.conftest import Keeper
from tests.inspector.sessions import MARKUP, make_session

ANSWER = RawAnswer((b'{"ok":true}',), headers=((b"content-type", b"application/json"),))
WINDOW = 50_000
HOST = "http://127.0.0.1"


@pytest.fixture
def sessions(store: Store, keeper: Keeper) -> OpenSessions:
    """The sessions of the store as the pages hold them."""
    return OpenSessions(store, keeper, None)


@pytest.fixture
def gateway(store: Store) -> Iterator[str]:
    """The address of a gateway over the store."""
    settings = GatewaySettings(port=0, window=WINDOW)
    with RawUpstream(ANSWER) as upstream, GatewayThread(Gateway(replace(settings, upstream=upstream.url), store)) as it:
        yield it.url


async def collect(items: AsyncIterator[LiveItem], count: int) -> tuple[list[LiveRequest], list[GatewayState]]:
    """The first so many requests, and the states that came before them."""
    requests: list[LiveRequest] = []
    states: list[GatewayState] = []
    async for item in items:
        if isinstance(item, GatewayState):
            states.append(item)
        else:
            requests += item
        if len(requests) >= count and states:
            return requests, states
    raise AssertionError("it ended")


def make_near_session(store: Store) -> tuple[Session, int]:
    """A session that has had a request just now, and the window of which it takes three quarters."""
    session = make_session(store, "near", steps=12)
    return session, session.take_reading().tokens * 4 // 3


# -- what a gateway tells ----------------------------------------------------------------------------------------------


def test_a_gateway_tells_of_each_request(gateway: str, sessions: OpenSessions) -> None:
    make_talk("x").send(gateway)
    requests, states = asyncio.run(collect(follow_gateway(gateway, "", sessions, "default"), 1))
    assert states == [GatewayState(gateway, is_heard=True)]
    (request,) = requests
    (row,) = sessions.store.list_sessions("default")
    assert request.session == row.info.id
    assert (request.model, request.window, request.state) == ("gpt-4o", WINDOW, "unchanged")
    assert "do not reach the trigger" in request.why
    assert 0 < request.tokens == request.unhidden
    assert request.saved_tokens == 0


def test_several_gateways_are_heard_side_by_side_and_a_lost_one_is_named(store: Store, keeper: Keeper) -> None:
    settings = GatewaySettings(port=0, window=WINDOW)
    with (
        RawUpstream(ANSWER) as upstream,
        GatewayThread(Gateway(replace(settings, upstream=upstream.url), store)) as first,
        GatewayThread(Gateway(replace(settings, upstream=upstream.url), store)) as second,
    ):
        urls = (first.url, second.url, "http://127.0.0.1:9")
        for number, url in enumerate(urls[:2]):
            make_talk(f"t{number}").send(url)
        said = read_stream(
            Inspector(store, keeper, sources=PageSources(urls)),
            [*urls[:2], "is not heard: it does not answer", "unchanged", "unchanged"],
        )
    assert said.count("is not heard: it does not answer") >= 1


def read_stream(inspector: Inspector, wanted: Sequence[str], *, key: str = "") -> str:
    """What the browser is sent until all of these were in it, as often as they are named."""
    config = uvicorn.Config(inspector.application, port=0, log_config=None, ws="none", timeout_graceful_shutdown=1)
    said = ""
    with ServerThread(config) as server, httpx.Client(base_url=server.url, follow_redirects=True, timeout=60) as client:
        if key:
            client.post("/sign-in", data={"key": key})
        else:
            client.get(f"/?token={inspector.gate.token}")
        assert client.get("/live").status_code == 200
        with client.stream("GET", "/live/events") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            for piece in answer.iter_text():
                said += piece
                if all(said.count(each) >= wanted.count(each) for each in wanted):
                    return said
    raise AssertionError(f"it ended with {said!r}")


def test_a_wrong_key_of_a_gateway_is_said(store: Store, sessions: OpenSessions) -> None:
    with GatewayThread(Gateway(GatewaySettings(port=0, key="secret"), store)) as served:

        async def find_state(key: str) -> LiveItem:
            async for item in follow_gateway(served.url, key, sessions, "default"):
                return item
            raise AssertionError

        for key, state in (("wrong", "it does not take this key"), ("secret", "")):
            assert asyncio.run(find_state(key)) == GatewayState(served.url, is_heard=not state, reason=state)


def test_a_visitor_sees_the_requests_of_the_own_key_alone(store: Store, keeper: Keeper) -> None:
    """The gateway is asked with the visitor's key, and what it might tell of others is left out besides."""
    (_, anna), (_, bob) = add_key(store, "anna", "north"), add_key(store, "bob", "south")
    settings = GatewaySettings(port=0, window=WINDOW)
    with (
        RawUpstream(ANSWER) as upstream,
        GatewayThread(Gateway(replace(settings, upstream=upstream.url), store)) as served,
    ):
        for key, tag in ((anna, "a"), (bob, "b")):
            make_talk(tag).send(served.url, **{"x-tenfold-key": key})
        mine, others = (next(iter(store.list_sessions(name))).info.id for name in ("north", "south"))
        inspector = Inspector(store, keeper, host="0.0.0.0", sources=PageSources((served.url,)))  # noqa: S104 - shared, with keys
        said = read_stream(inspector, [mine], key=anna)
        assert others not in said
        wait_until(lambda: [line for line in store.read_record() if line.action == "watch requests"])


def test_events_of_another_namespace_are_left_out_whatever_a_gateway_tells(
    gateway: str, sessions: OpenSessions
) -> None:
    make_talk("x").send(gateway)

    async def watch() -> LiveItem:
        async for item in follow_gateway(gateway, "", sessions, "elsewhere"):
            if not isinstance(item, GatewayState):
                return item
        raise AssertionError

    assert asyncio.run(watch()) == ()


# -- what the store shows ----------------------------------------------------------------------------------------------


def test_the_store_shows_what_another_process_appends(tmp_path: Path, keeper: Keeper) -> None:
    place, other = open_store(tmp_path / "s.db"), open_store(tmp_path / "s.db")
    sessions = OpenSessions(place, keeper, None)
    session = make_session(other, steps=4)
    watch = StoreWatch(sessions, "default")
    assert watch.look(without_gateways=False) == ()
    assert watch.look(without_gateways=False) == ()
    session.append(make_user_message("on"), make_reply("yes"))
    (grown,) = watch.look(without_gateways=False)
    assert (grown.session, grown.title, grown.state) == ("work", "The work of work", "grown")
    assert grown.why.startswith("2 messages came; the store does not hold why")
    assert 0 < grown.tokens == grown.unhidden
    session.compact(to="20%")
    (compacted,) = watch.look(without_gateways=False)
    assert compacted.state == "compacted"
    assert 0 < compacted.tokens < grown.tokens
    assert compacted.saved_tokens > 0
    session.undo()
    assert [each.state for each in watch.look(without_gateways=False)] == ["undone"]
    session.add_rule("Be brief.")
    assert watch.look(without_gateways=False) == (), "a rule is no request"
    make_session(other, "second", steps=1)
    assert [each.session for each in watch.look(without_gateways=False)] == ["second"]
    for store in (place, other):
        store.close()


def test_gateways_sessions_are_left_to_the_gateways_that_are_heard(store: Store, sessions: OpenSessions) -> None:
    watch = StoreWatch(sessions, "default")
    watch.look(without_gateways=True)
    for name in ("gateway-1234-0", "own"):
        make_session(store, name, steps=1)
    assert [each.session for each in watch.look(without_gateways=True)] == ["own"]
    make_session(store, "gateway-1234-1", steps=1)
    assert [each.session for each in watch.look(without_gateways=False)] == ["gateway-1234-1"]


def test_a_store_is_followed_until_nobody_listens(store: Store, sessions: OpenSessions) -> None:
    make_session(store, steps=1)

    async def watch() -> Sequence[LiveRequest]:
        items = follow_store(sessions, "default", lambda: False)
        waiting = asyncio.ensure_future(anext(items))
        await asyncio.sleep(0.1)
        await asyncio.to_thread(make_session, store, "new", steps=1)
        found = await waiting
        await items.aclose()
        assert isinstance(found, tuple)
        return found

    assert [each.session for each in asyncio.run(watch())] == ["new"]


def test_without_a_gateway_the_page_says_that_the_store_is_followed(store: Store, keeper: Keeper) -> None:
    inspector = Inspector(store, keeper)
    session = make_session(store, steps=1)
    appending = threading.Timer(1.0, lambda: session.append(make_user_message(MARKUP), make_reply("yes")))
    appending.start()
    said = read_stream(inspector, ["Sessions are followed in the store", "2 messages came"])
    appending.join()
    assert "is not heard" not in said
    assert re.search(r"event: (history|request)\ndata: <tr", said)


def test_names_in_requests_are_text(store: Store, keeper: Keeper) -> None:
    session = make_session(store, steps=1)
    store.create("default", replace(SessionInfo("work"), title=MARKUP, client=MARKUP, model=MARKUP))
    threading.Timer(1.0, lambda: session.append(make_user_message("on"))).start()
    said = read_stream(Inspector(store, keeper), ["1 message came"])
    assert MARKUP not in said
    assert "&lt;script&gt;" in said


# -- the notice --------------------------------------------------------------------------------------------------------


def test_a_session_near_its_trigger_has_a_notice_until_it_is_put_off(store: Store, sessions: OpenSessions) -> None:
    session, window = make_near_session(store)
    opened = sessions.open("default", "near")
    near = find_near(opened, window)
    assert near is not None
    assert (near.title, near.window) == ("The work of near", window)
    assert near.tokens < near.trigger
    assert find_near(opened, 100 * window) is None, "of a large window it takes little"
    put_off(opened, window)
    assert find_near(opened, window) is None
    session.append(make_user_message("go on, please " * (window // 20)))
    assert find_near(opened, window) is not None, "it has grown by another step"


def test_the_notice_asks_and_not_this_session_is_kept_for_every_process(
    client: TestClient, store: Store, keeper: Keeper
) -> None:
    session, keeper.window = make_near_session(store)
    page = client.get("/session?id=near").text
    assert "Not this session" in page
    assert 'hx-get="/session/compact?id=near&amp;head=main"' in page
    form = {"id": "near", "head": "main"}
    assert client.post("/live/later", data=form).text == ""
    assert "Not this session" not in client.get("/session?id=near").text
    answer = client.post("/session/auto", data={**form, "state": "off"})
    assert "Automatic compaction is off for this session" in answer.text
    assert session.refresh().state.is_auto_off
    assert "Switch it on again" in client.get("/session?id=near").text
    client.post("/session/auto", data={**form, "state": "on"})
    assert not session.refresh().state.is_auto_off
    assert client.post("/session/auto", data={**form, "state": "never"}).status_code == 400


def test_who_may_only_read_switches_nothing(store: Store, keeper: Keeper) -> None:
    session = make_session(store, namespace="north", steps=1)
    _, key = add_key(store, "anna", "north", is_read_only=True)
    inspector = Inspector(store, keeper, host="0.0.0.0")  # noqa: S104 - shared, with keys
    with TestClient(inspector.application, base_url=HOST) as reader:
        reader.post("/sign-in", data={"key": key})
        assert reader.post("/session/auto", data={"id": "work", "state": "off"}).status_code == 400
    assert not session.refresh().state.is_auto_off


def test_live_sessions_are_marked_in_the_list(client: TestClient, store: Store) -> None:
    make_session(store, steps=1)
    old = Session.create(SessionAddress(store, "old"), "tenfold")
    old.conversation.append_messages([make_user_message("go")], usage=None, run="", times=[1_000_000])
    page = client.get("/").text
    rows = {name: row for row in page.split("<tr>") for name in ("id=work", "id=old") if name in row}
    assert 'hx-get="/live/mark?id=work"' in rows["id=work"]
    assert 'class="live"' in client.get("/live/mark?id=work").text
    assert "/live/mark" not in rows["id=old"]


# -- in the browser ----------------------------------------------------------------------------------------------------


def test_a_request_appears_and_its_notice_is_answered(browser: Browser, store: Store, keeper: Keeper) -> None:
    session, keeper.window = make_near_session(store)
    browser.go("/live")
    browser.wait_for_text("Sessions are followed in the store")
    numbers = count()

    def grow_until(text: str, selector: str = "main") -> None:
        """A host goes on until the page shows something: it may not be listening yet."""

        def grow() -> bool:
            session.append(make_user_message(f"go on {next(numbers)}"))
            return text in browser.read(selector)

        browser.wait(grow)

    grow_until("1 message came", "#requests")
    grow_until("is compacted by itself at about", "#near")
    browser.press("#near button", "Not this session")
    browser.wait_for_text("Automatic compaction is off for this session", "#near")
    assert session.refresh().state.is_auto_off
    seen = len(browser.find_all("#requests tr"))
    session.append(make_user_message("go on"))
    browser.wait(lambda: len(browser.find_all("#requests tr")) > seen)
    assert "Automatic compaction is off for this session" in browser.read("#near"), "a request takes it not away"
    browser.press("#near button", "Switch it on again")
    browser.wait_for_text("Automatic compaction is on for this session", "#near")
    grow_until("is compacted by itself at about", "#near")
    browser.press("#near button", "Now")
    browser.wait_for_text("Compact this session", "#dialog")
    browser.press("#dialog [data-close]")
    browser.press("#near button", "Later")
    browser.wait(lambda: not browser.find_all("#near .near"))
    assert browser.list_problems() == []
    assert {url.partition("?")[0] for url in browser.list_requests() if not url.startswith(browser.base)} <= {"data:"}
