"""Runs a method of a user's strategy, whether it is a plain function, a coroutine or a generator.

A generator yields Asks and is sent Answers. A coroutine awaits `ask_model`, and may await anything else. Coroutines run
on an event loop of their own, so they work under the sync driver, the async driver and inside a running loop.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Any, TypeAlias, TypeVar, cast

from msgspec import Struct

from tenfold.core.record.ask import Answer, Ask
from tenfold.core.record.block import ModelCost, add_costs
from tenfold.errors import UsageError
from tenfold.session.drive import Answerer

T = TypeVar("T")
StrategyReturn: TypeAlias = T | Awaitable[T] | Generator[Ask, Answer, T]
"""What a strategy's method may return: the value, a coroutine, or a generator that yields Asks and returns it."""
AskGenerator = Generator[Ask, Answer, object]
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


def combine_results(results: Sequence[StrategyReturn[Any]], combine: Callable[..., T]) -> StrategyReturn[T]:
    """Returns `combine` of what several methods returned, in the form in which they did.

    That is the value where all are plain. It is a generator where one is, which also runs the coroutines among them,
    and else a coroutine.
    """
    if any(inspect.isgenerator(each) for each in results):
        return _combine_steps(results, combine)
    if any(isinstance(each, Awaitable) for each in results):
        return _combine_awaited(results, combine)
    return combine(*results)


def _combine_steps(results: Sequence[StrategyReturn[Any]], combine: Callable[..., T]) -> Generator[Ask, Answer, T]:
    values: list[object] = []
    for each in results:
        work = _as_generator(each)
        values.append(each if work is None else (yield from work))
    return combine(*values)


async def _combine_awaited(results: Sequence[StrategyReturn[Any]], combine: Callable[..., T]) -> T:
    return combine(*[await each if isinstance(each, Awaitable) else each for each in results])


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


def run_reported(name: str, work: Callable[[], object]) -> object:
    """Runs a user's code, plain or a coroutine, and returns its value. What it raises is logged; it is None then."""
    result = run_without_model(work)
    if result.error:
        Answerer().report_problem(f"{name}: {result.error}; it was ignored")
    return result.value


def run_with_asks(method: Callable[[], object]) -> Generator[tuple[Ask, ...], tuple[Answer, ...], StrategyResult]:
    """Runs a method and yields its Asks one at a time. If the method raises, the result holds the `error`."""
    spent, model_error = ModelCost(), ""
    try:
        value = method()
        work = _as_generator(value)
        if work is None:
            return StrategyResult(value)
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


def _as_generator(value: object) -> AskGenerator | None:
    if inspect.isgenerator(value):
        return cast("AskGenerator", value)
    return _drive_coroutine(value) if isinstance(value, Awaitable) else None


def _drive_coroutine(awaitable: Awaitable[object]) -> AskGenerator:
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
