from __future__ import annotations

import re
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tenfold.compaction.trigger.guard import CompactionHistory, decide
from tenfold.compaction.trigger.limits import Decision, Demand, FillTrigger, Limits
from tenfold.core.record.entry import Attempt
from tenfold.core.record.token_reading import Counted, ProviderTokens, Reading

LIMITS = Limits(ProviderTokens(85_000), ProviderTokens(100_000), ProviderTokens(40_000), ProviderTokens(70_000))
GROWTH = ProviderTokens(5_000)
FRESH = CompactionHistory(messages_since=50)
Status = Literal["nothing", "unsatisfiable", "failed"]
STATUSES: tuple[Status, ...] = ("nothing", "unsatisfiable", "failed")
DEMANDS: tuple[Demand, ...] = ("check", "manual", "tool", "overflow")


def make_reading(tokens: int) -> Reading:
    estimate = Counted(int(tokens / 1.25))
    return Reading(ProviderTokens(tokens), "reported", ProviderTokens(100_000), 1.25, ProviderTokens(2_000), estimate)


def make_attempt(status: Status = "failed") -> Attempt:
    return Attempt("a", None, "r", 0, "p", status, "no model answered", Counted(90_000), Counted(40_000))


def make_decision(
    tokens: int,
    demand: Demand = "check",
    history: CompactionHistory = FRESH,
    *,
    least: int = 10_000,
    to: int | None = None,
    limits: Limits | None = LIMITS,
) -> Decision[ProviderTokens]:
    named = None if to is None else ProviderTokens(to)
    reading, floor = make_reading(tokens), ProviderTokens(least)
    return decide(reading, limits, demand, history, to=named, least=floor, minimum_growth=GROWTH)


@pytest.mark.parametrize(
    ("tokens", "act", "need"),
    [
        (10_000, False, "none"),
        (70_000, False, "warn"),
        (84_999, False, "warn"),
        (85_000, True, "soft"),
        (100_000, True, "soft"),
        (100_001, True, "hard"),
    ],
)
def test_a_check_acts_at_the_limits(tokens: int, act: bool, need: str) -> None:  # noqa: FBT001 - a row of a table
    decision = make_decision(tokens)
    assert (decision.should_act, decision.need) == (act, need)
    assert decision.target == 40_000
    assert decision.limit == 100_000


def test_a_strict_trigger_does_not_fire_at_its_limit() -> None:
    strict = replace(LIMITS, inclusive=False)
    assert not make_decision(85_000, limits=strict).should_act
    assert make_decision(85_001, limits=strict).should_act


def test_the_reason_carries_the_arithmetic() -> None:
    text = make_decision(90_000).reason
    for number in ("90,000", "85,000", "40,000", "2,000", "1.25", "72,000"):
        assert number in text


@pytest.mark.parametrize("demand", DEMANDS)
def test_an_unknown_window_never_triggers(demand: Demand) -> None:
    decision = make_decision(10_000_000, demand, limits=None)
    assert not decision.should_act
    assert "--window" in decision.reason


def test_an_explicit_target_needs_no_window_and_no_trigger() -> None:
    decision = make_decision(9_000, "manual", to=2_000, limits=None, least=500)
    assert (decision.should_act, decision.target, decision.target_missed) == (True, 2_000, False)
    missed = make_decision(9_000, "manual", to=2_000, limits=None, least=3_500)
    assert (missed.should_act, missed.target, missed.target_missed) == (True, 3_500, True)
    small = make_decision(1_900, "manual", to=2_000, limits=None, least=500)
    assert (small.should_act, small.status, small.target_missed) == (False, "nothing", False)


@pytest.mark.parametrize("demand", DEMANDS)
def test_nothing_is_done_twice_when_nothing_followed(demand: Demand) -> None:
    history = CompactionHistory(messages_since=0, growth=ProviderTokens(0), is_repeat=True)
    assert make_decision(150_000, demand, history).status == "nothing"
    assert make_decision(150_000, demand, history, to=10_000).status == "nothing"
    assert make_decision(
        150_000, "manual", CompactionHistory(messages_since=1, growth=ProviderTokens(10), is_repeat=True)
    ).should_act
    assert make_decision(150_000, "manual", CompactionHistory(messages_since=0, growth=ProviderTokens(0))).should_act, (
        "another policy, target or demand"
    )


def test_a_request_by_a_person_acts_below_the_trigger_but_not_below_the_target() -> None:
    assert make_decision(50_000, "manual").should_act
    assert make_decision(40_000, "manual").status == "nothing"


def test_the_least_above_the_limit_is_said_once_with_the_arithmetic() -> None:
    first = make_decision(120_000, least=104_000)
    assert (first.should_act, first.status, first.already_recorded) == (False, "unsatisfiable", False)
    assert re.search(r"100,000.*104,000.*4,000 too many.*120,000", first.reason)
    said = CompactionHistory(messages_since=60, growth=ProviderTokens(9_000), attempts=(make_attempt("unsatisfiable"),))
    assert make_decision(125_000, history=said, least=104_000).already_recorded
    assert make_decision(125_000, "overflow", said, least=104_000).already_recorded
    assert not make_decision(125_000, "manual", said, least=104_000).already_recorded, "a person who asks is told again"


def test_the_least_between_target_and_limit_is_aimed_at_and_said() -> None:
    decision = make_decision(90_000, least=60_000)
    assert (decision.should_act, decision.target, decision.target_missed) == (True, 60_000, True)
    assert "least" in decision.reason


def test_a_view_that_is_all_least_is_left_alone() -> None:
    decision = make_decision(90_000, least=90_000)
    assert (decision.should_act, decision.status, decision.target_missed) == (False, "nothing", True)


def make_history(count: int, grown: int) -> CompactionHistory:
    return CompactionHistory(messages_since=60, growth=ProviderTokens(grown), attempts=(make_attempt(),) * count)


def test_no_second_attempt_unless_the_path_grew() -> None:
    assert not make_decision(90_000, history=make_history(1, 0)).should_act
    assert "no model answered" in make_decision(90_000, history=make_history(1, 0)).reason
    assert make_decision(90_000, history=make_history(1, 1)).should_act


def test_two_fruitless_attempts_open_the_breaker_until_the_minimum_growth() -> None:
    assert not make_decision(90_000, history=make_history(2, GROWTH - 1)).should_act
    assert make_decision(90_000, history=make_history(2, GROWTH)).should_act
    assert not make_decision(90_000, history=make_history(3, GROWTH - 1)).should_act


def test_the_hard_limit_overrides_the_guards_but_not_a_third_try_on_the_same_path() -> None:
    assert make_decision(100_001, history=make_history(1, 0)).should_act
    assert make_decision(100_001, history=make_history(2, 1)).should_act
    assert not make_decision(100_001, history=make_history(2, 0)).should_act
    assert make_decision(90_000, "overflow", make_history(2, 1)).should_act


def test_after_an_undo_soft_triggers_stay_off_until_growth_or_overflow() -> None:
    undone = CompactionHistory(messages_since=3, growth=GROWTH - 1, retracted=True)
    assert not make_decision(90_000, history=undone).should_act
    assert "undone" in make_decision(90_000, history=undone).reason
    assert not make_decision(90_000, "tool", undone).should_act
    assert make_decision(100_001, history=undone).should_act
    assert make_decision(90_000, "overflow", undone).should_act
    assert make_decision(90_000, "manual", undone).should_act
    assert make_decision(90_000, history=CompactionHistory(messages_since=9, growth=GROWTH, retracted=True)).should_act


def test_after_a_block_soft_triggers_wait_for_growth() -> None:
    assert not make_decision(86_000, history=CompactionHistory(messages_since=1, growth=ProviderTokens(100))).should_act
    assert make_decision(86_000, history=CompactionHistory(messages_since=9, growth=GROWTH)).should_act


def test_an_overflow_below_our_reading_aims_lower_by_as_much_as_it_was_off() -> None:
    assert make_decision(80_000, "overflow").target == 32_000
    assert make_decision(30_000, "overflow").should_act
    assert make_decision(120_000, "overflow").target == 40_000
    assert make_decision(80_000, "overflow").need == "hard"


histories = st.builds(
    CompactionHistory,
    messages_since=st.integers(0, 5),
    growth=st.none() | st.integers(0, 20_000),
    attempts=st.lists(st.sampled_from([make_attempt(s) for s in STATUSES]), max_size=4).map(tuple),
    retracted=st.booleans(),
    is_repeat=st.booleans(),
)


@given(
    st.integers(0, 300_000),
    st.sampled_from(DEMANDS),
    histories,
    st.integers(0, 300_000),
    st.none() | st.integers(1, 300_000),
    st.integers(1_000, 400_000),
)
def test_a_decision_is_consistent(
    tokens: int, demand: Demand, history: CompactionHistory, least: int, to: int | None, window: int
) -> None:
    limits = FillTrigger().get_limits(window, output_reserve=window // 10, floor=0)
    decision = make_decision(tokens, demand, history, least=least, to=to, limits=limits)
    assert decision.reason
    if decision.should_act:
        assert max(least, 1) <= max(decision.target, 1) < tokens
        assert decision.status == ""
        assert decision.need in ("soft", "hard")
        assert least <= limits.hard
        assert not (history.is_repeat and history.messages_since == 0)
    if decision.status == "unsatisfiable":
        assert least > limits.hard
    more = CompactionHistory(
        history.messages_since, (history.growth or ProviderTokens(0)) + 20_000, history.attempts, history.retracted
    )
    if decision.should_act and history.growth is not None:
        assert make_decision(tokens, demand, more, least=least, to=to, limits=limits).should_act, "growth never forbids"


@given(st.integers(0, 200_000), st.integers(0, 50_000), histories)
def test_a_fuller_view_is_never_less_in_need(tokens: int, more: int, history: CompactionHistory) -> None:
    order = ["none", "warn", "soft", "hard"]
    low, high = make_decision(tokens, history=history), make_decision(tokens + more, history=history)
    assert order.index(low.need) <= order.index(high.need)


def test_a_loop_of_checks_on_one_path_makes_at_most_two_attempts() -> None:
    """What the published loop test did four times of five: a limit that no compaction can reach."""
    history, calls, said = FRESH, 0, 0
    for _ in range(50):
        decision = make_decision(120_000, history=history, least=99_000)
        calls += decision.should_act
        if decision.should_act:
            history = CompactionHistory(
                messages_since=50, growth=ProviderTokens(0), attempts=(*history.attempts, make_attempt("nothing"))
            )
        unsatisfiable = make_decision(120_000, history=history, least=101_000)
        said += unsatisfiable.status == "unsatisfiable" and not unsatisfiable.already_recorded
        if not unsatisfiable.already_recorded:
            history = CompactionHistory(
                history.messages_since, history.growth, (*history.attempts, make_attempt("unsatisfiable"))
            )
    assert calls <= 2
    assert said == 1
