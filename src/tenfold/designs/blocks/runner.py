"""Runs a method of a user's strategy, whether it is a plain function or a coroutine.

A coroutine awaits `ask_model`, and may await anything else. It runs on an event loop of its own, so it works under the
sync driver, the async driver and inside a running loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from queue import SimpleQueue
from typing import TypeAlias, TypeVar

from msgspec import Struct

from tenfold.core.record.ask import Answer, Ask
from tenfold.core.record.block import ModelCost, add_costs
from tenfold.errors import UsageError

T = TypeVar("T")
StrategyReturn: TypeAlias = T | Awaitable[T]
"""What a strategy's method may return: the value, or a coroutine that returns it."""
PendingAsk = tuple[Ask, Future[Answer]]
_ASK_QUEUE: ContextVar[SimpleQueue[PendingAsk | None]] = ContextVar("tenfold-asking")
NO_MODEL_ERROR = "no model may be asked here: plans are made more than once"


class StrategyResult(Struct, frozen=True):
    """The result of a method: its value or the error it raised, what its Asks cost, and why the last of them failed."""

    value: object = None
    error: str = ""
    spent: ModelCost = ModelCost()
    model_error: str = ""


async def ask_model(ask: Ask) -> Answer:
    """Sends an Ask from a strategy's coroutine. A failed call is an Answer with `error` set, not an exception.

    Raises `UsageError` in a coroutine that no session runs.
    """
    queue = _ASK_QUEUE.get(None)
    if queue is None:
        raise UsageError("ask_model needs a session to ask: name the strategy in a policy, and compact with that")
    reply: Future[Answer] = Future()
    queue.put((ask, reply))
    return await asyncio.wrap_future(reply)


async def take_value(value: StrategyReturn[T]) -> T:
    """Returns what a strategy's method gave, awaited where that is a coroutine."""
    return await value if isinstance(value, Awaitable) else value


def run_without_model(method: Callable[[], object]) -> StrategyResult:
    """Runs a method that may not ask a model: every Ask is answered with an error that says so."""
    work = run_with_asks(method)
    try:
        asks = next(work)
        while True:
            asks = work.send(tuple(Answer(error=NO_MODEL_ERROR) for _ in asks))
    except StopIteration as stop:
        result: StrategyResult = stop.value
        return result


def run_with_asks(method: Callable[[], object]) -> Generator[tuple[Ask, ...], tuple[Answer, ...], StrategyResult]:
    """Runs a method and yields its Asks one at a time. If the method raises, the result holds the `error`."""
    spent, model_error = ModelCost(), ""
    try:
        value = method()
        if not isinstance(value, Awaitable):
            return StrategyResult(value)
        work = _drive_coroutine(value)
        ask = next(work)
        while True:
            (answer,) = yield (ask,)
            spent = add_costs(spent, answer.spent) if answer.spent.calls else spent
            model_error = answer.error or model_error
            ask = work.send(answer)
    except StopIteration as stop:
        return StrategyResult(stop.value, "", spent, model_error)
    except Exception as exc:  # noqa: BLE001 - a user's code may raise anything; it is noted, and the default stands in
        return StrategyResult(None, f"it raised {type(exc).__name__}: {exc}", spent, model_error)


def _drive_coroutine(awaitable: Awaitable[object]) -> Generator[Ask, Answer, object]:
    """Runs a coroutine on an event loop in its own thread, and yields its Asks. Closing the generator cancels it."""
    asks: SimpleQueue[PendingAsk | None] = SimpleQueue()

    async def await_work() -> object:
        _ASK_QUEUE.set(asks)
        return await awaitable

    with ThreadPoolExecutor(1, thread_name_prefix="tenfold-strategy") as pool:
        future = pool.submit(lambda: asyncio.run(await_work()))
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
