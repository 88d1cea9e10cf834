"""Runs the inspector on a port, until the process is interrupted or terminated."""

from __future__ import annotations

from collections.abc import Callable

import uvicorn

from tenfold.apps.inspector.application import Inspector
from tenfold.apps.listening import bind_port, get_url

GRACE_SECONDS = 2
"""How long a stopping server lets an open page finish what it loads."""


def run_inspector(inspector: Inspector, *, host: str, port: int, announce: Callable[[str, str], None]) -> None:
    """Serves the pages. `announce` is told the address and the token that opens it, "" where a key does.

    Raises `TenfoldError` if the port cannot be taken.
    """
    bound = bind_port(host, port)
    announce(get_url(bound), inspector.gate.token if inspector.keyring is None else "")
    config = uvicorn.Config(
        inspector.application,
        log_config=None,
        access_log=False,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    uvicorn.Server(config).run(sockets=[bound])
