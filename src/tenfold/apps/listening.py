"""What every server of the project needs: its port, and a guard that keeps pages of browsers out."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from tenfold.errors import TenfoldError

BACKLOG = 2_048
"""How many connections may wait until they are accepted."""
LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")
"""The addresses to listen on that only this machine reaches."""
_TARGET = re.compile(r"/[!-~]*")
"""A path, as the target of a request that is no proxy's."""
_PROXY_METHODS = ("CONNECT", "TRACE")
"""Methods that ask a proxy for something. No client of a model has a use for them."""
_LOG = logging.getLogger("tenfold.guard")


def bind_port(host: str, port: int) -> socket.socket:
    """Returns a socket that listens on a port already, so that whoever is told the address may connect at once.

    The port 0 takes a free one. Raises `TenfoldError` if the port cannot be taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol, for only then asyncio sends each piece at once (TCP_NODELAY) and not after the one before.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, find_port_option(), 1)
    try:
        bound.bind((host, port))
        bound.listen(BACKLOG)
    except OSError as exc:
        bound.close()
        raise TenfoldError(
            f"{host}:{port} cannot be used ({exc.strerror}): give another --port, 0 for a free one"
        ) from exc
    return bound


def find_port_option(names: Mapping[str, Any] = vars(socket)) -> int:
    """Finds the option of a socket with which a port can be taken again at once after a server has ended.

    Windows needs none, and lets two programs share a port with it: there it is the option by which nobody else may.
    """
    return int(names.get("SO_EXCLUSIVEADDRUSE", names["SO_REUSEADDR"]))


def get_url(bound: socket.socket) -> str:
    """Returns the address of a socket that listens, as a URL without a path."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def keep_pages_out(app: ASGIApp, host: str, allowed_origins: Sequence[str] = ()) -> ASGIApp:
    """Returns an application behind a guard, for a server that listens on `host`.

    Refused are a method for proxies (405), a target that is no path and, on loopback, another name for this machine in
    `Host` (400), and whatever a browser marks as sent by a page (403): an `Origin` that is not the server's own, or a
    `Sec-Fetch-Site` other than `none` and `same-origin`. Only pages of `allowed_origins` get in, and may read the
    answers.
    """
    if allowed_origins:
        anything = ("*",)
        app = CORSMiddleware(
            app,
            allow_origins=allowed_origins,
            allow_methods=anything,
            allow_headers=anything,
            expose_headers=anything,
            allow_private_network=True,
        )
    hosts = [*LOOPBACK_HOSTS, "[::1]"] if host in LOOPBACK_HOSTS else ["*"]
    return TrustedHostMiddleware(_PageGuard(app, allowed_origins), allowed_hosts=hosts, www_redirect=False)


class _PageGuard:
    """Refuses requests that a page of a browser sent, and those whose target is no path."""

    def __init__(self, app: ASGIApp, allowed_origins: Collection[str]) -> None:
        self._app, self._allowed = app, allowed_origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._find_refusal(scope) if scope["type"] == "http" else None
        if refusal is not None:
            await send_error(send, *refusal)
            return
        await self._app(scope, receive, send)

    def _find_refusal(self, scope: Scope) -> tuple[int, str] | None:
        if scope["method"] in _PROXY_METHODS:
            return 405, f"this server is no proxy: it does not know the method {scope['method']}"
        target = (scope.get("raw_path") or quote(scope["path"]).encode()).decode("latin-1")
        if not _TARGET.fullmatch(target):
            return (
                400,
                "the target of a request is a path, which begins with / and has no other characters than ASCII's",
            )
        headers = Headers(scope=scope)
        origins, sites = headers.getlist("origin"), headers.getlist("sec-fetch-site")
        if origins and all(origin in self._allowed for origin in origins):
            return None
        own = (f"http://{headers.get('host')}", f"https://{headers.get('host')}")
        if all(origin in own for origin in origins) and all(site in ("none", "same-origin") for site in sites):
            return None
        where = ", ".join(origins) or "another site"
        _LOG.warning("a page of a browser was refused: %s %s from %.200r", scope["method"], target[:200], where)
        return 403, (
            f"a page of a browser ({where}) is no client of this server; "
            "tenfold serve --allow-origin ORIGIN lets the pages of one in"
        )


async def send_error(send: Send, status: int, text: str) -> None:
    """Sends an error of the server's own, in a form that the clients of all providers can read."""
    body: dict[str, Any] = {"type": "error", "error": {"type": "tenfold", "message": text, "code": status}}
    headers = [(b"content-type", b"application/json")]
    if status in (429, 503):
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": msgspec.json.encode(body)})
