"""Shows on standard error what is worked on, how much of it is done and the time left, from the second second on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Self

from msgspec.structs import replace
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from tenfold.apps.cli.console import build_console, fit_line, share_console
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.models.model import Model
from tenfold.session import Session

DELAY = 1.0
"""Seconds until something is shown: what is done by then needs no bar."""
_OTHER_COLUMNS = 44
"""Columns of the terminal that everything but the words takes."""


class _TimeColumn(ProgressColumn):
    """The time left, and the time so far as long as it is not known how much there is to do."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        """Renders it as minutes and seconds."""
        left = task.time_remaining
        seconds = task.elapsed if left is None else left
        return Text(f"{_format_time(seconds or 0)} {'so far' if left is None else 'left'}", style="progress.remaining")


def _format_time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"


class WorkProgress:
    """A bar for a piece of work, drawn in a terminal only. Use it as a context: at its end the bar is wiped away.

    It may be told from any thread. Where the `total` is not known, the time so far is shown in place of the time left.
    """

    def __init__(self, what: str, total: int | None = None, *, enabled: bool = True) -> None:
        """`what` is what is worked on. Session text in it is sanitized."""
        console = build_console(stderr=True)
        self._columns = max(8, console.width - _OTHER_COLUMNS)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            _TimeColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task(fit_line(what, self._columns), total=total)
        self._is_enabled = enabled and sys.stderr.isatty()
        self._lock = threading.Lock()
        self._timer = threading.Timer(DELAY, self._start)
        self._timer.daemon = True
        self._has_ended = False
        self._shared = ExitStack()

    def __enter__(self) -> Self:
        if self._is_enabled:
            self._shared.enter_context(share_console(self._bar.console))
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._has_ended = True
            self._clear()
        self._shared.close()

    @property
    def is_enabled(self) -> bool:
        """Whether it is drawn at all."""
        return self._is_enabled

    def _start(self) -> None:
        with self._lock:
            if not self._has_ended:
                self._bar.start()

    def _clear(self) -> bool:
        """Takes the bar off the screen, and returns whether it was there. The bar itself ends with a line otherwise."""
        was_shown = self._bar.live.is_started
        if was_shown:
            self._bar.stop()
        return was_shown

    def tell(self, what: str) -> None:
        """Says what is worked on now."""
        self._bar.update(self._task, description=fit_line(what, self._columns))

    def advance(self, count: int = 1) -> None:
        """Says that so many more parts are done."""
        self._bar.advance(self._task, count)

    def expect(self, total: int) -> None:
        """Says how many parts there are."""
        self._bar.update(self._task, total=total)

    def set_done(self, done: int, total: int) -> None:
        """Says how many of how many parts are done."""
        self._bar.update(self._task, completed=done, total=total)

    @contextmanager
    def hide(self) -> Iterator[None]:
        """Wipes the bar away while results are printed."""
        with self._lock:
            was_shown = self._clear()
            yield
            if was_shown and not self._has_ended:
                self._bar.start()


class _WatchedModel:
    """A model whose calls are shown while they are answered."""

    def __init__(self, model: Model, work: WorkProgress) -> None:
        self._model, self._work = model, work

    def __getattr__(self, name: str) -> object:
        return getattr(self._model, name)

    def answer(self, ask: SummaryAsk) -> Answer:
        """Answers one Ask as the model does."""
        named = f"{ask.model or 'the model'} writes a summary (given up after {ask.timeout:g} s)"
        self._work.tell(named)
        return self._model.answer(ask)


def watch_model(session: Session, work: WorkProgress) -> None:
    """Has the bar say when the session's model is asked."""
    answerer = session.compactor.answerer
    if answerer.model is not None and work.is_enabled:
        session.compactor.use_answerer(replace(answerer, model=_WatchedModel(answerer.model, work)))
