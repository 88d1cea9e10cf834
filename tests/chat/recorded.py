"""Agents over recorded sessions in SQLite, for what is tested without a terminal."""

from __future__ import annotations

from pathlib import Path

from tenfold.apps.agent import Agent
from tenfold.apps.agent.demonstration import build_demonstration
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.message import Message, Text
from tenfold.formats import read_file
from tenfold.formats.importer import import_sessions
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo, Store
from tenfold.store.sqlite.store import SqliteStore
from tests.shape.scan import ROOT

EXAMPLES = ROOT / "examples" / "sessions"
COUNTER = choose_counter("gpt-4o").counter
WINDOW = 32_000


def store_session(folder: Path, file: str = "logs.pi.jsonl") -> tuple[Store, str]:
    """A store with that recorded session, and its id."""
    store = SqliteStore(folder / "store.db")
    return store, import_sessions(read_file(EXAMPLES / file), store, DEFAULT_NAMESPACE, COUNTER)[0]


def make_agent(store: Store, session: str, *, policy: str = "tenfold", window: int = WINDOW) -> Agent:
    """The demonstration, going on with a stored session."""
    made = Session(SessionAddress(store, session), build_policy(policy, COUNTER))
    return Agent(build_demonstration(), session=made, window=window)


def create_session(store: Store, *texts: str) -> Session:
    """A new session in which the user and the model said these in turn."""
    made = Session.create(
        SessionAddress(store, "new"), build_policy("tenfold", COUNTER), info=SessionInfo("new"), model="demonstration"
    )
    for at, text in enumerate(texts):
        mine = at % 2 == 0
        made.append(Message("user" if mine else "assistant", (Text(text),), "human" if mine else "model"))
    return made
