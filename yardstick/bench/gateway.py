"""Measures what the gateway adds to a request, beside a plain proxy of the same libraries and beside no proxy at all.

The plain proxy is Starlette, uvicorn and httpx, and passes bytes on. All requests of a comparison are interleaved, in
changing order, so that a busy machine slows all alike. With the path of headroom's command in the environment as
HEADROOM (`pip install "headroom-ai[proxy]"`, in an environment of its own), its proxy is compared too.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from msgspec import Struct
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tenfold.apps.gateway.application import Gateway
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.server import build_config
from tenfold.core.meter.counters import choose_counter
from tenfold.store.sqlite.store import SqliteStore

PATH = "/v1/chat/completions"
MODEL = "bench"
"""A model without known prices, which would move the trigger."""
WIDE = 10_000_000
SIZES = (4_000, 100_000, 400_000, 2_000_000)
ROUNDS = {4_000: 100, 100_000: 100, 400_000: 60, 2_000_000: 30}
SKIPPED_ROUNDS = 4
CLIENTS = 64
MEMORY_SESSIONS = 1_000
_ANSWER = json.dumps(
    {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
    }
).encode()  # without a usage: what a provider counts would not fit this text
_ADDRESS = tuple[str, int]


# -- the servers, a process each ---------------------------------------------------------------------------------------


def serve_upstream(bound: socket.socket) -> None:
    """Reads a request and answers it at once."""

    async def application(_: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        length = str(len(_ANSWER)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", length)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": _ANSWER})

    _serve(uvicorn.Config(application, lifespan="off", log_config=None, access_log=False, timeout_keep_alive=75), bound)


def serve_plain(bound: socket.socket, upstream: str) -> None:
    """Passes requests and responses on, and does nothing else."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=CLIENTS)
    client = httpx.AsyncClient(limits=limits)

    async def forward(request: Request) -> Response:
        body = await request.body()
        headers = [pair for pair in request.headers.raw if pair[0].lower() not in (b"host", b"content-length")]
        call = client.build_request(request.method, f"{upstream}{request.url.path}", headers=headers, content=body)
        response = await client.send(call, stream=True)
        return StreamingResponse(response.aiter_raw(), response.status_code, dict(response.headers))

    application = Starlette(routes=[Route("/{path:path}", forward, methods=["POST"])])
    _serve(uvicorn.Config(application, log_config=None, access_log=False, ws="none", timeout_keep_alive=75), bound)


def serve_gateway(bound: socket.socket, settings: GatewaySettings, store: str) -> None:
    """Runs Tenfold's gateway over a store in a file."""
    gateway = Gateway(settings, SqliteStore(Path(store)))
    _serve(build_config(gateway.application, settings), bound)


def _serve(config: uvicorn.Config, bound: socket.socket) -> None:
    uvicorn.Server(config).run(sockets=[bound])


class Served(Struct, frozen=True):
    """A server that runs."""

    address: _ADDRESS
    pid: int

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http://{self.address[0]}:{self.address[1]}"


@contextmanager
def run_server(function: Any, *arguments: Any) -> Iterator[Served]:  # noqa: ANN401 - one of the functions above
    """Runs a server in a process of its own for as long as the block lasts."""
    # With the protocol, for only then asyncio sends each piece of a response at once (TCP_NODELAY).
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as bound:
        bound.bind(("127.0.0.1", 0))
        bound.listen(512)
        address: _ADDRESS = bound.getsockname()
        process = multiprocessing.get_context("spawn").Process(target=function, args=(bound, *arguments), daemon=True)
        process.start()
    try:
        post(HTTPConnection(address[0], address[1], timeout=60), b'{"model":"m","messages":[]}', "start")
        yield Served(address, process.pid or 0)
    finally:
        process.terminate()
        process.join(30)


# -- requests ----------------------------------------------------------------------------------------------------------


def build_bodies(size: int, count: int, name: str = "") -> Iterator[bytes]:
    """Builds the requests of an agent with 14 tools: the first has `size` bytes, each other one step more."""
    tools = [_build_tool(index) for index in range(14 if size > 20_000 else 1)]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You work in a repository. " * (40 if size > 20_000 else 4)},
        {"role": "user", "content": f"{name} Find out why the totals of the report differ, and mend it."},
        *_build_step(0, 200),
    ]
    have = len(json.dumps({"messages": messages, "tools": tools}))
    while have < size:
        step = _build_step(len(messages), min(1_600, max(100, size - have - 400)))
        messages += step
        have += len(json.dumps(step))
    for _ in range(count):
        yield json.dumps({"model": MODEL, "messages": messages, "tools": tools}).encode()
        messages += _build_step(len(messages), 300)


def _build_step(number: int, length: int) -> list[dict[str, Any]]:
    text = "".join(f"{number}.{line}: total = sum(row.price * row.count for row in rows)\n" for line in range(40))
    arguments = json.dumps({"path": f"src/shop/part_{number}.py"})
    call = {"id": f"call_{number}", "type": "function", "function": {"name": "tool_1", "arguments": arguments}}
    return [
        {"role": "assistant", "content": f"Step {number}: I look at the next part.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": (text * (length // len(text) + 1))[:length]},
    ]


def _build_tool(number: int) -> dict[str, Any]:
    properties = {"path": {"type": "string", "description": "Where the file lies, from the root of the repository."}}
    parameters = {"type": "object", "properties": properties}
    description = f"Reads part {number} of a file. " * 12
    return {
        "type": "function",
        "function": {"name": f"tool_{number}", "description": description, "parameters": parameters},
    }


def post(connection: HTTPConnection, body: bytes, key: str) -> float:
    """Sends a request and reads the response. Returns the seconds it took."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    start = time.perf_counter()
    connection.request("POST", PATH, body, headers)
    response = connection.getresponse()
    text = response.read()
    took = time.perf_counter() - start
    if response.status != 200:
        raise RuntimeError(f"HTTP {response.status}: {text[:300]!r}")
    if response.headers.get("x-tenfold-bypass"):
        raise RuntimeError(f"the gateway did not work: {response.headers['x-tenfold-bypass']}")
    return took


# -- the time of one request -------------------------------------------------------------------------------------------


Times = dict[str, list[float]]


def time_interleaved(
    servers: dict[str, Served], bodies: Sequence[bytes], *, has_own_keys: bool = False, pause: float = 0.005
) -> Times:
    """Sends each body to every server in turn. Returns the seconds of each. With `has_own_keys` each is a session.

    The pause after each request is for what a server does after its response: an agent works then too.
    """
    names = list(servers)
    connections = {name: HTTPConnection(*servers[name].address, timeout=120) for name in names}
    took: Times = {name: [] for name in names}
    for at, body in enumerate(bodies):
        for name in names[at % len(names) :] + names[: at % len(names)]:
            key = f"{len(bodies[0])}-{at if has_own_keys else 0}"
            took[name].append(post(connections[name], body, key))
            time.sleep(pause)
    for connection in connections.values():
        connection.close()
    return {name: times[SKIPPED_ROUNDS:] for name, times in took.items()}


def print_header() -> None:
    """Prints what the columns of `print_times` are."""
    print(
        f"{'':22} {'':>9}  {'':12} {'milliseconds':>17} {'added to direct':>21} {'ratio to the plain proxy':>27}\n"
        f"{'session':22} {'body':>9}  {'':12} {'quarter':>8} {'median':>8} {'p50':>10} {'p99':>10} "
        f"{'quarter':>8} {'median':>8} {'in pairs':>9}"
    )


def print_times(title: str, size: int, took: Times) -> None:
    """Prints a row for each proxy: what it takes, what it adds to the direct way, and the ratios to the plain proxy."""
    quarters = {name: statistics.quantiles(times, n=4) for name, times in took.items()}
    for name, times in took.items():
        added = sorted(each - base for each, base in zip(times, took["direct"], strict=True))
        pairs = statistics.median(a / b for a, b in zip(times, took["plain proxy"], strict=True))
        low, middle, _ = (a / b for a, b in zip(quarters[name], quarters["plain proxy"], strict=True))
        print(
            f"{title:22} {size:>9,}  {name:12} {quarters[name][0] * 1e3:>8.2f} {quarters[name][1] * 1e3:>8.2f} "
            f"{statistics.median(added) * 1e3:>10.2f} {added[int(len(added) * 0.99)] * 1e3:>10.2f} "
            f"{low:>8.2f} {middle:>8.2f} {pairs:>9.2f}",
            flush=True,
        )


def compare_times(folder: Path, upstream: Served, plain: Served) -> None:
    """Prints the times of a session that is known, one that was compacted, and the first request of one."""
    base = {"direct": upstream, "plain proxy": plain}
    with run_server(serve_gateway, build_settings(upstream, WIDE), str(folder / "wide.db")) as gateway:
        servers = {**base, "gateway": gateway}
        for size in SIZES:
            print_times("known", size, time_interleaved(servers, [*build_bodies(size, ROUNDS[size])]))
        for size in SIZES:
            bodies = [next(build_bodies(size, 1, f"Nr {at:03}.")) for at in range(ROUNDS[size] // 3)]
            pause = 0.06 + size / 4_000_000
            print_times("first request", size, time_interleaved(servers, bodies, has_own_keys=True, pause=pause))
    for size in SIZES[1:]:
        bodies = [*build_bodies(size, ROUNDS[size])]
        window = sum(choose_counter(MODEL).counter.count([bodies[0].decode()]))
        with run_server(serve_gateway, build_settings(upstream, window), str(folder / f"{size}.db")) as gateway:
            print_times("known, compacted", size, time_interleaved({**base, "gateway": gateway}, bodies))


@contextmanager
def run_headroom(command: str, upstream: Served, folder: Path) -> Iterator[Served]:
    """Runs headroom's proxy as it comes, without its limit of 60 requests a minute, and without a network."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        address: _ADDRESS = bound.getsockname()
    arguments = ("proxy", "--port", str(address[1]), "--no-rate-limit", "--openai-api-url", upstream.url)
    offline = {"HF_HUB_OFFLINE": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True", "HEADROOM_TELEMETRY": "off"}
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), **offline}
    with (folder / "headroom.log").open("wb") as log:
        process = subprocess.Popen([command, *arguments], cwd=folder, env=environ, stdout=log, stderr=log)
    try:
        _wait_for_port(address, process)
        yield Served(address, process.pid)
    finally:
        process.terminate()
        process.wait(30)


def _wait_for_port(address: _ADDRESS, process: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        try:
            socket.create_connection(address, timeout=1).close()
        except OSError:
            if process.poll() is not None:
                raise RuntimeError("headroom ended before it served") from None
            time.sleep(0.2)
        else:
            return
    raise RuntimeError("headroom does not serve after two minutes")


def compare_headroom(folder: Path, upstream: Served, plain: Served, command: str) -> None:
    """Prints the times of a session that is known, with headroom's proxy before the same upstream."""
    base = {"direct": upstream, "plain proxy": plain}
    with (
        run_server(serve_gateway, build_settings(upstream, WIDE), str(folder / "beside.db")) as gateway,
        run_headroom(command, upstream, folder) as headroom,
    ):
        for size in SIZES:
            bodies = [*build_bodies(size, ROUNDS[size] // 2)]
            servers = {**base, "gateway": gateway, "headroom": headroom}
            print_times("known", size, time_interleaved(servers, bodies))


def build_settings(upstream: Served, window: int) -> GatewaySettings:
    """Returns the settings of a gateway whose summaries are written by code."""
    return GatewaySettings(upstream=f"{upstream.url}/v1", window=window, summary_model="none")


# -- many requests at a time -------------------------------------------------------------------------------------------


async def _send_many(address: _ADDRESS, bodies: Sequence[bytes], key: str) -> None:
    reader, writer = await asyncio.open_connection(*address)
    for body in bodies:
        lines = (
            f"POST {PATH} HTTP/1.1",
            f"host: {address[0]}",
            f"authorization: Bearer {key}",
            "content-type: application/json",
            f"content-length: {len(body)}",
        )
        writer.write("\r\n".join((*lines, "", "")).encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        await reader.readexactly(int(length.partition(b":")[2]))
        if b" 200 " not in answer.partition(b"\r\n")[0]:
            raise RuntimeError(answer.decode("latin-1"))
    writer.close()


def compare_rates(servers: dict[str, Served], *, rounds: int = 4, each: int = 2) -> None:
    """Prints the requests a second of 64 clients at a time, each with a session of its own."""

    async def time_round(address: _ADDRESS, bodies: list[list[bytes]], number: int) -> float:
        start = time.perf_counter()
        part = slice(number * each, (number + 1) * each)
        await asyncio.gather(*(_send_many(address, own[part], f"many-{at}") for at, own in enumerate(bodies)))
        return CLIENTS * each / (time.perf_counter() - start)

    for size in (4_000, 100_000):
        bodies = [[*build_bodies(size, (rounds + 1) * each, f"Nr {at:03}.")] for at in range(CLIENTS)]
        rates: dict[str, list[float]] = {name: [] for name in servers}
        for number in range(rounds + 1):
            for name, server in servers.items():
                rates[name].append(asyncio.run(time_round(server.address, bodies, number)))
        middle = {name: statistics.median(found[1:]) for name, found in rates.items()}
        shares = "  ".join(f"{name} {middle[name]:,.0f}" for name in servers)
        print(f"{size:>9,} bytes: {shares}   gateway / plain proxy: {middle['gateway'] / middle['plain proxy']:.2f}")


# -- memory ------------------------------------------------------------------------------------------------------------


def read_memory(pid: int) -> float:
    """Returns the resident memory of a process in MB."""
    run = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return int(run.stdout) / 1024


def measure_memory(folder: Path, upstream: Served) -> None:
    """Prints the memory of a gateway that has seen 1,000 sessions of 100 KB, by how many it keeps in memory."""
    for kept in (GatewaySettings().max_sessions, MEMORY_SESSIONS):
        settings = replace(build_settings(upstream, WIDE), max_sessions=kept)
        with run_server(serve_gateway, settings, str(folder / f"memory-{kept}.db")) as gateway:
            connection = HTTPConnection(*gateway.address, timeout=120)
            for body in build_bodies(100_000, 3, "start"):
                post(connection, body, "start")
            before = read_memory(gateway.pid)
            marks = []
            for at in range(MEMORY_SESSIONS):
                for body in build_bodies(100_000, 2, f"Nr {at:04}."):
                    post(connection, body, f"memory-{at}")
                if (at + 1) % (MEMORY_SESSIONS // 4) == 0:
                    marks.append(f"{at + 1:,}: {read_memory(gateway.pid):,.0f}")
            after = read_memory(gateway.pid)
            oldest = [[*build_bodies(100_000, 3, f"Nr {at:04}.")][2] for at in range(20)]
            took = [post(connection, body, f"memory-{at}") for at, body in enumerate(oldest)]
        share = (after - before) * 1024 / kept
        print(
            f"{kept:>5,} kept in memory: {before:,.0f} MB before; after {', '.join(marks)} MB; {share:,.0f} KB each; "
            f"the next request of the oldest 20: {statistics.median(took) * 1e3:.0f} ms"
        )


def main() -> None:
    """Prints the tables."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        upstream = stack.enter_context(run_server(serve_upstream))
        plain = stack.enter_context(run_server(serve_plain, upstream.url))
        wanted = sys.argv[1:] or ["times", "headroom", "rates", "memory"]
        if "times" in wanted:
            print("one request at a time (milliseconds); the three ways interleaved\n")
            print_header()
            compare_times(folder, upstream, plain)
        if "headroom" in wanted and (command := os.environ.get("HEADROOM")):
            print("\nthe same beside headroom's proxy\n")
            print_header()
            compare_headroom(folder, upstream, plain, command)
        if "rates" in wanted:
            print(f"\nrequests a second, {CLIENTS} clients at a time, a session each")
            with run_server(serve_gateway, build_settings(upstream, WIDE), str(folder / "rates.db")) as gateway:
                compare_rates({"direct": upstream, "plain proxy": plain, "gateway": gateway})
        if "memory" in wanted:
            print(f"\nresident memory of the gateway, {MEMORY_SESSIONS:,} sessions of 100 KB, two requests each")
            measure_memory(folder, upstream)


if __name__ == "__main__":
    main()
