"""Serves an ASGI application on a free port of loopback, in a thread that ends with the `with` block."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp


@contextmanager
def serve_application(application: ASGIApp) -> Iterator[str]:
    """The address of the server, without a slash at the end."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        config = uvicorn.Config(application, log_level="error", ws="none")
        server = uvicorn.Server(config)
        bound.listen(64)
        thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        server.should_exit = True
        thread.join(10)
