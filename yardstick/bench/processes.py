"""Measures the requests a second of 1, 2 and 4 gateways on one PostgreSQL: `python -m yardstick.bench.processes`.

Beside them, in the same run and in changing order, as many plain proxies of the same libraries. 64 clients go round
robin, so no session sticks to a process. The clients, the upstream, PostgreSQL and all gateways share one machine:
with fewer processors than processes, the ratios say what a process costs, and not how far they scale.
"""

from __future__ import annotations

import asyncio
import os
import socket
import statistics
import time
from contextlib import ExitStack

from tenfold.apps.gateway.application import Gateway
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.server import build_config
from tenfold.store.location import open_store
from yardstick.bench.gateway import (
    CLIENTS,
    WIDE,
    Served,
    _send_many,
    _serve,
    build_bodies,
    build_settings,
    run_server,
    serve_plain,
    serve_upstream,
)
from yardstick.bench.stores import start_server

COUNTS = (1, 2, 4)
SIZES = (4_000, 100_000)
ROUNDS, EACH = 5, 4
"""Rounds of which the median counts, and requests of each client in one."""


def serve_database(bound: socket.socket, settings: GatewaySettings, location: str) -> None:
    """Runs a gateway over a store anywhere."""
    _serve(build_config(Gateway(settings, open_store(location)).application, settings), bound)


async def _send_round(servers: list[Served], bodies: list[list[bytes]], number: int) -> None:
    """Sends the requests of one round: each client's next one goes to the next server."""

    async def go_on(client: int) -> None:
        for step in range(EACH):
            server = servers[(client + step) % len(servers)]
            await _send_many(server.address, [bodies[client][number * EACH + step]], f"many-{client}")

    await asyncio.gather(*map(go_on, range(CLIENTS)))


def main() -> None:
    """Prints the rates."""
    with ExitStack() as stack:
        location = stack.enter_context(start_server())
        upstream = stack.enter_context(run_server(serve_upstream))
        settings = build_settings(upstream, WIDE)
        plain = [stack.enter_context(run_server(serve_plain, upstream.url)) for _ in range(max(COUNTS))]
        gateways = [stack.enter_context(run_server(serve_database, settings, location)) for _ in range(max(COUNTS))]
        print(f"requests a second, {CLIENTS} clients, {os.cpu_count()} processors for everything")
        for size in SIZES:
            for count in COUNTS:
                bodies = [
                    [*build_bodies(size, (ROUNDS + 1) * EACH, f"{count} processes, nr {at:03}.")]
                    for at in range(CLIENTS)
                ]
                rates: dict[str, list[float]] = {"plain": [], "gateway": []}
                for number in range(ROUNDS + 1):
                    for name, servers in (("plain", plain), ("gateway", gateways))[:: 1 - 2 * (number % 2)]:
                        start = time.perf_counter()
                        asyncio.run(_send_round(servers[:count], bodies, number))
                        rates[name].append(CLIENTS * EACH / (time.perf_counter() - start))
                proxy, own = (statistics.median(found[1:]) for found in rates.values())
                print(
                    f"{size:>9,} bytes, {count} processes: plain proxy {proxy:>6,.0f}, gateway {own:>6,.0f}, "
                    f"ratio {own / proxy:.2f} (from {min(rates['gateway'][1:]):,.0f} to {max(rates['gateway']):,.0f})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
