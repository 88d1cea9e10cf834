"""Requests as they happen: those that pass gateways, as these tell, and those of other programs, as the store shows.

A gateway knows of each request what was sent and why it was sent unchanged, and tells it to who has its key. A program
that uses the library tells nobody; but it appends to the store, so that a new last entry of a session shows that it has
made a request, and how large its view is now. Both work across processes and machines.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from time import monotonic

import httpx
import msgspec
from msgspec import Struct

from tenfold.apps.gateway.gateway_settings import KEY_HEADER
from tenfold.apps.gateway.request_events import EVENTS_PATH, RequestEvent
from tenfold.apps.inspector.rendering import is_live
from tenfold.apps.inspector.visits import OpenSession, OpenSessions
from tenfold.core.record.block import Block
from tenfold.core.record.entry import Attempt, Entry, Retraction, get_message
from tenfold.errors import NotFoundError, TenfoldError
from tenfold.session.bill import describe_client
from tenfold.store.base import SessionInfo
from tenfold.store.ids import get_current_time

LOOK_SECONDS = 1.0
"""How often the store is looked at, unless a look takes long: then the next one waits for twenty times as long."""
RETRY_SECONDS = 5.0
MOST_AT_ONCE = 50
"""Requests of one look that are shown: of more, the newest."""
GATEWAY_SESSIONS = "gateway-"
"""How the ids of sessions begin that a gateway keeps."""


class LiveRequest(Struct, frozen=True, kw_only=True):
    """One request as it is shown.

    `tokens` were sent of the `unhidden` that it would have been, out of a `window`, all as the provider counts, 0 where
    that is not known. `paid` and `unpaid` are dollars, with Tenfold and without. `state` is one word, `why` a sentence.
    """

    time: int
    session: str = ""
    head: str = ""
    title: str = ""
    client: str = ""
    model: str = ""
    tokens: int = 0
    unhidden: int = 0
    window: int = 0
    paid: float = 0.0
    unpaid: float = 0.0
    state: str = "sent"
    why: str = ""

    @property
    def fill(self) -> float:
        """The share of the window that is used, 0 where it is not known."""
        return self.tokens / self.window if self.window else 0.0

    @property
    def saved_tokens(self) -> int:
        """The tokens that were not sent."""
        return max(0, self.unhidden - self.tokens)


class GatewayState(Struct, frozen=True):
    """Whether a gateway is heard, and if not, why."""

    url: str
    is_heard: bool
    reason: str = ""


LiveItem = tuple[LiveRequest, ...] | GatewayState


class Near(Struct, frozen=True):
    """A session that will soon be compacted: its size, the window, and the size from which on it is."""

    session: str
    head: str
    title: str
    tokens: int
    window: int
    trigger: int


async def follow_gateway(url: str, key: str, sessions: OpenSessions, namespace: str) -> AsyncGenerator[LiveItem, None]:
    """Yields the requests that pass a gateway, and whether it is heard, for as long as somebody listens.

    It begins with the newest that the gateway still knows. Those of another namespace are not shown, whatever the
    gateway tells.
    """
    headers, last, state = ({KEY_HEADER: key} if key else {}), "", None
    async with httpx.AsyncClient(trust_env=False, timeout=httpx.Timeout(30.0, connect=2.0)) as client:
        while True:
            problem = ""
            try:
                async with client.stream(
                    "GET", url + EVENTS_PATH, headers={**headers, "last-event-id": last}
                ) as answer:
                    if answer.status_code != httpx.codes.OK:
                        problem = _explain_status(answer.status_code)
                    else:
                        if state is None or not state.is_heard:
                            state = GatewayState(url, is_heard=True)
                            yield state
                        async for events in _read_batches(answer):
                            own = [event for event in events if event.namespace == namespace]
                            last = events[-1].id
                            yield await asyncio.to_thread(_show_events, own[-MOST_AT_ONCE:], sessions, namespace)
            except (httpx.HTTPError, msgspec.DecodeError) as exc:
                problem = f"it does not answer ({type(exc).__name__})"
            if problem:
                found = GatewayState(url, is_heard=False, reason=problem)
                if found != state:
                    yield (state := found)
                await asyncio.sleep(RETRY_SECONDS)


def _explain_status(status: int) -> str:
    if status in (401, 403):
        return "it does not take this key"
    return f"it answers with {status}: is it a gateway of this release?"


async def _read_batches(answer: httpx.Response) -> AsyncIterator[list[RequestEvent]]:
    """Yields the events that came together."""
    batch: list[RequestEvent] = []
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            batch.append(msgspec.json.decode(line.removeprefix("data: "), type=RequestEvent))
        elif line.startswith(":") and batch:
            yield batch
            batch = []
    if batch:
        yield batch


def _show_events(events: Sequence[RequestEvent], sessions: OpenSessions, namespace: str) -> tuple[LiveRequest, ...]:
    infos: dict[str, SessionInfo | None] = {}
    for event in events:
        if event.session and event.session not in infos:
            infos[event.session] = sessions.store.read_info(namespace, event.session)
    return tuple(_show_event(event, infos.get(event.session)) for event in events)


def _show_event(event: RequestEvent, info: SessionInfo | None) -> LiveRequest:
    state = event.compaction or ("unchanged" if event.is_unchanged else "sent")
    if event.has_fault or event.is_cut or event.status >= httpx.codes.BAD_REQUEST:
        state = "cut" if event.is_cut else f"status {event.status}" if event.status >= 400 else "fault"
    return LiveRequest(
        time=event.time,
        session=event.session if info is not None else "",
        head=event.head,
        title=info.title if info is not None else "",
        client=describe_client(info) if info is not None else "",
        model=event.model or event.what,
        tokens=event.tokens_after,
        unhidden=event.tokens_before,
        window=event.window,
        paid=event.paid,
        unpaid=event.without,
        state=state,
        why="; ".join(filter(None, (event.reason, event.note))),
    )


class StoreWatch:
    """Finds out which sessions of a namespace have grown since it looked last."""

    def __init__(self, sessions: OpenSessions, namespace: str) -> None:
        self._sessions, self._namespace = sessions, namespace
        self._leaves: dict[tuple[str, str], str] | None = None

    def look(self, *, without_gateways: bool) -> tuple[LiveRequest, ...]:
        """Returns a request for each session that has grown since the last look. The first one only looks.

        `without_gateways` leaves out the sessions that gateways keep, since these tell of them.
        """
        rows = self._sessions.store.list_sessions(self._namespace)
        leaves = {(row.info.id, head): leaf for row in rows for head, leaf in row.heads.items()}
        known, self._leaves = self._leaves, leaves
        if known is None:
            return ()
        found: list[LiveRequest] = []
        for (session, head), leaf in leaves.items():
            is_told = without_gateways and session.startswith(GATEWAY_SESSIONS)
            if known.get((session, head)) != leaf and not is_told:
                found += self._describe(session, head, known.get((session, head)))
        return tuple(sorted(found, key=lambda each: each.time)[-MOST_AT_ONCE:])

    def _describe(self, session: str, head: str, before: str | None) -> Iterator[LiveRequest]:
        try:
            opened = self._sessions.open(self._namespace, session, head)
        except NotFoundError:  # purged since
            return
        with opened.lock:
            opened.measure()
            new = list(_list_new_entries(opened, before))
            state, why = _explain_entries(new)
            if state:
                yield _describe_view(opened, state, why)


def _list_new_entries(opened: OpenSession, before: str | None) -> Iterator[Entry]:
    """Yields the entries after one, the newest first."""
    path = opened.session.view.path
    for position in range(path.length - 1, -1, -1):
        entry = path.get_entry(position)
        if entry.id == before:
            return
        yield entry


def _explain_entries(new: Sequence[Entry]) -> tuple[str, str]:
    """Says what new entries tell of a request, the newest first. ("", "") if they tell of none."""
    for entry in new:
        match entry:
            case Block():
                before, after = entry.sizes
                return "compacted", f"{before:,} to {after:,} tokens: {entry.reason}"
            case Attempt():
                return entry.status, entry.reason
            case Retraction():
                return "undone", "a compaction was undone"
            case _:
                pass
    messages = sum(get_message(entry) is not None for entry in new)
    if not messages:
        return "", ""
    return "grown", f"{messages:,} message{'s' * (messages != 1)} came; the store does not hold why no more was hidden"


def _describe_view(opened: OpenSession, state: str, why: str) -> LiveRequest:
    session, info = opened.session, opened.row.info
    call = session.compactor.build_call()
    reading, timeline = session.compactor.take_reading(call), opened.draw()
    hidden = reading.to_provider_part(timeline.tokens - timeline.view_tokens)
    return LiveRequest(
        time=get_current_time(),
        session=info.id,
        head=session.address.head,
        title=info.title,
        client=describe_client(info),
        model=info.model,
        tokens=reading.tokens,
        unhidden=reading.tokens + max(0, hidden),
        window=call.window or 0,
        state=state,
        why=why,
    )


async def follow_store(
    sessions: OpenSessions, namespace: str, are_gateways_heard: Callable[[], bool]
) -> AsyncGenerator[LiveItem, None]:
    """Yields what the store shows of requests, for as long as somebody listens."""
    watch = StoreWatch(sessions, namespace)
    while True:
        start = monotonic()
        try:
            found = await asyncio.to_thread(watch.look, without_gateways=are_gateways_heard())
        except TenfoldError:  # the store is busy or away: the next look is soon
            found = ()
        if found:
            yield found
        await asyncio.sleep(max(LOOK_SECONDS, 20 * (monotonic() - start)))


def find_near(opened: OpenSession, window: int = 0) -> Near | None:
    """Finds out whether a session will soon be compacted by itself. The caller holds its lock.

    None also where the user has switched that off, or does not want to hear of it until the session has grown.
    """
    opened.measure()
    session = opened.session
    call = session.compactor.build_call(window=window or None)
    if call.window is None or not session.policy.auto or session.view.state.is_auto_off:
        return None
    reading, limits = session.compactor.take_reading_with_limits(call)
    if reading.tokens < max(limits.warning, opened.quiet_until):
        return None
    place, info = session.address, opened.row.info
    return Near(place.session, place.head, info.title or info.id, reading.tokens, call.window, limits.soft)


def list_near(opened: OpenSession) -> list[Near]:
    """Lists the notice of a session's own page: one if it will soon be compacted, and has had a request just now."""
    view = opened.measure().view
    newest = view.path.get_entry(view.length - 1).time if view.length else None
    near = find_near(opened) if is_live(newest) else None
    return [] if near is None else [near]


def put_off(opened: OpenSession, window: int = 0) -> None:
    """Has `find_near` say nothing of a session until it has grown by the policy's minimum growth."""
    session = opened.session
    call = session.compactor.build_call(window=window or None)
    reading = session.compactor.take_reading(call)
    opened.quiet_until = reading.tokens + session.policy.get_minimum_growth(call.window or reading.tokens)
