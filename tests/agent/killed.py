"""A process with an agent in it, to be killed: `python -m tests.agent.killed LOG SERVER MODEL RAN DIES`.

It goes on where the session of the log is, and writes a line to the file RAN for each call that its tool carries out.
In the calls that look at DIES (with commas) it kills itself after that.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from tenfold.agent import Agent
from tenfold.llm.provider import client_for
from tenfold.log.sqlite import SqliteStore
from tenfold.meter.counters import counter_for
from tenfold.session import Place, Session
from tenfold.settings import policy_for
from tests.agent.working import TASK, settings_for

WINDOW = 32_000


def opened(log: Path) -> Session:
    """The session of the log, made where there is none yet."""
    return Session.create(Place(SqliteStore(log), "s"), policy_for("tenfold", counter_for("claude").counter))


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

    session = opened(Path(log))
    agent = Agent(client_for(model, server), session=session, window=WINDOW, settings=settings_for(model), tools=[look])
    begun = session.view.path.length > 0
    print(asyncio.run(agent.invoke("" if begun else TASK)))


if __name__ == "__main__":
    main(*sys.argv[1:])
