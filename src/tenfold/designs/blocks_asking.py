"""Runs a method of a user's strategy, whether it is a plain function, a coroutine or a generator.

A generator yields Asks and is sent Answers. A coroutine awaits `ask_model`, and may await anything else. Coroutines run
on an event loop of their own, so they work under the sync driver, the async driver and inside a running loop.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from queue import SimpleQueue
from typing import cast

from msgspec import Struct

from tenfold.record.ask import Answer, Ask
from tenfold.record.block import Spent
from tenfold.summarize.ladder import added

Asking = Generator[Ask, Answer, object]
Wanted = tuple[Ask, Future[Answer]]
_BRIDGE: ContextVar[SimpleQueue[Wanted | None]] = ContextVar("tenfold-asking")
NO_MODEL_HERE = "no model may be asked here: plans are made more than once"


class Settled(Struct, frozen=True):
    """The result of a method: its value or the error it raised, and what its Asks cost."""

    value: object = None
    error: str = ""
    spent: Spent = Spent()


async def asked(ask: Ask) -> Answer:
    """Sends an Ask from a strategy's coroutine. A failed call is an Answer with `error` set, not an exception."""
    reply: Future[Answer] = Future()
    _BRIDGE.get().put((ask, reply))
    return await asyncio.wrap_future(reply)


def settled(method: Callable[[], object]) -> Settled:
    """Runs a method that may not ask a model: every Ask is answered with an error that says so."""
    work = settling(method)
    try:
        asks = next(work)
        while True:
            asks = work.send(tuple(Answer(error=NO_MODEL_HERE) for _ in asks))
    except StopIteration as stop:
        result: Settled = stop.value
        return result


def settling(method: Callable[[], object]) -> Generator[tuple[Ask, ...], tuple[Answer, ...], Settled]:
    """Runs a method and yields its Asks one at a time. If the method raises, the result holds the `error`."""
    spent = Spent()
    try:
        value = method()
        work = _work(value)
        if work is None:
            return Settled(value)
        ask = next(work)
        while True:
            (answer,) = yield (ask,)
            spent = added(spent, answer.spent) if answer.spent.calls else spent
            ask = work.send(answer)
    except StopIteration as stop:
        return Settled(stop.value, "", spent)
    except Exception as exc:  # noqa: BLE001 - a user's code may raise anything; it is noted, and the default stands in
        return Settled(None, f"it raised {type(exc).__name__}: {exc}", spent)


def _work(given: object) -> Asking | None:
    if inspect.isgenerator(given):
        return cast("Asking", given)
    return _awaited(given) if isinstance(given, Awaitable) else None


def _awaited(work: Awaitable[object]) -> Asking:
    """Runs a coroutine on an event loop in its own thread, and yields its Asks. Closing the generator cancels it."""
    asks: SimpleQueue[Wanted | None] = SimpleQueue()

    async def main() -> object:
        _BRIDGE.set(asks)
        return await work

    with ThreadPoolExecutor(1, thread_name_prefix="tenfold-strategy") as pool:
        future = pool.submit(lambda: asyncio.run(main()))
        future.add_done_callback(lambda _: asks.put(None))
        pending = asks.get()
        try:
            while pending is not None:
                pending[1].set_result((yield pending[0]))
                pending = asks.get()
        except GeneratorExit:
            while pending is not None:
                pending[1].cancel()
                pending = asks.get()
            raise
        return future.result()
