"""Runs a gateway on a port: in the foreground until it is stopped, or beside a program in a thread."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from tenfold.apps.gateway.application import Gateway
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.listening import bind_port, get_url
from tenfold.errors import TenfoldError

GRACE_SECONDS = 30
"""How long a stopping gateway lets running responses finish."""
START_SECONDS = 30.0


class _Server(uvicorn.Server):
    """A server that leaves the signals of the process alone: it runs in a thread."""

    @contextlib.contextmanager
    def capture_signals(self) -> contextlib.Generator[None]:  # type: ignore[name-defined]
        yield


def build_config(
    application: ASGIApp | Callable[[], ASGIApp], settings: GatewaySettings, *, workers: int = 0
) -> uvicorn.Config:
    """Builds the configuration of the server: no log of its own, since a gateway has its own line for each request.

    With `workers` the application is what each of so many processes calls to make its own.
    """
    return uvicorn.Config(
        application,
        factory=workers > 0,
        workers=workers or 1,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=75,
    )


def run_gateway(gateway: Gateway, announce: Callable[[str], None]) -> None:
    """Serves until the process is interrupted or terminated. Running responses are finished first.

    `announce` is told the address once the port is taken. Raises `TenfoldError` if it cannot be.
    """
    bound = bind_port(gateway.settings.host, gateway.settings.port)
    announce(get_url(bound))
    uvicorn.Server(build_config(gateway.application, gateway.settings)).run(sockets=[bound])


class ServerThread:
    """A server in a thread, for as long as a `with` block lasts. The port 0 of its configuration is a free one."""

    def __init__(self, config: uvicorn.Config) -> None:
        """Binds the address; the server starts with the block."""
        self._socket = bind_port(config.host, config.port)
        self._server = _Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [self._socket]}, name="tenfold-gateway", daemon=True
        )

    @property
    def url(self) -> str:
        """The address of the server, without a path."""
        return get_url(self._socket)

    def __enter__(self) -> Self:
        self._thread.start()
        deadline = time.monotonic() + START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise TenfoldError("the gateway did not start: see the log for the reason")
            time.sleep(0.005)
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, at: TracebackType | None) -> None:
        self._server.should_exit = True
        self._thread.join()


class GatewayThread(ServerThread):
    """A gateway in a thread, for as long as a `with` block lasts.

    with GatewayThread(Gateway(GatewaySettings(port=0), store)) as served:
        openai.OpenAI(base_url=f"{served.url}/v1")
    """

    def __init__(self, gateway: Gateway) -> None:
        """With the port 0 a free one is taken."""
        super().__init__(build_config(gateway.application, gateway.settings))
        self.gateway = gateway
