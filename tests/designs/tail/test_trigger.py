"""The preset `tail`: settings, when it acts, what it counts, and in which unit it is told."""

from __future__ import annotations

import dataclasses
import json

import pytest
from msgspec.structs import replace

from tenfold.apps.agent.run_lines import format_tokens
from tenfold.apps.chat.transcript import build_compaction_mark, build_history
from tenfold.config.extensions import Extension
from tenfold.config.policies import get_preset
from tenfold.core.record.entry import MessageEntry, Usage
from tenfold.core.record.message import Image, Message, Text, Thinking, ToolCall, ToolResult
from tenfold.core.record.token_reading import ProviderTokens
from tenfold.core.wire import WIRES
from tenfold.designs.tail import (
    CompactionSettings,
    SessionBeforeCompact,
    SessionCompact,
    calculate_context_tokens,
    estimate_context_tokens,
    estimate_tokens,
    find_last_usage,
    get_compaction_entry,
    should_compact,
)
from tenfold.designs.tail.cut import ReserveTrigger
from tenfold.designs.tail.policy import tail
from tenfold.errors import UsageError
from tenfold.events import CompactionStart
from tenfold.session import Session
from tests.designs.tail.making import (
    COUNTER,
    WINDOW,
    build_manual_call,
    build_preset,
    get_blocks,
    make_agent,
    make_answer,
    make_exchanges,
    make_path,
    make_reported_session,
    make_session,
    make_steps,
    make_user,
    make_words,
    record_events,
    run_compaction,
)


def test_the_settings_have_the_published_defaults_once() -> None:
    """The original's page and its code named different defaults, and three names for one id."""
    settings = CompactionSettings()
    assert (settings.enabled, settings.reserve_tokens, settings.keep_recent_tokens) == (True, 8_192, 16_384)
    assert settings.retain_recent_tokens == 16_384
    made = tail(COUNTER)
    assert made.trigger == ReserveTrigger(settings.budgets)
    assert get_preset("tail") is tail
    with pytest.raises(UsageError, match="reserve_tokens is 0; give a whole number of 1 or more"):
        tail(COUNTER, reserve_tokens=0)
    with pytest.raises(UsageError, match="keep_recent_tokens is 'x'; give a whole number of 1 or more"):
        tail(COUNTER, keep_recent_tokens="x")  # type: ignore[arg-type]


def test_settings_are_read_at_every_check() -> None:
    now = [CompactionSettings(enabled=False, reserve_tokens=2_000, keep_recent_tokens=3_000)]
    agent = make_agent(make_exchanges(9), settings=lambda: now[0])
    assert not agent.should_compact()
    assert agent.session.policy.auto is False
    now[0] = dataclasses.replace(now[0], enabled=True)
    assert agent.should_compact()
    assert agent.session.policy.auto


def test_the_check_is_strict_and_a_disabled_one_never_fires() -> None:
    settings = CompactionSettings(reserve_tokens=10_000)
    assert [should_compact(n, 100_000, settings) for n in (95_000, 90_001, 90_000, 89_000)] == [
        True,
        True,
        False,
        False,
    ]
    assert not should_compact(99_999, 100_000, dataclasses.replace(settings, enabled=False))


@pytest.mark.parametrize("window", [4_000, 8_192, 32_000, 200_000])
def test_sizes_are_clamped_so_that_a_small_window_is_not_always_full(window: int) -> None:
    """The originals subtracted 16,384 from any window: one of 8k was always over, one of 0 always compacted."""
    assert not should_compact(1_000_000, 0), "an unknown window never triggers"
    limits = tail(COUNTER).trigger.get_limits(window, output_reserve=0, floor=ProviderTokens(0))
    assert limits.get_need(ProviderTokens(window // 2 - 1)) in ("none", "warn")
    assert limits.get_need(ProviderTokens(window)) in ("soft", "hard")
    assert limits.target <= window * 4 // 5
    assert limits.soft >= window // 2


def test_a_message_counts_its_characters_by_four_rounded_up() -> None:
    assert estimate_tokens(make_user("")) == 0
    assert [estimate_tokens(make_user("x" * n)) for n in (1, 4, 5, 8)] == [1, 1, 2, 2]
    answer = Message("assistant", (Thinking("t" * 8), Text("a" * 8), ToolCall("1", "read", '{"p":1}')), "model")
    assert estimate_tokens(answer) == (8 + 8 + 4 + 7 + 3) // 4
    picture = Image("image/png", "AAAA")
    assert estimate_tokens(Message("user", (picture,), "human")) == 1_200
    assert estimate_tokens(Message("tool", (ToolResult("1", "", (picture,)),), "tool")) == 1_200
    assert estimate_tokens(make_user("é" * 4)) == 1, "no bytes"
    assert estimate_tokens(make_user("\N{GRINNING FACE}" * 4)) == 2, "UTF-16 units, as the published program counts"
    spaced = Message("assistant", (ToolCall("1", "read", '{ "p" : [1,  2] }'),), "model")
    assert estimate_tokens(spaced) == (4 + len('{"p":[1,2]}') + 3) // 4, "compact JSON"
    broken = Message("assistant", (ToolCall("1", "read", '{ "p" '),), "model")
    assert estimate_tokens(broken) == (4 + len('{ "p" ') + 3) // 4, "as it is written where it is none"


def test_reported_tokens_hold_the_cached_ones() -> None:
    """An original counted input and output alone: with prompt caching its threshold was never reached."""
    assert calculate_context_tokens({"input": 1_000, "output": 500, "cacheRead": 200, "cacheWrite": 100}) == 1_800
    assert calculate_context_tokens({"input": 1_000, "output": 500, "total_tokens": 1_700}) == 1_700
    assert calculate_context_tokens(Usage.build(1_300, 500, 200, 100)) == 1_800
    session = make_session(make_exchanges(1))
    session.append(make_user("x"), make_answer("y"), usage=Usage.build(WINDOW, 10, WINDOW - 100, 0, "m"))
    session.compactor.use_model("m")
    assert session.take_reading(window=WINDOW).tokens >= WINDOW
    assert session.compact(
        replace(session.compactor.build_call(window=WINDOW), demand="check")
    ).status != "nothing" or get_blocks(session)


def test_usage_of_zero_or_of_an_answer_that_was_aborted_is_not_relied_on() -> None:
    """An original took a usage of zero at face value."""
    path = make_path(
        [make_user("u"), make_answer("a"), make_user("v"), make_answer("b"), make_user("w"), make_answer("c")]
    )
    assert find_last_usage(path) is None
    path[1] = replace(path[1], usage=Usage.build(700, 50))
    path[3] = replace(path[3], usage=Usage.build(0, 0))
    third = path[5]
    assert isinstance(third, MessageEntry)
    path[5] = replace(third, usage=Usage.build(9_000, 5), message=replace(third.message, status="aborted"))
    assert find_last_usage(path) == 1
    session = make_session([make_user("u")])
    session.compactor.use_model("m")
    session.append(replace(make_answer("half"), status="aborted"), usage=Usage.build(90_000, 5, model="m"))
    assert session.take_reading(window=WINDOW).tokens < 1_000


def test_after_a_compaction_old_usage_is_never_counted() -> None:
    session = make_session(make_exchanges(6))
    session.compactor.use_model("m")
    session.append(make_user("x"), make_answer("y"), usage=Usage.build(14_000, 10, model="m"))
    assert session.take_reading(window=WINDOW).source == "reported"
    assert session.compact(build_manual_call(session)).status == "compacted"
    after = session.take_reading(window=WINDOW)
    assert after.source != "reported"
    path = list(session.view.path.get_entries(0, session.view.length - 1))
    told = estimate_context_tokens(path)
    assert told.last_usage_index is None
    assert told.tokens < 7_000
    assert not is_harness_due(after.tokens)
    session.append(make_user("z"), make_answer("w"), usage=Usage.build(5_000, 10, model="m"))
    assert session.take_reading(window=WINDOW).source == "reported"


def is_harness_due(tokens: int) -> bool:
    return should_compact(tokens, WINDOW, CompactionSettings(reserve_tokens=2_000))


def test_the_soft_check_is_made_at_the_end_of_a_run_and_the_hard_one_before_every_call() -> None:
    """The original looked only between turns: one long tool loop could fill the window to the last token."""
    assert build_preset().checks == ("end_of_run",)

    def send_rounds(rounds: int) -> Session:
        session = make_session()
        items = WIRES["openai-chat"].encode([make_user("u"), *make_steps(rounds)]).items
        messages = [json.loads(item.raw) for item in items]
        session.before_model({"model": "m", "messages": messages}, window=WINDOW)
        return session

    between = send_rounds(24)
    assert WINDOW - 2_000 < between.take_reading(window=WINDOW).tokens <= WINDOW
    assert get_blocks(between) == [], "the soft limit waits for the end of the run"
    over = send_rounds(40)
    assert len(get_blocks(over)) == 1
    assert over.take_reading(window=WINDOW).tokens < WINDOW - 2_000


def test_the_next_words_of_the_user_show_that_a_run_has_ended() -> None:
    """A host that only makes calls says nowhere that a run ended: its context would fill to the hard limit."""
    said_ = [*make_exchanges(5), make_user(make_words(1_300)), make_answer("Yes."), make_user("And now?")]
    items = [json.loads(item.raw) for item in WIRES["openai-chat"].encode(said_).items]
    session = make_session()
    assert WINDOW - 2_000 < make_session(said_).take_reading(window=WINDOW).tokens <= WINDOW
    session.before_model({"model": "m", "messages": items}, window=WINDOW)
    assert len(get_blocks(session)) == 1


def test_a_tail_too_big_to_help_is_tried_twice_and_then_left_alone() -> None:
    """The original compacted again on every turn where the tail alone was over the threshold."""
    session = make_session([make_user("u"), make_answer("a"), make_user(make_words(13_500))])
    asked = session.compactor.answerer.model.asked  # type: ignore[union-attr]
    statuses = [session.compact(window=WINDOW).status for _ in range(6)]
    assert statuses == ["compacted", *["nothing"] * 5], "head and tail of it are shown, and that is all there is to do"
    assert session.take_reading(window=WINDOW).tokens < WINDOW
    assert asked == []


def test_event_entry_and_outcome_have_one_unit_which_the_provider_counts() -> None:
    session = make_reported_session()
    face = make_agent(session=session, window=200_000)
    starts: list[CompactionStart] = []
    session.compactor.use_answerer(session.compactor.answerer.with_extensions([_listen(starts)]))
    events = record_events(face)
    shown = face.context_tokens
    assert shown > 40_000
    assert run_compaction(face)
    before = next(e for e in events if isinstance(e, SessionBeforeCompact)).preparation.tokens_before
    entry = next(e for e in events if isinstance(e, SessionCompact)).compaction_entry
    assert face.outcome is not None
    assert {face.outcome.tokens_before, entry.tokens_before, before, starts[0].tokens} == {shown}
    assert starts[0].target == face.outcome.target < shown
    (mark,) = [each.text for each in build_history(session) if each.kind == "mark"]
    assert f"({format_tokens(shown)} → {format_tokens(face.outcome.tokens_after)} tokens)" in mark
    assert face.outcome.reading_before is not None
    assert face.outcome.reading_before.estimate < shown / 2, "the counter's own figure, which is not shown"


def test_a_plan_and_a_refusal_are_told_in_what_the_provider_counts() -> None:
    """They had the counter's own figures, beside a bar with the provider's."""
    session = make_reported_session()
    reading = session.take_reading(window=200_000)
    decision, plan = session.preview(build_manual_call(session, 200_000))
    assert plan is not None
    first, *lines = plan.explain().splitlines()
    after, target = (round(reading.floor + reading.slope * n) for n in (plan.tokens_after, decision.target))
    assert first == f"plan: {reading.tokens:,} -> at most {after:,} tokens (target {target:,})"
    sizes = [int(line.partition(" tokens")[0].split()[-1].replace(",", "")) for line in lines if line.startswith("  ")]
    assert sum(sizes) == pytest.approx(after - reading.floor, abs=len(sizes))
    session.compactor.use_policy(replace(session.policy, shrink_tokens=10_000_000))
    outcome = session.compact(build_manual_call(session, 200_000))
    worth = round(reading.slope * 10_000_000)
    assert f" of {reading.tokens:,} tokens; the least worth a Block is {worth:,}" in outcome.reason
    explicit = session.compact(to=reading.estimate - 1)
    assert (explicit.status, explicit.tokens_before) == ("compacted", reading.estimate), "like the target"


def test_what_was_shown_of_a_compaction_does_not_change_with_later_reports() -> None:
    """The lines and entries of old Blocks were estimated anew with each report."""
    session = make_reported_session()
    outcome = session.compact(build_manual_call(session, 200_000))
    assert outcome.status == "compacted"
    (block,) = get_blocks(session)
    assert block.provider_tokens == (outcome.tokens_before, outcome.tokens_after)
    for tokens in (9_000, 70_000):
        session.append(make_user("x"), make_answer("y"), usage=Usage.build(tokens, 10, model="m"))
        (mark,) = [each.text for each in build_history(session) if each.kind == "mark"]
        assert mark == build_compaction_mark(outcome.tokens_before, outcome.tokens_after).text
        assert get_compaction_entry(session, block.id).tokens_before == outcome.tokens_before
    old = replace(block, provider_tokens=None)
    reading = session.take_reading()
    assert session.compactor.get_provider_tokens(old)[0] == round(reading.floor + reading.slope * block.tokens_before)


def test_what_is_tried_against_the_reports_is_told_in_what_the_provider_counts() -> None:
    """The reason had our own count, "162,626 tokens ... down to 8,000", and the sizes beside it the provider's."""
    session = make_reported_session(22_100)  # nearly the whole window besides the messages; more is not believed
    outcome = session.compact(session.compactor.build_call(window=8_000))
    assert outcome.status == "compacted"
    assert "and so is the least that must stay" in outcome.reason
    assert outcome.reason.startswith(f"{outcome.tokens_before:,} tokens (")
    assert outcome.reason.endswith(f"down to {outcome.target:,}")


def _listen(starts: list[CompactionStart]) -> Extension:
    extension = Extension("watch")
    extension.on(CompactionStart)(starts.append)
    return extension
