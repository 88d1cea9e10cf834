"""What a user's method gives, plain, as a coroutine or as a generator, brought to its value; its Asks are passed on.

A generator yields Asks and is sent Answers. A coroutine awaits `asked`, and may await anything else: it runs on an
event loop of its own, so that it works alike under the sync and the async driver, and inside a running loop.
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
    """What came of a method: its value, or the error it raised, and what its Asks cost."""

    value: object = None
    error: str = ""
    spent: Spent = Spent()


async def asked(ask: Ask) -> Answer:
    """Asks from within a strategy's coroutine. A failed call is an Answer with `error`, not an exception."""
    reply: Future[Answer] = Future()
    _BRIDGE.get().put((ask, reply))
    return await asyncio.wrap_future(reply)


def settled(method: Callable[[], object]) -> Settled:
    """A method's value where no model may be asked: every Ask is answered with an error that says so."""
    work = settling(method)
    try:
        asks = next(work)
        while True:
            asks = work.send(tuple(Answer(error=NO_MODEL_HERE) for _ in asks))
    except StopIteration as stop:
        came: Settled = stop.value
        return came


def settling(method: Callable[[], object]) -> Generator[tuple[Ask, ...], tuple[Answer, ...], Settled]:
    """A method's value, its Asks passed on one by one. What it raises comes back as the `error`."""
    spent = Spent()
    try:
        given = method()
        work = _work(given)
        if work is None:
            return Settled(given)
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
    """Runs a coroutine on a loop and a thread of its own, and passes its Asks on. Closed early, it is cancelled."""
    asks: SimpleQueue[Wanted | None] = SimpleQueue()

    async def main() -> object:
        _BRIDGE.set(asks)
        return await work

    with ThreadPoolExecutor(1, thread_name_prefix="tenfold-strategy") as pool:
        done = pool.submit(lambda: asyncio.run(main()))
        done.add_done_callback(lambda _: asks.put(None))
        wanted = asks.get()
        try:
            while wanted is not None:
                wanted[1].set_result((yield wanted[0]))
                wanted = asks.get()
        except GeneratorExit:
            while wanted is not None:
                wanted[1].cancel()
                wanted = asks.get()
            raise
        return done.result()
