"""Work on a session that waits until the request it belongs to was sent on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")
DELAY = 0.05
"""Seconds until it begins by itself. The request is on its way by then, and the provider works."""


class LaterWork(Generic[T]):
    """Work that must not slow down the request it belongs to.

    It begins by itself a moment later, while the provider works, or when `start` is called, whichever is first.
    """

    def __init__(
        self, work: Callable[[], Coroutine[Any, Any, T]], earlier: LaterWork[T] | None = None, *, delay: float = DELAY
    ) -> None:
        """`earlier` is done before it. `delay` is in seconds. To be made on the event loop."""
        self._work, self._earlier = work, earlier
        self._task: asyncio.Task[T] | None = None
        self._timer = asyncio.get_running_loop().call_later(delay, self.start)

    def start(self) -> asyncio.Task[T]:
        """Begins the work if it has not begun yet. Returns its task, which several callers may wait for."""
        self._timer.cancel()
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
            _RUNNING.add(self._task)
            self._task.add_done_callback(_RUNNING.discard)
        return self._task

    async def finish(self) -> None:
        """Has the work done, and returns when it is. What it raises is left to those who wait for its task."""
        task = self.start()
        if not task.done():
            await asyncio.wait({task})

    async def _run(self) -> T:
        earlier, self._earlier = self._earlier, None
        if earlier is not None:
            await earlier.finish()
        return await self._work()


_RUNNING: set[asyncio.Task[Any]] = set()
"""Tasks that nobody may be waiting for. The event loop itself would let them be collected."""
