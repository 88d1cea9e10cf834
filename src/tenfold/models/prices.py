"""Looks up what a model costs: list prices from the package `genai-prices`, which ships them as data, without network.

Some providers charge extra for writing to the cache (Anthropic: 1.25 times the input price), others do not (OpenAI).
Some charge more for all tokens of a long request. The package is part of the extra `tenfold[models]`.
"""

from __future__ import annotations

from decimal import Decimal
from importlib.metadata import version
from typing import TYPE_CHECKING

from msgspec import Struct

from tenfold.compaction.trigger.economy import Rates
from tenfold.core.text.memoize import memoize_short
from tenfold.errors import UsageError

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice, TieredPrices

DEFAULT_PRICE_LISTS = ("anthropic:claude-sonnet-4-5", "openai:gpt-5")
"""The price lists used when none is named: one with a surcharge for cache writes, and one without."""


class Tier(Struct, frozen=True):
    """The price of a million tokens, in US dollars, in a request with more than `above` input tokens."""

    above: int
    dollars: float


class Prices(Struct, frozen=True):
    """The price list of a model: for each kind of token its tiers, lowest first.

    An empty `write` means no surcharge.
    """

    model: str
    input: tuple[Tier, ...]
    read: tuple[Tier, ...]
    write: tuple[Tier, ...]
    output: tuple[Tier, ...]


def get_prices(name: str) -> Prices:
    """Returns the list prices of `PROVIDER:MODEL`. Raises `UsageError`, with the next step, if there are none."""
    provider, colon, model = name.partition(":")
    if not (provider and colon and model):
        raise UsageError(f"{name!r} names no provider: write PROVIDER:MODEL, as in {DEFAULT_PRICE_LISTS[0]}")
    try:
        from genai_prices import Usage, calc_price  # noqa: PLC0415 - an optional package, and slow to load
    except ImportError as exc:
        raise UsageError("prices need the package genai-prices: pip install 'tenfold[models]'") from exc
    try:
        found = calc_price(Usage(input_tokens=1), model, provider_id=provider).model_price
    except LookupError as exc:
        raise UsageError(f"no prices are known for {name!r}: genai-prices lists no such model ({exc})") from exc
    return _parse_prices(name, found)


def describe_price_source() -> str:
    """Names the package that the list prices come from, with its version."""
    return f"genai-prices {version('genai-prices')}"


@memoize_short(64)
def find_rates(model: str) -> Rates | None:
    """Returns the prices of a model as a policy needs them, None if they are not known or the package is missing.

    `model` is its name, with or without the provider: `anthropic:claude-sonnet-4-5` or `claude-sonnet-4-5`. The prices
    are those of a short request.
    """
    try:
        from genai_prices import Usage, calc_price  # noqa: PLC0415 - an optional package, and slow to load
    except ImportError:
        return None
    provider, colon, name = model.rpartition(":")
    try:
        found = calc_price(Usage(input_tokens=1), name, provider_id=provider if colon else None)
        prices = _parse_prices(model, found.model_price)
    except (LookupError, UsageError):
        return None
    rate = prices.input[0].dollars
    cached, write, output = ((tiers or prices.input)[0].dollars for tiers in (prices.read, prices.write, prices.output))
    return Rates(name, rate, cached, write, output)


def _parse_prices(name: str, model_price: ModelPrice) -> Prices:
    lists = {
        "input": _parse_tiers(model_price.input_mtok),
        "read": _parse_tiers(model_price.cache_read_mtok),
        "write": _parse_tiers(model_price.cache_write_mtok),
        "output": _parse_tiers(model_price.output_mtok),
    }
    if not lists["input"] or not lists["output"]:
        raise UsageError(f"{name!r} is not charged by input and output tokens: choose another model's prices")
    return Prices(name, **lists)


def _parse_tiers(price: Decimal | TieredPrices | None) -> tuple[Tier, ...]:
    if price is None:
        return ()
    if isinstance(price, Decimal):
        return (Tier(-1, float(price)),)
    return (Tier(-1, float(price.base)), *(Tier(tier.start, float(tier.price)) for tier in price.tiers))


def find_rate(tiers: tuple[Tier, ...], size: int) -> float:
    """Returns the dollars per million tokens for a request of this size.

    The highest tier it reaches applies to all of it.
    """
    return next(tier.dollars for tier in reversed(tiers) if size > tier.above)
