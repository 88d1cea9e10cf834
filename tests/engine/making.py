"""Made-up conversations, long enough to be compacted, and sessions over a memory store that hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from tenfold.drive import Answerer, run
from tenfold.engine import Bench, Effects
from tenfold.log.memory import MemoryStore
from tenfold.meter.counters import Characters4, Counter
from tenfold.meter.reading import Sizes, Tally
from tenfold.plan.plan import Stage
from tenfold.policies import tenfold
from tenfold.policy import Policy
from tenfold.record.ask import Answer, Summarize, Verdict
from tenfold.record.block import Block, Spent
from tenfold.record.entry import Attempt, Entry, Said
from tenfold.record.message import Message, Text, ToolCall, ToolResult
from tenfold.session import Place, Session
from tenfold.summarize.edge import with_prompts
from tenfold.summarize.ladder import OnFailure, Settings
from tenfold.view.path import Path
from tenfold.view.view import View

COUNTER = Characters4()
FILLER = "nothing else of interest was found here and the work went on as it had been planned before. "


def system(text: str = "You are a careful engineer.") -> Message:
    return Message("system", (Text(text),), "harness")


def user(text: str) -> Message:
    return Message("user", (Text(text),), "human")


def said(text: str) -> Message:
    return Message("assistant", (Text(text),), "model")


def called(id: str, name: str = "read", arguments: str = "{}", text: str = "") -> Message:
    parts = (Text(text), ToolCall(id, name, arguments)) if text else (ToolCall(id, name, arguments),)
    return Message("assistant", parts, "model")


def gave(id: str, text: str, *, error: bool = False, name: str = "read") -> Message:
    return Message("tool", (ToolResult(id, name, (Text(text),), error=error),), "tool")


def read(number: int, path: str, *, words: int = 20) -> list[Message]:
    """A step that reads a file of about 24 tokens times `words`."""
    body = "\n".join(f"{line} {FILLER}" for line in range(words))
    return [called(f"c{number}", "read", f'{{"path": "{path}"}}'), gave(f"c{number}", body)]


def edited(number: int, path: str) -> list[Message]:
    arguments = f'{{"path": "{path}", "old": "a", "new": "b"}}'
    return [called(f"e{number}", "edit", arguments), gave(f"e{number}", "done", name="edit")]


def work(steps: int = 12, *, start: int = 0, words: int = 20) -> list[Message]:
    """A request with a rule, and steps that read and edit files: about 520 tokens a step by characters/4."""
    out = [user(f"Always keep the tests green. Please clean up part {start} of the project.")]
    for number in range(start, start + steps):
        out += read(number, f"src/part{number}.py", words=words)
        out += edited(number, f"src/part{number}.py")
    return [*out, said(f"Part {start} is done.")]


def path_of(messages: Sequence[Message]) -> Path:
    return Path([Said(f"id-{n:04}", f"id-{n - 1:04}" if n else None, "", n, m) for n, m in enumerate(messages)])


def view_of(messages: Sequence[Message]) -> View:
    return View.of(path_of(messages))


def bench(counter: Counter = COUNTER) -> Bench:
    sizes = Sizes(counter)
    return Bench(sizes, Tally(sizes))


def policy(
    counter: Counter = COUNTER,
    *,
    models: tuple[str, ...] = (),
    on_failure: OnFailure = "ladder",
    stages: tuple[Stage, ...] = (),
) -> Policy:
    made = tenfold(counter, summary=with_prompts(Settings(models=models, on_failure=on_failure)))
    return replace(made, stages=stages) if stages else made


def opened(
    messages: Sequence[Message] = (), using: Policy | None = None, *, answerer: Answerer | None = None, model: str = ""
) -> Session:
    session = Session.create(Place(MemoryStore(), "s"), using or policy(), model=model, answerer=answerer)
    session.append(*messages)
    return session


def again(session: Session) -> Session:
    """The same session, opened from the store by someone else."""
    return Session(session.place, session.policy, model=session.model)


def entries(session: Session) -> list[Entry]:
    return session.place.store.original(session.place.namespace, session.place.session)


def blocks(session: Session) -> list[Block]:
    return [e for e in entries(session) if isinstance(e, Block)]


def attempts(session: Session) -> list[Attempt]:
    return [e for e in entries(session) if isinstance(e, Attempt)]


def new_ids() -> Callable[[], str]:
    numbers = iter(range(10_000))
    return lambda: f"new-{next(numbers):04}"


def raw(message: object) -> bytes:
    return msgspec.json.encode(message)


class Telling:
    """A model that answers every Ask with the same text."""

    def __init__(self, text: str = "The parts were read and changed, one after the other.") -> None:
        self.text = text
        self.asked: list[Summarize] = []

    def answer(self, ask: Summarize) -> Answer:
        self.asked.append(ask)
        return Answer(text=self.text, spent=Spent(1, 100, 10, ask.model))


def message_in(entry: Entry) -> Message | None:
    return entry.message if isinstance(entry, Said) else None


def finished(effects: Effects, answerer: Answerer | None = None) -> Verdict:
    """The end of an engine's generator, its Asks answered."""
    return run(effects, answerer or Answerer())
