"""What the tests of the preset `tail` share: a model that answers as its prompts ask, and sessions under the preset."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from msgspec.structs import replace

from tenfold.designs.tail import CompactionSettings, TailHarness
from tenfold.designs.tail_events import EventName, TailEvent
from tenfold.drive import Answerer
from tenfold.engine import Call
from tenfold.log.memory import MemoryStore
from tenfold.meter.counters import Characters4
from tenfold.policies.tail import tail
from tenfold.policy import Policy
from tenfold.record.ask import Answer, Summarize
from tenfold.record.block import Block, Replacement, Spent
from tenfold.record.entry import Attempt, Entry, Said, message_of
from tenfold.record.message import Message, Text, ToolCall, ToolResult, text_of
from tenfold.session import Place, Session
from tenfold.summarize.ladder import Settings
from tenfold.summarize.structure import STRUCTURES
from tenfold.view.path import Path
from tenfold.view.view import View

COUNTER = Characters4()
WINDOW = 15_000
FILLER = "nothing else of interest was found here and the work went on as it had been planned before. "


class Structured:
    """A model that answers under the headings that the purpose asks for; `said` names what came in. Counts calls."""

    def __init__(self, said: str = "the work went on", *, failing: Sequence[str] = ()) -> None:
        self.said, self.failing = said, failing
        self.asked: list[Summarize] = []
        self._lock = threading.Lock()

    def answer(self, ask: Summarize) -> Answer:
        with self._lock:
            self.asked.append(ask)
        if ask.purpose in self.failing:
            return Answer(error=f"the provider is down for {ask.purpose}", spent=Spent(1))
        names = STRUCTURES[ask.purpose if ask.purpose in {"prefix", "branch"} else "six"]
        text = "\n".join(f"{name}\n{self.said} ({ask.purpose})" for name in names)
        return Answer(text=text, spent=Spent(1, len(ask.prompt) // 4, len(text) // 4, ask.model))


def user(text: str) -> Message:
    return Message("user", (Text(text),), "human")


def bash(text: str) -> Message:
    """A command that the user ran: a user line with a tool's output."""
    return Message("user", (Text(text),), "tool")


def custom(text: str) -> Message:
    """What a program put in."""
    return Message("user", (Text(text),), "harness")


def said(text: str) -> Message:
    return Message("assistant", (Text(text),), "model")


def called(id: str, path: str = "src/a.py", name: str = "read") -> Message:
    return Message("assistant", (ToolCall(id, name, f'{{"path":"{path}"}}'),), "model")


def gave(id: str, text: str = "done", name: str = "read") -> Message:
    return Message("tool", (ToolResult(id, name, (Text(text),)),), "tool")


def words(tokens: int) -> str:
    """A text of that many tokens, by characters / 4."""
    return (FILLER * (tokens * 4 // len(FILLER) + 1))[: tokens * 4]


def steps(count: int, *, start: int = 0, tokens: int = 400) -> list[Message]:
    """Steps that read a file each and change it."""
    out: list[Message] = []
    for n in range(start, start + count):
        out += [called(f"r{n}", f"src/part{n}.py"), gave(f"r{n}", words(tokens))]
        out += [called(f"e{n}", f"src/part{n}.py", "edit"), gave(f"e{n}", "done", "edit")]
    return out


def exchanges(count: int, *, start: int = 0, tokens: int = 400, each: int = 4) -> list[Message]:
    """Whole exchanges of about `each` times `tokens`."""
    out: list[Message] = []
    for n in range(start, start + count):
        out += [user(f"Please do part {n}."), *steps(each, start=n * each, tokens=tokens), said(f"Part {n} is done.")]
    return out


def path_of(messages: Sequence[Message]) -> list[Entry]:
    return [Said(f"id-{n:04}", f"id-{n - 1:04}" if n else None, "", n, m) for n, m in enumerate(messages)]


def view_of(entries: Sequence[Entry]) -> View:
    return View.of(Path(entries))


def preset(model: bool = True, *, reserve: int = 2_000, keep: int = 3_000) -> Policy:  # noqa: FBT001, FBT002 - a test's
    return tail(
        COUNTER, summary=Settings(models=("m",) if model else ()), reserve_tokens=reserve, keep_recent_tokens=keep
    )


def opened(
    messages: Sequence[Message] = (),
    using: Policy | None = None,
    *,
    model: object = None,
    answerer: Answerer | None = None,
) -> Session:
    """A session under the preset whose summaries `model` writes."""
    writer = model if isinstance(model, Structured) else Structured()
    session = Session.create(Place(MemoryStore(), "s"), using or preset(), answerer=answerer or Answerer(model=writer))
    session.append(*messages)
    return session


def harness(messages: Sequence[Message] = (), *, window: int = WINDOW, model: object = None) -> TailHarness:
    """The design's calls over such a session, with small sizes."""
    session = opened(messages, model=model)
    return TailHarness(session, window, settings=CompactionSettings(reserve_tokens=2_000, keep_recent_tokens=3_000))


def manual(session: Session, window: int = WINDOW) -> Call:
    return replace(session.call(window=window), demand="manual")


def entries(session: Session) -> list[Entry]:
    return session.place.store.original(session.place.namespace, session.place.session)


def blocks(session: Session) -> list[Block]:
    return [e for e in entries(session) if isinstance(e, Block)]


def attempts(session: Session) -> list[Attempt]:
    return [e for e in entries(session) if isinstance(e, Attempt)]


def summary_of(session: Session) -> str:
    """The newest summary in view, as the model sees it."""
    return next(text_of(s.message) for s in reversed(list(session.view.shown())) if not s.original and s.of is None)


def covered(block: Block) -> Replacement:
    (only,) = block.replacements
    return only


def messages_of(path: Sequence[Entry]) -> list[Message]:
    return [m for e in path if (m := message_of(e)) is not None]


NAMES: tuple[EventName, ...] = (
    "session_before_compact", "session_compact", "auto_compaction_start", "auto_compaction_end", "save_point",
    "agent_end", "settled",
)  # fmt: skip


def heard(agent: TailHarness) -> list[TailEvent]:
    """Every event from here on, in order."""
    events: list[TailEvent] = []
    for name in NAMES:
        agent.on(name)(events.append)
    return events


def kinds(events: list[TailEvent]) -> list[str]:
    return [event.type for event in events]
