"""What a test may leave to the next ones: nothing. No thread, process, open file or connection, and no changed setting.

A loop that is not closed is seen by its files. Where the system has no `/proc`, open files and processes are not seen.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import sysconfig
import threading
import time
from pathlib import Path

from msgspec import Struct
from opentelemetry import trace

_SELF = Path("/proc/self")
_HAS_PROC = _SELF.is_dir()
_FILES = str(_SELF / "fd")
_PACKAGES = f"{sysconfig.get_path('purelib')}{os.sep}"
"""A package may keep a file of its own open, as matplotlib does with its fonts."""
_PROMPT = 0.01
"""Seconds from one look to the next after which nothing is about to end by itself."""


class ProcessState(Struct, frozen=True):
    """What outlives a test if the test does not undo it. `settings` are compared by their values."""

    running: frozenset[str]
    settings: dict[str, object]


def read_state() -> ProcessState:
    """Reads what runs, what is open, and how the process is set. It costs less than a millisecond."""
    threads = {f"thread {thread.name} ({thread.ident})" for thread in threading.enumerate()}
    root, own = logging.getLogger(), logging.getLogger("tenfold")
    return ProcessState(
        frozenset(threads | _list_files() | _list_processes()),
        {f"variable {name}": value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
        | {f"handler of {number.name}": signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        | {f"logger {log.name}": (log.level, *log.handlers, *log.filters) for log in (root, own)}
        | {
            "working folder": Path.cwd(),
            "import path": tuple(sys.path),
            "recursion limit": sys.getrecursionlimit(),
            "tracer provider": trace.get_tracer_provider(),
        },
    )


def find_leftovers(before: ProcessState, *, patience: float = 60.0) -> list[str]:
    """Lists what is there now and was not before, and what was set otherwise.

    What is about to end has `patience` seconds for it: a connection's thread ends only after the connection, and that,
    where its client keeps it in a circle, once the collector has come by. It is called again and again, since a thread
    may have held the circle before, but not at once: it takes longer than what ends by itself.
    """
    after, deadline, pause = read_state(), time.monotonic() + patience, 0.002
    while after.running - before.running and time.monotonic() < deadline:
        time.sleep(pause)
        if (pause := min(2 * pause, 1.0)) > _PROMPT:
            gc.collect()
        after = read_state()
    names = sorted(before.settings.keys() | after.settings.keys())
    changed = [name for name in names if before.settings.get(name) != after.settings.get(name)]
    return sorted(after.running - before.running) + [f"{name} is changed" for name in changed]


def _list_files() -> set[str]:
    """Without `pathlib`, which takes most of a millisecond for it: it is called twice for each test."""
    found: set[str] = set()
    for number in os.listdir(_FILES) if _HAS_PROC else ():  # noqa: PTH208
        try:
            opened = os.readlink(f"{_FILES}/{number}")  # noqa: PTH115
        except OSError:  # the one that lists them
            continue
        if not opened.startswith(_PACKAGES):
            found.add(f"file {number}, {opened}")
    return found


def _list_processes() -> set[str]:
    found: set[str] = set()
    for task in (_SELF / "task").iterdir() if _HAS_PROC else ():
        try:
            found |= {f"process {number}" for number in (task / "children").read_text().split()}
        except OSError:  # the thread has ended
            continue
    return found
