"""Compactions that are prepared ahead: on a thread of this process, or as work that outlives it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol

from tenfold.compaction.engine.call import Call
from tenfold.core.record.ask import EngineResult
from tenfold.core.view.fold import View
from tenfold.session.concurrency import start_thread
from tenfold.session.conversation import Conversation

PreparedResult = tuple[EngineResult, View]
"""The result of a compaction that was prepared ahead, and the view it was planned on."""


class Preparation(Protocol):
    """A compaction that is being prepared ahead."""

    def is_done(self) -> bool:
        """Tells whether the result is there. It may ask a database, and never waits for a model."""
        ...

    def watch(self) -> Future[PreparedResult]:
        """Returns a future of the result, for whoever has to wait for it."""
        ...

    def drop(self) -> None:
        """Says that nobody will take the result any more, here or elsewhere: it was taken, or does not fit."""
        ...


class Preparer(Protocol):
    """Has compactions prepared by others: see `tenfold.apps.jobs`, where other processes do it."""

    def prepare(self, conversation: Conversation, call: Call) -> Preparation | None:
        """Starts a compaction of the conversation as it is, or finds the one that was started for it elsewhere.

        None if it cannot be prepared this way now; the caller then does without.
        """
        ...


class ThreadPreparation:
    """A compaction that is being prepared on a thread of this process. It is lost if the process dies."""

    def __init__(self, work: Callable[[], PreparedResult], release: Callable[[], None]) -> None:
        """Starts the work. `release` is called when nobody will take the result any more."""
        self._future = start_thread(work, "tenfold-prepare")
        self._release = release

    def is_done(self) -> bool:
        """See `Preparation.is_done`."""
        return self._future.done()

    def watch(self) -> Future[PreparedResult]:
        """See `Preparation.watch`."""
        return self._future

    def drop(self) -> None:
        """See `Preparation.drop`. Work that still runs is left running."""
        self._release()
