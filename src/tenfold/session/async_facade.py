"""The class `AsyncSession`: a session for asyncio programs. No call blocks the event loop.

Every method runs the method of `Session` in a thread. Only a compaction differs: it runs the engine by
`drive.arun_engine`, so that it can be cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, TypeVar

from msgspec.structs import replace

from tenfold.engine.call import Call
from tenfold.engine.drive import Answerer, arun_engine
from tenfold.engine.hook_calls import register_host_loop
from tenfold.engine.redo import DEFAULT_REDO, RedoRequest
from tenfold.engine.tracing import trace_compaction
from tenfold.events import CompactionSkip
from tenfold.meter.reading import Reading
from tenfold.plan.draft import RecallMode
from tenfold.plan.pipeline import Plan
from tenfold.recall.expand import ExpandedMessage
from tenfold.record.ask import Answer, Outcome, SummaryAsk
from tenfold.record.entry import Usage
from tenfold.record.message import Message
from tenfold.session.facade import Session
from tenfold.session.requests import HostList, HostRequest
from tenfold.store.base import HIT_LIMIT, Hit
from tenfold.text.redaction import redact
from tenfold.trigger.limits import Decision
from tenfold.view.fold import View
from tenfold.wire import OriginCallback

_LOG = logging.getLogger("tenfold")


class LoopModel:
    """A model whose call is a coroutine of this event loop. Threads can call it too."""

    def __init__(self, answer: Callable[[SummaryAsk], Awaitable[Answer]]) -> None:
        """To be made on the loop that the coroutine runs on."""
        self._answer, self._loop = answer, asyncio.get_running_loop()

    async def aanswer(self, ask: SummaryAsk) -> Answer:
        """Answers on the event loop; cancelling it cancels the call."""
        return await self._answer(ask)

    def answer(self, ask: SummaryAsk) -> Answer:
        """Answers from another thread, which waits for the loop."""
        return asyncio.run_coroutine_threadsafe(self.aanswer(ask), self._loop).result()


T = TypeVar("T")
R = TypeVar("R")


async def run_uninterrupted(work: Callable[[], T]) -> T:
    """Runs work that appends entries in a thread. A cancelled caller waits for its end: a thread cannot be stopped.

    However often it is cancelled: the task groups of anyio cancel again until the task has ended. Work that failed
    meanwhile is logged, and is the cause of the `CancelledError`, since a caller may have no use for that.
    """
    loop = asyncio.get_running_loop()
    future = loop.run_in_executor(None, copy_context().run, work)  # no task, which the end of the loop would cancel
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError as exc:
            cancelled = exc
    if cancelled is None:
        return future.result()
    failure = future.exception()
    if failure is not None:
        _LOG.error("work whose caller was cancelled failed: %s", redact(f"{type(failure).__name__}: {failure}"))
    raise cancelled from failure


async def _wait_until_done(future: Future[R]) -> None:
    """Waits for a thread's future without taking its result. A caller that is cancelled leaves it running."""
    waiter = asyncio.wrap_future(future)
    waiter.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.wait([waiter])


class AsyncSession:
    """A `Session` for asyncio. Pass `answer` if your model call is a coroutine: it then writes the summaries."""

    def __init__(self, session: Session, *, answer: Callable[[SummaryAsk], Awaitable[Answer]] | None = None) -> None:
        """Wraps an open session. Both may be used side by side."""
        self.session = session
        self._running_task: asyncio.Task[Outcome] | None = None
        self._answer = answer

    @property
    def _answerer(self) -> Answerer:
        """The session's answerer, with this wrapper's model call if it has one. To be read on the event loop."""
        answerer = self.session.answerer
        return answerer if self._answer is None else replace(answerer, model=LoopModel(self._answer))

    @property
    def view(self) -> View:
        """What the model sees now."""
        return self.session.view

    async def append(
        self, *messages: Message, usage: Usage | None = None, run: str = "", origin: OriginCallback | None = None
    ) -> list[str]:
        """See `Session.append`. The messages are appended even if the call is cancelled."""
        return await run_uninterrupted(lambda: self.session.append(*messages, usage=usage, run=run, origin=origin))

    async def sync(self, messages: Sequence[Message], *, run: str = "") -> View:
        """See `Session.sync`."""
        return await asyncio.to_thread(self.session.sync, messages, run=run)

    async def take_reading(self, *, window: int | None = None, floor: int = 0) -> Reading:
        """See `Session.take_reading`."""
        return await asyncio.to_thread(self.session.take_reading, window=window, floor=floor)

    async def compact(
        self, call: Call | None = None, *, to: int | str | None = None, window: int | None = None
    ) -> Outcome:
        """See `Session.compact`. Cancelling it leaves no Block."""
        session = self.session
        call = session.compactor.validate_call(call or session.build_call(to=to, window=window))
        async with session.compactor.lock:
            return await self._run_abortable(call)

    def abort(self) -> None:
        """Stops the running compaction, if any. Nothing is appended, and its callers get the Outcome `cancelled`."""
        if self._running_task is not None:
            self._running_task.cancel()

    async def _run_abortable(self, call: Call, *, is_request: bool = False) -> Outcome:
        task = self._running_task = asyncio.ensure_future(self._run_compaction(call, is_request=is_request))
        try:
            return await task
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if not task.cancelled() or caller is None or caller.cancelling():
                raise
            return self._build_cancelled_outcome()
        finally:
            self._running_task = None

    def _build_cancelled_outcome(self) -> Outcome:
        tokens = self.session.take_reading().tokens
        return Outcome("cancelled", "it was aborted", tokens, tokens, 0)

    async def _run_compaction(self, call: Call, *, is_request: bool) -> Outcome:
        register_host_loop()
        prepared = await self._use_preparation(call)
        if prepared is None and is_request:
            is_started = await asyncio.to_thread(self.session.compactor.start_instead, call, self._answerer)
            prepared = await self._use_preparation(call) if is_started else None
        return prepared if prepared is not None else await self._run_engine(call)

    async def _use_preparation(self, call: Call) -> Outcome | None:
        compactor = self.session.compactor
        deferred = await asyncio.to_thread(compactor.defer_check, call)
        if deferred is not None:
            return deferred
        prepared = await asyncio.to_thread(compactor.find_preparation, call)
        if prepared is None:
            return None
        await _wait_until_done(prepared.future)
        return await self._run_append(lambda: compactor.adopt_preparation(call))

    async def _run_engine(self, call: Call) -> Outcome:
        session, compactor, answerer = self.session, self.session.compactor, self._answerer
        with trace_compaction(session.address.session, session.policy.name) as record:
            effects, view = await asyncio.to_thread(compactor.get_effects, call, answerer)
            notice = compactor.build_start_notice(answerer, run=call.run)
            try:
                result = await arun_engine(effects, notice.answerer)
            except asyncio.CancelledError:
                skip = CompactionSkip(session.address.session, self._build_cancelled_outcome(), session.stamps.now())
                await run_uninterrupted(lambda: notice.cancel(skip))  # listeners must not hold the event loop
                raise
            outcome = await self._run_append(lambda: compactor.apply_result(result, view, call))
            record(outcome)
            return outcome

    async def _run_append(self, work: Callable[[], T]) -> T:
        """Runs work that appends a Block. From here on `abort` has no effect."""
        if self._running_task is asyncio.current_task():
            self._running_task = None
        return await run_uninterrupted(work)

    async def redo(self, block: str = "", request: RedoRequest = DEFAULT_REDO) -> Outcome:
        """See `Session.redo`. Cancelling it leaves no Block."""
        compactor, answerer = self.session.compactor, self._answerer
        async with compactor.lock:
            effects, view = await asyncio.to_thread(compactor.get_redo_effects, block, request, answerer)
            result = await arun_engine(effects, compactor.get_redo_answerer(answerer))
            return await run_uninterrupted(lambda: compactor.apply_result(result, view))

    async def before_model(
        self,
        request: Mapping[str, Any],
        *,
        window: int | None = None,
        recall: RecallMode = "none",
        wire: str = "",
        origin: OriginCallback | None = None,
        run: str = "",
    ) -> dict[str, Any]:
        """See `Session.before_model`. Cancelling it leaves no Block."""
        session, answerer = self.session, self._answerer
        register_host_loop()

        def begin() -> tuple[HostRequest, HostList, Call | None, dict[str, Any] | None]:
            host_request, host_list, call = session.sync_request(
                request, window=window, recall=recall, wire=wire, origin=origin, run=run
            )
            if call is not None and not session.compactor.end_idle_check(call, answerer):
                return host_request, host_list, call, None
            return host_request, host_list, None, session.build_request(request, host_request, host_list)

        async with session.compactor.lock:
            host_request, host_list, call, built = await asyncio.to_thread(begin)
            if built is not None:
                return built
            await self._run_check(call)
            return await asyncio.to_thread(session.build_request, request, host_request, host_list)

    async def sync_and_compact(
        self, messages: Sequence[Message], call: Call, *, has_run_end_check: bool = False
    ) -> list[Message] | None:
        """Does the work of `before_model` for a host that keeps Tenfold messages instead of provider messages.

        Returns the messages to send, or None if the list can be sent as it is. `session.outcome` holds the Outcome of
        the check. For `call` and `has_run_end_check` see `Session.sync_and_check`.
        """
        session = self.session
        async with session.compactor.lock:
            host_list, check = await asyncio.to_thread(
                lambda: session.sync_and_check(list(messages), call, has_run_end_check=has_run_end_check)
            )
            await self._run_check(check)
            return await asyncio.to_thread(session.get_messages_to_send, host_list)

    async def _run_check(self, call: Call | None) -> None:
        if call is not None:
            compactor = self.session.compactor
            compactor.keep_outcome(await self._run_abortable(call, is_request=True))
            await asyncio.to_thread(compactor.prepare_ahead, call, self._answerer)

    async def after_model(self, report: Any) -> None:  # noqa: ANN401 - a provider's JSON, or an object of its SDK
        """See `Session.after_model`."""
        self.session.after_model(report)

    async def undo(self) -> str:
        """See `Session.undo`."""
        return await asyncio.to_thread(self.session.undo)

    async def refresh(self) -> View:
        """See `Session.refresh`."""
        return await asyncio.to_thread(self.session.refresh)

    async def preview(self, *, to: int | str | None = None, window: int | None = None) -> tuple[Decision, Plan | None]:
        """See `Session.preview`."""
        session, answerer = self.session, self._answerer
        call = session.build_call(to=to, window=window)
        return await asyncio.to_thread(session.compactor.preview, call, answerer)

    async def pin(self, entry: str, *, on: bool = True) -> str:
        """See `Session.pin`."""
        return await asyncio.to_thread(self.session.pin, entry, on=on)

    async def add_rule(self, text: str) -> None:
        """See `Session.add_rule`."""
        await asyncio.to_thread(self.session.add_rule, text)

    async def drop_rule(self, text: str) -> None:
        """See `Session.drop_rule`."""
        await asyncio.to_thread(self.session.drop_rule, text)

    async def search(self, words: str, *, limit: int = HIT_LIMIT) -> list[Hit]:
        """See `Session.search`."""
        return await asyncio.to_thread(self.session.search, words, limit=limit)

    async def expand(self, id: str, *, deep: bool = False, around: int = 0) -> list[ExpandedMessage]:
        """See `Session.expand`."""
        return await asyncio.to_thread(self.session.expand, id, deep=deep, around=around)
