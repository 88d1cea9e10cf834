"""Sessions under the preset `clip`, for its tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenfold.archive import Archive
from tenfold.drive import Answerer
from tenfold.llm.model import Model
from tenfold.log.base import Store
from tenfold.log.memory import MemoryStore
from tenfold.meter.counters import Characters4
from tenfold.policies.clip import clip
from tenfold.policy import Policy
from tenfold.record.ask import Outcome
from tenfold.record.block import Batch, Block
from tenfold.record.message import Message, Text, ToolCall, ToolResult, text_of
from tenfold.session import Place, Session
from tenfold.summarize.batches import standing
from tenfold.summarize.edge import with_prompts
from tenfold.summarize.ladder import Settings
from tenfold.wire.marks import summary_text
from tests.laws.conversations import Echo

COUNTER = Characters4()
WINDOW = 8_000


def policy(**knobs: Any) -> Policy:  # noqa: ANN401 - the preset's own settings
    """The preset, with a model to ask."""
    return clip(COUNTER, summary=with_prompts(Settings(models=("m",))), **knobs)


def opened(
    using: Policy | None = None,
    *,
    model: Model | None = None,
    store: Store | None = None,
    name: str = "conv",
    archive: Archive | None = None,
) -> Session:
    """A session under the preset; the model echoes unless one is given."""
    place = Place(store or MemoryStore(), name)
    return Session.create(place, using or policy(), answerer=Answerer(model=model or Echo()), archive=archive)


def user(text: str) -> Message:
    return Message("user", (Text(text),), "human")


def answer(text: str, *calls: ToolCall) -> Message:
    return Message("assistant", (Text(text), *calls), "model")


def result(call: str, text: str) -> Message:
    return Message("tool", (ToolResult(call, "run", (Text(text),)),), "tool")


def talk(first: int, last: int, words: int = 120) -> list[Message]:
    """Questions and answers, numbered; each says its number in words that no other one holds."""
    out: list[Message] = []
    for n in range(first, last):
        out.append(user(f"Please tell about topic{n:04d}x. " + "and so on " * words))
        out.append(answer(f"About topic{n:04d}x there is this. " + "it is so " * words))
    return out


def rounds(session: Session, count: int, *, size: int = 12, window: int = WINDOW) -> list[Outcome]:
    """So many stretches of talk, each followed by a compaction."""
    at = sum(1 for m in session.view.messages()) * 100
    out: list[Outcome] = []
    for number in range(count):
        session.append(*talk(at + number * size, at + (number + 1) * size))
        out.append(session.compact(window=window))
    return out


def newest(session: Session) -> Block:
    """The newest live Block."""
    block = session.view.path.at(session.view.marks.live[-1])
    assert isinstance(block, Block)
    return block


def archive_of(session: Session) -> list[Batch]:
    """The batches in force."""
    return [batch for _, batch in standing(session.view.path, session.view.marks.live[-1])]


def shown(session: Session) -> str:
    """The text of the archive in view, with its facts."""
    texts = [summary_text(text_of(m)) for m in session.view.messages() if m.origin == "tenfold"]
    (text,) = [t for t in texts if t is not None]
    return text


def said(messages: Sequence[Message]) -> list[str]:
    """The beginnings of messages."""
    return [text_of(m)[:40] for m in messages]
