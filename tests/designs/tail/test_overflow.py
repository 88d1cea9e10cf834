"""The preset `tail`: a request that was too long is compacted once and sent again."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tenfold.apps.agent import Agent
from tenfold.core.record.entry import Usage
from tenfold.designs.tail import (
    AutoCompactionEnd,
    AutoCompactionStart,
    CompactionResult,
    SessionBeforeCompact,
    SessionBeforeCompactResult,
    is_context_overflow,
)
from tenfold.designs.tail.agent import TailAgent
from tenfold.errors import ContextOverflow
from tests.designs.tail.making import (
    SMALL,
    WINDOW,
    QuietModel,
    get_blocks,
    get_kinds,
    make_answer,
    make_exchanges,
    make_session,
    make_user,
    record_events,
)

OVERFLOWS = (
    "prompt is too long: 213462 tokens > 200000 maximum",
    "Your input exceeds the context window of this model",
    "This model's maximum context length is 128000 tokens",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens",
    "Please reduce the length of the messages or completion",
    "tokens to keep from the initial prompt is greater than the context length",
    "the request exceeds the available context size",
    "context_length_exceeded",
    "413 Request Entity Too Large",
    "400 status code (no body)",
    "context window exceeds limit (2013)",
    "prompt token count of 140000 exceeds the limit of 128000",
    "tokens in request more than max tokens allowed",
    "Total tokens of image and text exceed max message tokens",
    "ContextWindowExceededError: the messages are too long",
)


@pytest.mark.parametrize("text", OVERFLOWS)
def test_provider_messages_that_mean_an_overflow(text: str) -> None:
    assert is_context_overflow(text)


@pytest.mark.parametrize(
    "text", ["429 too many tokens per minute", "Rate limit reached, too many tokens", "bad key", ""]
)
def test_a_rate_limit_is_no_overflow(text: str) -> None:
    assert not is_context_overflow(text)


def make_refused_agent(times: int) -> TailAgent:
    """An agent whose provider refuses that many requests as too long, and whose window seems large enough."""
    model = QuietModel(refusals=times, refusal=OVERFLOWS[0])
    session = make_session(make_exchanges(8))
    return TailAgent(Agent(model, session=session, window=200_000), settings=SMALL)


def test_an_overflow_is_compacted_once_and_the_request_is_sent_again() -> None:
    agent = make_refused_agent(1)
    events = record_events(agent)
    assert agent.invoke_sync("Go on.") == "Fine."
    assert get_kinds(events) == [
        "auto_compaction_start", "session_before_compact", "session_compact", "auto_compaction_end", "save_point",
        "agent_end", "settled",
    ]  # fmt: skip
    start, end = events[0], events[3]
    assert isinstance(start, AutoCompactionStart)
    assert isinstance(end, AutoCompactionEnd)
    assert start.reason == "overflow"
    assert end.will_retry
    assert all(m.status == "ok" for m in agent.session.view.get_messages()), "the error is in no request"
    assert len(get_blocks(agent.session)) == 1


def test_a_second_overflow_ends_the_run_with_an_error_and_the_next_run_may_try_again() -> None:
    agent = make_refused_agent(2)
    events = record_events(agent)
    with pytest.raises(ContextOverflow, match="on try 2 of 2"):
        agent.invoke_sync("Go on.")
    assert len(get_blocks(agent.session)) == 1, "one attempt only"
    last = events[-1]
    assert isinstance(last, AutoCompactionEnd)
    assert "on try 2 of 2" in last.error_message
    assert "settled" not in get_kinds(events)
    agent.session.append(*make_exchanges(8, start=20))
    again = TailAgent(Agent(QuietModel(refusals=1, refusal=OVERFLOWS[0]), session=agent.session, window=200_000))
    assert again.invoke_sync("Once more.") == "Fine.", "a new message of the user resets it"


def test_an_overflow_whose_summary_a_handler_gave_is_tried_once_as_well() -> None:
    agent = make_refused_agent(2)

    @agent.on("session_before_compact")
    def supply(event: SessionBeforeCompact) -> SessionBeforeCompactResult:
        return SessionBeforeCompactResult(compaction=CompactionResult("x", event.preparation.retained_from_id, 1))

    with pytest.raises(ContextOverflow):
        agent.invoke_sync("Go on.")
    assert len(get_blocks(agent.session)) == 1


def test_an_answer_over_the_window_is_an_overflow_if_this_model_gave_it() -> None:
    over = Usage(WINDOW + 1, 5, cache_read=WINDOW, model="m")
    for usage, is_over in ((over, True), (replace(over, model="another"), False)):
        session = make_session([*make_exchanges(2), make_user("go on")])
        session.use_model("m")
        session.append(make_answer("so"), usage=usage)
        reading = session.take_reading(window=WINDOW)
        assert (reading.source == "reported") is is_over
        if is_over:
            assert reading.tokens > WINDOW
            assert session.is_check_due(session.build_call(window=WINDOW)), "before the next call"
