"""`tiers`: that a summary model failed is told at once: in an event, the log, the chat and the tool's result."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest
from pydantic_ai.models.function import FunctionModel
from textual.pilot import Pilot

from tenfold.apps.agent import Agent
from tenfold.apps.chat.app import Chat
from tenfold.apps.chat.transcript_lines import build_event_line
from tenfold.compaction.summarize.write import SummarySettings
from tenfold.core.record.ask import Outcome
from tenfold.core.record.message import Message
from tenfold.designs.tiers import (
    AgentEvent,
    CompactionConfig,
    CompactionStatus,
    CompactTool,
    SummarizationFailure,
    build_listener,
    compact_with_summarization,
)
from tenfold.designs.tiers.policy import tiers
from tenfold.events import CompactionFailure, Event, SummaryFailure
from tenfold.models.provider import ProviderModel
from tenfold.models.scripted_model import ScriptedModel, ScriptedReply
from tenfold.session import AsyncSession, Session
from tenfold.session.drive import Answerer
from tests.chat.test_program import drive_chat, fail_stream, get_lines, send_text, wait_until
from tests.designs.tiers.test_summary import GOOD, count_total, make_chat_list, make_mixed_history, make_talk
from tests.engine.making import COUNTER, make_call, open_session
from tests.laws.presets import QUICK
from tests.llm.conftest import SECRET
from tests.llm.loopback import Loopback, Served, get_base_url

WRITER = "openai:gpt-4o-mini"
WRONG_KEY = Served(status=401, error=f"Incorrect API key provided: {SECRET}")
WINDOW = 16_000
SMALL = CompactionConfig(context_window=24_000)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)


def open_tiers(history: Sequence[Message], answerer: Answerer, models: tuple[str, ...] = (WRITER,)) -> Session:
    return open_session(history, tiers(COUNTER, summary=SummarySettings(models=models)), answerer=answerer)


def find_failure(told: Sequence[Event]) -> SummaryFailure:
    (found,) = [event for event in told if isinstance(event, SummaryFailure)]
    return found


@pytest.mark.parametrize("is_async", [False, True])
def test_a_wrong_key_is_told_at_once_in_an_event_and_the_log(
    caplog: pytest.LogCaptureFixture, *, is_async: bool
) -> None:
    told: list[Event] = []
    designs_own: list[AgentEvent] = []
    history = make_mixed_history()
    with Loopback(WRONG_KEY) as loopback:
        model = ProviderModel(WRITER, base_url=get_base_url(WRITER, loopback))
        listeners = (told.append, build_listener(designs_own.append))
        session = open_tiers(history, Answerer(model=model, listeners=listeners, retry_rule=QUICK))
        to = count_total(history) // 12
        with caplog.at_level(logging.WARNING, logger="tenfold"):
            outcome = asyncio.run(AsyncSession(session).compact(to=to)) if is_async else session.compact(to=to)
        assert len(loopback.requests) == 1, "a wrong key is not tried again"
    assert outcome.status == "compacted"
    assert [type(event).__name__ for event in told] == ["CompactionStart", "SummaryFailure", "CompactionEnd"]
    reason = find_failure(told).reason
    assert "HTTP 401" in reason
    assert SECRET not in reason
    assert designs_own == [SummarizationFailure(reason), CompactionStatus(outcome.tokens_before, outcome.tokens_after)]
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("tenfold", "WARNING")
    assert "HTTP 401" in record.getMessage()
    assert SECRET not in caplog.text


def test_that_the_next_model_had_to_write_is_told_too() -> None:
    """Otherwise a wrong key for the cheap model is paid for with the dear one, and nobody hears of it."""
    told: list[Event] = []
    model = ScriptedModel([ScriptedReply(error="HTTP 401: wrong key"), GOOD])
    session = open_tiers(make_talk(), Answerer(model=model, listeners=(told.append,)), ("cheap", "dear"))
    outcome = session.compact(to=count_total(make_talk()) // 2)
    assert outcome.rung == "next_model"
    assert "cheap" in find_failure(told).reason
    assert "HTTP 401: wrong key" in find_failure(told).reason


def test_where_nothing_could_be_kept_the_failure_itself_is_the_event(caplog: pytest.LogCaptureFixture) -> None:
    told: list[Event] = []
    designs_own: list[AgentEvent] = []
    model = ScriptedModel([ScriptedReply(error="HTTP 500")], repeat=True)
    session = open_tiers(
        make_talk(), Answerer(model=model, listeners=(told.append, build_listener(designs_own.append)))
    )
    with caplog.at_level(logging.WARNING, logger="tenfold"):
        assert session.compact(to=count_total(make_talk()) // 2).status == "failed"
    assert [type(event).__name__ for event in told] == ["CompactionStart", "CompactionFailure"]
    (failure,) = designs_own
    assert isinstance(failure, SummarizationFailure)
    assert "HTTP 500" in failure.reason
    assert "HTTP 500" in caplog.text


def test_a_good_summary_and_one_by_code_tell_of_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    for models, model in ((("m",), ScriptedModel([GOOD])), ((), None)):
        told: list[Event] = []
        session = open_tiers(make_talk(), Answerer(model=model, listeners=(told.append,)), models)
        assert session.compact(to=count_total(make_talk()) // 2).status == "compacted"
        assert [type(event).__name__ for event in told] == ["CompactionStart", "CompactionEnd"]
    assert caplog.records == []


def test_a_plain_list_has_a_log_as_well(caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel([ScriptedReply(error="HTTP 401: wrong key")], repeat=True)
    with caplog.at_level(logging.WARNING, logger="tenfold"):
        done = asyncio.run(compact_with_summarization(make_chat_list(60), model, counter=COUNTER))
        assert done.tier_reached == "None", "200,000 tokens are far away"
        small = asyncio.run(compact_with_summarization(make_chat_list(60), model, SMALL, counter=COUNTER))
    assert (small.tier_reached, small.summary) == ("None", None)
    assert "HTTP 401: wrong key" in caplog.text


def test_the_tool_tells_the_model_why_there_is_no_summary() -> None:
    history = [*make_mixed_history(), make_call("k", "compact")]
    answerer = Answerer(model=ScriptedModel([ScriptedReply(error="HTTP 401: wrong key")], repeat=True))
    session = open_tiers(history, answerer)
    result = CompactTool(session, window=WINDOW).handle({})
    assert "compacted" in result
    assert "HTTP 401: wrong key" in result


def test_the_chat_shows_a_line() -> None:
    history = make_mixed_history()

    async def play_scenario(chat: Chat, pilot: Pilot[None]) -> None:
        await send_text(pilot, "/compact")
        await wait_until(pilot, lambda: any("HTTP 401" in line for line in get_lines(chat)), "the reason is shown")
        await wait_until(pilot, lambda: any("context compacted" in line for line in get_lines(chat)), "and the mark")
        assert SECRET not in "\n".join(get_lines(chat))

    with Loopback(WRONG_KEY) as loopback:
        writer = ProviderModel(WRITER, base_url=get_base_url(WRITER, loopback))

        def open_agent(ui: Chat) -> Agent:
            session = open_tiers(history, Answerer(model=writer))
            model = FunctionModel(stream_function=fail_stream, model_name="scripted")
            return Agent(model, session=session, window=WINDOW, extensions=(ui.extension,))

        drive_chat(lambda: Chat(open_agent), play_scenario)


def test_the_line_names_the_reason() -> None:
    line = build_event_line(SummaryFailure("s", "small: the call failed: HTTP 401: wrong\x1b[2J key", 0))
    assert line is not None
    assert line.kind == "trouble"
    assert line.text == "a summary model failed: small: the call failed: HTTP 401: wrong key"
    failed = build_event_line(CompactionFailure("s", Outcome("failed", "no model gave a usable summary", 1, 1, 1), 0))
    assert failed is not None
    assert failed.kind == "trouble"
