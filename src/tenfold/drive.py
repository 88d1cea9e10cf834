"""The only place that exists both sync and async: it runs an engine generator to its end, answering its Asks.

What it may call is handed to it as an `Answerer`; retries, time-outs and cancellation are decided here and nowhere
deeper. Each model call has a thread of its own that nothing waits for longer than the Ask allows, so a model that
hangs holds up neither the session nor the end of the program. It writes nothing: the session appends a Verdict.
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
"""A before-hook: may cancel, supply a summary text, or add a focus; None has no say."""
After = Callable[[Outcome, Block], None]
"""An after-hook: told of each Block once it is appended."""


class Answerer(Struct, frozen=True):
    """Everything an Ask may need: a model, the before-hooks in order, and a way to read entries; and who is told.

    `after` are told of each Block, `listen` of every event. `report` is told of one that raised (without one, the
    logger "tenfold" is); it is then ignored.
    `patience` is how long to wait before a model call that failed for the moment is made again.
    """

    model: Model | None = None
    before: tuple[Before, ...] = ()
    after: tuple[After, ...] = ()
    listen: tuple[Listener, ...] = ()
    read: Callable[[Sequence[int]], Sequence[Entry]] | None = None
    report: Callable[[str], None] | None = None
    patience: Patience = Patience()

    def answer(self, ask: Ask) -> Answer:
        """The answer to one Ask. What fails comes back as an Answer with its error, never as an exception."""
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
        said = Answer()
        for hook in self.before:
            try:
                advice: object = hook(ask)  # a hook is a user's code, and not all of it is typed
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
            newest = advice if advice.text or advice.supplied else said
            said = Answer(text=newest.text, supplied=newest.supplied, focus=advice.focus or said.focus)
        return said

    def tell(self, event: Event) -> None:
        """Tells every listener."""
        for listener in self.listen:
            try:
                listener(event)
            except Exception as exc:  # noqa: BLE001 - a listener is a user's code; it is reported and ignored
                self.say(f"a listener raised {type(exc).__name__}: {exc}; it was ignored")

    def appended(self, outcome: Outcome, block: Block) -> None:
        """Tells every after-hook."""
        for hook in self.after:
            try:
                hook(outcome, block)
            except Exception as exc:  # noqa: BLE001 - a hook is a user's code; it is reported and ignored
                self.say(f"an after-hook raised {type(exc).__name__}: {exc}; it was ignored")

    def say(self, what: str) -> None:
        """Reports what a user's part did wrong."""
        if self.report is not None:
            self.report(what)
        else:
            logging.getLogger("tenfold").warning(redact(what))


def _failed(exc: BaseException) -> Answer:
    """What an exception of a model or a store is as an Answer."""
    for_the_moment = isinstance(exc, ConnectionError | TimeoutError)
    return Answer(error=redact(f"{type(exc).__name__}: {exc}"), retryable=for_the_moment)


def _safe(answer: Answer) -> Answer:
    """The Answer; an error's text may quote the request, and it is stored."""
    return replace(answer, error=redact(answer.error)) if answer.error else answer


def _late(ask: Summarize) -> Answer:
    spent = Spent(calls=1, model=ask.model)
    return Answer(error=f"no answer within {ask.timeout:g} s", retryable=True, timed_out=True, spent=spent)


def _started(work: Callable[[], T]) -> Future[T]:
    """The work, begun on a thread of its own. Nobody has to wait for it, not even the end of the program."""
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
    """One call. A model that raises has failed, and so has one that gives no answer in time."""
    future = _started(partial(model.answer, ask))
    try:
        exc = future.exception(timeout=ask.timeout if isfinite(ask.timeout) else None)
    except TimeoutError:
        return _late(ask)
    if exc is None:
        return _safe(future.result())
    if not isinstance(exc, Exception):
        raise exc  # Ctrl-C and the like end the program, as they would without a thread in between
    return _failed(exc)


async def _acalled(call: Called, ask: Summarize) -> Answer:
    """`_called` for coroutines."""
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
    """The model as a coroutine: its own, or its plain call on a thread."""
    if isinstance(model, AsyncModel):
        return model.aanswer

    def on_thread(ask: Summarize) -> Awaitable[Answer]:
        return asyncio.wrap_future(_started(partial(model.answer, ask)))

    return on_thread


def run(effects: Effects, answerer: Answerer) -> Verdict:
    """Runs to the end, answering independent Asks on threads."""
    asks = _next(effects, None)
    while not isinstance(asks, Verdict):
        if len(asks) == 1:
            answers: tuple[Answer, ...] = (answerer.answer(asks[0]),)
        else:
            answers = tuple(f.result() for f in [_started(partial(answerer.answer, ask)) for ask in asks])
        asks = _next(effects, answers)
    return asks


async def arun(effects: Effects, answerer: Answerer, *, answer: Called | None = None) -> Verdict:
    """Runs to the end without holding the event loop: the engine's own work and every Ask run in threads.

    `answer` stands for the answerer's model, for hosts whose model call is a coroutine; hooks and reads stay the
    answerer's. Cancelling leaves no Block, and cancels the model's call where that is a coroutine.
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
        verdict = stop.value
        assert isinstance(verdict, Verdict)
        return verdict
