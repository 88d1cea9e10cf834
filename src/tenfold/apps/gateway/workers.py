"""Runs several gateways on one port, each a process of its own with the same store: `tenfold serve --workers N`.

A worker that dies is started again. Any of them answers any request, since what they
know of a session is in the store. Only a client that names an earlier response by its id has to come to the same one.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack

from msgspec import Struct
from starlette.types import ASGIApp
from uvicorn.supervisors import Multiprocess

from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.server import build_config
from tenfold.apps.listening import bind_port, get_url
from tenfold.config.settings import Config
from tenfold.errors import UsageError
from tenfold.store.base import MEMORY_LOCATION
from tenfold.store.location import open_store

METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Names the folder in which the processes keep their numbers, so that each of them can tell the sum of all."""
LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


class WorkerPlan(Struct, frozen=True):
    """What a worker is made from, in its own process: its settings, and where the store is."""

    settings: GatewaySettings
    config: Config
    location: str
    busy_seconds: float

    def __call__(self) -> ASGIApp:
        """Opens the store and makes the gateway."""
        from tenfold.apps.gateway.application import Gateway  # noqa: PLC0415 - in the worker, which may take its time

        logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, stream=sys.stderr)
        store = open_store(
            self.location, redact_at_rest=self.config.common.redact_at_rest, busy_seconds=self.busy_seconds
        )
        atexit.register(store.close)
        jobs = None
        if self.settings.jobs:
            from tenfold.apps.jobs.hosting import host_jobs  # noqa: PLC0415 - an optional extra

            stack = ExitStack()
            jobs = stack.enter_context(host_jobs(store, self.location, self.config, policy=self.settings.policy))
            atexit.register(stack.close)
        return Gateway(self.settings, store, self.config, jobs=jobs).application


def run_workers(plan: WorkerPlan, count: int, announce: Callable[[str], None]) -> None:
    """Serves with so many processes until this one is interrupted or terminated. Running responses are finished first.

    `announce` is told the address once the port is taken. Raises `TenfoldError` if it cannot be.
    """
    if plan.location == MEMORY_LOCATION:
        raise UsageError("workers share a store, and one in memory belongs to one process: name a file or a database")
    open_store(plan.location, busy_seconds=plan.busy_seconds).close()  # what is wrong with it is said here, and once
    bound = bind_port(plan.settings.host, plan.settings.port)
    announce(get_url(bound))
    with tempfile.TemporaryDirectory(prefix="tenfold-metrics-") as folder:
        os.environ[METRICS_VARIABLE] = folder
        config = build_config(plan, plan.settings, workers=count)
        try:
            Multiprocess(config, sockets=[bound]).run()
        finally:
            del os.environ[METRICS_VARIABLE]
            bound.close()
