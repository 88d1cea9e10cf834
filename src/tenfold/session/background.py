"""Prepares a compaction in the background, so that the conversation need not wait for it.

The session starts it in the warning zone and appends the Block when the trigger fires. It runs the same engine on its
own thread, over the view at that moment. The Block fits every later leaf if only messages were appended since. Nothing
here appends; the session does, if the Block still fits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from tenfold.core.record.ask import EngineResult
from tenfold.core.view.fold import View

PreparedResult = tuple[EngineResult, View]
"""The result of the compaction, and the view it was planned on."""


class Preparation:
    """One compaction that is running or done. `take_result` waits for it; coroutines wait for `future` before."""

    def __init__(self, work: Callable[[], PreparedResult]) -> None:
        """Starts `work` on a daemon thread, which does not keep the process alive."""
        self.future: Future[PreparedResult] = Future()
        self.future.set_running_or_notify_cancel()  # a coroutine that stops waiting does not stop the work
        threading.Thread(target=self._run, args=(work,), name="tenfold-prepare", daemon=True).start()

    def _run(self, work: Callable[[], PreparedResult]) -> None:
        try:
            self.future.set_result(work())
        except BaseException as exc:  # noqa: BLE001 - it is given where the result is taken
            self.future.set_exception(exc)

    @property
    def is_done(self) -> bool:
        """Whether the compaction has ended."""
        return self.future.done()

    def take_result(self) -> PreparedResult | Exception:
        """Returns the result, waiting for it if necessary. That never takes longer than starting over would.

        An exception that a user's stage raised is returned; only Ctrl-C and the like are raised here.
        """
        exc = self.future.exception()
        if exc is None:
            return self.future.result()
        if not isinstance(exc, Exception):
            raise exc
        return exc
