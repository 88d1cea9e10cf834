"""What the tests of the preset `tail` share: a model that answers as its prompts ask, and sessions under the preset."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from msgspec.structs import replace

from tenfold.config.policy import Policy
from tenfold.config.presets.tail import tail
from tenfold.designs.tail import CompactionSettings, TailHarness
from tenfold.designs.tail.hook_events import EventName, TailEvent
from tenfold.engine.call import Call
from tenfold.engine.drive import Answerer
from tenfold.meter.counters import CharacterCounter
from tenfold.record.ask import Answer, SummaryAsk
from tenfold.record.block import Block, ModelCost, Replacement
from tenfold.record.entry import Attempt, Entry, MessageEntry, get_message
from tenfold.record.message import Message, Text, ToolCall, ToolResult, get_text
from tenfold.session import Session, SessionAddress
from tenfold.store.sqlite import SqliteStore
from tenfold.summarize.ladder import SummarySettings
from tenfold.summarize.structure import STRUCTURES
from tenfold.view.fold import View
from tenfold.view.path import Path

COUNTER = CharacterCounter()
WINDOW = 15_000
FILLER = "nothing else of interest was found here and the work went on as it had been planned before. "


class Structured:
    """A model that answers under the headings that the purpose asks for; `said` names what came in. Counts calls."""

    def __init__(self, said: str = "the work went on", *, failing: Sequence[str] = ()) -> None:
        self.said, self.failing = said, failing
        self.asked: list[SummaryAsk] = []
        self._lock = threading.Lock()

    def answer(self, ask: SummaryAsk) -> Answer:
        with self._lock:
            self.asked.append(ask)
        if ask.purpose in self.failing:
            return Answer(error=f"the provider is down for {ask.purpose}", spent=ModelCost(1))
        names = STRUCTURES[ask.purpose if ask.purpose in {"prefix", "branch"} else "six"]
        text = "\n".join(f"{name}\n{self.said} ({ask.purpose})" for name in names)
        return Answer(text=text, spent=ModelCost(1, len(ask.prompt) // 4, len(text) // 4, ask.model))


def make_user(text: str) -> Message:
    return Message("user", (Text(text),), "human")


def make_shell_message(text: str) -> Message:
    """A command that the user ran: a user line with a tool's output."""
    return Message("user", (Text(text),), "tool")


def make_harness_message(text: str) -> Message:
    """What a program put in."""
    return Message("user", (Text(text),), "harness")


def make_answer(text: str) -> Message:
    return Message("assistant", (Text(text),), "model")


def make_call(id: str, path: str = "src/a.py", name: str = "read") -> Message:
    return Message("assistant", (ToolCall(id, name, f'{{"path":"{path}"}}'),), "model")


def make_result(id: str, text: str = "done", name: str = "read") -> Message:
    return Message("tool", (ToolResult(id, name, (Text(text),)),), "tool")


def make_words(tokens: int) -> str:
    """A text of that many tokens, by characters / 4."""
    return (FILLER * (tokens * 4 // len(FILLER) + 1))[: tokens * 4]


def make_steps(count: int, *, start: int = 0, tokens: int = 400) -> list[Message]:
    """Steps that read a file each and change it."""
    out: list[Message] = []
    for n in range(start, start + count):
        out += [make_call(f"r{n}", f"src/part{n}.py"), make_result(f"r{n}", make_words(tokens))]
        out += [make_call(f"e{n}", f"src/part{n}.py", "edit"), make_result(f"e{n}", "done", "edit")]
    return out


def make_exchanges(count: int, *, start: int = 0, tokens: int = 400, each: int = 4) -> list[Message]:
    """Whole exchanges of about `each` times `tokens`."""
    out: list[Message] = []
    for n in range(start, start + count):
        out += [
            make_user(f"Please do part {n}."),
            *make_steps(each, start=n * each, tokens=tokens),
            make_answer(f"Part {n} is done."),
        ]
    return out


def make_path(messages: Sequence[Message]) -> list[Entry]:
    return [MessageEntry(f"id-{n:04}", f"id-{n - 1:04}" if n else None, "", n, m) for n, m in enumerate(messages)]


def build_view(entries: Sequence[Entry]) -> View:
    return View.from_path(Path(entries))


def build_preset(model: bool = True, *, reserve: int = 2_000, keep: int = 3_000) -> Policy:  # noqa: FBT001, FBT002 - a test's
    return tail(
        COUNTER,
        summary=SummarySettings(models=("m",) if model else ()),
        reserve_tokens=reserve,
        keep_recent_tokens=keep,
    )


def make_session(
    messages: Sequence[Message] = (),
    using: Policy | None = None,
    *,
    model: object = None,
    answerer: Answerer | None = None,
) -> Session:
    """A session under the preset whose summaries `model` writes."""
    writer = model if isinstance(model, Structured) else Structured()
    session = Session.create(
        SessionAddress(SqliteStore(":memory:"), "s"),
        using or build_preset(),
        answerer=answerer or Answerer(model=writer),
    )
    session.append(*messages)
    return session


def make_harness(messages: Sequence[Message] = (), *, window: int = WINDOW, model: object = None) -> TailHarness:
    """The design's calls over such a session, with small sizes."""
    session = make_session(messages, model=model)
    return TailHarness(session, window, settings=CompactionSettings(reserve_tokens=2_000, keep_recent_tokens=3_000))


def build_manual_call(session: Session, window: int = WINDOW) -> Call:
    return replace(session.build_call(window=window), demand="manual")


def get_entries(session: Session) -> list[Entry]:
    return session.address.store.read_entries(session.address.namespace, session.address.session)


def get_blocks(session: Session) -> list[Block]:
    return [e for e in get_entries(session) if isinstance(e, Block)]


def get_attempts(session: Session) -> list[Attempt]:
    return [e for e in get_entries(session) if isinstance(e, Attempt)]


def get_summary(session: Session) -> str:
    """The newest summary in view, as the model sees it."""
    return next(
        get_text(s.message)
        for s in reversed(list(session.view.get_visible_messages()))
        if not s.is_original and s.original_position is None
    )


def get_replacement(block: Block) -> Replacement:
    (only,) = block.replacements
    return only


def get_messages(path: Sequence[Entry]) -> list[Message]:
    return [m for e in path if (m := get_message(e)) is not None]


NAMES: tuple[EventName, ...] = (
    "session_before_compact", "session_compact", "auto_compaction_start", "auto_compaction_end", "save_point",
    "agent_end", "settled",
)  # fmt: skip


def record_events(agent: TailHarness) -> list[TailEvent]:
    """Every event from here on, in order."""
    events: list[TailEvent] = []
    for name in NAMES:
        agent.on(name)(events.append)
    return events


def get_kinds(events: list[TailEvent]) -> list[str]:
    return [event.type for event in events]
