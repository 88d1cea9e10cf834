"""The class `AsyncSession`: a session for asyncio programs. No call blocks the event loop.

Every method runs the method of `Session` in a thread. Only a compaction differs: it runs the engine by
`drive.arun_engine`, so that it can be cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from msgspec.structs import replace

from tenfold.drive import Answerer, arun
from tenfold.engine import Call
from tenfold.events import Skipped
from tenfold.log.base import Hit
from tenfold.log.ids import now
from tenfold.meter.reading import Reading
from tenfold.plan.draft import Recall
from tenfold.plan.plan import Plan
from tenfold.recall.expand import Line
from tenfold.record.ask import Answer, Consult, Outcome, Summarize
from tenfold.record.entry import Usage
from tenfold.record.message import Message
from tenfold.redo import PLAIN, Again
from tenfold.session import Session
from tenfold.spans import compaction
from tenfold.trigger.triggers import Decision
from tenfold.view.view import View


class _OnLoop:
    """A model whose call is a coroutine on this event loop, made callable from another thread."""

    def __init__(self, answer: Callable[[Summarize], Awaitable[Answer]]) -> None:
        self._answer, self._loop = answer, asyncio.get_running_loop()

    def answer(self, ask: Summarize) -> Answer:
        async def asked() -> Answer:
            return await self._answer(ask)

        return asyncio.run_coroutine_threadsafe(asked(), self._loop).result()


_PAUSE = 0.005
"""Seconds between two checks whether another compaction has ended."""
T = TypeVar("T")


async def to_its_end(work: Callable[[], T]) -> T:
    """Runs work that appends entries in a thread. A cancelled caller waits for its end: a thread cannot be stopped."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


class AsyncSession:
    """A `Session` for asyncio. Pass `answer` if your model call is a coroutine: it then writes the summaries."""

    def __init__(self, session: Session, *, answer: Callable[[Summarize], Awaitable[Answer]] | None = None) -> None:
        """Wraps an open session. Both may be used side by side."""
        self.session = session
        self._under_way: asyncio.Task[Outcome] | None = None
        self._answer = answer
        if answer is not None:
            session.awaited = answer

    @property
    def view(self) -> View:
        """What the model sees now."""
        return self.session.view

    async def append(self, *messages: Message, usage: Usage | None = None, run: str = "") -> list[str]:
        """See `Session.append`. The messages are appended even if the call is cancelled."""
        return await to_its_end(lambda: self.session.append(*messages, usage=usage, run=run))

    async def sync(self, messages: Sequence[Message]) -> View:
        """See `Session.sync`."""
        return await asyncio.to_thread(self.session.sync, messages)

    async def reading(self, *, window: int | None = None, floor: int = 0) -> Reading:
        """See `Session.take_reading`."""
        return await asyncio.to_thread(self.session.reading, window=window, floor=floor)

    async def compact(self, call: Call | None = None, *, to: int | None = None, window: int | None = None) -> Outcome:
        """See `Session.compact`. Cancelling it leaves no Block."""
        session = self.session
        call = session.known(call or session.call(to=to, window=window))
        async with self._alone():
            return await self._abortable(call)

    def abort(self) -> None:
        """Stops the running compaction, if any. Nothing is appended, and its callers get the Outcome `cancelled`."""
        if self._under_way is not None:
            self._under_way.cancel()

    async def _abortable(self, call: Call) -> Outcome:
        task = self._under_way = asyncio.ensure_future(self._carried_out(call))
        try:
            return await task
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if not task.cancelled() or caller is None or caller.cancelling():
                raise
            return self._cancelled()
        finally:
            self._under_way = None

    def _cancelled(self) -> Outcome:
        tokens = sum(self.session.sizes().values())
        return Outcome("cancelled", "it was aborted", tokens, tokens, 0)

    async def _carried_out(self, call: Call) -> Outcome:
        session = self.session
        deferred = await asyncio.to_thread(session.deferred, call)
        if deferred is not None:
            return deferred
        prepared = await asyncio.to_thread(session.taken, call)
        while prepared is not None and not prepared.done:  # noqa: ASYNC110 - its thread knows nothing of this loop
            await asyncio.sleep(_PAUSE)
        adopted = await self._appended(lambda: session.adopted(call)) if prepared is not None else None
        if adopted is not None:
            return adopted
        with compaction(session.place.session, session.policy.name) as tell:
            effects, view = await asyncio.to_thread(session.effects, call)
            consults: list[Consult] = []
            answerer = session.answering()
            try:
                recording = replace(answerer, before=(*answerer.before, consults.append))
                result = await arun(effects, recording, answer=self._answer)
            except asyncio.CancelledError:
                if consults:
                    answerer.tell(Skipped(session.place.session, self._cancelled(), now()))
                raise
            outcome = await self._appended(lambda: session.install(result, view))
            tell(outcome)
            return outcome

    async def _appended(self, work: Callable[[], T]) -> T:
        """Runs work that appends a Block. From here on `abort` has no effect."""
        if self._under_way is asyncio.current_task():
            self._under_way = None
        return await to_its_end(work)

    async def redo(self, block: str = "", again: Again = PLAIN) -> Outcome:
        """See `Session.redo`. Cancelling it leaves no Block."""
        session = self.session
        async with self._alone():
            effects, view = await asyncio.to_thread(session.redoing, block, again)
            result = await arun(effects, session.reader(), answer=self._answer)
            return await asyncio.to_thread(session.install, result, view)

    async def before_model(
        self, request: Mapping[str, Any], *, window: int | None = None, recall: Recall = "none", wire: str = ""
    ) -> dict[str, Any]:
        """See `Session.before_model`. Cancelling it leaves no Block."""
        session = self.session
        async with self._alone():
            host_request, host_list, call = await asyncio.to_thread(
                lambda: session.asked(request, window=window, recall=recall, wire=wire)
            )
            await self._checked(call)
            return await asyncio.to_thread(session.answered, request, host_request, host_list)

    async def before_call(self, messages: Sequence[Message], call: Call, *, ends: bool = False) -> list[Message] | None:
        """Does the work of `before_model` for a host that keeps Tenfold messages instead of provider messages.

        Returns the messages to send, or None if the list can be sent as it is. `session.outcome` holds the Outcome of
        the check. For `call` and `has_run_end_check` see `Session.sync_and_check`.
        """
        session = self.session
        async with self._alone():
            host_list, check = await asyncio.to_thread(lambda: session.demanded(list(messages), call, ends=ends))
            await self._checked(check)
            return await asyncio.to_thread(session.current, host_list)

    async def _checked(self, call: Call | None) -> None:
        if call is not None:
            self.session.outcome = await self._abortable(call)
            await asyncio.to_thread(self.session.prepare, call, self._threaded())

    async def after_model(self, report: Any) -> None:  # noqa: ANN401 - a provider's JSON, or an object of its SDK
        """See `Session.after_model`."""
        self.session.after_model(report)

    def _threaded(self) -> Answerer:
        """Returns an answerer for use in another thread. A coroutine model still runs on this event loop."""
        answerer = self.session.answerer
        return answerer if self._answer is None else replace(answerer, model=_OnLoop(self._answer))

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Allows one compaction at a time, counting those of the synchronous session. Waits without using a thread."""
        while not self.session.compacting.acquire(blocking=False):  # noqa: ASYNC110 - no Event reaches other threads
            await asyncio.sleep(_PAUSE)
        try:
            yield
        finally:
            self.session.compacting.release()

    async def undo(self) -> str:
        """See `Session.undo`."""
        return await asyncio.to_thread(self.session.undo)

    async def refresh(self) -> View:
        """See `Session.refresh`."""
        return await asyncio.to_thread(self.session.refresh)

    async def preview(self, *, to: int | None = None, window: int | None = None) -> tuple[Decision, Plan | None]:
        """See `Session.preview`."""
        return await asyncio.to_thread(lambda: self.session.preview(to=to, window=window))

    async def pin(self, entry: str, *, on: bool = True) -> str:
        """See `Session.pin`."""
        return await asyncio.to_thread(self.session.pin, entry, on=on)

    async def search(self, words: str, *, limit: int = 20) -> list[Hit]:
        """See `Session.search`."""
        return await asyncio.to_thread(self.session.search, words, limit=limit)

    async def expand(self, id: str, *, deep: bool = False) -> list[Line]:
        """See `Session.expand`."""
        return await asyncio.to_thread(self.session.expand, id, deep=deep)
