"""The preset `tail`: a request that was too long is compacted once and sent again."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tenfold.designs.tail import (
    AutoCompactionEnd,
    CompactionResult,
    SessionBeforeCompact,
    SessionBeforeCompactResult,
    is_context_overflow,
)
from tenfold.designs.tail.hook_events import TailEvent
from tenfold.record.entry import Usage
from tests.presets.tail_making import (
    WINDOW,
    get_blocks,
    get_kinds,
    make_answer,
    make_exchanges,
    make_harness,
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
@pytest.mark.spec("tail.A40")
def test_provider_messages_that_mean_an_overflow(text: str) -> None:
    assert is_context_overflow(text)


@pytest.mark.parametrize(
    "text", ["429 too many tokens per minute", "Rate limit reached, too many tokens", "bad key", ""]
)
@pytest.mark.spec("tail.A40")
def test_a_rate_limit_is_no_overflow(text: str) -> None:
    assert not is_context_overflow(text)


@pytest.mark.spec("tail.A40", "tail.A39")
def test_an_overflow_is_compacted_once_and_the_request_is_sent_again() -> None:
    agent = make_harness([*make_exchanges(8), make_user("go on")])
    events = record_events(agent)
    failed = replace(make_answer(""), status="error")
    agent.session.append(failed)
    assert agent.recover(OVERFLOWS[0])
    assert get_kinds(events)[0] == "auto_compaction_start"
    end = events[-1]
    assert isinstance(end, AutoCompactionEnd)
    assert end.will_retry
    assert all(m.status == "ok" for m in agent.session.view.get_messages()), "the error is in no request"
    agent.session.append(failed)
    assert not agent.recover(OVERFLOWS[0]), "one attempt only"
    last = events[-1]
    assert isinstance(last, AutoCompactionEnd)
    assert "again after a compaction" in last.error_message
    agent.session.append(make_answer("an answer"), *make_exchanges(8, start=20), make_user("once more"))
    assert agent.recover(OVERFLOWS[0]), "an answer that came resets it"


@pytest.mark.spec("tail.A40", "tail.A36")
def test_an_overflow_whose_summary_a_handler_gave_is_tried_once_as_well() -> None:
    agent = make_harness([*make_exchanges(8), make_user("go on")])

    @agent.on("session_before_compact")
    def supply(event: TailEvent) -> SessionBeforeCompactResult:
        assert isinstance(event, SessionBeforeCompact)
        return SessionBeforeCompactResult(compaction=CompactionResult("x", event.preparation.retained_from_id, 1))

    failed = replace(make_answer(""), status="error")
    agent.session.append(failed)
    assert agent.recover(OVERFLOWS[0])
    agent.session.append(failed)
    assert not agent.recover(OVERFLOWS[0])
    assert len(get_blocks(agent.session)) == 1


@pytest.mark.spec("tail.A40", "tail.A41")
def test_an_answer_over_the_window_is_an_overflow_if_this_model_gave_it() -> None:
    agent = make_harness([*make_exchanges(8), make_user("go on")])
    agent.session.use_model("m")
    over = Usage(WINDOW + 1, 5, cache_read=WINDOW, model="m")
    assert not agent.recover(usage=Usage(WINDOW, 5, model="m"))
    assert not agent.recover(usage=replace(over, model="another"))
    assert not agent.recover(OVERFLOWS[0], usage=replace(over, model="another"))
    assert agent.recover(usage=over)
