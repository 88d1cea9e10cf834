"""Serves an ASGI application on a free port of loopback, in a thread that ends with the `with` block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from tenfold.apps.gateway.server import ServerThread


@contextmanager
def serve_application(application: ASGIApp) -> Iterator[str]:
    """The address of the server, without a slash at the end."""
    with ServerThread(uvicorn.Config(application, port=0, log_level="error", ws="none")) as server:
        yield server.url
