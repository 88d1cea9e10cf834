"""Runs an engine generator to its end and answers its Asks, either synchronously or with asyncio.

Only this module exists in both forms. Whatever an Ask needs comes in an `Answerer`. Retries, time-outs and
cancellation are decided here and nowhere deeper. Each model call has a thread of its own, and nothing waits for it
longer than the Ask allows, so a model that hangs blocks neither the session nor the end of the program. Nothing is
written here: the session appends the entry of the EngineResult. Spans are recorded if OpenTelemetry's API is installed.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from math import isfinite
from typing import Generic, TypeVar, assert_never

from msgspec import Struct
from msgspec.structs import replace

from tenfold.config.extensions import Extension
from tenfold.core.record.ask import Answer, Ask, ConsultAsk, Outcome, ReadAsk, SummaryAsk
from tenfold.core.record.block import Block, ModelCost
from tenfold.core.record.entry import Entry
from tenfold.core.text.redaction import redact
from tenfold.core.text.surrogates import replace_surrogates
from tenfold.errors import TenfoldError
from tenfold.events import AfterHook, BeforeHook, CompactionFailure, Event, Listener, SummaryFailure
from tenfold.models.model import AsyncModel, Model
from tenfold.models.retry import RetryRule
from tenfold.session.concurrency import (
    register_host_loop,
    run_uninterrupted,
    start_thread,
    wait_for,
    wait_for_result,
    wait_until_done,
)
from tenfold.session.preparation import PreparedResult, Preparer
from tenfold.telemetry import trace_model_call

T = TypeVar("T")
Yielded = TypeVar("Yielded")
_LOG = logging.getLogger("tenfold")
AsyncModelCall = Callable[[SummaryAsk], Awaitable[object]]
"""A model call that is a coroutine."""
Step = tuple[Ask, ...] | Future[PreparedResult] | Callable[[], None]
"""What a driver does for a generator: it answers Asks, waits for what is prepared, or calls a listener."""
COMMIT: Step = ()
"""The step after which a result is written. It asks for nothing."""
Steps = Generator[Step, tuple[Answer, ...], T]
"""A piece of work that yields steps and is run by a driver. The engine's `Effects` are such a generator."""


class Answerer(Struct, frozen=True):
    """Everything an Ask may need (a model, before-hooks in order, a reader of entries), and whom to notify.

    `after_hooks` are called with each appended Block, `listeners` with every event. Each may be a coroutine function,
    which is awaited on the event loop of an asynchronous caller. A hook or listener that raises is ignored, and
    `problem_reporter` receives a message (without one, the logger "tenfold" does). `preparer` has summaries that are
    written ahead of time written by other processes. `retry_rule` says how long to wait
    before a model call that failed temporarily is repeated.
    """

    model: Model | None = None
    before_hooks: tuple[BeforeHook, ...] = ()
    after_hooks: tuple[AfterHook, ...] = ()
    listeners: tuple[Listener, ...] = ()
    preparer: Preparer | None = None
    entry_reader: Callable[[Sequence[int]], Sequence[Entry]] | None = None
    problem_reporter: Callable[[str], None] | None = None
    retry_rule: RetryRule = RetryRule()

    def with_extensions(self, extensions: Iterable[Extension]) -> Answerer:
        """Returns this answerer with the hooks and listeners of these extensions added after its own, in order."""
        added = tuple(extensions)
        return replace(
            self,
            before_hooks=(*self.before_hooks, *(hook for one in added for hook in one.before_hooks)),
            after_hooks=(*self.after_hooks, *(hook for one in added for hook in one.after_hooks)),
            listeners=(*self.listeners, *(hook for one in added for hook in one.listeners)),
        )

    def answer(self, ask: Ask) -> Answer:
        """Answers one Ask. A failure is returned as an Answer with its error, never raised."""
        match ask:
            case SummaryAsk():
                return self._summarize(ask)
            case ConsultAsk():
                return self._consult_hooks(ask)
            case ReadAsk():
                if self.entry_reader is None:
                    return Answer(error="nothing to read from")
                try:
                    return Answer(entries=tuple(self.entry_reader(ask.positions)))
                except (TenfoldError, OSError) as exc:
                    return _to_error_answer(exc)
            case _:
                assert_never(ask)

    def _summarize(self, ask: SummaryAsk) -> Answer:
        if self.model is None:
            return Answer(error="no model is configured")
        calls = self.retry_rule.schedule_calls(ask)
        pause = next(calls)
        while True:
            if pause:
                self.retry_rule.sleep(pause)
            try:
                pause = calls.send(call_model(self.model, ask))
            except StopIteration as stop:
                answer: Answer = stop.value
                return answer

    def _consult_hooks(self, ask: ConsultAsk) -> Answer:
        combined = Answer()
        for hook in self.before_hooks:
            advice = self._call("a before-hook", partial(hook, ask))
            if advice is None:
                continue
            advice = _read_answer(advice)
            if isinstance(advice, str):
                self.report_problem(f"a before-hook gave {advice}; it was ignored")
                continue
            advice = replace_surrogates(advice)
            if advice.cancel:
                return advice
            newest = advice if advice.text or advice.supplied_details or advice.error else combined
            combined = replace(newest, focus=advice.focus or combined.focus)
        return combined

    def notify(self, event: Event) -> None:
        """Calls every listener with the event. That a summary failed is also logged, as a warning."""
        _report_failure(event)
        for listener in self.listeners:
            self._call("a listener", partial(listener, event))

    async def anotify(self, event: Event) -> None:
        """Does the same as `notify` on the running loop. Awaits listeners that are coroutine functions."""
        _report_failure(event)
        for listener in self.listeners:
            try:
                result = listener(event)
                if inspect.isawaitable(result):
                    await result
            except Exception as exc:  # noqa: BLE001 - a listener is a user's code; it is reported and ignored
                self.report_problem(f"a listener raised {type(exc).__name__}: {exc}; it was ignored")

    def run_after_hooks(self, outcome: Outcome, block: Block) -> None:
        """Calls every after-hook with an appended Block."""
        for hook in self.after_hooks:
            self._call("an after-hook", partial(hook, outcome, block))

    def _call(self, what: str, function: Callable[[], object]) -> object:
        """Calls a user's hook or listener. One that raises is reported, and gives None."""
        try:
            return wait_for_result(function())
        except Exception as exc:  # noqa: BLE001 - a user's code may raise anything; it is reported and ignored
            self.report_problem(f"{what} raised {type(exc).__name__}: {exc}; it was ignored")
            return None

    def report_problem(self, problem: str) -> None:
        """Reports a problem in a user's hook or listener."""
        if self.problem_reporter is not None:
            self.problem_reporter(problem)
        else:
            _LOG.warning(redact(problem))


def _report_failure(event: Event) -> None:
    """Logs a warning if a summary or a compaction failed, so that it is seen where nobody listens."""
    match event:
        case SummaryFailure(reason=reason):
            _LOG.warning("a summary model failed: %s", redact(reason))
        case CompactionFailure(outcome=Outcome(reason=reason)):
            _LOG.warning("a compaction failed and changed nothing: %s", redact(reason))
        case _:
            return


def _to_error_answer(exc: BaseException) -> Answer:
    """Converts an exception of a model or a store to an Answer."""
    is_temporary = isinstance(exc, ConnectionError | TimeoutError)
    return Answer(error=redact(f"{type(exc).__name__}: {exc}"), retryable=is_temporary)


def _read_answer(given: object) -> Answer | str:
    """Returns what a user's model or hook gave. If it is no Answer, or one whose texts are none, says what it is."""
    if not isinstance(given, Answer):
        return f"a {type(given).__name__}, and not an Answer"
    texts: dict[str, object] = {
        "text": given.text,
        "focus": given.focus,
        "error": given.error,
        "supplied_details": given.supplied_details,
    }
    wrong = next((name for name, text in texts.items() if not isinstance(text, str)), "")
    return f"an Answer whose {wrong} is a {type(texts[wrong]).__name__}, and not a str" if wrong else given


def _clean_answer(given: object) -> Answer:
    """Returns the Answer without lone surrogates, and without secrets in its error, which may quote the request.

    Anything else that a user's model gave is an Answer with an error.
    """
    answer = _read_answer(given)
    if isinstance(answer, str):
        return Answer(error=f"the model gave {answer}")
    clean = replace_surrogates(answer)
    return replace(clean, error=redact(clean.error)) if clean.error else clean


def _build_timeout_answer(ask: SummaryAsk) -> Answer:
    spent = ModelCost(calls=1, model=ask.model)
    return Answer(error=f"no answer within {ask.timeout:g} s", retryable=True, timed_out=True, spent=spent)


def call_model(model: Model, ask: SummaryAsk) -> Answer:
    """Makes one model call. It fails if the model raises or gives no answer in time."""
    with trace_model_call(ask) as record:
        record(answer := _wait_for_answer(model, ask))
        return answer


def _wait_for_answer(model: Model, ask: SummaryAsk) -> Answer:
    future = start_thread(lambda: wait_for_result(model.answer(ask)), "tenfold-ask")
    if not wait_for(future, ask.timeout):
        return _build_timeout_answer(ask)
    exc = future.exception()
    if exc is None:
        return _clean_answer(future.result())
    if not isinstance(exc, Exception):
        raise exc  # KeyboardInterrupt and the like end the program, as they would without a thread in between
    return _to_error_answer(exc)


async def _call_model_async(call: AsyncModelCall, ask: SummaryAsk) -> Answer:
    """Does the same as `call_model`, for a model call that is a coroutine."""
    with trace_model_call(ask) as record:
        record(answer := await _await_answer(call, ask))
        return answer


async def _await_answer(call: AsyncModelCall, ask: SummaryAsk) -> Answer:
    try:
        async with asyncio.timeout(ask.timeout if isfinite(ask.timeout) else None) as clock:
            return _clean_answer(await call(ask))
    except Exception as exc:  # noqa: BLE001 - a user's model may raise anything, and no run may fail for a summary
        return _build_timeout_answer(ask) if clock.expired() else _to_error_answer(exc)


async def _summarize_async(call: AsyncModelCall, ask: SummaryAsk, retry_rule: RetryRule) -> Answer:
    calls = retry_rule.schedule_calls(ask)
    pause = next(calls)
    while True:
        if pause:
            await retry_rule.async_sleep(pause)
        try:
            pause = calls.send(await _call_model_async(call, ask))
        except StopIteration as stop:
            answer: Answer = stop.value
            return answer


def _as_async_call(model: Model) -> AsyncModelCall:
    """Returns the model's call as a coroutine: its own one, or its plain call run on a thread."""
    if isinstance(model, AsyncModel):
        return model.aanswer

    def call_on_thread(ask: SummaryAsk) -> Awaitable[object]:
        return asyncio.wrap_future(start_thread(lambda: wait_for_result(model.answer(ask)), "tenfold-ask"))

    return call_on_thread


# -- the two drivers ---------------------------------------------------------------------------------------------------


class Finished(Struct, Generic[T], frozen=True):
    """What a generator has returned."""

    value: T


def advance(
    steps: Generator[Yielded, tuple[Answer, ...], T], answers: tuple[Answer, ...] | None = None
) -> Yielded | Finished[T]:
    """Runs a generator up to its next step, or to its end. `answers` are those to the Asks it has yielded."""
    try:
        return next(steps) if answers is None else steps.send(answers)
    except StopIteration as stop:
        return Finished(stop.value)


def run_engine(steps: Steps[T], answerer: Answerer) -> T:
    """Runs an engine generator to its end. Asks that are yielded together are answered on threads."""
    step = advance(steps)
    while not isinstance(step, Finished):
        answers: tuple[Answer, ...] = ()
        if isinstance(step, Future):
            wait_for(step)
        elif callable(step):
            step()
        elif len(step) == 1:
            answers = (answerer.answer(step[0]),)
        else:
            answering = [start_thread(partial(answerer.answer, ask), "tenfold-ask") for ask in step]
            answers = tuple(future.result() for future in answering if wait_for(future))
        step = advance(steps, answers)
    return step.value


async def arun_engine(
    steps: Steps[T],
    answerer: Answerer,
    step: Step | Finished[T] | None = None,
    *,
    commit: Callable[[], None] = lambda: None,
) -> T:
    """Runs an engine generator to its end without blocking the event loop; engine work and Asks run in threads.

    Cancelling leaves no Block, and also cancels the call of a model that is an `AsyncModel`. `step` is where the
    generator stands if it has begun already. `commit` is called at `COMMIT`: from then on cancelling comes too late.
    """
    register_host_loop()
    call = _as_async_call(answerer.model) if answerer.model is not None else None

    async def answer_one(ask: Ask) -> Answer:
        if call is None or not isinstance(ask, SummaryAsk):
            return await asyncio.to_thread(answerer.answer, ask)
        return await _summarize_async(call, ask, answerer.retry_rule)

    try:
        if step is None:
            step = await run_uninterrupted(partial(advance, steps))
        while not isinstance(step, Finished):
            answers: tuple[Answer, ...] = ()
            if isinstance(step, Future):
                await wait_until_done(step)
            elif callable(step):
                await asyncio.to_thread(step)
            elif step == COMMIT:
                commit()
            else:
                answers = tuple(await asyncio.gather(*map(answer_one, step)))
            step = await run_uninterrupted(partial(advance, steps, answers))
    except asyncio.CancelledError:
        await run_uninterrupted(partial(_cancel, steps))  # listeners must not hold the event loop
        raise
    return step.value


def _cancel(steps: Steps[T]) -> None:
    """Tells a generator that nobody will answer it any more."""
    with suppress(asyncio.CancelledError):
        steps.throw(asyncio.CancelledError())
