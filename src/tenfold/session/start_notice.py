"""Tells of the start of a compaction, and of its end if it is cancelled after that."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal

from msgspec.structs import replace

from tenfold.core.record.ask import ConsultAsk
from tenfold.events import CompactionSkip, CompactionStart
from tenfold.session.drive import Answerer


class StartNotice:
    """Tells the listeners that a compaction starts, and that it was cancelled if it is cancelled after that.

    Before-hooks and listeners run in threads, and a thread goes on after its compaction is cancelled: it then tells
    nothing of a start, or of the end too if it was telling of the start.
    """

    def __init__(self, answerer: Answerer, build_start: Callable[[ConsultAsk], CompactionStart]) -> None:
        """`answerer` gets a last before-hook, so that the start is told once no before-hook objects."""
        self.answerer = answerer
        if answerer.listeners:
            self.answerer = replace(answerer, before_hooks=(*answerer.before_hooks, self._notify_start))
        self._build_start = build_start
        self._state: Literal["waiting", "telling", "told"] = "waiting"
        self._end: CompactionSkip | None = None
        self._lock = threading.Lock()

    def _notify_start(self, consult: ConsultAsk) -> None:
        with self._lock:
            is_cancelled = self._end is not None
            if not is_cancelled:
                self._state = "telling"
        if is_cancelled:
            return
        self.answerer.notify(self._build_start(consult))
        with self._lock:
            self._state, end = "told", self._end
        if end is not None:
            self.answerer.notify(end)

    def cancel(self, end: CompactionSkip) -> None:
        """Notes that the compaction was cancelled, and notifies of `end` if its start was told."""
        with self._lock:
            self._end, state = end, self._state
        if state == "told":
            self.answerer.notify(end)
