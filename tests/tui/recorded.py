"""Agents over recorded sessions in SQLite, for what is tested without a terminal."""

from __future__ import annotations

from pathlib import Path

from tenfold.agent import Agent
from tenfold.agent.demonstration import demonstration
from tenfold.log.base import DEFAULT_NAMESPACE, SessionInfo, Store
from tenfold.log.sqlite import SqliteStore
from tenfold.meter.counters import counter_for
from tenfold.record.message import Message, Text
from tenfold.session import Place, Session
from tenfold.settings import policy_for
from tenfold.transcripts import read_file
from tenfold.transcripts.load import load
from tests.shape.scan import ROOT

EXAMPLES = ROOT / "examples" / "sessions"
COUNTER = counter_for("gpt-4o").counter
WINDOW = 32_000


def stored(folder: Path, file: str = "logs.pi.jsonl") -> tuple[Store, str]:
    """A store with that recorded session, and its id."""
    store = SqliteStore(folder / "store.db")
    return store, load(read_file(EXAMPLES / file), store, DEFAULT_NAMESPACE, COUNTER)[0]


def agent_over(store: Store, session: str, *, policy: str = "tenfold", window: int | None = WINDOW) -> Agent:
    """The demonstration, going on with a stored session."""
    made = Session(Place(store, session), policy_for(policy, COUNTER))
    return Agent(demonstration(), session=made, window=window)


def new(store: Store, *texts: str) -> Session:
    """A new session in which the user and the model said these in turn."""
    made = Session.create(
        Place(store, "new"), policy_for("tenfold", COUNTER), info=SessionInfo("new"), model="demonstration"
    )
    for at, text in enumerate(texts):
        mine = at % 2 == 0
        made.append(Message("user" if mine else "assistant", (Text(text),), "human" if mine else "model"))
    return made
