"""Tells those who watch of the requests that pass a gateway: one event for each, with the fields of its log line.

A watcher asks `GET /tenfold/events` with its key and is told of the requests of that key's namespace, never of another.
Of several workers on one port any may be asked: they share a folder, where each writes its newest events.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tenfold.apps.keyring import ACCESS

EVENTS_PATH = "/tenfold/events"
KEPT = 500
"""Events that are kept for those who begin to watch. Of more than these in `POLL_SECONDS`, only the newest are told."""
POLL_SECONDS = 0.25
STREAM_SECONDS = 5.0
"""After so long an answer ends, and the watcher asks again with the id of its last event. So a gateway that is stopped
does not wait for watchers."""
_MOST_FILE_BYTES = 1_000_000
_MOST_TEXT = 400
_encoder = msgspec.json.Encoder()


class RequestEvent(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One finished request.

    `id` tells it from all others, and ids of one gateway grow. `time` is in microseconds UTC. `what` is the API and the
    model, or the method and the path. The tokens are those of the request with nothing hidden and as it was sent, as
    the provider counts, out of a `window` (0: not known). `paid` and `without` are dollars, with Tenfold and without.
    `compaction` is the status of the compaction that was due, and `reason` what came of the session's check. With
    `is_unchanged` the request was forwarded as it came, and `reason` says why.
    """

    id: str
    time: int
    namespace: str
    what: str
    model: str = ""
    session: str = ""
    head: str = ""
    status: int = 0
    tokens_before: int = 0
    tokens_after: int = 0
    window: int = 0
    paid: float = 0.0
    without: float = 0.0
    compaction: str = ""
    reason: str = ""
    note: str = ""
    is_unchanged: bool = False
    is_cut: bool = False
    has_fault: bool = False


class RequestEvents:
    """The newest events of a gateway. With a `folder` those of all processes that share it."""

    def __init__(self, folder: Path | None = None) -> None:
        self._own: deque[RequestEvent] = deque(maxlen=KEPT)
        self._file = folder / f"events-{os.getpid()}-{secrets.token_hex(4)}.jsonl" if folder is not None else None
        self._known: dict[Path, tuple[int, list[RequestEvent]]] = {}

    def add(self, event: RequestEvent) -> None:
        """Tells those who watch of one more request."""
        shown = {name: getattr(event, name)[:_MOST_TEXT] for name in ("what", "model", "reason", "note")}
        self._own.append(msgspec.structs.replace(event, **shown))
        if self._file is None:
            return
        if self._file.exists() and self._file.stat().st_size > _MOST_FILE_BYTES:
            short = self._file.with_suffix(".new")
            short.write_bytes(b"".join(map(_encode_line, self._own)))
            short.replace(self._file)
        else:
            with self._file.open("ab") as file:
                file.write(_encode_line(self._own[-1]))

    def list_newest(self) -> list[RequestEvent]:
        """Lists the newest events, oldest first."""
        if self._file is None:
            return list(self._own)
        found: list[RequestEvent] = []
        for path in sorted(self._file.parent.glob("events-*.jsonl")):
            found += self._read(path)
        return sorted(found, key=lambda event: event.id)[-KEPT:]

    def _read(self, path: Path) -> list[RequestEvent]:
        size = path.stat().st_size
        known = self._known.get(path)
        if known is None or known[0] != size:
            lines = path.read_bytes().splitlines(keepends=True)
            whole = [line for line in lines if line.endswith(b"\n")][-KEPT:]  # the last one may be being written
            known = self._known[path] = size, [msgspec.json.decode(line, type=RequestEvent) for line in whole]
        return known[1]

    async def follow(self, namespace: str, last: str) -> AsyncIterator[RequestEvent | None]:
        """Yields the events of a namespace after the one with the id `last`, for some seconds, and None where it waits.

        Without `last` it begins with those that are kept.
        """
        told = {event.id for event in self.list_newest() if last and event.id <= last}
        end = monotonic() + STREAM_SECONDS
        while monotonic() < end:
            for event in self.list_newest():
                if event.id not in told and event.namespace == namespace:
                    yield event
                told.add(event.id)
            yield None
            await asyncio.sleep(POLL_SECONDS)


def _encode_line(event: RequestEvent) -> bytes:
    return _encoder.encode(event) + b"\n"


class EventsRoute(Struct, frozen=True):
    """The answer to `GET /tenfold/events`: server-sent events for some seconds, each with a `RequestEvent` as JSON.

        id: 0196...
        data: {"id":"0196...","time":1764500000000000,"namespace":"default","what":"anthropic claude-sonnet-4-5",...}

    Whoever goes on watching asks again with the header `Last-Event-ID`, as browsers do by themselves.
    """

    events: RequestEvents
    namespace: str

    async def answer(self, request: Request) -> Response:
        """Answers one watcher."""
        access = request.scope.get(ACCESS)
        namespace = access.namespace if access is not None else self.namespace
        last = request.headers.get("last-event-id", "")

        async def stream() -> AsyncIterator[bytes]:
            yield b"retry: 250\n\n"
            async for event in self.events.follow(namespace, last):
                if event is None:
                    yield b": waiting\n\n"
                else:
                    yield b"id: %s\ndata: %s\n\n" % (event.id.encode(), _encoder.encode(event))

        return StreamingResponse(stream(), media_type="text/event-stream", headers={"cache-control": "no-store"})
