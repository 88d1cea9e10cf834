"""The preset `clip` as its document calls it: its names, the times of messages, the sizes of batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tenfold import compact
from tenfold.compaction.summarize.batches import format_time
from tenfold.config.settings import build_policy
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.block import Batch
from tenfold.core.record.entry import get_message
from tenfold.core.record.message import get_text
from tenfold.designs import clip as design
from tenfold.designs.clip import DEFAULT_WINDOW, CompactionConfig, MemoryReadTool, get_memory
from tenfold.designs.clip.archive_tools import build_full_call
from tenfold.formats import read_file
from tenfold.formats.session_files import read_data
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.sqlite.store import SqliteStore
from tests.designs.clip.making import COUNTER, WINDOW, get_archive_text, get_newest_block, make_session, make_talk
from tests.designs.clip.test_document import make_items
from tests.laws.conversations import Echo
from tests.shape.scan import ROOT

PUBLISHED = (
    "Compactor",
    "CompactionConfig",
    "CompactionResult",
    "DEFAULT_SUMMARIZATION_PROMPT",
    "SummaryBatch",
    "createCompactor",
    "interpolatePrompt",
)


# -- names -------------------------------------------------------------------------------------------------------------


def test_a_star_imports_what_the_document_exports() -> None:
    names: dict[str, Any] = {}
    exec("from tenfold.designs.clip import *", names)  # noqa: S102 - a star may be written at the top of a module only
    assert [name for name in PUBLISHED if name not in names] == []
    assert all(getattr(design, name) is names[name] for name in design.__all__)


def test_a_conversation_is_named_as_the_document_names_it() -> None:
    made = design.create_compactor(CompactionConfig(chunk_size=4), model=Echo())
    done = made.compress(history=make_items(0, 10), conversationId="talk")
    assert (done.failed, done.reason) == (False, "")
    assert len(made.list_batches("talk")) == done.batches_created > 0
    again = asyncio.run(made.acompress([*done.history, *make_items(10, 20)], conversationId="talk"))
    assert again.batches_created > 0
    records = get_memory(made.get_session("talk")).list_records("talk")
    assert all(record.label.startswith("compaction-batch-talk-") for record in records)


@pytest.mark.parametrize("name", [None, "", 5, b"talk"])
def test_what_names_no_conversation_is_a_failure_that_says_what_does(name: Any) -> None:  # noqa: ANN401 - of any type
    """Would catch batches under a label without a name, and an error of the store in its own words."""
    items = make_items(0, 10)
    done = design.create_compactor(model=Echo()).compress(items, name)
    assert done.failed
    assert done.history is items
    assert "conversation_id" in done.reason
    assert repr(name) in done.reason


@pytest.mark.parametrize("given", [{"query": "topic0003x"}, '{"query": "topic0003x"}', b'{"query": "topic0003x"}'])
def test_memory_read_takes_its_query_as_a_host_hands_it_over(given: Any) -> None:  # noqa: ANN401 - of several types
    made = design.create_compactor(CompactionConfig(chunk_size=4))
    made.compress(make_items(0, 12), "talk")
    tool = MemoryReadTool(get_memory(made.get_session("talk")))
    assert "topic0003x" in tool.handle(given)
    assert tool.handle(query="topic0003x") == tool.handle(given)
    assert "needs the argument 'query'" in tool.handle("[1")
    assert "needs the argument 'query'" in tool.handle()


def test_memory_read_reads_a_batch_by_its_label() -> None:
    made = design.create_compactor(CompactionConfig(chunk_size=4))
    made.compress(make_items(0, 12), "talk")
    memory = get_memory(made.get_session("talk"))
    tool, records = MemoryReadTool(memory), memory.list_records("talk")
    for record in records:
        assert tool.handle({"query": record.label}).startswith(f"{record.id} {record.label}\n")


def test_memory_read_answers_a_question() -> None:
    """Would catch a search that finds nothing since no summary holds the words that make a question."""

    class Notes:
        def answer(self, ask: SummaryAsk) -> Answer:
            told = [word for word in ("parser", "database", "login", "invoice") if f"the {word}" in ask.prompt]
            return Answer(text=f"They decided how the {told[-1] if told else 'rest'} is to be built.")

    items = make_items(0, 8)
    for number, word in enumerate(("parser", "database", "login", "invoice")):
        items[number * 4]["content"] = f"How shall we build the {word}? " + "and so on " * 100
    made = design.create_compactor(CompactionConfig(chunk_size=4, keep_recent=0), model=Notes())
    assert made.compress(items, "talk").batches_created == 4
    tool = MemoryReadTool(get_memory(made.get_session("talk")), limit=1)
    for word in ("parser", "database", "login"):
        found = tool.handle({"query": f"What did they decide about the {word}, please?"})
        assert f"how the {word} is" in found
    assert "no archived summary" in tool.handle({"query": "Where is the zeppelin moored?"})


# -- times -------------------------------------------------------------------------------------------------------------

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SPELLINGS: dict[str, Callable[[datetime], object]] = {
    "created_at": lambda time: time,
    "createdAt": lambda time: time.isoformat(),
    "timestamp": lambda time: time.isoformat().replace("+00:00", "Z"),
    "created": lambda time: int(time.timestamp()),
    "ts": lambda time: time.timestamp() * 1_000,
}
"""How messages carry their times: ISO text, seconds, milliseconds, or a `datetime`."""


def format_minute(minute: int) -> str:
    """A time as batches have it, so many minutes after the start."""
    return (START + timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def with_times(items: Sequence[dict[str, Any]], key: str) -> list[dict[str, Any]]:
    """The items, each a minute after the one before it."""
    write = SPELLINGS[key]
    return [{**item, key: write(START + timedelta(minutes=n))} for n, item in enumerate(items)]


@pytest.mark.parametrize("wire", ["openai-chat", "anthropic", "gemini"])
@pytest.mark.parametrize("key", SPELLINGS)
def test_batches_have_the_times_that_the_messages_carry(key: str, wire: str) -> None:
    made = design.create_compactor(CompactionConfig(chunk_size=4, keep_recent=4), model=Echo(), wire=wire)
    items = with_times(make_items(0, 10, wire=wire), key)
    done = made.compress(items, "talk")
    assert not done.failed, done.reason
    expected = [(format_minute(n), format_minute(n + 3)) for n in range(0, 16, 4)]
    assert [(b.start_time, b.end_time) for b in made.list_batches("talk")] == expected
    assert list(done.history[-4:]) == items[-4:]


def test_times_that_are_given_come_before_those_of_the_messages() -> None:
    made = design.create_compactor(CompactionConfig(chunk_size=20, keep_recent=4), model=Echo())
    items = with_times(make_items(0, 10), "created_at")
    given = [None, *(START + timedelta(days=1, minutes=n) for n in range(19))]
    made.compress(items, "talk", times=given)
    (batch,) = made.list_batches("talk")
    assert (batch.start_time, batch.end_time) == ("unknown", "2026-03-02T12:14:00.000Z")


def test_what_is_no_time_is_none() -> None:
    made = design.create_compactor(CompactionConfig(chunk_size=20, keep_recent=4), model=Echo())
    items = [{**item, "timestamp": "yesterday", "created": True} for item in make_items(0, 10)]
    made.compress(items, "talk")
    (batch,) = made.list_batches("talk")
    assert (batch.start_time, batch.end_time) == ("unknown", "unknown")


@pytest.mark.parametrize("wire", ["openai-chat", "anthropic", "openai-responses"])
def test_a_list_that_is_compacted_alone_has_the_times_of_its_messages(wire: str) -> None:
    items = with_times(make_items(0, 20, wire=wire), "timestamp")
    done = compact(items, to=2_000, format=wire, policy="clip")
    assert done.outcome.status == "compacted"
    text = get_archive_text(done.session)
    assert f"[Batch 1 — depth 0, {format_minute(0)} to {format_minute(19)}]" in text
    assert "unknown" not in text


@pytest.mark.parametrize("key", ["created_at", "createdAt", "timestamp", "created", "ts"])
def test_a_file_with_a_list_has_the_times_of_its_messages(key: str) -> None:
    data = msgspec.json.encode(with_times(make_items(0, 3), key))
    (parsed,) = read_data(data, file="talk.json")
    assert [format_time(entry.time) for entry in parsed.entries] == [format_minute(n) for n in range(6)]


# -- sizes -------------------------------------------------------------------------------------------------------------


class Says:
    """A model that says so many plain sentences, whatever it may take; `allowed` is what it was told to keep to."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.allowed: list[int] = []

    def answer(self, ask: SummaryAsk) -> Answer:
        self.allowed.append(ask.max_tokens)
        words = ("alpha", "beta", "gamma", "delta")
        return Answer(text="\n".join(f"They went on with it, {words[n % 4]} and so on." for n in range(self.count)))


def count_texts(batches: Sequence[Batch]) -> list[int]:
    """The tokens of batches."""
    return COUNTER.count([batch.text for batch in batches])


@pytest.mark.parametrize("most", [40, 100, 400])
@pytest.mark.parametrize("model", [None, 1, 60])
def test_no_batch_takes_more_than_the_setting_says(most: int, model: int | None) -> None:
    """Would catch a least size of ours above the size that the user has chosen."""
    asked = Says(most * 4 * model // 60 // 40 + 1) if model else None
    config = CompactionConfig(chunk_size=6, max_summary_tokens=most)
    made = design.create_compactor(config, model=asked)
    for number in range(3):
        done = made.compress(make_items(0, number * 16 + 16), "talk")
        assert not done.failed, done.reason
    records = get_memory(made.get_session("talk")).list_records("talk")
    assert {bool(record.batch.depth) for record in records} == {True, False}
    assert max(count_texts([record.batch for record in records])) <= most
    assert asked is None or max(asked.allowed) <= most


@pytest.mark.parametrize("says", [None, Says(60)])
def test_a_long_summary_of_another_policy_becomes_a_batch_within_the_setting(says: Says | None) -> None:
    """Would catch one summary that no setting bounds, in whose favour the archive leaves out its batches."""
    place = SessionAddress(SqliteStore(":memory:"), "conv")
    session = Session.create(place, build_policy("tenfold", COUNTER), answerer=Answerer(model=says))
    session.append(*make_talk(0, 40))
    assert session.compact(to=3_000).status == "compacted"
    shown = [get_text(message) for message in session.view.get_messages() if message.origin == "tenfold"]
    assert max(COUNTER.count(shown)) > 400
    if says is not None:
        says.count = 8
    session.use_policy(CompactionConfig(max_summary_tokens=120, chunk_size=6).build_policy())
    session.append(*make_talk(40, 60))
    outcome = session.compact(window=WINDOW)
    assert outcome.status == "compacted", outcome.reason
    sizes = count_texts(get_newest_block(session).batches)
    assert len(sizes) > 2
    assert max(sizes) <= 120


@pytest.mark.parametrize("sentences", [0, 2, 60])
@pytest.mark.parametrize("most", [200, 1_024])
def test_the_facts_take_at_most_a_quarter_of_the_archive(most: int, sentences: int) -> None:
    """Would catch an archive of 205 messages of which all but a fiftieth are lists of facts."""
    (parsed,) = read_file(ROOT / "examples" / "sessions" / "desk.openai-chat.json")
    messages = [message for entry in parsed.entries if (message := get_message(entry)) is not None][:205]
    model = Says(min(sentences, most // 10)) if sentences else None
    session = make_session(CompactionConfig(max_summary_tokens=most).build_policy(), model=model)
    session.append(*messages)
    assert session.compact(build_full_call(session, window=DEFAULT_WINDOW)).status == "compacted"
    archive = get_archive_text(session)
    facts = archive[archive.index("# Facts") :] if "# Facts" in archive else ""
    assert len(facts) <= len(archive) / 4
    assert len(archive) / 4 <= 4 / 3 * (4 * most + 200), "four batches and their lines, and a third for the facts"
    assert archive.count("\n[Batch ") == 4, "the facts crowd out no batch"
