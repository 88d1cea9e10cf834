"""A store that notes which threads ask it, and a lock that another thread holds: for tests of event loops."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tenfold.session import Session
from tenfold.store.sqlite.store import SqliteStore

_ASKING = frozenset({"append", "create", "keep_request", "open", "purge", "read_counts", "read_info", "read_range"})
TURNS = 100
_ENOUGH_SECONDS = 30
"""After so long a holder gives the lock up, so that a test fails whose loop stands still."""


class WatchedStore(SqliteStore):
    """Notes the threads that ask it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.askers = set[int]()

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401 - any attribute
        if name in _ASKING:
            self.askers.add(threading.get_ident())
        return super().__getattribute__(name)


class HeldLock:
    """Holds the lock of a session in another thread, until the event loop that runs here has turned `TURNS` times."""

    def __init__(self, session: Session) -> None:
        self._lock = session.conversation.lock
        self._is_held, self._has_turned = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold)
        self.is_over = False

    async def __aenter__(self) -> Self:
        self._thread.start()
        await asyncio.to_thread(self._is_held.wait)
        self._turning = asyncio.create_task(self._turn())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._turning
        await asyncio.to_thread(self._thread.join)
        assert self.is_over, f"the loop stood still while the lock was held, and did not turn {TURNS} times"

    def _hold(self) -> None:
        with self._lock:
            self._is_held.set()
            self.is_over = self._has_turned.wait(_ENOUGH_SECONDS)

    async def _turn(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)
        self._has_turned.set()
