"""Sessions under the preset `clip`, for its tests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tenfold.compaction.engine.policy import Policy
from tenfold.compaction.summarize.ladder import SummarySettings
from tenfold.compaction.summarize.prompt_files import with_prompts
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.ask import Answer, Outcome, SummaryAsk
from tenfold.core.record.block import Batch, Block
from tenfold.core.record.message import Message, Text, ToolCall, ToolResult, get_text
from tenfold.core.wire.marks import extract_summary_text
from tenfold.designs.clip.archive import ArchiveRecord, BatchArchive, BatchMemory, parse_record
from tenfold.designs.clip.policy import clip
from tenfold.errors import StoreError
from tenfold.models.model import Model
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.base import Store
from tenfold.store.sqlite.store import SqliteStore
from tests.laws.conversations import Echo

COUNTER = CharacterCounter()
WINDOW = 8_000
WIDE = 9_700
"""Twelve exchanges are above the trigger of this window, and below its hard limit."""


def build_policy(**knobs: Any) -> Policy:  # noqa: ANN401 - the preset's own settings
    """The preset, with a model to ask."""
    return clip(COUNTER, summary=with_prompts(SummarySettings(models=("m",))), **knobs)


def make_session(
    using: Policy | None = None,
    *,
    model: Model | None = None,
    store: Store | None = None,
    name: str = "conv",
    archive: BatchMemory | None = None,
) -> Session:
    """A session under the preset; the model echoes unless one is given."""
    place = SessionAddress(store or SqliteStore(":memory:"), name)
    keeper = BatchArchive(archive) if archive is not None else None
    return Session.create(place, using or build_policy(), answerer=Answerer(model=model or Echo()), archive=keeper)


def make_user(text: str) -> Message:
    return Message("user", (Text(text),), "human")


def make_answer(text: str, *calls: ToolCall) -> Message:
    return Message("assistant", (Text(text), *calls), "model")


def make_result(call: str, text: str) -> Message:
    return Message("tool", (ToolResult(call, "run", (Text(text),)),), "tool")


def make_talk(first: int, last: int, words: int = 120) -> list[Message]:
    """Questions and answers, numbered; each says its number in words that no other one holds."""
    out: list[Message] = []
    for n in range(first, last):
        out.append(make_user(f"Please tell about topic{n:04d}x. " + "and so on " * words))
        out.append(make_answer(f"About topic{n:04d}x there is this. " + "it is so " * words))
    return out


def run_rounds(session: Session, count: int, *, size: int = 12, window: int = WINDOW) -> list[Outcome]:
    """So many stretches of talk, each followed by a compaction."""
    at = sum(1 for m in session.view.get_messages()) * 100
    out: list[Outcome] = []
    for number in range(count):
        session.append(*make_talk(at + number * size, at + (number + 1) * size))
        out.append(session.compact(window=window))
    return out


def get_newest_block(session: Session) -> Block:
    """The newest live Block."""
    block = session.view.path.get_entry(session.view.state.live_blocks[-1])
    assert isinstance(block, Block)
    return block


def get_archive(session: Session) -> list[Batch]:
    """The batches in force."""
    return [batch for _, batch in session.view.path.list_top_batches(session.view.state.live_blocks[-1])]


def get_archive_text(session: Session) -> str:
    """The text of the archive in view, with its facts."""
    texts = [extract_summary_text(get_text(m)) for m in session.view.get_messages() if m.origin == "tenfold"]
    (text,) = [t for t in texts if t is not None]
    return text


def get_beginnings(messages: Sequence[Message]) -> list[str]:
    """The beginnings of messages."""
    return [get_text(m)[:40] for m in messages]


def make_items(first: int, last: int, *, wire: str = "openai-chat") -> list[dict[str, Any]]:
    """Items of a host's list, as numbered talk."""
    if wire == "gemini":
        return [
            {"role": "model" if m.role == "assistant" else "user", "parts": [{"text": get_text(m)}]}
            for m in make_talk(first, last)
        ]
    return [{"role": m.role, "content": get_text(m)} for m in make_talk(first, last)]


def read_text(item: dict[str, Any]) -> str:
    """The text of an item."""
    return str(item["content"]) if "content" in item else str(item["parts"][0]["text"])


def find_archives(history: Any) -> list[str]:  # noqa: ANN401 - items of any wire
    """The texts of the archives in a list."""
    return [text for item in history if "[Context Summary" in (text := read_text(item))]


START = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Cabinet:
    """A user's memory that keeps nothing but labels and contents, and can be broken."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[str, str, str]] = {}
        self.most = 10_000
        self.problem: Exception | None = None

    def write(self, record: ArchiveRecord) -> bool:
        if len(self.kept) >= self.most:
            return False
        self.kept[record.id] = (record.label, record.content, record.conversation)
        return True

    def _open(self, id: str) -> ArchiveRecord:
        label, content, conversation = self.kept[id]
        return parse_record(id, label, content, conversation)

    def read(self, id: str) -> ArchiveRecord | None:
        if self.problem is not None:
            raise self.problem
        return self._open(id) if id in self.kept else None

    def search(self, words: str, *, limit: int = 20) -> list[ArchiveRecord]:
        return [self._open(each) for each, (_, content, _) in self.kept.items() if words in content][:limit]

    def list_records(self, conversation: str) -> list[ArchiveRecord]:
        return [self._open(each) for each, kept in self.kept.items() if kept[2].startswith(conversation)]

    def delete(self, id: str) -> None:
        del self.kept[id]


class Telling:
    """A model that says its word in every summary."""

    def __init__(self, word: str) -> None:
        self.word = word

    def answer(self, ask: SummaryAsk) -> Answer:  # noqa: ARG002 - it says the same of everything
        return Answer(text=f"The {self.word} account: it went on as agreed.")


class Closes(SqliteStore):
    """A store that takes no Block, as if another process had closed it meanwhile."""

    def append(self, namespace: str, session: str, entries: Sequence[Any], **named: Any) -> None:  # noqa: ANN401 - see Store
        if any(getattr(entry, "batches", ()) for entry in entries):
            raise StoreError("the disk is full")
        super().append(namespace, session, entries, **named)


def list_times(count: int) -> list[datetime]:
    """A time for each of so many messages, a minute apart."""
    return [START + timedelta(minutes=n) for n in range(count)]
