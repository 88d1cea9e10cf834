"""The money of compactions: when one is due, how deep it goes, and what its receipt says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.config.settings import build_policy
from tenfold.llm.prices import CACHE_LIFETIMES, find_rates
from tenfold.meter.counters import CharacterCounter
from tenfold.record.message import Message, Text
from tenfold.session import Session, SessionAddress
from tenfold.store.sqlite import SqliteStore
from tenfold.trigger.economy import (
    KEPT_SHARE,
    MIN_CONTENT,
    Rates,
    Spending,
    adjust_limits,
    build_receipt,
    estimate_rewrite,
    explain_receipt,
)
from tenfold.trigger.limits import FillTrigger

RATES = Rates("dear-1", input=3.0, cached=0.3, write=3.75, output=15.0, lifetime=300)
FLOOR = 6_000
LIMITS = FillTrigger().get_limits(200_000, output_reserve=0, floor=FLOOR)


def play(growth: int, requests: int, rates: Rates, *, floor: int = FLOOR) -> tuple[float, list[int]]:
    """Plays a conversation that grows evenly; returns its bill for input, and the sizes at which it was compacted."""
    size, kept, bill = floor, 0, 0.0
    sizes: list[int] = []
    compacted: list[int] = []
    for _ in range(requests):
        size += growth
        moved = adjust_limits(LIMITS, size, floor, Spending(kept, tuple(sizes)), rates)
        bill += growth * rates.write
        if moved.get_need(size) in ("soft", "hard"):
            compacted.append(size)
            size = kept = moved.target
            bill += (size - floor) * (rates.write - rates.cached)
            sizes = []
        bill += size * rates.cached
        sizes.append(size)
    return bill / 1e6, compacted


def play_fixed(growth: int, requests: int, at: int, kept_share: float) -> float:
    """The same conversation, compacted always at one size, to what the rule would leave of it."""
    size, kept, bill = FLOOR, FLOOR, 0.0
    for _ in range(requests):
        size += growth
        bill += growth * RATES.write
        if size >= at:
            kept = FLOOR + max(MIN_CONTENT, kept - FLOOR + round(kept_share * (size - kept)))
            size = kept
            bill += (size - FLOOR) * (RATES.write - RATES.cached)
        bill += size * RATES.cached
    return bill / 1e6


def test_a_conversation_that_grows_evenly_costs_little_more_than_at_the_best_fixed_trigger() -> None:
    ours, compacted = play(600, 300, RATES)
    best = min(play_fixed(600, 300, at, KEPT_SHARE) for at in range(16_000, 170_000, 2_000))
    never = play_fixed(600, 300, 10**9, KEPT_SHARE)
    assert len(compacted) > 3
    assert ours <= 1.15 * best, f"{ours:.3f} against {best:.3f} at the best trigger"
    assert ours <= 0.5 * never, f"{ours:.3f} against {never:.3f} without a compaction"


def test_without_a_surcharge_for_cache_writes_it_acts_more_often() -> None:
    cheap = Rates("cheap-1", input=3.0, cached=0.3, write=3.0, output=15.0)
    assert len(play(600, 300, cheap)[1]) >= len(play(600, 300, RATES)[1])


def test_where_cached_input_costs_as_much_as_new_input_the_cache_holds_nothing_back() -> None:
    uncached = Rates("plain-1", input=1.0, cached=1.0, write=1.0, output=2.0)
    _, compacted = play(2_000, 30, uncached)
    assert compacted
    assert compacted[0] < FLOOR + 4 * MIN_CONTENT


@given(
    tokens=st.integers(1, 300_000),
    floor=st.integers(0, 50_000),
    kept=st.integers(0, 100_000),
    sizes=st.lists(st.integers(0, 300_000), max_size=30),
    idle=st.none() | st.floats(0, 1e6),
    prices=st.tuples(*[st.floats(0, 100)] * 4),
)
def test_money_moves_limits_only_downwards_and_never_the_hard_one(
    tokens: int, floor: int, kept: int, sizes: list[int], idle: float | None, prices: tuple[float, ...]
) -> None:
    low, mid, high, out = sorted(prices)
    rates = Rates("any", mid, low, high, out, 300)
    moved = adjust_limits(LIMITS, tokens, floor, Spending(kept, tuple(sizes), idle), rates)
    assert moved.hard == LIMITS.hard
    assert moved.target <= LIMITS.target
    assert moved.warning <= LIMITS.warning
    assert moved.soft <= LIMITS.soft
    assert moved.target == LIMITS.target or moved.target >= floor + MIN_CONTENT
    if moved.soft < LIMITS.soft:
        assert moved.soft == tokens
        assert moved.target < tokens
        assert "$" in moved.reason


def test_an_expired_cache_brings_a_compaction_forward_that_is_nearly_due() -> None:
    sizes = (20_000,) * 3
    warm = adjust_limits(LIMITS, 24_000, FLOOR, Spending(0, sizes, 10.0), RATES)
    expired = adjust_limits(LIMITS, 24_000, FLOOR, Spending(0, sizes, 301.0), RATES)
    assert warm.get_need(24_000) == "warn"
    assert expired.get_need(24_000) == "soft"
    assert "expired" in expired.reason
    early = adjust_limits(LIMITS, 24_000, FLOOR, Spending(0, (20_000,), 301.0), RATES)
    assert early.get_need(24_000) == "none", "after one request there is no hurry"


def test_a_model_that_writes_the_summary_has_to_be_paid_for_too() -> None:
    spending = Spending(0, (20_000,) * 6)
    assert adjust_limits(LIMITS, 24_000, FLOOR, spending, RATES).get_need(24_000) == "soft"
    assert adjust_limits(LIMITS, 24_000, FLOOR, spending, RATES, RATES).get_need(24_000) == "none"
    cheap = Rates("cheap", input=0.1, cached=0.01, write=0.1, output=0.4)
    assert adjust_limits(LIMITS, 24_000, FLOOR, spending, RATES, cheap).get_need(24_000) == "soft"


def test_a_receipt_says_when_a_compaction_has_paid_for_itself() -> None:
    receipt = build_receipt(50_000, 10_000, 10_000, RATES, 0.02)
    assert receipt.saving == pytest.approx(40_000 * 0.3e-6)
    assert receipt.rewrite == pytest.approx(10_000 * 3.45e-6) == estimate_rewrite(10_000, RATES)
    text = explain_receipt(receipt, 10)
    assert text == (
        "costs $0.0545, $0.0200 of it for the summary, saves $0.0120 with each request by the prices of dear-1: "
        "paid after 5 requests; 10 so far, +$0.0655"
    )
    assert explain_receipt(receipt, 1).endswith("1 so far, -$0.0425")


def test_prices_and_lifetimes_come_from_the_providers_lists() -> None:
    found = find_rates("anthropic:claude-sonnet-4-5")
    assert found is not None
    assert (found.cached, found.input, found.write) == (0.3, 3.0, 3.75)
    assert found.lifetime == CACHE_LIFETIMES["anthropic"]
    plain = find_rates("gpt-5")
    assert plain is not None
    assert plain.write == plain.input > plain.cached
    assert find_rates("nobody:knows-this") is None
    assert find_rates("") is None


def fill(model: str, messages: int) -> Session:
    policy = build_policy("tenfold", CharacterCounter())
    session = Session.create(SessionAddress(SqliteStore(":memory:"), "s"), policy, model=model)
    for number in range(messages):
        session.append(Message("user", (Text(f"{number} " + "please look at the next part of it. " * 60),), "human"))
        check = session.build_call(window=400_000)
        if session.is_check_due(check):
            session.compact(check)
        session.append(Message("assistant", (Text(f"{number} " + "it is as it was before. " * 60),), "model"))
    return session


def test_a_session_whose_model_has_a_price_is_compacted_early_and_keeps_the_receipt() -> None:
    session = fill("claude-sonnet-4-5", 60)
    block = session.view.find_newest_block()
    assert block is not None, "60 exchanges are far below 85 % of the window"
    assert block.receipt is not None
    assert block.receipt.model == "claude-sonnet-4-5"
    assert block.receipt.saving > 0
    assert block.tokens_after < block.tokens_before / 2


def test_without_a_known_price_nothing_changes() -> None:
    session = fill("a-model-of-my-own", 60)
    assert session.view.find_newest_block() is None


def test_another_policy_does_not_follow_prices() -> None:
    policy = build_policy("tail", CharacterCounter())
    session = Session.create(SessionAddress(SqliteStore(":memory:"), "s"), policy, model="claude-sonnet-4-5")
    for _ in range(60):
        session.append(Message("user", (Text("please look at the next part of it. " * 60),), "human"))
        session.append(Message("assistant", (Text("it is as it was before. " * 60),), "model"))
    assert session.compact(session.build_call(window=400_000)).status == "nothing"


def test_limits_are_unchanged_where_little_could_go() -> None:
    assert adjust_limits(LIMITS, FLOOR + MIN_CONTENT, FLOOR, Spending(0, (FLOOR,) * 1_000), RATES) == LIMITS
