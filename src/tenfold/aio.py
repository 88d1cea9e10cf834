"""The same session for coroutines: every call runs the synchronous one in a thread, so the loop is never held.

There is no second implementation: a compaction runs the engine through `drive.arun`, all else is `Session` itself.
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
    """A model whose call is a coroutine, asked from another thread."""

    def __init__(self, answer: Callable[[Summarize], Awaitable[Answer]]) -> None:
        self._answer, self._loop = answer, asyncio.get_running_loop()

    def answer(self, ask: Summarize) -> Answer:
        async def asked() -> Answer:
            return await self._answer(ask)

        return asyncio.run_coroutine_threadsafe(asked(), self._loop).result()


_PAUSE = 0.005
"""Seconds between two looks at whether another compaction has ended."""
T = TypeVar("T")


async def to_its_end(work: Callable[[], T]) -> T:
    """What appends, on a thread: none can be stopped, so a caller that is cancelled waits for its end."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


class AsyncSession:
    """A `Session` to await. `answer` is for hosts whose model call is a coroutine: it writes the summaries."""

    def __init__(self, session: Session, *, answer: Callable[[Summarize], Awaitable[Answer]] | None = None) -> None:
        """Wraps an open session; both may be used side by side."""
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
        """See `Session.append`. What it was given is in the log, even where it is cancelled."""
        return await to_its_end(lambda: self.session.append(*messages, usage=usage, run=run))

    async def sync(self, messages: Sequence[Message]) -> View:
        """See `Session.sync`."""
        return await asyncio.to_thread(self.session.sync, messages)

    async def reading(self, *, window: int | None = None, floor: int = 0) -> Reading:
        """See `Session.reading`."""
        return await asyncio.to_thread(self.session.reading, window=window, floor=floor)

    async def compact(self, call: Call | None = None, *, to: int | None = None, window: int | None = None) -> Outcome:
        """See `Session.compact`. Cancelling it leaves no Block."""
        session = self.session
        call = session.known(call or session.call(to=to, window=window))
        async with self._alone():
            return await self._abortable(call)

    def abort(self) -> None:
        """Ends the compaction under way, if any: nothing of it is appended, and who waits for it goes on."""
        if self._under_way is not None:
            self._under_way.cancel()

    async def _abortable(self, call: Call) -> Outcome:
        task = self._under_way = asyncio.ensure_future(self._carried_out(call))
        try:
            return await task
        except asyncio.CancelledError:
            mine = asyncio.current_task()
            if not task.cancelled() or mine is None or mine.cancelling():
                raise
            return self._cancelled()
        finally:
            self._under_way = None

    def _cancelled(self) -> Outcome:
        tokens = sum(self.session.sizes().values())
        return Outcome("cancelled", "it was aborted", tokens, tokens, 0)

    async def _carried_out(self, call: Call) -> Outcome:
        session = self.session
        later = await asyncio.to_thread(session.deferred, call)
        if later is not None:
            return later
        ahead = await asyncio.to_thread(session.taken, call)
        while ahead is not None and not ahead.done:  # noqa: ASYNC110 - its thread knows nothing of this loop
            await asyncio.sleep(_PAUSE)
        adopted = await self._appended(lambda: session.adopted(call)) if ahead is not None else None
        if adopted is not None:
            return adopted
        with compaction(session.place.session, session.policy.name) as tell:
            effects, view = await asyncio.to_thread(session.effects, call)
            begun: list[Consult] = []
            answerer = session.answering()
            try:
                listening = replace(answerer, before=(*answerer.before, begun.append))
                verdict = await arun(effects, listening, answer=self._answer)
            except asyncio.CancelledError:
                if begun:
                    answerer.tell(Skipped(session.place.session, self._cancelled(), now()))
                raise
            outcome = await self._appended(lambda: session.install(verdict, view))
            tell(outcome)
            return outcome

    async def _appended(self, work: Callable[[], T]) -> T:
        """What appends a Block. From here on it is too late for `abort`."""
        if self._under_way is asyncio.current_task():
            self._under_way = None
        return await to_its_end(work)

    async def redo(self, block: str = "", again: Again = PLAIN) -> Outcome:
        """See `Session.redo`. Cancelling it leaves no Block."""
        session = self.session
        async with self._alone():
            effects, view = await asyncio.to_thread(session.redoing, block, again)
            verdict = await arun(effects, session.reader(), answer=self._answer)
            return await asyncio.to_thread(session.install, verdict, view)

    async def before_model(
        self, request: Mapping[str, Any], *, window: int | None = None, recall: Recall = "none", wire: str = ""
    ) -> dict[str, Any]:
        """See `Session.before_model`. Cancelling it leaves no Block."""
        session = self.session
        async with self._alone():
            asked, level, call = await asyncio.to_thread(
                lambda: session.asked(request, window=window, recall=recall, wire=wire)
            )
            await self._checked(call)
            return await asyncio.to_thread(session.answered, request, asked, level)

    async def before_call(self, messages: Sequence[Message], call: Call, *, ends: bool = False) -> list[Message] | None:
        """`before_model` for a host whose list is ours already: the messages to send in its place, None for this list.

        For `call` and `ends` see `Session.demanded`; what came of the check is in `session.outcome`.
        """
        session = self.session
        async with self._alone():
            level, due = await asyncio.to_thread(lambda: session.demanded(list(messages), call, ends=ends))
            await self._checked(due)
            return await asyncio.to_thread(session.current, level)

    async def _checked(self, call: Call | None) -> None:
        if call is not None:
            self.session.outcome = await self._abortable(call)
            await asyncio.to_thread(self.session.prepare, call, self._threaded())

    async def after_model(self, report: Any) -> None:  # noqa: ANN401 - a provider's JSON, or an object of its SDK
        """See `Session.after_model`."""
        self.session.after_model(report)

    def _threaded(self) -> Answerer:
        """The answerer for another thread: a model that is a coroutine is awaited on this loop."""
        answerer = self.session.answerer
        return answerer if self._answer is None else replace(answerer, model=_OnLoop(self._answer))

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """One compaction at a time, those of the synchronous side included. Waits without a thread of its own."""
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
