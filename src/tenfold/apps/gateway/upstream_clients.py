"""The HTTP clients by which requests go to the upstream: few requests each.

A client looks at all of its connections for each request that it begins (httpx 0.28, `httpcore.AsyncConnectionPool`),
which with 64 of them takes a fifth of the gateway's time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx

CONNECT_TIMEOUT = 15.0
SHARE = 8
"""How many requests run by one client before the next one is used."""


class UpstreamClients:
    """Clients that share no state of theirs. The first ones are used while few requests run, so connections stay."""

    def __init__(self, timeout: float) -> None:
        """`timeout` is in seconds without a byte."""
        self._timeout = timeout
        self._clients, self._running = list[httpx.AsyncClient](), list[int]()

    @property
    def first(self) -> httpx.AsyncClient:
        """A client for whatever runs beside the requests."""
        return self._get(0)

    def _get(self, number: int) -> httpx.AsyncClient:
        while len(self._clients) <= number:
            self._running.append(0)
            self._clients.append(
                httpx.AsyncClient(
                    timeout=httpx.Timeout(self._timeout, connect=CONNECT_TIMEOUT, pool=None),
                    limits=httpx.Limits(max_connections=None, max_keepalive_connections=2 * SHARE),
                    # One client's cookies are no other's.
                    cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
                )
            )
        return self._clients[number]

    @contextmanager
    def hold(self) -> Iterator[httpx.AsyncClient]:
        """Gives the client for one request and its response."""
        free = (number for number, running in enumerate(self._running) if running < SHARE)
        number = next(free, len(self._clients))
        client = self._get(number)
        self._running[number] += 1
        try:
            yield client
        finally:
            self._running[number] -= 1

    async def close(self) -> None:
        """Closes all connections."""
        async with AsyncExitStack() as stack:
            for client in self._clients:
                stack.push_async_callback(client.aclose)
