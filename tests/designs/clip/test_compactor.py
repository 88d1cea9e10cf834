"""The compactor of `clip`: names, options, times, sizes, tools, and whatever a host or a store may bring."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from tenfold import compact
from tenfold.config.policies import POLICIES
from tenfold.config.settings import build_policy
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.block import Batch
from tenfold.core.record.entry import Usage, get_message
from tenfold.core.record.message import ToolCall, get_text
from tenfold.designs import clip as design
from tenfold.designs.clip import (
    DEFAULT_WINDOW,
    CompactContextTool,
    CompactionConfig,
    MemoryReadTool,
    SummaryBatch,
    get_memory,
)
from tenfold.designs.clip.archive_tools import build_full_call
from tenfold.designs.clip.policy import clip
from tenfold.errors import BadInput, UsageError
from tenfold.formats import read_file
from tenfold.models.scripted_model import ScriptedModel
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.sqlite.store import SqliteStore
from tests.designs.clip.making import (
    COUNTER,
    START,
    WINDOW,
    Cabinet,
    Closes,
    get_archive_text,
    get_newest_block,
    make_answer,
    make_items,
    make_result,
    make_session,
    make_talk,
    make_user,
    run_rounds,
)
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
    session.compactor.use_policy(CompactionConfig(max_summary_tokens=120, chunk_size=6).build_policy())
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


GIVEN = [{"role": "user", "content": f"Question {n}. " + "so on " * 200} for n in range(30)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("chunk_size", 0),
        ("keep_recent", -1),
        ("clip_first", -1),
        ("clip_last", -1),
        ("max_summary_tokens", 0),
        ("max_chunk_tokens", -1),
        ("max_retries", -1),
        ("compaction_timeout", 0),
        ("context_budget", 0.0),
        ("context_budget", 1.5),
        ("chunk_size", "x"),
        ("keep_recent", 2.5),
        ("max_retries", True),
        ("context_budget", "x"),
    ],
)
def test_a_size_that_means_nothing_is_an_error_that_names_it(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"{name} is {value!r}"):
        clip(COUNTER, **{name: value})  # type: ignore[arg-type]
    field = "timeout" if name == "compaction_timeout" else name
    with pytest.raises(UsageError, match=f"{name} is {value!r}"):
        CompactionConfig(**{field: value}).build_policy()  # type: ignore[arg-type]


def test_a_prompt_that_shows_the_model_no_messages_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"\{messages\}"):
        clip(COUNTER, prompt="You are {persona}. Known: {existing_summary}")


class Breaks(SqliteStore):
    """A user's store that fails once it is `full`, with an error of its own."""

    full = False

    def append(self, *given: Any, **named: Any) -> None:  # noqa: ANN401 - whatever the store is given
        if self.full:
            raise RuntimeError("the database is gone")
        super().append(*given, **named)


def test_compress_never_raises_whatever_a_store_raises_or_a_host_brings() -> None:
    """Never throws: any error, also one of a user's own store, is `failed` with the list that was given."""
    store = Breaks(":memory:")
    made = design.create_compactor(model=Echo(), store=store)
    assert made.compress(GIVEN[:8], "conv").batches_created == 1
    store.full = True
    done = made.compress(GIVEN, "conv")
    assert (done.failed, done.batches_created) == (True, 0)
    assert done.history is GIVEN
    assert "the database is gone" in done.reason
    for wrong in (None, 7, [1, 2], [{"role": "alien"}], "text"):
        assert made.compress(wrong, "other").failed  # type: ignore[arg-type]


def test_a_raw_list_that_was_compressed_before_comes_back_as_the_view() -> None:
    made = design.create_compactor(model=Echo())
    first = made.compress(GIVEN, "conv")
    again = made.compress(GIVEN, "conv")
    assert list(again.history) == list(first.history), "nothing new was said, and the raw list is over the budget again"
    assert (again.batches_created, again.messages_compressed, again.failed) == (0, 0, False)
    assert again.tokens_estimate_before == first.tokens_estimate_before, "of the list that was given"
    assert again.tokens_estimate_after == first.tokens_estimate_after
    assert made.compress(first.history, "conv").history is first.history


@pytest.mark.parametrize("count", [6, 7, 8, 10, 14])
@pytest.mark.parametrize("window", [12_000, 32_000, 200_000])
def test_the_last_five_stay_in_a_short_conversation_too(count: int, window: int) -> None:
    """Would catch an archive that is given more room than what it stands for takes, so that fewer messages stay."""
    made = design.create_compactor(model=Echo(), window=window)
    done = made.compress(GIVEN[:count], "conv")
    assert (done.failed, done.messages_compressed) == (False, count - 5)
    assert done.history[1:] == GIVEN[count - 5 : count]
    assert done.tokens_estimate_after < done.tokens_estimate_before


def test_where_little_was_said_before_the_last_five_these_are_not_given_up() -> None:
    """Would catch a tail that shrinks within the target, only so that an archive of two greetings saves something."""
    greetings = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello, how can I help?"}]
    said = [*greetings, *make_items(0, 3)[1:]]
    made = design.create_compactor(model=(model := Echo()))
    done = made.compress(said, "conv")
    assert (done.failed, done.history is said, model.calls) == (False, True, 0)
    assert "before the last 5 messages" in done.reason
    tool = CompactContextTool(made.get_session("conv"), window=200_000)
    assert msgspec.json.decode(tool.handle())["reason"] == done.reason
    more = make_items(10, 14)
    done = made.compress([*said, *more], "conv")
    assert (done.failed, list(done.history[1:])) == (False, more[-5:])


@pytest.mark.parametrize("time", ["2020", "yesterday", "2020-13-44T00:00:00.000Z", ""])
def test_a_batch_with_a_time_that_is_none_is_bad_input(time: str) -> None:
    with pytest.raises(BadInput, match="no batch header"):
        design.format_batch_label("conv", SummaryBatch("x", 0, time, "unknown", 1))


# -- tools, options, idle conversations --------------------------------------------------------------------------------


def test_compact_context_compacts_when_it_is_called_and_says_why_not() -> None:
    """Would catch a tool that does nothing below the trigger and answers with four zeros."""

    def call_tool(session: Session, window: int | None = 200_000) -> dict[str, Any]:
        answer: dict[str, Any] = msgspec.json.decode(CompactContextTool(session, window=window).handle())
        return answer

    session = make_session()
    session.append(*make_talk(0, 12))
    done = call_tool(session)
    assert (done["messagesCompressed"], done["batchesCreated"], "reason" in done) == (19, 1, False)
    assert done["tokensEstimateAfter"] == design.count_content_tokens(session.view.get_messages())
    assert done["tokensEstimateAfter"] < done["tokensEstimateBefore"]
    again = call_tool(session)
    assert (again["messagesCompressed"], again["batchesCreated"], "failed" in again) == (0, 0, False)
    assert again["reason"]
    assert "window" in call_tool(session, None)["output"]
    broken, full = make_session(model=ScriptedModel([]), name="broken"), make_session(store=Closes(":memory:"))
    for each in (broken, full):
        each.append(*make_talk(0, 12))
    failed = call_tool(broken)
    assert failed["failed"] is True
    assert failed["reason"]
    assert call_tool(full) == {"success": False, "output": "StoreError: the disk is full"}


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "clip"])
def test_compact_context_tells_what_another_policy_compacted(policy: str) -> None:
    """Would catch four counters of which two are 0, as if nothing had been compacted."""
    session = Session.create(SessionAddress(SqliteStore(":memory:"), "conv"), POLICIES[policy](COUNTER))
    session.append(*make_talk(0, 12))
    told = [get_text(message) for message in session.view.get_messages()]
    done = msgspec.json.decode(CompactContextTool(session, window=200_000).handle())
    left = [get_text(message) for message in session.view.get_messages()]
    assert done["messagesCompressed"] == len(set(told) - set(left)) > 0
    assert done["batchesCreated"] == 0
    assert done["reason"] == f"compacted by the policy {policy}, which makes no batches"


@pytest.mark.parametrize("arguments", [{}, {"query": " "}, {"query": 7}, None, [], "words", {"query": '"half'}])
def test_memory_read_answers_with_a_text_whatever_it_is_asked(arguments: Any) -> None:  # noqa: ANN401 - the point
    session = make_session()
    run_rounds(session, 1)
    answer = MemoryReadTool(get_memory(session)).handle(arguments)
    assert "query" in answer or "no archived summary" in answer
    cabinet = Cabinet()
    cabinet.problem = ConnectionError("the memory is down")
    answer = MemoryReadTool(cabinet).handle({"query": "anything"})
    assert answer == "memory_read could not read the archive: ConnectionError: the memory is down"
    cabinet.problem = None
    cabinet.kept["x"] = ("label", "no header", "conv")
    assert "no batch header" in MemoryReadTool(cabinet).handle({"query": "x"})


def test_idle_conversations_are_released_and_found_again() -> None:
    """Would catch a server whose every conversation stays in memory."""
    made = design.create_compactor(CompactionConfig(keep_recent=1), model=Echo())
    for number in range(8):
        made.compress(make_items(0, 4), f"conv-{number}")
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, Session) and each.address.store is made.store]
    assert [b.message_count for b in made.list_batches("conv-0")] == [6], "the request and its answer stay"
    assert made.compress(make_items(0, 8), "conv-0").messages_compressed == 8


def test_the_hard_limit_leaves_room_for_what_our_count_may_miss_since_the_last_report() -> None:
    """Would catch a request that our count puts just under the window and the provider over it."""
    session = make_session()
    session.append(make_user("Please read all parts."), make_answer("I begin.", ToolCall("c0", "run", "{}")))
    session.append(make_result("c0", "so on " * 2_600))
    session.requests.record_usage(Usage.build(session.take_reading(window=WINDOW).tokens))
    session.append(make_answer("I go on.", ToolCall("c1", "run", "{}")), make_result("c1", "so on " * 1_100))
    call = session.compactor.build_call(window=WINDOW)
    reading = session.take_reading(window=WINDOW)
    assert reading.source == "reported"
    assert reading.tokens < WINDOW < reading.high
    assert session.compactor.is_check_due(call)
    session.requests.record_usage(Usage.build(reading.tokens))
    session.append(make_answer("I go on.", ToolCall("c2", "run", "{}")))
    reported = session.take_reading(window=WINDOW)
    assert reported.high < WINDOW
    assert not session.compactor.is_check_due(call)
