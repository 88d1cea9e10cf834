"""Looks up what a model costs: list prices from the package `genai-prices`, which ships them as data, without network.

Some providers charge extra for writing to the cache (Anthropic: 1.25 times the input price), others do not (OpenAI).
Some charge more for all tokens of a long request. The package is part of the extra `tenfold[models]`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from importlib.metadata import version
from typing import TYPE_CHECKING

from msgspec import Struct

from tenfold.compaction.trigger.economy import Rates
from tenfold.core.text.memoize import memoize_short

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

_MILLION = 1_000_000


class TokenUse(Struct, frozen=True):
    """The tokens of one or several requests as a provider bills them: the input by what the cache did, and the answer.

    `cached` was read from the cache, `written` was written to it, and `uncached` is all other input.
    """

    uncached: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0

    @property
    def input(self) -> int:
        """All tokens that were sent."""
        return self.uncached + self.cached + self.written

    def __add__(self, other: TokenUse) -> TokenUse:
        return TokenUse(
            self.uncached + other.uncached,
            self.cached + other.cached,
            self.written + other.written,
            self.output + other.output,
        )


class Dollars(Struct, frozen=True):
    """What requests cost in US dollars: their input, whatever the cache did, and their answers."""

    input: float = 0.0
    output: float = 0.0

    @property
    def total(self) -> float:
        """Both together."""
        return self.input + self.output

    def __add__(self, other: Dollars) -> Dollars:
        return Dollars(self.input + other.input, self.output + other.output)


class Tier(Struct, frozen=True):
    """The price of a million tokens, in US dollars, in a request with more than `above` input tokens."""

    above: int
    dollars: float


class Prices(Struct, frozen=True):
    """The price list of a model: for each kind of token its tiers, lowest first.

    An empty `write` means no surcharge. `source` names the package and its version, and `since` is the day from which
    on these prices hold, "" where the package does not say it.
    """

    model: str
    input: tuple[Tier, ...]
    read: tuple[Tier, ...]
    write: tuple[Tier, ...]
    output: tuple[Tier, ...]
    source: str = ""
    since: str = ""

    def compute_dollars(self, use: TokenUse) -> Dollars:
        """Computes what one request costs. Its size decides which tier applies to all of it."""
        size = use.input
        paid = (
            use.uncached * find_rate(self.input, size)
            + use.cached * find_rate(self.read or self.input, size)
            + use.written * find_rate(self.write or self.input, size)
        )
        return Dollars(paid / _MILLION, use.output * find_rate(self.output, size) / _MILLION)


def find_rate(tiers: tuple[Tier, ...], size: int) -> float:
    """Returns the dollars per million tokens for a request of this size.

    The highest tier it reaches applies to all of it.
    """
    return next(tier.dollars for tier in reversed(tiers) if size > tier.above)


@memoize_short(256)
def find_prices(model: str, day: str = "") -> Prices | None:
    """Returns the list prices of a model on a day (`2026-11-30`, "" for today), None if they are not known.

    `model` is its name, with or without the provider: `anthropic:claude-sonnet-4-5` or `claude-sonnet-4-5`.
    """
    try:
        from genai_prices import Usage, calc_price  # noqa: PLC0415 - an optional package, and slow to load
    except ImportError:
        return None
    provider, colon, name = model.rpartition(":")
    when = datetime.fromisoformat(day).replace(tzinfo=UTC) if day else datetime.now(UTC)
    try:
        found = calc_price(
            Usage(input_tokens=1), name, provider_id=provider if colon else None, genai_request_timestamp=when
        )
    except LookupError:
        return None
    price = found.model_price
    if price.input_mtok is None or price.output_mtok is None:
        return None
    return Prices(
        model,
        _parse_tiers(price.input_mtok),
        _parse_tiers(price.cache_read_mtok),
        _parse_tiers(price.cache_write_mtok),
        _parse_tiers(price.output_mtok),
        describe_price_source(),
        _find_start(found.model, price),
    )


def _parse_tiers(price: Decimal | TieredPrices | None) -> tuple[Tier, ...]:
    if price is None:
        return ()
    if isinstance(price, Decimal):
        return (Tier(-1, float(price)),)
    return (Tier(-1, float(price.base)), *(Tier(tier.start, float(tier.price)) for tier in price.tiers))


def get_base_price(price: Decimal | TieredPrices) -> float:
    """Returns the price for a short request."""
    return float(price if isinstance(price, Decimal) else price.base)


def _find_start(model: ModelInfo, price: ModelPrice) -> str:
    """Finds the day from which on a price of a model holds, "" where it always did as far as the package knows."""
    conditional = model.prices if isinstance(model.prices, list) else []
    own = next((each for each in conditional if each.prices == price), None)
    start = getattr(own.constraint, "start_date", None) if own is not None else None
    return "" if start is None else str(start)


def describe_price_source() -> str:
    """Names the package that the list prices come from, with its version."""
    return f"genai-prices {version('genai-prices')}"


def find_rates(model: str) -> Rates | None:
    """Returns the prices of a model as a receipt needs them, None if they are not known or the package is missing.

    They are those of a short request. For `model` see `find_prices`.
    """
    prices = find_prices(model)
    if prices is None:
        return None
    lists = (prices.input, prices.read or prices.input, prices.write or prices.input, prices.output)
    return Rates(model.rpartition(":")[2], *(find_rate(tiers, 1) for tiers in lists))
