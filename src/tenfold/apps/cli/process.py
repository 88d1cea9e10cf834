"""What a command needs of its process: exit codes, and streams that take any text.

It is apart from the console, which draws with rich: `tenfold --version` needs only this.
"""

from __future__ import annotations

import errno
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from io import TextIOWrapper
from pathlib import Path
from subprocess import list2cmdline

COMPLETE_VARIABLE = "_TENFOLD_COMPLETE"
"""The variable by which a shell asks for what completes a line."""


_kept: list[str] = []


@contextmanager
def explain_interrupt(describe: Callable[[], str]) -> Iterator[None]:
    """Says what is kept if the user interrupts the block. The innermost one is the one that is asked."""
    try:
        yield
    except KeyboardInterrupt:
        if not _kept:
            _kept.append(describe())
        raise


def take_explanation() -> str:
    """Returns what is kept of the work that was interrupted, and forgets it."""
    said = _kept[0] if _kept else "everything stored before is kept"
    _kept.clear()
    return said


class ExitCode(IntEnum):
    """What a command's exit code means."""

    OK = 0
    ATTENTION = 1
    USAGE = 2
    BAD_INPUT = 3
    FAILED = 4
    INTERRUPTED = 130


def relax_stream_errors() -> None:
    """Makes standard output and error replace what they cannot encode, help texts included, and not fail.

    One that was closed before the start (`>&-`) takes everything and keeps nothing.
    """
    # Python opens no stream for a closed descriptor. Its number is taken here, so that no store is opened under it.
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open to the end
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - the same
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            with suppress(ValueError):
                stream.reconfigure(errors="replace")
                if stream.isatty() and _is_locale_plain():
                    stream.reconfigure(encoding="ascii")


def _is_locale_plain() -> bool:
    """Returns whether the user's locale is C: Python writes UTF-8 then, which the terminal may not show.

    Where no locale is set at all, as in many containers, terminals do show it.
    """
    if os.environ.get("PYTHONIOENCODING") or os.environ.get("PYTHONUTF8"):
        return False
    named = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "")
    return named in ("C", "POSIX")


def is_closed_pipe(error: OSError, *, windows: bool = os.name == "nt") -> bool:
    """Tells whether nobody reads our output any more. Windows calls that an invalid argument, of no file."""
    is_unnamed = windows and error.errno == errno.EINVAL and error.filename is None
    return is_unnamed or isinstance(error, BrokenPipeError)


def join_command(words: Sequence[str], *, windows: bool = os.name == "nt") -> str:
    """Joins a command as it is typed in a shell of POSIX, or in those of Windows, which quote by `"` alone."""
    return list2cmdline(words) if windows else shlex.join(words)
