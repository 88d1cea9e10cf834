"""The gateway's routes for durable jobs: whoever may use a session has it compacted later, and asks how it went."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tenfold.apps.gateway.incoming_request import ClientGone, Entrance, IncomingRequest, NotTaken
from tenfold.apps.keyring import ACCESS, Access
from tenfold.apps.listening import send_error
from tenfold.core.record.token_reading import Counted
from tenfold.errors import NotFoundError, StoreError, UsageError
from tenfold.store.access import AccessRecord
from tenfold.store.base import Store
from tenfold.store.ids import get_current_time
from tenfold.store.lookup import find_session

if TYPE_CHECKING:
    from tenfold.apps.jobs.job import JobRow
    from tenfold.apps.jobs.queue import JobQueue

JOBS_PATH = "/tenfold/jobs"
_ADDING = threading.Lock()
"""Held from counting what waits until one more does: requests come in at once."""
_SHOWN = 100
"""How many jobs are listed, the newest first."""


_Focus = Annotated[str, msgspec.Meta(max_length=10_000)]
"""A job stays in the database until it was forgotten, so what clients put into one is bounded."""


class JobRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """What a client asks for: to compact a session to so many tokens, with a focus for the summary."""

    session: str
    to: int
    focus: _Focus = ""


class JobsRoute(Struct, frozen=True):
    """The ASGI application behind `POST /tenfold/jobs`, `GET /tenfold/jobs` and `GET /tenfold/jobs/ID`.

        {"session": "gateway-1f0e...-0", "to": 20000}
        {"job": "compact-169281bc0fb4-01a2..."}

    A key sees the jobs of its namespace. 202 for a job that was added; 400 for a body that is wrong, 404 for a session
    or a job that is not there, 429 with `retry-after` where too many jobs of the namespace wait already: more than the
    key allows, or than the settings do.
    """

    namespace: str
    store: Store
    queue: JobQueue | None
    entrance: Entrance

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if self.queue is None:
            await send_error(send, 404, "this gateway has no jobs: its operator starts it with --jobs")
            return
        access, source = scope.get(ACCESS), (scope.get("client") or ("",))[0]
        try:
            if scope["method"] == "GET":
                id_ = scope["path"].removeprefix(JOBS_PATH).strip("/")
                answer, status = await asyncio.to_thread(self._list, self.queue, id_), 200
            else:
                async with self.entrance.take_in(scope, receive, is_json=True, has_type=True) as incoming:
                    answer, status = await asyncio.to_thread(self._add, self.queue, incoming, access), 202
                    await asyncio.to_thread(self._note, access, source, answer["job"])
        except ClientGone:
            return
        except NotTaken as exc:
            await send_error(send, exc.status, str(exc))
        except NotFoundError as exc:
            await send_error(send, 404, str(exc))
        except UsageError as exc:
            await send_error(send, 400, str(exc))
        except StoreError:
            await send_error(send, 503, "the jobs cannot be reached at this moment: try again")
        else:
            await Response(msgspec.json.encode(answer), status, media_type="application/json")(scope, receive, send)

    def _add(self, queue: JobQueue, incoming: IncomingRequest, access: Access | None) -> dict[str, str]:
        from tenfold.apps.jobs.job import CompactJob  # noqa: PLC0415 - an optional extra, which is there by now
        from tenfold.apps.jobs.queue import QueueFull  # noqa: PLC0415 - the same

        try:
            asked = msgspec.json.decode(incoming.plain or b"", type=JobRequest)
        except msgspec.MsgspecError as exc:
            raise UsageError(f"the body is wrong: {exc}; it is like {{'session': ID, 'to': 20000}}") from exc
        if asked.to < 1:
            raise UsageError(f"'to' is a number of tokens, at least 1, and not {asked.to}")
        row = find_session(self.store, asked.session, namespace=self.namespace)
        key = access.key if access is not None else None
        job = CompactJob(row.info.id, self.namespace, to=Counted(asked.to), focus=asked.focus, model=row.info.model)
        with _ADDING:
            if key is not None and key.max_jobs and queue.count_waiting(self.namespace) >= key.max_jobs:
                text = f"{key.max_jobs} jobs of {self.namespace} wait: the key of {key.name} allows no more"
                raise NotTaken(429, text)
            try:
                return {"job": queue.add(job)}
            except QueueFull as exc:
                raise NotTaken(429, str(exc)) from exc

    def _note(self, access: Access | None, source: str, job: str) -> None:
        """Notes who added a job, if it was done with a key."""
        if access is not None and access.key is not None:
            record = AccessRecord(0, get_current_time(), access.key.name, source, "jobs", self.namespace, job)
            self.store.record_access(record)

    def _list(self, queue: JobQueue, id_: str) -> dict[str, Any]:
        if not id_:
            return {"jobs": [_show(row) for row in queue.list(namespace=self.namespace, limit=_SHOWN)]}
        row = queue.find(id_) if id_.isprintable() else None
        if row is None or row.namespace != self.namespace:
            raise NotFoundError(f"there is no job {id_!r} of this namespace")
        return _show(row)


def _show(row: JobRow) -> dict[str, Any]:
    """Returns what a client sees of a job: which worker did it is the operator's business."""
    shown: dict[str, Any] = msgspec.to_builtins(row)
    return {name: value for name, value in shown.items() if name != "worker"}
