from __future__ import annotations

import re
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.meter.reading import Reading
from tenfold.record.entry import Attempt
from tenfold.trigger.guard import History, decide
from tenfold.trigger.triggers import Decision, Demand, Fill, Limits

LIMITS = Limits(soft=85_000, hard=100_000, target=40_000, warn=70_000)
GROWTH = 5_000
FRESH = History(messages_since=50)
Status = Literal["nothing", "unsatisfiable", "failed"]
STATUSES: tuple[Status, ...] = ("nothing", "unsatisfiable", "failed")
DEMANDS: tuple[Demand, ...] = ("check", "manual", "tool", "overflow")


def reading(tokens: int, source: Literal["reported", "unknown"] = "reported") -> Reading:
    return Reading(tokens, source, 100_000, 1.25, 2_000, int(tokens / 1.25))


def attempt(status: Status = "failed") -> Attempt:
    return Attempt("a", None, "r", 0, "p", status, "no model answered", 90_000, 40_000)


def asked(
    tokens: int, demand: Demand = "check", history: History = FRESH, *, least: int = 10_000, to: int | None = None,
    limits: Limits | None = LIMITS,
) -> Decision:  # fmt: skip
    return decide(reading(tokens), limits, demand, history, to=to, least=least, minimum_growth=GROWTH)


@pytest.mark.parametrize(
    ("tokens", "act", "need"),
    [(10_000, False, "none"), (70_000, False, "warn"), (84_999, False, "warn"), (85_000, True, "soft"),
     (100_000, True, "soft"), (100_001, True, "hard")],
)  # fmt: skip
def test_a_check_acts_at_the_limits(tokens: int, act: bool, need: str) -> None:  # noqa: FBT001 - a row of a table
    decision = asked(tokens)
    assert (decision.act, decision.need) == (act, need)
    assert decision.target == 40_000
    assert decision.limit == 100_000


def test_a_strict_trigger_does_not_fire_at_its_limit() -> None:
    strict = Limits(soft=85_000, hard=100_000, target=40_000, warn=70_000, at_soft=False)
    assert not asked(85_000, limits=strict).act
    assert asked(85_001, limits=strict).act


def test_the_reason_carries_the_arithmetic() -> None:
    text = asked(90_000).reason
    for number in ("90,000", "85,000", "40,000", "2,000", "1.25", "72,000"):
        assert number in text


@pytest.mark.parametrize("demand", DEMANDS)
def test_an_unknown_window_never_triggers(demand: Demand) -> None:
    decision = asked(10_000_000, demand, limits=None)
    assert not decision.act
    assert "--window" in decision.reason
    unread = decide(reading(0, "unknown"), LIMITS, demand, FRESH, least=0, minimum_growth=GROWTH)
    assert not unread.act


def test_an_explicit_target_needs_no_window_and_no_trigger() -> None:
    decision = asked(9_000, "manual", to=2_000, limits=None, least=500)
    assert (decision.act, decision.target, decision.target_missed) == (True, 2_000, False)
    missed = asked(9_000, "manual", to=2_000, limits=None, least=3_500)
    assert (missed.act, missed.target, missed.target_missed) == (True, 3_500, True)
    small = asked(1_900, "manual", to=2_000, limits=None, least=500)
    assert (small.act, small.status, small.target_missed) == (False, "nothing", False)


@pytest.mark.parametrize("demand", DEMANDS)
def test_nothing_is_done_twice_when_nothing_followed(demand: Demand) -> None:
    history = History(messages_since=0, grown=0, same=True)
    assert asked(150_000, demand, history).status == "nothing"
    assert asked(150_000, demand, history, to=10_000).status == "nothing"
    assert asked(150_000, "manual", History(messages_since=1, grown=10, same=True)).act
    assert asked(150_000, "manual", History(messages_since=0, grown=0)).act, "another policy, target or demand"


def test_a_request_by_a_person_acts_below_the_trigger_but_not_below_the_target() -> None:
    assert asked(50_000, "manual").act
    assert asked(40_000, "manual").status == "nothing"


def test_the_least_above_the_limit_is_said_once_with_the_arithmetic() -> None:
    first = asked(120_000, least=104_000)
    assert (first.act, first.status, first.known) == (False, "unsatisfiable", False)
    assert re.search(r"100,000.*104,000.*4,000 too many.*120,000", first.reason)
    said = History(messages_since=60, grown=9_000, attempts=(attempt("unsatisfiable"),))
    assert asked(125_000, history=said, least=104_000).known
    assert asked(125_000, "overflow", said, least=104_000).known
    assert not asked(125_000, "manual", said, least=104_000).known, "a person who asks is told again"


def test_the_least_between_target_and_limit_is_aimed_at_and_said() -> None:
    decision = asked(90_000, least=60_000)
    assert (decision.act, decision.target, decision.target_missed) == (True, 60_000, True)
    assert "least" in decision.reason


def test_a_view_that_is_all_least_is_left_alone() -> None:
    decision = asked(90_000, least=90_000)
    assert (decision.act, decision.status, decision.target_missed) == (False, "nothing", True)


def tried(count: int, grown: int) -> History:
    return History(messages_since=60, grown=grown, attempts=(attempt(),) * count)


def test_no_second_attempt_unless_the_path_grew() -> None:
    assert not asked(90_000, history=tried(1, 0)).act
    assert "no model answered" in asked(90_000, history=tried(1, 0)).reason
    assert asked(90_000, history=tried(1, 1)).act


def test_two_fruitless_attempts_open_the_breaker_until_the_minimum_growth() -> None:
    assert not asked(90_000, history=tried(2, GROWTH - 1)).act
    assert asked(90_000, history=tried(2, GROWTH)).act
    assert not asked(90_000, history=tried(3, GROWTH - 1)).act


def test_the_hard_limit_overrides_the_guards_but_not_a_third_try_on_the_same_path() -> None:
    assert asked(100_001, history=tried(1, 0)).act
    assert asked(100_001, history=tried(2, 1)).act
    assert not asked(100_001, history=tried(2, 0)).act
    assert asked(90_000, "overflow", tried(2, 1)).act


def test_after_an_undo_soft_triggers_stay_off_until_growth_or_overflow() -> None:
    undone = History(messages_since=3, grown=GROWTH - 1, retracted=True)
    assert not asked(90_000, history=undone).act
    assert "undone" in asked(90_000, history=undone).reason
    assert not asked(90_000, "tool", undone).act
    assert asked(100_001, history=undone).act
    assert asked(90_000, "overflow", undone).act
    assert asked(90_000, "manual", undone).act
    assert asked(90_000, history=History(messages_since=9, grown=GROWTH, retracted=True)).act


def test_after_a_block_soft_triggers_wait_for_growth() -> None:
    assert not asked(86_000, history=History(messages_since=1, grown=100)).act
    assert asked(86_000, history=History(messages_since=9, grown=GROWTH)).act


def test_an_overflow_below_our_reading_aims_lower_by_as_much_as_it_was_off() -> None:
    assert asked(80_000, "overflow").target == 32_000
    assert asked(30_000, "overflow").act
    assert asked(120_000, "overflow").target == 40_000
    assert asked(80_000, "overflow").need == "hard"


histories = st.builds(
    History,
    messages_since=st.integers(0, 5),
    grown=st.none() | st.integers(0, 20_000),
    attempts=st.lists(st.sampled_from([attempt(s) for s in STATUSES]), max_size=4).map(tuple),
    retracted=st.booleans(),
    same=st.booleans(),
)  # fmt: skip


@given(
    st.integers(0, 300_000), st.sampled_from(DEMANDS), histories, st.integers(0, 300_000),
    st.none() | st.integers(1, 300_000), st.integers(1_000, 400_000),
)  # fmt: skip
def test_a_decision_is_consistent(
    tokens: int, demand: Demand, history: History, least: int, to: int | None, window: int
) -> None:
    limits = Fill().limits(window, output_reserve=window // 10, floor=0)
    decision = asked(tokens, demand, history, least=least, to=to, limits=limits)
    assert decision.reason
    if decision.act:
        assert max(least, 1) <= max(decision.target, 1) < tokens
        assert decision.status == ""
        assert decision.need in ("soft", "hard")
        assert least <= limits.hard
        assert not (history.same and history.messages_since == 0)
    if decision.status == "unsatisfiable":
        assert least > limits.hard
    more = History(history.messages_since, (history.grown or 0) + 20_000, history.attempts, history.retracted)
    if decision.act and history.grown is not None:
        assert asked(tokens, demand, more, least=least, to=to, limits=limits).act, "growth never forbids"


@given(st.integers(0, 200_000), st.integers(0, 50_000), histories)
def test_a_fuller_view_is_never_less_in_need(tokens: int, more: int, history: History) -> None:
    order = ["none", "warn", "soft", "hard"]
    low, high = asked(tokens, history=history), asked(tokens + more, history=history)
    assert order.index(low.need) <= order.index(high.need)


def test_a_loop_of_checks_on_one_path_makes_at_most_two_attempts() -> None:
    """What the published loop test did four times of five: a limit that no compaction can reach."""
    history, calls, said = FRESH, 0, 0
    for _ in range(50):
        decision = asked(120_000, history=history, least=99_000)
        calls += decision.act
        if decision.act:
            history = History(messages_since=50, grown=0, attempts=(*history.attempts, attempt("nothing")))
        unsatisfiable = asked(120_000, history=history, least=101_000)
        said += unsatisfiable.status == "unsatisfiable" and not unsatisfiable.known
        if not unsatisfiable.known:
            history = History(history.messages_since, history.grown, (*history.attempts, attempt("unsatisfiable")))
    assert calls <= 2
    assert said == 1
