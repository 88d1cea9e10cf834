"""Bills: held against what genai-prices charges for each request, and against sums done by hand."""

from __future__ import annotations

from importlib.metadata import version
from itertools import product

import pytest
from genai_prices import Usage, calc_price

from tenfold.errors import UsageError
from tenfold.models.prices import Prices, Tier, describe_price_source
from tenfold_yardstick.bill import (
    DEFAULT_PRICE_LISTS,
    MIN_CACHEABLE_TOKENS,
    RequestTokens,
    build_price_table,
    compute_bill,
    get_prices,
)

FLAT = Prices("made:up", (Tier(-1, 10.0),), (Tier(-1, 1.0),), (Tier(-1, 12.5),), (Tier(-1, 50.0),))


def make_requests() -> list[RequestTokens]:
    sizes = (500, 1_030, 90_000, 199_999, 200_000, 200_001, 350_000)
    return [RequestTokens(int(t * share), t, 0, t % 977) for t, share in product(sizes, (0.0, 0.3, 0.99, 1.0))]


@pytest.mark.parametrize(
    "name", [*DEFAULT_PRICE_LISTS, "openai:gpt-4o", "anthropic:claude-3-5-sonnet-20241022", "google:gemini-2.5-pro"]
)
def test_a_bill_is_the_sum_of_what_the_price_list_asks_for_each_request(name: str) -> None:
    provider, _, model = name.partition(":")
    requests = make_requests()
    surcharge = bool(get_prices(name).write)
    total = 0.0
    for one in requests:
        usage = Usage(
            input_tokens=one.total,
            cache_read_tokens=one.cache_reads,
            cache_write_tokens=one.cache_writes if surcharge else 0,
            output_tokens=one.output,
        )
        total += float(calc_price(usage, model, provider_id=provider).total_price)
    assert compute_bill(requests, get_prices(name)).total == pytest.approx(total, rel=1e-9)


def test_one_list_of_the_two_charges_for_writing_to_the_cache() -> None:
    assert [bool(get_prices(name).write) for name in DEFAULT_PRICE_LISTS] == [True, False]


def test_a_long_request_is_dearer_where_the_list_says_so() -> None:
    prices = get_prices(DEFAULT_PRICE_LISTS[0])
    small, large = (compute_bill([RequestTokens(0, size, 0, 0)], prices).total / size for size in (200_000, 200_001))
    assert large == pytest.approx(2 * small)


def test_each_kind_of_token_has_its_price() -> None:
    bill = compute_bill([RequestTokens(40_000, 100_000, 60_000, 1_000, summary_input=20_000, summary_output=500)], FLAT)
    assert bill.cache_reads == pytest.approx(0.04)
    assert bill.cache_writes == pytest.approx(0.75)
    assert bill.uncached_input == 0
    assert bill.output == pytest.approx(0.05)
    assert bill.summaries == pytest.approx(0.2 + 0.025)
    assert bill.total == pytest.approx(0.04 + 0.75 + 0.05 + 0.225)


def test_the_prices_are_told_with_their_tiers_and_whose_they_are() -> None:
    tiered = Prices("made:tiers", (Tier(-1, 3.0), Tier(200_000, 6.0)), (Tier(-1, 0.3),), (), (Tier(-1, 15.0),))
    found = build_price_table([FLAT, tiered], describe_price_source())
    assert found.rows == [
        ("made:up", "any", "$10", "$1", "$12.5", "$50"),
        ("made:tiers", "up to 200,000", "$3", "$0.3", "$3", "$15"),
        ("made:tiers", "above 200,000", "$6", "$0.3", "$6", "$15"),
    ]
    assert found.note.endswith(f"list prices of genai-prices {version('genai-prices')}.")
    assert "list prices" not in build_price_table([FLAT], "").note


def test_a_beginning_too_short_is_not_read_from_the_cache() -> None:
    short, enough = (
        RequestTokens(MIN_CACHEABLE_TOKENS - 1, 5_000, 0, 0),
        RequestTokens(MIN_CACHEABLE_TOKENS, 5_000, 0, 0),
    )
    assert (short.cache_reads, short.cache_writes, short.uncached_input) == (0, 5_000, 0)
    assert (enough.cache_reads, enough.cache_writes, enough.uncached_input) == (
        MIN_CACHEABLE_TOKENS,
        5_000 - MIN_CACHEABLE_TOKENS,
        0,
    )
    tiny = RequestTokens(900, MIN_CACHEABLE_TOKENS - 1, 0, 0)
    assert (tiny.cache_reads, tiny.cache_writes, tiny.uncached_input) == (0, 0, MIN_CACHEABLE_TOKENS - 1)


def test_what_is_not_new_and_not_the_same_is_rewritten() -> None:
    assert RequestTokens(shared=6_000, total=50_000, new_input=4_000, output=0).rewritten_input == 40_000
    assert RequestTokens(shared=46_000, total=50_000, new_input=4_000, output=0).rewritten_input == 0
    assert RequestTokens(shared=6_000, total=9_000, new_input=40_000, output=0).rewritten_input == 0


@pytest.mark.parametrize(
    ("name", "says"),
    [("gpt-5", "PROVIDER:MODEL"), ("openai:no-such-model", "lists no such model"), ("nobody:x", "no prices are known")],
)
def test_prices_that_are_not_known_are_an_error_with_the_next_step(name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        get_prices(name)
