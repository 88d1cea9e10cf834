"""Stores with jobs, sessions in them that are worth a summary, and programs that do the jobs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

from tenfold.apps.jobs.database import prepare_jobs
from tenfold.apps.jobs.job import JobRow
from tenfold.apps.jobs.queue import JobQueue
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo, Store
from tenfold.store.location import open_store
from tests.engine.making import make_reply, make_user_message
from tests.gateway.conversations import fill_words
from tests.postgres import create_database

KINDS = ("sqlite", "postgres")
MODEL = "openai:gpt-4o-mini"
SUMMARY = "## Goal\nAll files are read.\n\n## Done\nThe files were read one by one."
WAIT = 60.0
_READY = "does the jobs;"


@contextmanager
def create_place(kind: str, folder: Path) -> Iterator[str]:
    """Makes a store of a kind that can have jobs, and gives its location."""
    if kind == "sqlite":
        yield str(folder / "agents.db")
        return
    with create_database() as url:
        prepare_jobs(url, migrate=True)
        yield url


@contextmanager
def open_place(location: str) -> Iterator[Store]:
    """Opens a store for the length of a block."""
    with closing(open_store(location)) as store:
        yield store


def add_session(store: Store, name: str, *, namespace: str = DEFAULT_NAMESPACE, steps: int = 30) -> Session:
    """Adds a session of about 20,000 tokens in which a rule stands and much is said that only a model can shorten."""
    address = SessionAddress(store, name, namespace)
    session = Session.create(address, "tenfold", info=SessionInfo(name, title=f"Read {name}"))
    messages = [make_user_message(f"Look at {name}. Never touch config/{name}.toml.")]
    for number in range(steps):
        messages += [make_reply(fill_words(f"{name}said{number}", 300)), make_user_message(f"And part {number}?")]
    session.append(*messages, make_reply("All are read."), make_user_message("Go on."))
    return session


def build_request(steps: int) -> dict[str, Any]:
    """A request of about 900 tokens for each step, which only a model can shorten."""
    messages = [{"role": "user", "content": "Look at the program. Never touch config/prod.toml."}]
    for number in range(steps):
        messages.append({"role": "assistant", "content": fill_words(f"said{number}", 300)})
        messages.append({"role": "user", "content": f"And part {number}?"})
    return {"model": "gpt-4o", "messages": messages}


def wait_for_jobs(queue: JobQueue, *ids: str, seconds: float = WAIT) -> list[JobRow]:
    """Waits until jobs have ended, and returns how they did."""
    until = time.monotonic() + seconds
    while True:
        rows = [queue.find(id_) for id_ in ids]
        ended = [row for row in rows if row is not None and row.state not in ("waiting", "running")]
        if len(ended) == len(ids):
            return ended
        assert time.monotonic() < until, rows
        time.sleep(0.05)


def wait_until(condition: Callable[[], object], seconds: float = WAIT) -> None:
    """Waits until something that has to come has come."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def build_environment(model_url: str) -> Mapping[str, str]:
    """The environment of a worker whose operator has a model, on loopback."""
    own = {"TENFOLD_MODEL": MODEL, "OPENAI_BASE_URL": f"{model_url}/v1", "OPENAI_API_KEY": "operators-own-key"}
    return {**os.environ, **own, "NO_COLOR": "1", "COLUMNS": "200"}


class WorkerProgram:
    """`tenfold worker` as a program of its own, which a test kills and starts again."""

    def __init__(self, location: str, environment: Mapping[str, str]) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed with the program
        self._command = [sys.executable, "-m", "tenfold", "worker", "--store", location]
        self._environment = environment
        self.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self._log.close()

    def start(self) -> None:
        """Starts it. It may not do jobs yet."""
        self._seen = self.read_log().count(_READY)
        self._process = subprocess.Popen(self._command, stdout=self._log, stderr=self._log, env=dict(self._environment))

    def wait_until_ready(self) -> None:
        """Waits until it does jobs."""
        wait_until(lambda: self.read_log().count(_READY) > self._seen or self._process.poll() is not None)
        assert self._process.poll() is None, self.read_log()

    def kill(self) -> None:
        """Ends it without a warning."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """Asks it to end, and returns its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(WAIT)

    def read_log(self) -> str:
        """What it printed."""
        self._log.seek(0)
        return self._log.read().decode(errors="replace")
