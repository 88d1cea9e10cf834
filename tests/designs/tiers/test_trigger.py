"""`tiers`: configuration, trigger and target, counting, what a user sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.apps.agent import Agent
from tenfold.apps.agent.demonstration import build_demonstration
from tenfold.apps.chat.widgets import measure_fill
from tenfold.config.policies import get_preset
from tenfold.core.meter.counters import BytePairCounter
from tenfold.core.meter.reading import AnchoredEstimator
from tenfold.designs.tiers import (
    CompactionConfig,
    CompactionStatus,
    ContextWarning,
    TokenUsage,
    build_listener,
    check_compaction_needed,
    count_tokens,
    estimate_tokens,
    format_status_line,
)
from tenfold.designs.tiers.policy import tiers
from tenfold.errors import UsageError
from tenfold.session import Session
from tenfold.session.drive import Answerer
from tests.designs.tiers.making import COUNTER
from tests.engine.making import FILLER, make_reply, make_user_message, make_work, open_session

EXACT = replace(tiers(COUNTER), estimator=AnchoredEstimator(1.0))
"""The preset with a counter that is taken at its word."""


def test_the_preset_and_the_configuration_have_the_same_defaults() -> None:
    made = tiers(BytePairCounter("cl100k"))
    assert CompactionConfig().build_policy(BytePairCounter("cl100k")) == made
    assert get_preset("tiers")(BytePairCounter("cl100k")) == made


@pytest.mark.parametrize(
    "wrong",
    [
        {"target_threshold": 0.9},
        {"trigger_threshold": 0.0},
        {"trigger_threshold": 1.2},
        {"warning_threshold": 7.0},
        {"warning_threshold": 0.0},
        {"output_reserve": -1},
        {"max_tool_output_tokens": 0},
        {"truncate_keep_tokens": 0},
        {"protected_messages": -1},
        {"summary_role": "tool"},
        {"target_threshold": "x"},
        {"warning_threshold": "x"},
        {"output_reserve": "x"},
        {"truncate_keep_tokens": 2.5},
    ],
)
def test_settings_that_contradict_each_other_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        get_preset("tiers")(COUNTER, **wrong)


@pytest.mark.parametrize(("window", "trigger", "target"), [(200_000, 147_200, 110_400), (128_000, 89_600, 67_200)])
def test_trigger_and_target_are_shares_of_what_the_reserve_leaves(window: int, trigger: int, target: int) -> None:
    config = CompactionConfig(context_window=window)
    assert (config.available_tokens, config.trigger_tokens, config.target_tokens) == (window - 16_000, trigger, target)


@settings(deadline=None)
@given(st.integers(1, 40_000))
def test_small_windows_have_room_too(window: int) -> None:
    """The original: nothing available up to 16,000, so trigger and target 0 and a compaction after every step."""
    config = CompactionConfig(context_window=window)
    assert config.available_tokens >= window // 2
    assert config.trigger_tokens >= window * 0.39 - 1
    assert 1 <= config.target_tokens <= max(1, config.trigger_tokens * 4 // 5)


def test_a_small_conversation_in_a_small_window_is_left_alone() -> None:
    """The original compacted, with a model call, after every tool step there."""
    session = open_session(make_work(2), tiers(COUNTER))
    outcome = session.compact(window=16_000)
    assert outcome.status == "nothing"
    assert not session.view.state.live_blocks


def test_the_check_fires_at_the_trigger_and_not_below_it() -> None:
    config = CompactionConfig(context_window=20_000)
    trigger = config.trigger_tokens
    for length, needed in ((trigger, True), (trigger - 1, False)):
        messages = [{"role": "user", "content": "x" * 4 * (length - 4)}]
        check = check_compaction_needed(messages, config, counter=COUNTER)
        assert (check.total_tokens, check.trigger_tokens, check.needs_compaction) == (length, trigger, needed)
        assert check.message_count == 1


def test_system_prompt_and_tools_count() -> None:
    """The original counted messages only, so a large prompt overflowed before the trigger was seen."""
    config = CompactionConfig(context_window=20_000)
    messages = [{"role": "user", "content": "hello"}]
    bare = check_compaction_needed(messages, config, counter=COUNTER)
    full = check_compaction_needed(messages, config, system="s" * 24_000, tools="t" * 8_000, counter=COUNTER)
    assert full.total_tokens - bare.total_tokens == 8_000
    assert full.needs_compaction
    assert not bare.needs_compaction


def make_anthropic_request(messages: Sequence[Mapping[str, object]], *, system: str = "") -> dict[str, object]:
    return {"model": "claude-haiku-4-5", "system": system, "max_tokens": 1_000, "messages": messages}


def make_tool_talk(steps: int, size: int) -> list[dict[str, object]]:
    out: list[dict[str, object]] = [{"role": "user", "content": "go on"}]
    for n in range(steps):
        call = {"type": "tool_use", "id": f"t{n}", "name": "read", "input": {"path": f"a{n}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": "line of text\n" * size}
        out += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    return out


def test_the_soft_check_is_made_after_tools_and_not_before_other_calls() -> None:
    messages = make_tool_talk(10, 430)  # about 14,400 tokens: above the trigger of 12,800, below the limit of 16,000
    window = 32_000
    talk: list[dict[str, object]] = [
        *messages,
        {"role": "assistant", "content": "done"},
        {"role": "user", "content": "thanks"},
    ]
    session = open_session([], EXACT)
    assert session.before_model(make_anthropic_request(talk), window=window)["messages"] == talk
    assert session.outcome is None
    session = open_session([], EXACT)
    sent = session.before_model(make_anthropic_request(messages), window=window)
    assert session.outcome is not None
    assert session.outcome.status == "compacted"
    assert len(str(sent)) < len(str(messages)) * 2 // 3


def test_a_talk_without_tools_is_compacted_before_it_overflows() -> None:
    """The original checked only after tool calls: a talk without them never compacted."""
    talk = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"{n} {FILLER}" * 40} for n in range(41)]
    session = open_session([], EXACT)
    sent = session.before_model(make_anthropic_request(talk), window=32_000)
    assert session.outcome is not None
    assert session.outcome.status == "compacted"
    assert len(str(sent)) < len(str(talk)) * 2 // 3


def test_a_request_that_the_provider_refused_as_too_long_is_recovered_from() -> None:
    """The original had no recovery: below its own trigger it did nothing, and the request was refused again."""
    session = open_session(make_work(12), EXACT)
    size = session.take_reading(window=32_000).estimate
    assert session.compact(window=32_000).status == "nothing"
    refused = replace(session.compactor.build_call(window=32_000), demand="overflow")
    assert session.compact(refused).status == "compacted"
    assert session.take_reading(window=32_000).estimate < size * 3 // 4
    assert session.compact(refused).status == "nothing", "and nothing is done twice"


def test_auto_off_leaves_it_to_demands() -> None:
    """The original ignored `auto = false`."""
    session = open_session([], replace(EXACT, auto=False))
    messages = make_tool_talk(10, 500)
    assert session.before_model(make_anthropic_request(messages), window=32_000)["messages"] == messages
    assert session.compact(to=4_000).status == "compacted"


def test_what_is_counted() -> None:
    counter = BytePairCounter("cl100k")
    call = {"id": "c", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "a.py"}'}}
    found = count_tokens(
        [
            {"role": "system", "content": "You are careful."},
            {"role": "user", "content": "Read the file, please."},
            {"role": "assistant", "content": "Reading.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "import os\nprint(os.name)"},
        ],
        counter=counter,
    )

    def count_texts(*texts: str) -> int:
        return 4 + sum(counter.count(texts))

    assert (found.system, found.user) == (count_texts("You are careful."), count_texts("Read the file, please."))
    assert found.assistant == count_texts("Reading.", "read_file", '{"path": "a.py"}')
    assert found.tool == found.tool_output_tokens >= count_texts("import os\nprint(os.name)")
    assert (found.total, found.message_count) == (found.system + found.user + found.assistant + found.tool, 4)


def test_the_fast_estimate_is_a_quarter_of_the_bytes() -> None:
    assert [estimate_tokens(text) for text in ("", "abc", "abcd", "é" * 4, "x" * 4_003)] == [0, 0, 1, 2, 1_000]


def test_the_status_bar_shows_the_context_in_use() -> None:
    assert format_status_line(TokenUsage(45_900, 100_000)) == "[ctx: 45%]"
    assert format_status_line(TokenUsage(0, 100_000)) == "[ctx: 0%]"
    assert format_status_line(TokenUsage(12_000, 0)) == "[ctx: 12k]"
    session = open_session(make_work(4), EXACT)
    usage = TokenUsage.from_session(session, window=10_000)
    assert usage == TokenUsage(session.take_reading(window=10_000).tokens, 5_000)
    assert usage.percent > 0
    assert TokenUsage.from_session(session, window=10_000, output_reserve=6_000).max == 4_000
    assert TokenUsage.from_session(session) == TokenUsage(usage.used, 0)


@pytest.mark.parametrize("window", [8_000, 32_000, 200_000])
def test_the_bar_shows_70_and_80_percent_where_the_warning_and_the_compaction_come(window: int) -> None:
    """The bar was of the window and the thresholds of what the reserve leaves: it showed 73 % at the trigger."""
    told: list[object] = []
    answerer = Answerer(listeners=(build_listener(told.append),))
    session = open_session([make_user_message("go on")], EXACT, answerer=answerer)
    agent = Agent(build_demonstration(), session=session, window=window)
    usable = CompactionConfig(context_window=window).available_tokens
    for percent, kinds in ((69, []), (71, [ContextWarning]), (79, [ContextWarning]), (81, [CompactionStatus])):
        fill_session(session, usable * percent // 100 + usable // 200)
        before = TokenUsage.from_session(session, window=window)
        assert format_status_line(before) == f"[ctx: {percent}%]"
        told.clear()
        chat_share = measure_fill(agent).share
        assert chat_share is not None
        assert abs(chat_share - before.used / before.max) < 0.001, "the chat's bar is the same"
        session.compact(window=window)
        assert [type(event) for event in told] == kinds
        if kinds == [ContextWarning]:
            assert told == [ContextWarning(before.used, before.max)]


def fill_session(session: Session, tokens: int) -> None:
    """Appends ten messages, so that the view takes so many tokens by the counter."""
    for left in range(10, 0, -1):
        missing = tokens - session.take_reading().tokens
        session.append(make_reply("x" * 4 * (missing // left - 4)))
