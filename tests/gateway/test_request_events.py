"""`GET /tenfold/events` tells those who watch of each request, and of none of another tenant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from tenfold.apps.gateway.application import Gateway
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.request_events import EVENTS_PATH, KEPT, RequestEvent, RequestEvents
from tenfold.apps.gateway.server import GatewayThread
from tenfold.store.base import Store
from tenfold.store.location import open_store
from tests.gateway.serving import RawAnswer, RawUpstream
from tests.gateway.test_keys import add_key, make_talk

ANSWER = RawAnswer((b'{"ok":true}',), headers=((b"content-type", b"application/json"),))
KEY = "x-tenfold-key"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = open_store(tmp_path / "store.db")
    yield made
    made.close()


def read_events(url: str, count: int, *, last: str = "", key: str = "") -> list[RequestEvent]:
    """What a watcher is told until it has to wait, with so many events at least."""
    headers = {**({KEY: key} if key else {}), **({"last-event-id": last} if last else {})}
    with httpx.stream("GET", url + EVENTS_PATH, headers=headers) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines: list[str] = []
        for line in answer.iter_lines():
            lines.append(line)
            if line == ": waiting" and sum(each.startswith("data: ") for each in lines) >= count:
                break
    found = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    events = [msgspec.json.decode(line, type=RequestEvent) for line in found]
    assert [line for line in lines if line.startswith("id: ")] == [f"id: {event.id}" for event in events]
    return events


def test_each_request_is_told_with_what_its_line_in_the_log_says(store: Store) -> None:
    with (
        RawUpstream(ANSWER) as upstream,
        GatewayThread(Gateway(GatewaySettings(port=0, upstream=upstream.url, window=50_000), store)) as served,
    ):
        assert read_events(served.url, 0) == []
        talk = make_talk("x")
        talk.send(served.url)
        (event,) = read_events(served.url, 1)
        assert (event.namespace, event.status, event.model) == ("default", 200, "gpt-4o")
        assert event.what == "openai-chat gpt-4o"
        assert event.window == 50_000
        assert event.session in [row.info.id for row in store.list_sessions("default")]
        assert event.head == "main"
        assert event.is_unchanged
        assert "do not reach the trigger of 42,500" in event.reason
        assert 0 < event.tokens_before == event.tokens_after
        talk.add_step()
        talk.send(served.url)
        assert len(read_events(served.url, 2)) == 2
        (second,) = read_events(served.url, 1, last=event.id)
        assert second.id > event.id


def test_a_key_tells_of_its_own_namespace_alone(store: Store) -> None:
    (_, anna), (_, bob) = add_key(store, "anna", "north"), add_key(store, "bob", "south")
    _, reader = add_key(store, "reader", "north", is_read_only=True)
    with (
        RawUpstream(ANSWER) as upstream,
        GatewayThread(Gateway(GatewaySettings(port=0, upstream=upstream.url, window=50_000), store)) as served,
    ):
        for key, tag in ((anna, "a"), (bob, "b"), (anna, "c")):
            assert make_talk(tag).send(served.url, **{KEY: key}).status_code == 200
        assert [event.namespace for event in read_events(served.url, 2, key=anna)] == ["north", "north"]
        assert [event.namespace for event in read_events(served.url, 1, key=bob)] == ["south"]
        assert len(read_events(served.url, 2, key=reader)) == 2, "who may only read may watch"
        for wrong in ({}, {KEY: anna[:-2] + "xx"}):
            assert httpx.get(served.url + EVENTS_PATH, headers=wrong).status_code == 401


def test_a_page_of_a_browser_is_refused(store: Store) -> None:
    with GatewayThread(Gateway(GatewaySettings(port=0), store)) as served:
        answer = httpx.get(served.url + EVENTS_PATH, headers={"origin": "http://elsewhere.example"})
        assert answer.status_code == 403


def make_event(number: int, *, namespace: str = "default", reason: str = "") -> RequestEvent:
    return RequestEvent(id=f"{number:06}", time=number, namespace=namespace, what="x", reason=reason)


def test_workers_tell_of_each_others_requests(tmp_path: Path) -> None:
    """Each has a file in the folder that they share."""
    first, second = RequestEvents(tmp_path), RequestEvents(tmp_path)
    first.add(make_event(1))
    second.add(make_event(2))
    first.add(make_event(3))
    assert [event.time for event in first.list_newest()] == [1, 2, 3]
    assert second.list_newest() == first.list_newest()


def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    for events in (RequestEvents(), RequestEvents(tmp_path)):
        for number in range(5_000):
            events.add(make_event(number, reason="because " * 100))
        assert [event.time for event in events.list_newest()] == [*range(5_000 - KEPT, 5_000)]
        assert max(len(event.reason) for event in events.list_newest()) == 400
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 2_000_000


def test_a_line_that_is_being_written_is_not_read_yet(tmp_path: Path) -> None:
    events = RequestEvents(tmp_path)
    events.add(make_event(1))
    (tmp_path / "events-1-x.jsonl").write_bytes(b'{"id":"000002","time":2,"names')
    assert [event.time for event in events.list_newest()] == [1]
