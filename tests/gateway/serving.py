"""A gateway before a server of the tests, and programs that talk to it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from typing import Any

import msgspec
import uvicorn
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from tenfold.apps.gateway.application import Gateway
from tenfold.apps.gateway.gateway_settings import GatewaySettings
from tenfold.apps.gateway.server import GatewayThread, ServerThread
from tenfold.store.base import Store
from tenfold.store.location import open_store
from tests.models.loopback import Got, Loopback, Script, Served

Json = dict[str, Any]


@contextmanager
def serve_gateway(upstream: str, *, store: Store | None = None, **settings: object) -> Iterator[GatewayThread]:
    """Runs a gateway on a free port, before an upstream."""
    place = store or open_store(":memory:")
    gateway = Gateway(msgspec.convert({"port": 0, "upstream": upstream, **settings}, GatewaySettings), place)
    with nullcontext() if store is not None else closing(place), GatewayThread(gateway) as served:
        yield served


def wait_until(condition: Callable[[], object]) -> None:
    """Waits until something that has to come has come."""
    while not condition():
        time.sleep(0.01)


class RawRequest(Struct, frozen=True):
    """A request as it reached the upstream, byte for byte."""

    method: str
    path: bytes
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    def get_header(self, name: str) -> str | None:
        """The value of a header."""
        return next((v.decode() for k, v in self.headers if k.decode().lower() == name), None)


class RawAnswer(Struct, frozen=True):
    """What the upstream answers. With `cut` the connection breaks after the chunks. It begins after
    `wait`, and goes on after the first chunk once `gate` is set."""

    chunks: Sequence[bytes] = (b"{}",)
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ((b"content-type", b"application/json"),)
    cut: bool = False
    wait: threading.Event | None = None
    gate: threading.Event | None = None


Answer = Callable[[RawRequest], RawAnswer]


class RawUpstream(ServerThread):
    """An upstream that keeps the bytes of each request and answers with given bytes."""

    def __init__(self, answer: Answer | RawAnswer | None = None) -> None:
        plain = answer or RawAnswer()
        self._answer = plain if callable(plain) else lambda _: plain
        self.requests: list[RawRequest] = []
        super().__init__(
            uvicorn.Config(self._app, port=0, log_config=None, lifespan="off", ws="none", interface="asgi3")
        )

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":  # whoever sent it was killed in the middle of it
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        request = RawRequest(
            scope["method"], scope["raw_path"], scope["query_string"], tuple(map(tuple, scope["headers"])), body
        )
        self.requests.append(request)
        answer = self._answer(request)
        if answer.wait is not None:
            await asyncio.to_thread(answer.wait.wait, 100)
        await send({"type": "http.response.start", "status": answer.status, "headers": list(answer.headers)})
        for number, chunk in enumerate(answer.chunks):
            if number == 1 and answer.gate is not None:
                await asyncio.to_thread(answer.gate.wait, 100)
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        if not answer.cut:
            await send({"type": "http.response.body", "body": b""})


@contextmanager
def run_gateway(
    answer: Answer | RawAnswer | None = None,
    *,
    summary_model: str = "none",
    **settings: Any,  # noqa: ANN401 - any setting
) -> Iterator[tuple[RawUpstream, GatewayThread]]:
    """Runs a gateway before an upstream that answers so. Code writes the summaries."""
    with (
        RawUpstream(answer) as upstream,
        serve_gateway(upstream.url, summary_model=summary_model, **settings) as gateway,
    ):
        yield upstream, gateway


@contextmanager
def run_loopback(
    script: Script, *, store: Store | None = None, **settings: object
) -> Iterator[tuple[Loopback, GatewayThread]]:
    """Runs a gateway before a provider on loopback, whose model answers by a script."""
    with Loopback(script=script) as upstream, serve_gateway(upstream.url, store=store, **settings) as gateway:
        yield upstream, gateway


def count_like_a_provider(got: Got) -> int:
    """The prompt tokens that the loopback reports: a quarter of the bytes."""
    return got.size // 4


def build_script(*, tools_until: int = 10**9) -> Script:
    """A model that calls `look` at every step, and writes a summary where no tools are offered."""
    count = iter(range(1, 10**9))

    def answer(got: Got) -> Served:
        tokens = count_like_a_provider(got)
        if not got.body.get("tools"):
            text = "## Goal\nTo look at the parts of the program.\n\n## Done\nThe parts were looked at one by one."
            return Served(text=text, tokens=(tokens, 40))
        number = next(count)
        if number > tools_until:
            return Served(text="All is done.", tokens=(tokens, 10))
        call = (str(number), "look", {"path": f"src/part{number}.py"})
        return Served(finish="tool", call=call, text=f"Step {number}.", tokens=(tokens, 30))

    return answer


def fill(number: int, words: int = 300) -> str:
    """What a tool gives back: words that differ from step to step."""
    return " ".join(f"line{number}x{n}" if n % 9 == 0 else "value" for n in range(words))
