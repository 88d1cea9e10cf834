"""A compaction made ahead, off the critical path: started in the warning zone, appended when the trigger fires.

It runs the same effects on a thread of its own, over the view as it was; a Block planned there fits every later leaf
that was reached by messages only. Nothing here appends: the session does, if the Block still fits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from tenfold.record.ask import Verdict
from tenfold.view.view import View

Made = tuple[Verdict, View]
"""What came of it, and the view it was planned on."""


class Preparation:
    """One compaction under way or done. `take` waits for it."""

    def __init__(self, work: Callable[[], Made]) -> None:
        """Starts `work` on a thread that does not keep the process alive."""
        self._made: Future[Made] = Future()
        threading.Thread(target=self._run, args=(work,), name="tenfold-prepare", daemon=True).start()

    def _run(self, work: Callable[[], Made]) -> None:
        try:
            self._made.set_result(work())
        except BaseException as exc:  # noqa: BLE001 - it is given where the result is taken
            self._made.set_exception(exc)

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._made.done()

    def take(self) -> Made | Exception:
        """What came of it, waiting if it is still under way: never longer than making it anew would take.

        A user's stage may raise anything: that is given too, but Ctrl-C and the like are raised here.
        """
        exc = self._made.exception()
        if exc is None:
            return self._made.result()
        if not isinstance(exc, Exception):
            raise exc
        return exc
