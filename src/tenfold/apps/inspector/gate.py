"""Who may open the pages, and what of: the person who started the inspector, or the holder of a key of the store.

On this machine the address that `tenfold inspect` prints holds a token, which opens the pages once and becomes a
cookie. Where others can reach the server, a visitor signs in with a key, and sees that key's namespace.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from hmac import compare_digest
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tenfold.apps.keyring import ACCESS, Access, Keyring
from tenfold.errors import StoreError

GIVEN_KEY = "tenfold.key"
"""Where the gate notes, in the scope of a request, the key that its visitor has signed in with."""
SIGN_IN_PATH = "/sign-in"
STATIC_PATH = "/static/"
MOST_VISITORS = 1_000
_MOST_FORM_BYTES = 10_000
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Nothing is loaded from elsewhere, and no script or style that stands in a page itself is run."""
_HEADERS = (
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),  # with none at all, a browser does not say that a form is the pages' own
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


Refusal = Callable[[Request, int, str], Response]
"""Builds the answer for who is not let in: the request, the status, and what to do, "" where a key is asked for."""


class Gate:
    """An ASGI application that lets in who may, and notes in the scope of each request what that one may.

    Without a keyring, `token` is what the address holds that opens the pages once. `refuse` builds the answer for those
    who are not let in, from a status and a sentence.
    """

    def __init__(self, app: ASGIApp, access: Access, keyring: Keyring | None, refuse: Refusal) -> None:
        self._app, self._access, self._keyring, self._refuse = app, access, keyring, refuse
        self.token = secrets.token_urlsafe(32)
        self._cookie = f"tenfold_inspect_{secrets.token_hex(4)}"  # cookies are shared by all ports of a host
        self._visitors: dict[str, str] = {}  # the value of the cookie: the key that was given, "" for the owner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or lets the application behind the gate answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                stored = b"max-age=86400" if scope["path"].startswith(STATIC_PATH) else b"no-store"
                message = {**message, "headers": [*message["headers"], *_HEADERS, (b"cache-control", stored)]}
            await send(message)

        request = Request(scope, receive)
        answer = await self._admit(request)
        await (answer or self._app)(scope, receive, send_with_headers)

    async def _admit(self, request: Request) -> Response | None:
        """Returns the answer for who is not let in, or has just been: None for a request to go on with."""
        path = request.url.path
        if path.startswith(STATIC_PATH):
            return None
        if self._keyring is not None and path == SIGN_IN_PATH and request.method == "POST":
            return await self._sign_in(request)
        given = request.query_params.get("token", "")
        if self._keyring is None and given and self.token and compare_digest(given.encode(), self.token.encode()):
            self.token = ""
            return self._give_cookie("", request.query_params.get("next", "/"))
        visitor = self._visitors.get(self._read_cookie(request))
        if visitor is None:
            return self._refuse(request, 401, "" if self._keyring is not None else _CLOSED)
        try:
            access = self._access if self._keyring is None else self._keyring.open(visitor)
        except StoreError:
            return self._refuse(request, 503, "the store does not answer, so no key can be looked up: try again")
        if access is None:
            return self._refuse(request, 401, "this key is no longer valid: sign in with another")
        request.scope[ACCESS], request.scope[GIVEN_KEY] = access, visitor
        return None

    def _read_cookie(self, request: Request) -> str:
        cookies = SimpleCookie()
        try:
            cookies.load(request.headers.get("cookie", ""))
        except CookieError:
            return ""
        return cookies[self._cookie].value if self._cookie in cookies else ""

    async def _sign_in(self, request: Request) -> Response:
        assert self._keyring is not None
        body = await read_form(request, _MOST_FORM_BYTES)
        key = body.get("key", "")
        try:
            access = self._keyring.open(key) if key else None
        except StoreError:
            return self._refuse(request, 503, "the store does not answer, so no key can be looked up: try again")
        if access is None:
            return self._refuse(request, 401, "this is no valid key: `tenfold keys create NAME` makes one")
        return self._give_cookie(key, "/")

    def _give_cookie(self, key: str, target: str) -> Response:
        """Returns the answer that gives a visitor the cookie and shows the page."""
        while len(self._visitors) >= MOST_VISITORS:
            del self._visitors[next(iter(self._visitors))]
        cookie = secrets.token_urlsafe(32)
        self._visitors[cookie] = key
        is_own = target.startswith("/") and not target.startswith("//") and "\\" not in target  # browsers read \ as /
        answer = RedirectResponse(target if is_own else "/", 303)
        answer.set_cookie(self._cookie, cookie, httponly=True, samesite="strict", path="/")
        return answer


_CLOSED = (
    "this page belongs to the person who started it: open the address that `tenfold inspect` printed. It works once; "
    "start the command again for another"
)


async def read_form(request: Request, most: int = 1_000_000) -> dict[str, str]:
    """Reads the fields of a form, the last one of each name. A larger body than `most` bytes is an empty form."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            return {}
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))
