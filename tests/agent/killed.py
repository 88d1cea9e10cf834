"""Processes with an agent in them, to be killed: `python -m tests.agent.killed LOG SERVER MODEL RAN DIES`.

Each line on standard input starts one, which is told by `pid N` and, once it has ended, by `ended CODE`. They are
forked from this one, which does nothing but load the clients: that takes seconds, and they share nothing else.

An agent goes on where the session of the log is, and writes a line to the file RAN for each call that its tool carries
out. In the calls that look at DIES (with commas) it kills itself after that.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from pathlib import Path

from tenfold.apps.agent import Agent
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.models.provider import open_client
from tenfold.session import Session, SessionAddress
from tenfold.store.sqlite.store import SqliteStore
from tests.agent.working import TASK, build_settings

WINDOW = 32_000


def open_session(log: Path) -> Session:
    """The session of the log, made where there is none yet."""
    return Session.create(
        SessionAddress(SqliteStore(log), "s"), build_policy("tenfold", choose_counter("claude").counter)
    )


def main(log: str, server: str, model: str, ran: str, dies: str) -> None:
    """Runs to the end of the task, unless it is killed before."""

    def look(path: str) -> str:
        """Reads a file."""
        written = os.open(ran, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(written, f"{path}\n".encode())
        os.close(written)
        if path in dies.split(","):
            os.kill(os.getpid(), signal.SIGKILL)
        return f"# {path}\n" + "one more line of it\n" * 80

    session = open_session(Path(log))
    agent = Agent(
        open_client(model, server), session=session, window=WINDOW, settings=build_settings(model), tools=[look]
    )
    begun = session.view.path.length > 0
    print(asyncio.run(agent.invoke("" if begun else TASK)))


def start_process(arguments: list[str]) -> int:
    """A process that runs `main` and ends; its id."""
    sys.stdout.flush()
    if pid := os.fork():
        return pid
    code = 1
    try:
        main(*arguments)
        sys.stdout.flush()
        code = 0
    finally:  # it must not go on as a copy of this process
        if code:
            traceback.print_exc()
        os._exit(code)


if __name__ == "__main__":
    open_client(sys.argv[3], sys.argv[2])
    for _ in sys.stdin:
        child = start_process(sys.argv[1:])
        print("pid", child, flush=True)
        print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
