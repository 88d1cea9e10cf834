from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.compaction.trigger.limits import FillTrigger, Limits, Trigger
from tenfold.core.record.token_reading import ProviderTokens
from tenfold.designs.blocks import HeadroomTrigger
from tenfold.designs.clip.policy import BudgetTrigger
from tenfold.designs.tail.cut import ReserveBudgets, ReserveTrigger
from tenfold.designs.threshold.trigger import CalibratedBufferTrigger, get_buffer
from tenfold.errors import UsageError

TIERS = FillTrigger(act_share=0.80, target_share=0.60, warning_share=0.70, output_reserve=16_000)
ALL: tuple[Trigger, ...] = (
    FillTrigger(),
    ReserveTrigger(ReserveBudgets()),
    TIERS,
    HeadroomTrigger(),
    CalibratedBufferTrigger(),
    BudgetTrigger(),
)
triggers = pytest.mark.parametrize("trigger", ALL, ids=lambda t: type(t).__name__)


def compute_limits(trigger: Trigger, window: int, output_reserve: int = 0, floor: int = 0) -> Limits:
    return trigger.get_limits(window, output_reserve=output_reserve, floor=ProviderTokens(floor))


def should_fire(trigger: Trigger, tokens: int, window: int) -> bool:
    return compute_limits(trigger, window).get_need(ProviderTokens(tokens)) in ("soft", "hard")


def test_fill_takes_shares_of_what_the_output_leaves() -> None:
    got = compute_limits(FillTrigger(), 200_000, output_reserve=20_000)
    assert (got.soft, got.hard, got.target, got.warning) == (153_000, 180_000, 72_000, 126_000)
    assert (got.ceiling, got.inclusive, got.note) == (180_000, True, "")
    assert [got.get_need(ProviderTokens(n)) for n in (125_999, 126_000, 152_999, 153_000, 180_000, 180_001)] == [
        "none",
        "warn",
        "warn",
        "soft",
        "soft",
        "hard",
    ]


@pytest.mark.parametrize(("tokens", "fired"), [(95_000, True), (90_001, True), (90_000, False), (89_000, False)])
def test_reserve_is_strict_as_published(tokens: int, fired: bool) -> None:  # noqa: FBT001 - a row of a table
    assert should_fire(ReserveTrigger(ReserveBudgets(reserve_tokens=10_000)), tokens, 100_000) is fired


@pytest.mark.parametrize(("window", "soft", "target"), [(200_000, 147_200, 110_400), (128_000, 89_600, 67_200)])
def test_fraction_has_the_published_sizes(window: int, soft: int, target: int) -> None:
    got = compute_limits(TIERS, window)
    assert (got.soft, got.target) == (soft, target)
    assert should_fire(TIERS, soft, window)
    assert not should_fire(TIERS, soft - 1, window)
    assert compute_limits(TIERS, 200_000).warning == 128_800


@pytest.mark.parametrize("window", [1_000, 8_192, 16_000, 16_001])
def test_fraction_always_leaves_something_available(window: int) -> None:
    got = compute_limits(TIERS, window)
    assert 0 < got.target < got.soft


def test_fraction_keeps_the_larger_reserve() -> None:
    assert compute_limits(TIERS, 200_000, output_reserve=64_000).hard == 136_000
    assert compute_limits(TIERS, 200_000, output_reserve=1_000).hard == 184_000


@pytest.mark.parametrize(("tokens", "fired"), [(80_000, False), (80_999, False), (81_000, True), (82_000, True)])
def test_headroom_fires_where_doubles_do(tokens: int, fired: bool) -> None:  # noqa: FBT001 - a row of a table
    assert should_fire(HeadroomTrigger(), tokens, 100_000) is fired
    assert (0.90 - 4_000 / 100_000 - tokens / 100_000 < 0.05) is fired


def test_headroom_stays_at_exactly_its_threshold() -> None:
    exact = HeadroomTrigger(compact_at=0.75, least_headroom=0.25, system_prompt_tokens=0)
    assert compute_limits(exact, 1_024).soft == 513


def test_headroom_counts_a_known_floor_once() -> None:
    assert compute_limits(HeadroomTrigger(), 100_000, floor=4_000).soft == 85_000
    assert compute_limits(HeadroomTrigger(), 100_000, floor=30_000).soft == pytest.approx(85_000, abs=1)


@pytest.mark.parametrize(
    ("window", "buffer"),
    [(250_000, 20_000), (200_000, 20_000), (199_999, 39_999), (50_000, 10_000), (10_000, 2_000), (8_000, 1_600)],
)
def test_calibrated_buffer_as_published_with_its_cliff(window: int, buffer: int) -> None:
    assert get_buffer(window) == buffer
    assert should_fire(CalibratedBufferTrigger(), window - buffer, window)
    assert not should_fire(CalibratedBufferTrigger(), window - buffer - 1, window)


def test_budget_is_strict_and_takes_the_answer_off() -> None:
    assert not should_fire(BudgetTrigger(), 160_000, 200_000)
    assert should_fire(BudgetTrigger(), 160_001, 200_000)
    assert compute_limits(BudgetTrigger(), 200_000, output_reserve=10_000).soft == 150_000


def test_budget_fires_on_anything_where_nothing_is_left() -> None:
    got = compute_limits(BudgetTrigger(context_budget=0.4), 10_000, output_reserve=9_000)
    assert got.soft == 1
    assert got.get_need(ProviderTokens(2)) == "soft"


@triggers
@pytest.mark.parametrize("window", [8_192, 32_768, 200_000])
@pytest.mark.parametrize("output_reserve", [0, 4_096, 64_000])
@pytest.mark.parametrize("floor", [0, 3_000])
def test_one_compaction_leaves_a_fifth_of_the_window_free(
    trigger: Trigger, window: int, output_reserve: int, floor: int
) -> None:
    got = compute_limits(trigger, window, output_reserve, floor)
    assert window - got.target >= window / 5
    assert got.soft - got.target >= got.soft / 5, "and it does not fire again at once"


@triggers
@given(window=st.integers(1, 10_000_000), output_reserve=st.integers(-5, 10_000_000), floor=st.integers(0, 10_000_000))
def test_limits_are_in_order_for_any_window(trigger: Trigger, window: int, output_reserve: int, floor: int) -> None:
    got = compute_limits(trigger, window, output_reserve, floor)
    assert 1 <= got.soft <= got.hard <= window
    assert 0 <= got.warning <= got.soft
    assert 1 <= got.target <= max(1, got.soft * 4 // 5)


@triggers
@given(window=st.integers(1_000, 2_000_000), more=st.integers(0, 100_000), floor=st.integers(0, 500))
def test_a_larger_window_never_fires_earlier(trigger: Trigger, window: int, more: int, floor: int) -> None:
    assert compute_limits(trigger, window, 0, floor).soft <= compute_limits(trigger, window + more, 0, floor).soft


@given(st.integers(0, 300_000), st.integers(0, 300_000))
def test_need_grows_with_the_view(one: int, other: int) -> None:
    order = ["none", "warn", "soft", "hard"]
    for trigger in ALL:
        got = compute_limits(trigger, 200_000, 8_000)
        low, high = sorted((one, other))
        assert order.index(got.get_need(ProviderTokens(low))) <= order.index(got.get_need(ProviderTokens(high)))


@triggers
@pytest.mark.parametrize("window", [0, -8_192])
def test_a_window_that_holds_nothing_is_the_callers_error(trigger: Trigger, window: int) -> None:
    with pytest.raises(UsageError, match=f"a window of {window} tokens"):
        compute_limits(trigger, window)
