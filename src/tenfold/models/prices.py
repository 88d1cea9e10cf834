"""Looks up what a model costs: list prices from the package `genai-prices`, which ships them as data, without network.

Some providers charge extra for writing to the cache (Anthropic: 1.25 times the input price), others do not (OpenAI).
The package is part of the extra `tenfold[models]`.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from tenfold.compaction.trigger.economy import Rates
from tenfold.core.text.memoize import memoize_short

if TYPE_CHECKING:
    from genai_prices.types import TieredPrices


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
        found = calc_price(Usage(input_tokens=1), name, provider_id=provider if colon else None).model_price
    except LookupError:
        return None
    rate, output = found.input_mtok, found.output_mtok
    if rate is None or output is None:
        return None
    cached, write = (rate if price is None else price for price in (found.cache_read_mtok, found.cache_write_mtok))
    return Rates(name, *map(get_base_price, (rate, cached, write, output)))


def get_base_price(price: Decimal | TieredPrices) -> float:
    """Returns the price for a short request."""
    return float(price if isinstance(price, Decimal) else price.base)
