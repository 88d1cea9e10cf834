"""How threads, coroutines and compactions wait for one another.

A compaction holds the `CompactionLock` of its session. One that is prepared ahead has a thread of its own, and so has
each call of a model.
Hooks that are coroutine functions run on the event loop of the host, if the work is done for one, so that they can use
what belongs to that loop; without a loop they get one of their own.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextvars import ContextVar, copy_context
from math import inf
from types import TracebackType
from typing import TypeVar

from tenfold.core.text.redaction import redact
from tenfold.store.base import Store

T = TypeVar("T")
_LOG = logging.getLogger("tenfold")
_STEP = 0.2
"""Seconds after which a thread that waits looks whether the program was interrupted."""
_HOST_LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("tenfold_host_loop", default=None)
_THREADS: ContextVar[Executor | None] = ContextVar("tenfold_threads", default=None)


class CompactionLock:
    """One compaction at a time per session, first come first served.

    Use it with `with` in threads and with `async with` in coroutines. A waiting coroutine takes no thread.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held = False
        self._waiting: deque[Future[None]] = deque()

    @property
    def is_held(self) -> bool:
        """Whether a compaction is running."""
        return self._held

    def _enter_queue(self) -> Future[None]:
        """Returns a future that is done once the lock belongs to the caller."""
        turn: Future[None] = Future()
        turn.set_running_or_notify_cancel()
        with self._guard:
            if self._held:
                self._waiting.append(turn)
                return turn
            self._held = True
        turn.set_result(None)
        return turn

    def release(self) -> None:
        """Gives the lock to whoever has waited longest."""
        with self._guard:
            turn = self._waiting.popleft() if self._waiting else None
            self._held = turn is not None
        if turn is not None:
            turn.set_result(None)

    def _leave_queue(self, turn: Future[None]) -> None:
        with self._guard:
            is_waiting = turn in self._waiting
            if is_waiting:
                self._waiting.remove(turn)
        if not is_waiting:  # its turn came in the same moment
            self.release()

    def __enter__(self) -> None:
        turn = self._enter_queue()
        try:
            wait_for(turn)
        except BaseException:
            self._leave_queue(turn)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    async def __aenter__(self) -> None:
        turn = self._enter_queue()
        if turn.done():  # it was free
            return
        try:
            await asyncio.shield(asyncio.wrap_future(turn))
        except BaseException:
            self._leave_queue(turn)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def start_thread(work: Callable[[], T], name: str) -> Future[T]:
    """Starts work on a daemon thread of its own. Nothing has to wait for it, not even the end of the program."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()  # a coroutine that stops waiting does not stop the work
    context = copy_context()

    def run_work() -> None:
        try:
            future.set_result(context.run(work))
        except BaseException as exc:  # noqa: BLE001 - whatever it raised is raised where its result is asked for
            future.set_exception(exc)

    threading.Thread(target=run_work, name=name, daemon=True).start()
    return future


def use_threads_of(store: Store) -> None:
    """Has what this task runs in threads wait in those of a store, if it has some of its own."""
    _THREADS.set(store.threads)


def wait_for(future: Future[T], timeout: float = inf) -> bool:
    """Waits at most `timeout` seconds for a future, in short steps, and tells whether it is done.

    Between two steps Ctrl-C is heard. A single long wait of the main thread hears none on Windows, nor on other systems
    if it came right before the wait or reached another thread.
    """
    while timeout > 0 and not future.done():
        wait([future], timeout=min(_STEP, timeout))
        timeout -= _STEP
    return future.done()


async def run_in_thread(work: Callable[[], T]) -> T:
    """Runs work in a thread of the store that this task works with, else in one of the event loop's."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS.get(), copy_context().run, work)


async def run_uninterrupted(work: Callable[[], T]) -> T:
    """Runs work that appends entries in a thread. A cancelled caller waits for its end: a thread cannot be stopped.

    However often it is cancelled: the task groups of anyio cancel again until the task has ended. Work that failed
    meanwhile is logged, and is the cause of the `CancelledError`, since a caller may have no use for that.
    """
    loop = asyncio.get_running_loop()
    # No task, which the end of the loop would cancel.
    future = loop.run_in_executor(_THREADS.get(), copy_context().run, work)
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


async def wait_until_done(future: Future[T]) -> None:
    """Waits for a thread's future without taking its result. A caller that is cancelled leaves it running."""
    waiter = asyncio.wrap_future(future)
    waiter.add_done_callback(lambda done: done.cancelled() or done.exception())
    await asyncio.wait([waiter])


def register_host_loop() -> None:
    """Registers the running loop as the host's, for this task and for the threads that work for it."""
    _HOST_LOOP.set(asyncio.get_running_loop())


def wait_for_result(result: object) -> object:
    """Returns what a hook returned. If that is awaitable, waits until it is done and returns its result.

    On the thread of the host's own loop it cannot wait for that loop. There the coroutine gets a loop of its own.
    """
    if not inspect.isawaitable(result):
        return result
    loop = _HOST_LOOP.get()
    if loop is not None and loop.is_running() and not _is_loop_thread():
        return asyncio.run_coroutine_threadsafe(_await_result(result), loop).result()
    with ThreadPoolExecutor(1, "tenfold-hook") as pool:
        return pool.submit(asyncio.run, _await_result(result)).result()


async def _await_result(result: Awaitable[object]) -> object:
    return await result


def _is_loop_thread() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
