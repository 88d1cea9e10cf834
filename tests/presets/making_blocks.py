"""Conversations of several loops for the tests of the preset `blocks`, counted by characters."""

from __future__ import annotations

from collections.abc import Sequence

from tenfold.drive import Answerer
from tenfold.log.memory import MemoryStore
from tenfold.policies.blocks import blocks
from tenfold.policy import Policy
from tenfold.record.block import Block
from tenfold.record.message import Message
from tenfold.session import Place, Session
from tests.engine.making import COUNTER, FILLER, called, gave, said, system, user

__all__ = ["COUNTER", "FILLER", "called", "gave", "said", "system", "user"]


def turn(number: int, *, lines: int = 20, text: str = "") -> list[Message]:
    """A step that reads a file: an answer with a call, and its result of so many lines."""
    told = text or f"I look at part {number}."
    body = "\n".join(f"{line} of part {number}: {FILLER}" for line in range(lines))
    return [called(f"c{number}", "read", f'{{"path": "src/part{number}.py"}}', told), gave(f"c{number}", body)]


def loop(turns: int, *, start: int = 0, ask: str = "", lines: int = 20) -> list[Message]:
    """A run: a request and so many steps."""
    request = user(ask or f"Go over the parts from {start} on.")
    return [request, *(m for n in range(start, start + turns) for m in turn(n, lines=lines))]


def opened(
    runs: Sequence[Sequence[Message]], using: Policy | None = None, *, answerer: Answerer | None = None, model: str = ""
) -> Session:
    """A session with these runs, named run-1, run-2 and so on."""
    session = Session.create(Place(MemoryStore(), "s"), using or blocks(COUNTER), model=model, answerer=answerer)
    for number, messages in enumerate(runs, start=1):
        session.append(*messages, run=f"run-{number}")
    return session


def block(session: Session) -> Block:
    """The newest Block in force."""
    made = session.view.path.at(session.view.marks.live[-1])
    assert isinstance(made, Block)
    return made


def texts(messages: Sequence[Message]) -> list[str]:
    """The first text of each message."""
    return [next((getattr(p, "text", "") for p in m.parts if getattr(p, "text", "")), "") for m in messages]


def size(session: Session) -> int:
    """Tokens of the view."""
    return sum(session.sizes().values())
