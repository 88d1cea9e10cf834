"""Long results in a terminal go through a pager, as those of git do: `PAGER` names it, else it is less, else more."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from io import StringIO
from pathlib import PurePath

from tenfold.apps.cli.console import build_console
from tenfold.core.text.terminal_safe import strip_controls

_PAGERS = ("less", "more")
"""What is tried where `PAGER` names nothing."""
_NO_PAGER = ("", "cat")
"""Values of `PAGER` that want none."""
_LESS_OPTIONS = "FX"
"""less leaves what it showed on the screen, unless the user's own LESS says otherwise."""


class _Screen(StringIO):
    """Takes what is printed in place of a terminal, and counts as one: so it is drawn for the terminal's width."""

    def __init__(self, encoding: str) -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]  # the base class has none
        """The encoding of the terminal."""
        return self._encoding

    def isatty(self) -> bool:
        """Returns True: it is shown in a terminal."""
        return True


@contextmanager
def open_pager() -> Iterator[None]:
    """Shows what is printed within the block in a pager, if that is longer than the screen.

    Nothing is paged unless a person sits before it: with output or input that is no terminal, in a terminal that is
    `dumb`, and where `PAGER` is empty or `cat`. If the block fails, what it printed before is shown without a pager.
    """
    command = _find_pager()
    if not command:
        yield
        return
    screen = _Screen(sys.stdout.encoding or "ascii")
    try:
        with redirect_stdout(screen):
            yield
    except BaseException:
        sys.stdout.write(screen.getvalue())
        raise
    text = screen.getvalue()
    if text.count("\n") < build_console().height or not _run_pager(command, text):
        sys.stdout.write(text)
        sys.stdout.flush()


def _find_pager() -> list[str]:
    """Returns the command of the pager, [] if there is to be none."""
    named = os.environ.get("PAGER")
    if not (sys.stdout.isatty() and sys.stdin.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
        return []
    if named is not None:
        try:
            return [] if named.strip() in _NO_PAGER else shlex.split(named)
        except ValueError:  # a quotation mark that is not closed
            return []
    return next(([name] for name in _PAGERS if shutil.which(name)), [])


def _run_pager(command: list[str], text: str) -> bool:
    """Has the pager show the text, and returns whether it could be started. Only less is sent colours."""
    if PurePath(command[0]).name == "less":
        command = [*command, "-R"]
    else:
        text = strip_controls(text)
    environ = {"LESS": _LESS_OPTIONS, **os.environ}
    sys.stdout.flush()
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environ)  # noqa: S603 - the user's own pager
    except OSError:
        return False
    _feed_pager(process, text.encode(sys.stdout.encoding or "ascii", "replace"))
    return True


def _feed_pager(process: subprocess.Popen[bytes], data: bytes) -> None:
    """Writes all of it and waits for the pager. An interrupt is the pager's: less stops a search with it."""
    with process:
        try:
            process.communicate(data)
        except KeyboardInterrupt:
            if process.stdin is not None:
                with suppress(OSError):
                    process.stdin.close()
            while process.poll() is None:
                with suppress(KeyboardInterrupt):
                    process.wait()
