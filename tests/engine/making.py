"""Made-up conversations, long enough to be compacted, and sessions over a memory store that hold them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec.structs import replace

from tenfold.compaction.engine.call import Measures
from tenfold.compaction.engine.compact import Effects
from tenfold.compaction.engine.policy import Policy, tenfold
from tenfold.compaction.plan.pipeline import Stage
from tenfold.compaction.summarize.ladder import OnFailure, SummarySettings
from tenfold.compaction.summarize.prompt_files import with_prompts
from tenfold.core.meter.counters import CharacterCounter, Counter
from tenfold.core.meter.reading import RunningTotal, TokenCache
from tenfold.core.record.ask import Answer, EngineResult, SummaryAsk
from tenfold.core.record.block import Block, ModelCost
from tenfold.core.record.entry import Attempt, Entry, MessageEntry
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path
from tenfold.session import Session, SessionAddress, Stamps
from tenfold.session.drive import Answerer, run_engine
from tenfold.store.sqlite.store import SqliteStore

COUNTER = CharacterCounter()
FILLER = "nothing else of interest was found here and the work went on as it had been planned before. "


def make_system_message(text: str = "You are a careful engineer.") -> Message:
    return Message("system", (Text(text),), "harness")


def make_user_message(text: str) -> Message:
    return Message("user", (Text(text),), "human")


def make_reply(text: str) -> Message:
    return Message("assistant", (Text(text),), "model")


def make_call(id: str, name: str = "read", arguments: str = "{}", text: str = "") -> Message:
    parts = (Text(text), ToolCall(id, name, arguments)) if text else (ToolCall(id, name, arguments),)
    return Message("assistant", parts, "model")


def make_result(id: str, text: str, *, error: bool = False, name: str = "read") -> Message:
    return Message("tool", (ToolResult(id, name, (Text(text),), is_error=error),), "tool")


def make_read_step(number: int, path: str, *, words: int = 20) -> list[Message]:
    """A step that reads a file of about 24 tokens times `words`."""
    body = "\n".join(f"{line} {FILLER}" for line in range(words))
    return [make_call(f"c{number}", "read", f'{{"path": "{path}"}}'), make_result(f"c{number}", body)]


def make_edit_step(number: int, path: str) -> list[Message]:
    arguments = f'{{"path": "{path}", "old": "a", "new": "b"}}'
    return [make_call(f"e{number}", "edit", arguments), make_result(f"e{number}", "done", name="edit")]


def make_work(steps: int = 12, *, start: int = 0, words: int = 20) -> list[Message]:
    """A request with a rule, and steps that read and edit files: about 520 tokens a step by characters/4."""
    out = [make_user_message(f"Always keep the tests green. Please clean up part {start} of the project.")]
    for number in range(start, start + steps):
        out += make_read_step(number, f"src/part{number}.py", words=words)
        out += make_edit_step(number, f"src/part{number}.py")
    return [*out, make_reply(f"Part {start} is done.")]


def build_path(messages: Sequence[Message]) -> Path:
    return Path([MessageEntry(f"id-{n:04}", f"id-{n - 1:04}" if n else None, "", n, m) for n, m in enumerate(messages)])


def build_view(messages: Sequence[Message]) -> View:
    return View.from_path(build_path(messages))


def make_measures(counter: Counter = COUNTER) -> Measures:
    sizes = TokenCache(counter)
    return Measures(sizes, RunningTotal(sizes))


def build_policy(
    counter: Counter = COUNTER,
    *,
    models: tuple[str, ...] = (),
    on_failure: OnFailure = "ladder",
    stages: tuple[Stage, ...] = (),
) -> Policy:
    """The default policy, with other stages if some are named."""
    made = tenfold(counter, summary=with_prompts(SummarySettings(models=models, on_failure=on_failure)))
    return replace(made, stages=stages or made.stages)


def open_session(
    messages: Sequence[Message] = (),
    using: Policy | None = None,
    *,
    answerer: Answerer | None = None,
    model: str = "",
    stamps: Stamps | None = None,
) -> Session:
    address = SessionAddress(SqliteStore(":memory:"), "s")
    session = Session.create(address, using or build_policy(), model=model, answerer=answerer, stamps=stamps)
    session.append(*messages)
    return session


def reopen_session(session: Session) -> Session:
    """The same session, opened from the store by someone else."""
    return Session(session.address, session.policy, model=session.compactor.model)


def get_entries(session: Session) -> list[Entry]:
    return session.address.store.read_entries(session.address.namespace, session.address.session)


def get_blocks(session: Session) -> list[Block]:
    return [e for e in get_entries(session) if isinstance(e, Block)]


def get_attempts(session: Session) -> list[Attempt]:
    return [e for e in get_entries(session) if isinstance(e, Attempt)]


def make_id_source() -> Callable[[], str]:
    numbers = iter(range(10_000))
    return lambda: f"new-{next(numbers):04}"


def encode_message(message: object) -> bytes:
    return msgspec.json.encode(message)


class Awaited:
    """A model that can only be awaited: its answers come from a coroutine function."""

    def __init__(self, answer: Callable[[SummaryAsk], Awaitable[Answer]]) -> None:
        self._answer = answer

    async def aanswer(self, ask: SummaryAsk) -> Answer:
        return await self._answer(ask)

    def answer(self, ask: SummaryAsk) -> Answer:
        raise AssertionError(f"asked from a thread: {ask.purpose}")


class Telling:
    """A model that answers every Ask with the same text."""

    def __init__(self, text: str = "The parts were read and changed, one after the other.") -> None:
        self.text = text
        self.asked: list[SummaryAsk] = []

    def answer(self, ask: SummaryAsk) -> Answer:
        self.asked.append(ask)
        return Answer(text=self.text, spent=ModelCost(1, 100, 10, ask.model))


def find_message(entry: Entry) -> Message | None:
    return entry.message if isinstance(entry, MessageEntry) else None


def run_effects(effects: Effects, answerer: Answerer | None = None) -> EngineResult:
    """The end of an engine's generator, its Asks answered."""
    return run_engine(effects, answerer or Answerer())
