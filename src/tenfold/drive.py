"""Runs an engine generator to its end and answers its Asks, either synchronously or with asyncio.

Only this module exists in both forms. Whatever an Ask needs comes in an `Answerer`. Retries, time-outs and
cancellation are decided here and nowhere deeper. Each model call has a thread of its own, and nothing waits for it
longer than the Ask allows, so a model that hangs blocks neither the session nor the end of the program. Nothing is
written here: the session appends the entry of the EngineResult.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from math import isfinite
from threading import Thread
from typing import TypeVar, assert_never

from msgspec import Struct
from msgspec.structs import replace

from tenfold.engine import Effects
from tenfold.errors import TenfoldError
from tenfold.events import Event, Listener
from tenfold.llm.model import AsyncModel, Model
from tenfold.llm.patience import Patience
from tenfold.record.ask import Answer, Ask, Consult, Outcome, Read, Summarize, Verdict
from tenfold.record.block import Block, Spent
from tenfold.record.entry import Entry
from tenfold.redact import redact

T = TypeVar("T")
Called = Callable[[Summarize], Awaitable[Answer]]
"""A model call that is a coroutine."""
Before = Callable[[Consult], Answer | None]
"""A before-hook. Its Answer may cancel, supply a summary text, or add a focus. None changes nothing."""
After = Callable[[Outcome, Block], None]
"""An after-hook. It is called with each Block once it is appended."""


class Answerer(Struct, frozen=True):
    """Everything an Ask may need (a model, before-hooks in order, a reader of entries), and whom to notify.

    `after_hooks` are called with each appended Block, `listeners` with every event. A hook or listener that raises is
    ignored, and `problem_reporter` receives a message (without one, the logger "tenfold" does). `retry_rule` says how
    long to wait before a model call that failed temporarily is repeated.
    """

    model: Model | None = None
    before: tuple[Before, ...] = ()
    after: tuple[After, ...] = ()
    listen: tuple[Listener, ...] = ()
    read: Callable[[Sequence[int]], Sequence[Entry]] | None = None
    report: Callable[[str], None] | None = None
    patience: Patience = Patience()

    def answer(self, ask: Ask) -> Answer:
        """Answers one Ask. A failure is returned as an Answer with its error, never raised."""
        match ask:
            case Summarize():
                return self._summarized(ask)
            case Consult():
                return self._consulted(ask)
            case Read():
                if self.read is None:
                    return Answer(error="nothing to read from")
                try:
                    return Answer(entries=tuple(self.read(ask.positions)))
                except (TenfoldError, OSError) as exc:
                    return _failed(exc)
            case _:
                assert_never(ask)

    def _summarized(self, ask: Summarize) -> Answer:
        if self.model is None:
            return Answer(error="no model is configured")
        calls = self.patience.calls(ask)
        pause = next(calls)
        while True:
            if pause:
                self.patience.sleep(pause)
            try:
                pause = calls.send(_called(self.model, ask))
            except StopIteration as stop:
                answer: Answer = stop.value
                return answer

    def _consulted(self, ask: Consult) -> Answer:
        combined = Answer()
        for hook in self.before:
            try:
                advice: object = hook(ask)  # a hook is a user's code, which may not be typed
            except Exception as exc:  # noqa: BLE001 - a user's hook may raise anything; it is reported and ignored
                self.say(f"a before-hook raised {type(exc).__name__}: {exc}; it was ignored")
                continue
            if advice is None:
                continue
            if not isinstance(advice, Answer):
                self.say(f"a before-hook gave a {type(advice).__name__}, not an Answer or None; it was ignored")
                continue
            if advice.cancel:
                return advice
            newest = advice if advice.text or advice.supplied else combined
            combined = Answer(text=newest.text, supplied=newest.supplied, focus=advice.focus or combined.focus)
        return combined

    def tell(self, event: Event) -> None:
        """Calls every listener with the event."""
        for listener in self.listen:
            try:
                listener(event)
            except Exception as exc:  # noqa: BLE001 - a listener is a user's code; it is reported and ignored
                self.say(f"a listener raised {type(exc).__name__}: {exc}; it was ignored")

    def appended(self, outcome: Outcome, block: Block) -> None:
        """Calls every after-hook with an appended Block."""
        for hook in self.after:
            try:
                hook(outcome, block)
            except Exception as exc:  # noqa: BLE001 - a hook is a user's code; it is reported and ignored
                self.say(f"an after-hook raised {type(exc).__name__}: {exc}; it was ignored")

    def say(self, what: str) -> None:
        """Reports a problem in a user's hook or listener."""
        if self.report is not None:
            self.report(what)
        else:
            logging.getLogger("tenfold").warning(redact(what))


def _failed(exc: BaseException) -> Answer:
    """Converts an exception of a model or a store to an Answer."""
    is_temporary = isinstance(exc, ConnectionError | TimeoutError)
    return Answer(error=redact(f"{type(exc).__name__}: {exc}"), retryable=is_temporary)


def _safe(answer: Answer) -> Answer:
    """Returns the Answer with secrets removed from its error, which is stored and may quote the request."""
    return replace(answer, error=redact(answer.error)) if answer.error else answer


def _late(ask: Summarize) -> Answer:
    spent = Spent(calls=1, model=ask.model)
    return Answer(error=f"no answer within {ask.timeout:g} s", retryable=True, timed_out=True, spent=spent)


def _started(work: Callable[[], T]) -> Future[T]:
    """Starts work on a daemon thread of its own. Nothing has to wait for it, not even the end of the program."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    context = copy_context()

    def carry_out() -> None:
        try:
            future.set_result(context.run(work))
        except BaseException as exc:  # noqa: BLE001 - whatever it raised is raised where its result is asked for
            future.set_exception(exc)

    Thread(target=carry_out, name="tenfold-ask", daemon=True).start()
    return future


def _called(model: Model, ask: Summarize) -> Answer:
    """Makes one model call. It fails if the model raises or gives no answer in time."""
    future = _started(partial(model.answer, ask))
    try:
        exc = future.exception(timeout=ask.timeout if isfinite(ask.timeout) else None)
    except TimeoutError:
        return _late(ask)
    if exc is None:
        return _safe(future.result())
    if not isinstance(exc, Exception):
        raise exc  # KeyboardInterrupt and the like end the program, as they would without a thread in between
    return _failed(exc)


async def _acalled(call: Called, ask: Summarize) -> Answer:
    """Does the same as `_call_model`, for a model call that is a coroutine."""
    try:
        async with asyncio.timeout(ask.timeout if isfinite(ask.timeout) else None) as clock:
            return _safe(await call(ask))
    except Exception as exc:  # noqa: BLE001 - a user's model may raise anything, and no run may fail for a summary
        return _late(ask) if clock.expired() else _failed(exc)


async def _asummarized(call: Called, ask: Summarize, patience: Patience) -> Answer:
    calls = patience.calls(ask)
    pause = next(calls)
    while True:
        if pause:
            await patience.asleep(pause)
        try:
            pause = calls.send(await _acalled(call, ask))
        except StopIteration as stop:
            answer: Answer = stop.value
            return answer


def _awaitable(model: Model) -> Called:
    """Returns the model's call as a coroutine: its own one, or its plain call run on a thread."""
    if isinstance(model, AsyncModel):
        return model.aanswer

    def on_thread(ask: Summarize) -> Awaitable[Answer]:
        return asyncio.wrap_future(_started(partial(model.answer, ask)))

    return on_thread


def run(effects: Effects, answerer: Answerer) -> Verdict:
    """Runs an engine generator to its end. Asks that are yielded together are answered on threads."""
    asks = _next(effects, None)
    while not isinstance(asks, Verdict):
        if len(asks) == 1:
            answers: tuple[Answer, ...] = (answerer.answer(asks[0]),)
        else:
            answers = tuple(f.result() for f in [_started(partial(answerer.answer, ask)) for ask in asks])
        asks = _next(effects, answers)
    return asks


async def arun(effects: Effects, answerer: Answerer, *, answer: Called | None = None) -> Verdict:
    """Runs an engine generator to its end without blocking the event loop; engine work and Asks run in threads.

    `answer` is used in place of the answerer's model, for hosts whose model call is a coroutine. Hooks and reads stay
    with the answerer. Cancelling leaves no Block, and also cancels a model call that is a coroutine.
    """
    call = answer or (_awaitable(answerer.model) if answerer.model is not None else None)

    async def one(ask: Ask) -> Answer:
        if call is None or not isinstance(ask, Summarize):
            return await asyncio.to_thread(answerer.answer, ask)
        return await _asummarized(call, ask, answerer.patience)

    asks = await asyncio.to_thread(_next, effects, None)
    while not isinstance(asks, Verdict):
        answers = tuple(await asyncio.gather(*(one(ask) for ask in asks)))
        asks = await asyncio.to_thread(_next, effects, answers)
    return asks


def _next(effects: Effects, answers: tuple[Answer, ...] | None) -> tuple[Ask, ...] | Verdict:
    try:
        return next(effects) if answers is None else effects.send(answers)
    except StopIteration as stop:
        result = stop.value
        assert isinstance(result, Verdict)
        return result
