"""The edges of the preset `clip`: sizes that mean nothing, stores that break, uncompacted lists, tools and options."""

from __future__ import annotations

import gc
from typing import Any

import msgspec
import pytest

from tenfold.compaction.summarize.batches import format_batch, format_time
from tenfold.config.policies import POLICIES
from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.entry import Usage
from tenfold.core.record.message import ToolCall, get_text
from tenfold.designs import clip as design
from tenfold.designs.clip import (
    CompactContextTool,
    CompactionConfig,
    Compactor,
    MemoryReadTool,
    SummaryBatch,
    get_memory,
)
from tenfold.designs.clip.compactor import IDLE_SESSIONS
from tenfold.designs.clip.policy import clip
from tenfold.errors import BadInput, UnknownFormat, UsageError
from tenfold.models.scripted_model import ScriptedModel
from tenfold.session import Session, SessionAddress
from tenfold.store.sqlite.store import SqliteStore
from tests.designs.clip.making import (
    COUNTER,
    WINDOW,
    build_policy,
    get_archive_text,
    make_answer,
    make_result,
    make_session,
    make_talk,
    make_user,
    run_rounds,
)
from tests.designs.clip.test_document import make_items
from tests.designs.clip.test_memory import Cabinet, Closes, Telling
from tests.laws.conversations import Echo

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
@pytest.mark.parametrize("window", [8_000, 32_000, 200_000])
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


def test_the_settings_of_a_compactor_are_checked_when_it_is_made() -> None:
    with pytest.raises(UsageError, match="chunk_size is 0"):
        design.create_compactor(CompactionConfig(chunk_size=0))


# -- tools, options, idle conversations --------------------------------------------------------------------------------


class Awaited:
    """A model of coroutines only."""

    async def answer(self, ask: SummaryAsk) -> Answer:
        return Telling("late").answer(ask)


def test_compact_context_compacts_when_it_is_called_and_says_why_not() -> None:
    """Would catch a tool that does nothing below the trigger and answers with four zeros."""
    session = make_session()
    session.append(*make_talk(0, 12))
    tool = CompactContextTool(session, window=200_000)
    done = msgspec.json.decode(tool.handle({}))
    assert (done["messagesCompressed"], done["batchesCreated"]) == (19, 1)
    assert done["tokensEstimateAfter"] < done["tokensEstimateBefore"]
    assert "reason" not in done
    again = msgspec.json.decode(tool.handle())
    assert (again["messagesCompressed"], again["batchesCreated"]) == (0, 0)
    assert again["reason"]
    assert "failed" not in again
    unknown = msgspec.json.decode(CompactContextTool(session).handle())
    assert unknown["success"] is False
    assert "window" in unknown["output"]
    broken = make_session(model=ScriptedModel([]), name="broken")
    broken.append(*make_talk(0, 12))
    failed = msgspec.json.decode(CompactContextTool(broken, window=200_000).handle())
    assert failed["failed"] is True
    assert failed["reason"]
    full = make_session(store=Closes(":memory:"), name="full")
    full.append(*make_talk(0, 12))
    said = msgspec.json.decode(CompactContextTool(full, window=200_000).handle())
    assert said == {"success": False, "output": "StoreError: the disk is full"}


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


def test_create_compactor_takes_the_options_of_the_document() -> None:
    cabinet, store, model = Cabinet(), SqliteStore(":memory:"), Echo()
    config = {"chunkSize": 4, "keepRecent": 2, "clipFirst": 1, "clipLast": 1, "maxSummaryTokens": 300, "prompt": None}
    made = design.createCompactor({"model": model, "memory": cabinet, "persistence": store, "config": config})
    assert isinstance(made, Compactor)
    assert made.config == CompactionConfig(
        chunk_size=4, keep_recent=2, clip_first=1, clip_last=1, max_summary_tokens=300
    )
    done = made.compress(make_items(0, 5), "conv")
    assert (done.batches_created, model.calls, len(cabinet.kept)) == (2, 2, 2)
    assert [row.info.id for row in store.list_sessions("default")] == ["conv"]
    assert design.createCompactor({"config": CompactionConfig(chunk_size=7)}).config.chunk_size == 7
    for options, words in (
        ({"modle": model}, "no option modle"),
        ({"config": {"chunksize": 4}}, "no setting chunksize"),
        ({"config": {"chunkSize": "four"}}, r"chunkSize"),
        ({"config": {"chunkSize": 0}}, "chunk_size is 0"),
        ({"model": "gpt-4o"}, "ProviderModel"),
        ({"model": Awaited()}, "coroutine"),
        ({"memory": {}}, "memory is of type dict: .* write, read, search, list_records, delete"),
        ({"persistence": "log.db"}, r"SqliteStore\('log.db'\)"),
        ({"config": 7}, "config is of type int"),
        ({"window": 0}, "window of 0"),
        ({"window": "8k"}, "'8k'"),
        ({"wire": "morse"}, "morse"),
        ({"config": {"maxConsecutiveFailures": 0}}, "max_consecutive_failures is 0"),
        ({"config": {"backoffBaseMs": -1}}, "backoff_base_ms is -1"),
        (7, "options are of type int"),
    ):
        with pytest.raises((UsageError, UnknownFormat), match=words):
            design.createCompactor(options)  # type: ignore[arg-type]


def test_idle_conversations_are_released_and_found_again() -> None:
    """Would catch a server whose every conversation stays in memory."""
    made = design.create_compactor(CompactionConfig(keep_recent=1), model=Echo())
    held = made.get_session("held")
    for number in range(IDLE_SESSIONS + 8):
        made.compress(make_items(0, 4), f"conv-{number}")
    gc.collect()
    still_open = [each for each in gc.get_objects() if isinstance(each, Session) and each.address.store is made.store]
    assert len(still_open) <= IDLE_SESSIONS + 1
    assert made.get_session("held") is held
    assert [b.message_count for b in made.list_batches("conv-0")] == [6], "the request and its answer stay"
    assert made.compress(make_items(0, 8), "conv-0").messages_compressed == 8


def test_an_archive_text_and_its_labels_name_the_same_times() -> None:
    session = make_session(build_policy(chunk_size=4))
    run_rounds(session, 2)
    text = get_archive_text(session)
    for record in get_memory(session).list_records("conv"):
        assert record.content == format_batch(record.batch)
        assert record.label.startswith(f"compaction-batch-conv-{format_time(record.batch.end)}")
    assert text.count("[Batch ") == 4


def test_the_hard_limit_leaves_room_for_what_our_count_may_miss_since_the_last_report() -> None:
    """Would catch a request that our count puts just under the window and the provider over it."""
    session = make_session()
    session.append(make_user("Please read all parts."), make_answer("I begin.", ToolCall("c0", "run", "{}")))
    session.append(make_result("c0", "so on " * 2_600))
    session.record_usage(Usage(session.take_reading(window=WINDOW).tokens))
    session.append(make_answer("I go on.", ToolCall("c1", "run", "{}")), make_result("c1", "so on " * 1_100))
    call = session.build_call(window=WINDOW)
    reading = session.take_reading(window=WINDOW)
    assert reading.source == "reported"
    assert reading.tokens < WINDOW < reading.high
    assert session.is_check_due(call)
    session.record_usage(Usage(reading.tokens))
    session.append(make_answer("I go on.", ToolCall("c2", "run", "{}")))
    reported = session.take_reading(window=WINDOW)
    assert reported.high < WINDOW
    assert not session.is_check_due(call)
