"""The gateway as an ASGI application, and as a server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import unquote

from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from tenfold import __version__
from tenfold.apps.gateway.gateway_settings import KEY_HEADER, KEY_VARIABLE, GatewaySettings
from tenfold.apps.gateway.incoming_request import Entrance
from tenfold.apps.gateway.jobs_route import JOBS_PATH, JobsRoute
from tenfold.apps.gateway.live_sessions import LiveSessions
from tenfold.apps.gateway.relay import Relay
from tenfold.apps.gateway.request_events import EVENTS_PATH, EventsRoute
from tenfold.apps.gateway.request_log import LOG, RequestLog
from tenfold.apps.gateway.upstream_clients import UpstreamClients
from tenfold.apps.gateway.view_route import VIEW_PATH, ViewRoute
from tenfold.apps.keyring import ACCESS, Access, Keyring, find_given_key
from tenfold.apps.listening import LOOPBACK_HOSTS, keep_pages_out, send_error
from tenfold.config.settings import Config, load_settings
from tenfold.errors import StoreError, UsageError
from tenfold.store.base import Store

if TYPE_CHECKING:
    from tenfold.apps.jobs.hosting import HostedJobs

METRICS_PATH = "/metrics"
MEASURE_SECONDS = 60.0
"""For how long the size of a namespace is believed."""


class Gateway:
    """A gateway over a store. `application` is its ASGI application, which any server can run, once.

    Raises `UsageError` where others than this machine could reach it and it needs no key.

    gateway = Gateway(GatewaySettings(window=128_000), store)
    uvicorn.run(gateway.application, port=8787)
    """

    def __init__(
        self,
        settings: GatewaySettings,
        store: Store,
        config: Config | None = None,
        *,
        is_private: bool = False,
        jobs: HostedJobs | None = None,
    ) -> None:
        """`config` are the settings of policies; without them they are read as every command reads them.

        An `is_private` gateway serves one program that its owner started, so it asks for no key of the store. With
        `jobs`, summaries that are needed soon are jobs, and clients may add some.
        """
        self.settings, self.store, self.log = settings, store, RequestLog()
        self._clients = UpstreamClients(settings.timeout)
        self._config = config or load_settings()
        self._entrance, self._jobs = Entrance(settings, self.log), jobs
        self._tenants: dict[str, tuple[LiveSessions, ASGIApp]] = {}
        self.sessions = self._open_tenant(settings.namespace)[0]
        keyring = Keyring(store, own_key=settings.key, namespace=settings.namespace, is_private=is_private)
        if settings.host not in LOOPBACK_HOSTS and not keyring.is_key_needed():
            raise UsageError(
                f"{settings.host} can be reached by others, so a gateway there needs a key: make one with "
                f"`tenfold keys create NAME`, or set {KEY_VARIABLE}"
            )
        application = Starlette(
            routes=[
                Route("/healthz", self._report_health),
                Route(METRICS_PATH, self._report_metrics),
                Route(EVENTS_PATH, EventsRoute(self.log.events, settings.namespace).answer),
                Mount("/", self._answer),
            ],
            middleware=[Middleware(_KeyCheck, keyring=keyring, usage=KeptBytes(store), namespace=settings.namespace)],
            lifespan=self._open,
        )
        self.application: ASGIApp = keep_pages_out(application, settings.host, settings.allow_origin)

    def _open_tenant(self, namespace: str) -> tuple[LiveSessions, ASGIApp]:
        """Opens the sessions of a namespace, and what answers requests with them."""
        if namespace not in self._tenants:
            settings = replace(self.settings, namespace=namespace)
            preparer = self._jobs.preparer if self._jobs is not None else None
            sessions = LiveSessions(settings, self.store, self._config, self._clients.first, preparer)
            view = ViewRoute(settings, sessions, self._entrance, self.log)
            relay = Relay(settings, sessions, self._clients, self._entrance, self.log)
            routes: list[BaseRoute] = [Route(VIEW_PATH, view, methods=["POST"])]
            queue = self._jobs.queue if self._jobs is not None else None
            answer_jobs = JobsRoute(namespace, self.store, queue, self._entrance)
            routes.append(Route(JOBS_PATH, answer_jobs, methods=["GET", "POST"]))
            routes.append(Route(f"{JOBS_PATH}/{{id}}", answer_jobs, methods=["GET"]))
            routes.append(Mount("/", relay))
            self._tenants[namespace] = sessions, Router(routes)
        return self._tenants[namespace]

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Has a request answered with the sessions of the namespace that its key opens."""
        access: Access | None = scope.get(ACCESS)
        _, answer = self._open_tenant(access.namespace if access is not None else self.settings.namespace)
        await answer(scope, receive, send)

    @asynccontextmanager
    async def _open(self, _: Starlette) -> AsyncIterator[None]:
        try:
            yield
            for sessions, _answer in list(self._tenants.values()):
                await sessions.lanes.finish_later_work()
        finally:
            await self._clients.close()

    async def _report_health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok", "version": __version__})

    async def _report_metrics(self, _: Request) -> Response:
        if self._jobs is not None:
            counts = await asyncio.to_thread(self._jobs.queue.count_states)
            for state, count in counts.items():
                self.log.jobs.labels(state).set(count)
        return Response(self.log.render_metrics(), media_type="text/plain; version=0.0.4")


class KeptBytes:
    """How much the namespaces take, measured again at times, and only where a key sets a limit."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[float, int]] = {}

    async def measure(self, namespace: str) -> int:
        """Returns the bytes of a namespace, as they were a minute ago at most."""
        until, size = self._known.get(namespace, (0.0, 0))
        if monotonic() >= until:
            sizes = await asyncio.to_thread(self._store.measure_sessions, namespace)
            size = sum(sizes.values())
            self._known[namespace] = monotonic() + MEASURE_SECONDS, size
        return size


_NO_KEY = (401, f"this gateway needs its key, as the header {KEY_HEADER} or first in the path")


class _KeyCheck:
    """Refuses requests without a key where one is needed, and takes the key off those that have one.

    The key stands in a header, or first in the path.
    """

    def __init__(self, app: ASGIApp, keyring: Keyring, usage: KeptBytes, namespace: str) -> None:
        self._app, self._keyring, self._usage, self._namespace = app, keyring, usage, namespace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != "/healthz":
            try:
                opened = await self._open(scope)
                refusal = await self._find_refusal(opened) if opened is not None else _NO_KEY
            except StoreError as exc:  # where the store is, is nobody's business who has no key
                LOG.warning("no key can be looked up: %s", exc)
                opened, refusal = None, (503, "no key can be looked up at this moment: try again")
            if opened is None or refusal is not None:
                await send_error(send, *(refusal or _NO_KEY))
                return
            scope = opened
        await self._app(scope, receive, send)

    async def _open(self, scope: Scope) -> Scope | None:
        """Returns a request without its key and with what that may, None without a key that holds."""
        given, headers = find_given_key(scope["headers"], KEY_HEADER)
        access = await self._look_up(given)
        first, _, rest = scope["raw_path"].lstrip(b"/").partition(b"/")
        if access is None and not given and (access := await self._look_up(first.decode("latin-1"))) is not None:
            path = unquote(rest.decode("latin-1"))
            scope = {**scope, "path": f"/{path}", "raw_path": b"/" + rest}
        return None if access is None else {**scope, "headers": headers, ACCESS: access}

    async def _look_up(self, given: str) -> Access | None:
        if self._keyring.is_fresh(given):
            return self._keyring.open(given)
        return await asyncio.to_thread(self._keyring.open, given)

    async def _find_refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Finds why a key may not be used for a request: the status and the text of the answer."""
        access: Access = scope[ACCESS]
        if scope["path"] == METRICS_PATH:  # they tell of all tenants
            is_users = access.key is not None and not access.is_read_only
            if access.namespace == self._namespace and not is_users:
                return None
            return 403, f"metrics tell of all tenants: they are for keys of {self._namespace} that read only"
        if scope["path"] == EVENTS_PATH and scope["method"] == "GET":
            return None
        if access.is_read_only:
            return 403, "this key reads only, and a gateway writes what passes: use one that may write"
        most = access.key.max_bytes if access.key is not None else 0
        if most and (kept := await self._usage.measure(access.namespace)) > most:
            return 429, f"{access.namespace} takes {kept:,} bytes, and its key allows {most:,}: `tenfold retention`"
        return None
