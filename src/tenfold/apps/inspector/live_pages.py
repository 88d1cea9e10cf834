"""The page that shows requests as they happen, and the notice before a session is compacted by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from tenfold.apps.inspector.live import (
    GatewayState,
    LiveItem,
    LiveRequest,
    Near,
    find_near,
    follow_gateway,
    follow_store,
    put_off,
)
from tenfold.apps.inspector.rendering import render, respond
from tenfold.apps.inspector.visits import Page, Visit
from tenfold.errors import NotFoundError, UsageError

CHECK_SECONDS = 15.0
"""How often it is looked whether somebody still watches, and still may."""


def show_live(visit: Visit) -> Response:
    """The page, which is filled by what `send_events` sends."""
    visit.note("watch requests", "")
    return respond("live.html", visit=visit)


def send_events(visit: Visit) -> Response:
    """Sends the browser each request as it happens, as pieces of the page."""
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_Watching(visit).stream(), media_type="text/event-stream", headers=headers)


class _Watching:
    """One browser that watches."""

    def __init__(self, visit: Visit) -> None:
        self._visit, self._sessions = visit, visit.sessions
        self._gateways: dict[str, GatewayState] = {}
        self._windows: dict[tuple[str, str], int] = {}
        self._warned: set[tuple[str, str]] = set()
        self._is_first = True

    async def stream(self) -> AsyncIterator[str]:
        """Yields server-sent events until the browser leaves or its key ends."""
        queue: asyncio.Queue[LiveItem] = asyncio.Queue()

        async def pump(items: AsyncIterator[LiveItem]) -> None:
            async for item in items:
                await queue.put(item)

        visit, namespace = self._visit, self._visit.namespace
        followed = [
            follow_gateway(url, visit.gateway_key, self._sessions, namespace) for url in visit.sessions.sources.gateways
        ]
        stored = follow_store(self._sessions, namespace, lambda: any(s.is_heard for s in self._gateways.values()))
        tasks = [asyncio.ensure_future(pump(items)) for items in (*followed, stored)]
        try:
            yield self._tell_source()
            while True:
                for task in tasks:
                    if task.done():
                        task.result()
                try:
                    item = await asyncio.wait_for(queue.get(), CHECK_SECONDS)
                except TimeoutError:
                    if not await asyncio.to_thread(visit.is_still_let_in):
                        return
                    yield ": nobody has asked for anything\n\n"
                    continue
                for event in await asyncio.to_thread(self._show, item):
                    yield event
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _show(self, item: LiveItem) -> list[str]:
        if isinstance(item, GatewayState):
            self._gateways[item.url] = item
            return [self._tell_source()]
        if not item:
            return []
        kind, self._is_first = "history" if self._is_first else "request", False
        rows = render("live_rows.html", requests=item[::-1])
        return [_encode_event(kind, rows), _encode_event("near", self._tell_near(item))]

    def _tell_source(self) -> str:
        states = [self._gateways.get(url, GatewayState(url, is_heard=False)) for url in self._sessions.sources.gateways]
        return _encode_event("source", render("live_source.html", states=states))

    def _tell_near(self, requests: tuple[LiveRequest, ...]) -> str:
        """Tells which sessions of the requests seen so far will soon be compacted.

        One that would be, but is switched off, is told with the way to switch it on again.
        """
        self._windows |= {(each.session, each.head): each.window for each in requests if each.session}
        found: list[Near] = []
        switched = ""
        for (session, head), window in list(self._windows.items()):
            try:
                opened = self._sessions.open(self._visit.namespace, session, head)
            except NotFoundError:
                del self._windows[session, head]
                continue
            with opened.lock:
                near = find_near(opened, window)
                if near is not None:
                    self._warned.add((session, head))
                elif (session, head) in self._warned and opened.session.view.state.is_auto_off:
                    switched += render("auto_state.html", opened=opened, visit=self._visit)
            found += [near] if near is not None else []
        return render("near.html", near=found) + switched


def _encode_event(name: str, text: str) -> str:
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"event: {name}\n{lines}\n"


def ask_later(visit: Visit) -> Response:
    """Takes the notice of a session away until it has grown by another step."""
    opened = visit.open()
    with opened.lock:
        put_off(opened, visit.get_number("window"))
    return Response("")


def switch_auto(visit: Visit) -> Response:
    """Switches the automatic compaction of a session off, or on again."""
    visit.require_write("switch automatic compaction")
    opened = visit.open()
    with opened.lock:
        match visit.get("state"):
            case "off" | "on" as state:
                opened.session.switch_auto(state)
            case other:
                raise UsageError(f"automatic compaction is switched off or on, and not {other[:40]!r}")
        visit.note(f"automatic compaction {state}", opened.session.address.session)
        return respond("auto_state.html", opened=opened, visit=visit)


LIVE_PAGES: tuple[tuple[str, str, Page], ...] = (
    ("/live", "GET", show_live),
    ("/live/events", "GET", send_events),
    ("/live/later", "POST", ask_later),
    ("/session/auto", "POST", switch_auto),
)
"""The address, the method and the function of every page about requests as they happen."""
