"""The gateway as an ASGI application, and as a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hmac import compare_digest
from http.cookiejar import CookieJar, DefaultCookiePolicy
from urllib.parse import unquote

import httpx
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tenfold import __version__
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.incoming_request import Entrance
from tenfold.apps.gateway.live_sessions import LiveSessions
from tenfold.apps.gateway.relay import KEY_HEADER, Relay
from tenfold.apps.gateway.request_log import RequestLog
from tenfold.apps.gateway.view_route import VIEW_PATH, ViewRoute
from tenfold.apps.listening import keep_pages_out, send_error
from tenfold.config.settings import Config, load_settings
from tenfold.store.base import Store

CONNECT_TIMEOUT = 15.0


class Gateway:
    """A gateway over a store. `application` is its ASGI application, which any server can run, once.

    gateway = Gateway(GatewaySettings(window=128_000), store)
    uvicorn.run(gateway.application, port=8787)
    """

    def __init__(self, settings: GatewaySettings, store: Store, config: Config | None = None) -> None:
        """`config` are the settings of policies; without them they are read as every command reads them."""
        self.settings, self.store, self.log = settings, store, RequestLog()
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(settings.timeout, connect=CONNECT_TIMEOUT, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),  # one client's cookies are no other's
        )
        self.sessions = LiveSessions(settings, store, config or load_settings(), self._client)
        entrance = Entrance(settings, self.log)
        view = ViewRoute(settings, self.sessions, entrance, self.log)
        application = Starlette(
            routes=[
                Route("/healthz", self._report_health),
                Route("/metrics", self._report_metrics),
                Route(VIEW_PATH, view, methods=["POST"]),
                Mount("/", Relay(settings, self.sessions, self._client, entrance, self.log)),
            ],
            middleware=[Middleware(_KeyCheck, key=settings.key)],
            lifespan=self._open,
        )
        self.application: ASGIApp = keep_pages_out(application, settings.host, settings.allow_origin)

    @asynccontextmanager
    async def _open(self, _: Starlette) -> AsyncIterator[None]:
        async with self._client:
            yield
            await self.sessions.lanes.finish_later_work()

    async def _report_health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok", "version": __version__})

    async def _report_metrics(self, _: Request) -> Response:
        return Response(self.log.render_metrics(), media_type="text/plain; version=0.0.4")


class _KeyCheck:
    """Refuses requests without the gateway's key, if it has one. The key stands in a header, or first in the path."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app, self._key = app, key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._key and scope["path"] != "/healthz":
            given = dict(scope["headers"]).get(KEY_HEADER.encode(), b"")
            first, _, rest = scope["raw_path"].lstrip(b"/").partition(b"/")
            if not given and compare_digest(first, self._key):
                path = unquote(rest.decode("latin-1"))
                scope, given = {**scope, "path": f"/{path}", "raw_path": b"/" + rest}, self._key
            if not compare_digest(given, self._key):
                await send_error(
                    send, 401, f"this gateway needs its key, as the header {KEY_HEADER} or first in the path"
                )
                return
        await self._app(scope, receive, send)
