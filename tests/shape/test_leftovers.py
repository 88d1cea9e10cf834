"""The guard of all tests finds each kind of thing that a test can leave behind."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, chdir, closing, contextmanager
from pathlib import Path

import pytest

from tests.leftovers import find_leftovers, read_state


@contextmanager
def run_thread() -> Iterator[None]:
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait, name="forgotten", daemon=True)
    thread.start()
    yield
    ended.set()
    thread.join()


@contextmanager
def run_process() -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE):
        yield


@contextmanager
def open_database() -> Iterator[None]:
    with closing(sqlite3.connect("forgotten.db")) as db:
        db.execute("CREATE TABLE t (a)")
        yield


@contextmanager
def open_loop() -> Iterator[None]:
    with closing(asyncio.new_event_loop()):
        yield


@contextmanager
def set_variable() -> Iterator[None]:
    os.environ["TENFOLD_FORGOTTEN"] = "1"
    yield
    del os.environ["TENFOLD_FORGOTTEN"]


@contextmanager
def add_handler() -> Iterator[None]:
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    yield
    logging.getLogger().removeHandler(handler)


@contextmanager
def ignore_signal() -> Iterator[None]:
    earlier = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGTERM, earlier)


@contextmanager
def extend_path() -> Iterator[None]:
    sys.path.append("forgotten")
    yield
    sys.path.remove("forgotten")


KINDS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "thread forgotten": run_thread,
    "process": run_process,
    "forgotten.db": open_database,
    "eventpoll": open_loop,
    "socket:": lambda: closing(socket.socket()),
    "variable TENFOLD_FORGOTTEN is changed": set_variable,
    "logger root is changed": add_handler,
    "handler of SIGTERM is changed": ignore_signal,
    "import path is changed": extend_path,
    "working folder is changed": lambda: chdir(Path(__file__).parent),
}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are seen in /proc")
@pytest.mark.parametrize("what", KINDS)
def test_what_is_left_is_found(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = read_state()
    with KINDS[what]():
        assert any(what in left for left in find_leftovers(before, patience=0))
    assert find_leftovers(before) == []
