"""A lock that threads and coroutines can wait for, first come first served: one compaction at a time per session."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future
from types import TracebackType


class CompactionLock:
    """Use it with `with` in threads and with `async with` in coroutines. A waiting coroutine takes no thread."""

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
            turn.result()
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
