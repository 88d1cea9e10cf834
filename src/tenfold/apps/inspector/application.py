"""The inspector as an ASGI application: its routes, who may open them, and how errors are shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from tenfold.apps.inspector.actions import ACTIONS
from tenfold.apps.inspector.bill_pages import BILL_PAGES
from tenfold.apps.inspector.compare_pages import COMPARE_PAGES
from tenfold.apps.inspector.gate import GIVEN_KEY, Gate, read_form
from tenfold.apps.inspector.instruction_pages import INSTRUCTION_PAGES
from tenfold.apps.inspector.live_pages import LIVE_PAGES
from tenfold.apps.inspector.reading_pages import READING_PAGES
from tenfold.apps.inspector.rendering import respond, tell_script
from tenfold.apps.inspector.routes import PAGES
from tenfold.apps.inspector.visits import NO_SOURCES, OpenSessions, Page, PageSources, SessionKeeper, Visit
from tenfold.apps.keyring import ACCESS, Access, Keyring
from tenfold.apps.listening import LOOPBACK_HOSTS, keep_pages_out
from tenfold.errors import NotFoundError, TenfoldError, UsageError
from tenfold.store.base import DEFAULT_NAMESPACE, Store


class Inspector:
    """The pages over a store. `application` is the ASGI application, and `gate.token` opens it once.

    On this machine alone (`host` is loopback) it shows `namespace` to whoever has the token. Where others can reach it,
    a visitor needs a key of the store and sees that key's namespace. Raises `UsageError` if it could then be reached
    and the store has no keys.

        inspector = Inspector(store, keeper)
        uvicorn.run(inspector.application, port=8790)
    """

    def __init__(
        self,
        store: Store,
        keeper: SessionKeeper,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        host: str = "127.0.0.1",
        sources: PageSources = NO_SOURCES,
    ) -> None:
        is_shared = host not in LOOPBACK_HOSTS
        self.keyring = Keyring(store, own_key="", namespace=namespace) if is_shared else None
        if self.keyring is not None and not self.keyring.is_key_needed():
            raise UsageError(
                f"{host} can be reached by others, so the pages there need keys: make one with `tenfold keys create "
                "NAME`, or leave --host out"
            )
        self.sessions = OpenSessions(store, keeper, self.keyring, sources)
        routes = [
            Route(path, self._build_endpoint(page, method), methods=[method])
            for path, method, page in chain(
                PAGES, ACTIONS, BILL_PAGES, LIVE_PAGES, COMPARE_PAGES, READING_PAGES, INSTRUCTION_PAGES
            )
        ]
        static = StaticFiles(directory=Path(str(files("tenfold.apps.inspector"))) / "static")
        starlette = Starlette(
            routes=[*routes, Mount("/static", static)], exception_handlers={404: self._answer_unknown}
        )
        self.gate = Gate(starlette, Access(namespace), self.keyring, self._refuse)
        self.application: ASGIApp = keep_pages_out(self.gate, host)

    def _build_endpoint(self, page: Page, method: str) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            form = await read_form(request) if method == "POST" else {}
            scope = request.scope
            visit = Visit(self.sessions, scope[ACCESS], request.query_params, form, scope[GIVEN_KEY])
            try:
                found = await asyncio.to_thread(page, visit)
                return tell_script(found) if _is_from_script(request) else found
            except NotFoundError as exc:
                return self._refuse(request, 404, str(exc))
            except UsageError as exc:
                return self._refuse(request, 400, str(exc))
            except TenfoldError as exc:
                return self._refuse(request, 500, str(exc))

        return answer

    def _answer_unknown(self, request: Request, _: Exception) -> Response:
        return self._refuse(request, 404, "there is no such page")

    def _refuse(self, request: Request, status: int, reason: str) -> Response:
        """Answers what went wrong: as a page, or as a notice where a part of a page was asked for."""
        if _is_from_script(request):
            return respond("notice.html", text=reason or "sign in again: reload the page", kind="error")
        template = "sign_in.html" if status == 401 and self.keyring is not None else "error.html"
        return respond(template, status, reason=reason, status=status)


def _is_from_script(request: Request) -> bool:
    """Tells whether htmx sent a request, for a part of a page."""
    return request.headers.get("hx-request") == "true"
