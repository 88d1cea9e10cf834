"""The class `AsyncSession`: a session for asyncio programs. No call blocks the event loop.

Every method runs the method of `Session` with the same name and signature in a thread. Only what compacts differs: it
runs the engine by `drive.arun_engine`, so that it can be cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from msgspec.structs import replace

from tenfold.compaction.engine.call import Call
from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.engine.redo import DEFAULT_REDO, RedoRequest
from tenfold.compaction.plan.draft import RecallMode
from tenfold.compaction.plan.pipeline import Plan
from tenfold.compaction.trigger.limits import Decision
from tenfold.compaction.trigger.sizes import Size
from tenfold.core.record.ask import Answer, Outcome, SummaryAsk
from tenfold.core.record.message import Message
from tenfold.core.record.token_reading import Counted
from tenfold.core.view.fold import View
from tenfold.core.wire import OriginCallback
from tenfold.recall.tools import RecallTools
from tenfold.session.compactor import Archive, PolicyProvider
from tenfold.session.concurrency import register_host_loop, run_in_thread, run_uninterrupted, use_threads_of
from tenfold.session.conversation import SessionAddress, Stamps, check_address
from tenfold.session.drive import Answerer, Finished, Step, Steps, advance, arun_engine
from tenfold.session.facade import Session, check_refusal
from tenfold.session.host_lists import HostList
from tenfold.session.requests import HostRequest
from tenfold.store.base import SessionInfo

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")


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


def _forward_read(
    method: Callable[Concatenate[Session, P], R],
) -> Callable[Concatenate[AsyncSession, P], Coroutine[Any, Any, R]]:
    """Returns a method of `Session` as a coroutine function that runs it in a thread."""

    @wraps(method)
    async def run(self: AsyncSession, /, *given: P.args, **options: P.kwargs) -> R:
        use_threads_of(self.address.store)
        return await run_in_thread(lambda: method(self.session, *given, **options))

    return run


def _forward_write(
    method: Callable[Concatenate[Session, P], R],
) -> Callable[Concatenate[AsyncSession, P], Coroutine[Any, Any, R]]:
    """Does the same for a method that changes something: it is done to its end even if the call is cancelled."""

    @wraps(method)
    async def run(self: AsyncSession, /, *given: P.args, **options: P.kwargs) -> R:
        use_threads_of(self.address.store)
        return await run_uninterrupted(lambda: method(self.session, *given, **options))

    return run


class AsyncSession:
    """A `Session` for asyncio: the same names, with every method a coroutine function. Properties are given at once.

    Pass `answer` if your model call is a coroutine: it then writes the summaries. `session` is the session itself, with
    its parts `conversation`, `compactor` and `requests`: what they do may take a while, so call them in a thread.
    """

    def __init__(self, session: Session, *, answer: Callable[[SummaryAsk], Awaitable[Answer]] | None = None) -> None:
        """Wraps an open session. Both may be used side by side."""
        self.session = session
        self._running_task: asyncio.Task[Outcome] | None = None
        self._is_aborted = False
        self._answer = answer

    @classmethod
    async def create(  # noqa: PLR0913 - those of `Session.create`, and the coroutine
        cls,
        address: SessionAddress,
        policy: Policy | PolicyProvider | str,
        *,
        model: str = "",
        answerer: Answerer | None = None,
        info: SessionInfo | None = None,
        archive: Archive | None = None,
        stamps: Stamps | None = None,
        answer: Callable[[SummaryAsk], Awaitable[Answer]] | None = None,
    ) -> Self:
        """See `Session.create`. `answer` is as for the constructor."""

        def create() -> Session:
            return Session.create(
                address, policy, model=model, answerer=answerer, info=info, archive=archive, stamps=stamps
            )

        use_threads_of(check_address(address).store)
        return cls(await run_uninterrupted(create), answer=answer)

    def __repr__(self) -> str:
        return f"<Async{repr(self.session)[1:]}"

    @property
    def address(self) -> SessionAddress:
        """Where the session is stored."""
        return self.session.address

    @property
    def view(self) -> View:
        """See `Session.view`."""
        return self.session.view

    @property
    def leaf(self) -> str | None:
        """See `Session.leaf`."""
        return self.session.leaf

    @property
    def policy(self) -> Policy:
        """See `Session.policy`."""
        return self.session.policy

    @property
    def outcome(self) -> Outcome | None:
        """See `Session.outcome`."""
        return self.session.outcome

    @property
    def tools(self) -> RecallTools:
        """See `Session.tools`. Their handler waits for the store: call it in a thread."""
        return self.session.tools

    after_model = _forward_write(Session.after_model)
    sync = _forward_write(Session.sync)
    append = _forward_write(Session.append)
    take_reading = _forward_read(Session.take_reading)
    undo = _forward_write(Session.undo)
    switch_auto = _forward_write(Session.switch_auto)
    search = _forward_read(Session.search)
    expand = _forward_read(Session.expand)
    refresh = _forward_write(Session.refresh)
    read_instructions = _forward_read(Session.read_instructions)
    add_rule = _forward_write(Session.add_rule)
    drop_rule = _forward_write(Session.drop_rule)
    pin = _forward_write(Session.pin)

    @property
    def _answerer(self) -> Answerer:
        """The session's answerer, with this wrapper's model call if it has one. To be read on the event loop."""
        answerer = self.session.compactor.answerer
        return answerer if self._answer is None else replace(answerer, model=LoopModel(self._answer))

    async def compact(
        self, call: Call | None = None, *, to: Size | str | None = None, window: int | None = None
    ) -> Outcome:
        """See `Session.compact`. Cancelling it leaves no Block."""
        compactor = self.session.compactor

        def build() -> Call:
            return compactor.validate_call(call or compactor.build_call(to=to, window=window))

        use_threads_of(self.address.store)
        complete = await run_in_thread(build)
        async with compactor.lock:
            return await self._run_abortable(complete, compactor.compact(complete, self._answerer))

    async def preview(
        self, call: Call | None = None, *, to: Size | str | None = None, window: int | None = None
    ) -> tuple[Decision[Counted], Plan | None]:
        """See `Session.preview`."""
        session, answerer = self.session, self._answerer
        use_threads_of(self.address.store)
        return await run_in_thread(
            lambda: session.compactor.preview(call or session.compactor.build_call(to=to, window=window), answerer)
        )

    def abort(self) -> None:
        """Stops the running compaction, if any. Nothing is appended, and its callers get the Outcome `cancelled`."""
        self._is_aborted = True
        if self._running_task is not None:
            self._running_task.cancel()

    async def _run_abortable(self, call: Call, steps: Steps[Outcome], step: Step | None = None) -> Outcome:
        """Runs the steps of a compaction, which have come up to `step`, until they end or `abort` stops them."""
        compactor = self.session.compactor
        span = await run_in_thread(compactor.trace)
        with span as record:
            running = arun_engine(steps, self._answerer, step, commit=self._forget_task)
            task = self._running_task = asyncio.ensure_future(running)
            if step is not None and self._is_aborted:  # while it was planned
                task.cancel()
            try:
                outcome = await task
            except asyncio.CancelledError:
                caller = asyncio.current_task()
                if not task.cancelled() or caller is None or caller.cancelling():
                    raise
                outcome = await run_in_thread(lambda: compactor.build_cancelled_outcome(call))
            finally:
                self._forget_task()
            record(outcome)
            return outcome

    def _forget_task(self) -> None:
        """Leaves nothing that `abort` could stop."""
        self._running_task = None

    async def redo(self, block: str = "", request: RedoRequest = DEFAULT_REDO) -> Outcome:
        """See `Session.redo`. Cancelling it leaves no Block."""
        compactor, answerer = self.session.compactor, self._answerer
        use_threads_of(self.address.store)
        async with compactor.lock:
            return await arun_engine(compactor.redo(block, request, answerer), compactor.get_redo_answerer(answerer))

    async def before_model(  # noqa: PLR0913 - those of `Session.before_model`
        self,
        request: Mapping[str, Any],
        *,
        window: int | None = None,
        recall: RecallMode = "none",
        wire: str = "",
        origin: OriginCallback | None = None,
        run: str = "",
        append: bool = False,
    ) -> dict[str, Any]:
        """See `Session.before_model`. Cancelling it leaves no Block."""
        requests = self.session.requests

        def sync() -> tuple[tuple[HostRequest, HostList], Call | None]:
            host_request, host_list, check = requests.sync_request(
                request, window=window, recall=recall, wire=wire, origin=origin, run=run, append=append
            )
            return (host_request, host_list), check

        return await self._answer_request(sync, lambda synced: requests.build_request(request, *synced))

    async def after_refusal(
        self,
        request: Mapping[str, Any],
        error: BaseException,
        *,
        window: int | None = None,
        recall: RecallMode = "none",
        wire: str = "",
        origin: OriginCallback | None = None,
    ) -> dict[str, Any]:
        """See `Session.after_refusal`. Cancelling it leaves no Block."""
        use_threads_of(self.address.store)
        call = await run_in_thread(lambda: self.session.requests.build_overflow_call(error, window))
        check_refusal(await self.compact(call), error)
        return await self.before_model(request, window=window, recall=recall, wire=wire, origin=origin)

    async def sync_and_compact(
        self, messages: Sequence[Message], call: Call, *, has_run_end_check: bool = False
    ) -> list[Message] | None:
        """Does the work of `before_model` for a host that keeps Tenfold messages instead of provider messages.

        Returns the messages to send, or None if the list can be sent as it is. `session.outcome` holds the Outcome of
        the check. For `call` and `has_run_end_check` see `Requests.sync_and_check`.
        """
        requests, listed = self.session.requests, list(messages)

        def sync() -> tuple[HostList, Call | None]:
            return requests.sync_and_check(listed, call, has_run_end_check=has_run_end_check)

        return await self._answer_request(sync, requests.get_messages_to_send)

    async def _answer_request(self, sync: Callable[[], tuple[T, Call | None]], build: Callable[[T], R]) -> R:
        """Syncs a list, runs the check that is due, and builds what is sent. All in one thread if nothing is due."""
        compactor, answerer = self.session.compactor, self._answerer
        register_host_loop()
        use_threads_of(self.address.store)

        def begin() -> tuple[T, Call, Steps[Outcome], Step] | Finished[R]:
            synced, check = sync()
            if check is not None:
                steps = compactor.compact(check, answerer, is_request=True)
                step = advance(steps)
                if not isinstance(step, Finished):
                    return synced, check, steps, step
                with compactor.trace() as record:
                    record(step.value)
            return Finished(build(synced))

        async with compactor.lock:
            self._is_aborted = False
            begun = await run_uninterrupted(begin)
            if isinstance(begun, Finished):
                return begun.value
            synced, check, steps, step = begun
            compactor.outcome = await self._run_abortable(check, steps, step)
            return await run_uninterrupted(lambda: build(synced))
