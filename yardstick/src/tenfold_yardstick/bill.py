"""Computes what the requests of a session cost: cached, newly cached and uncached input tokens, and output tokens.

The prices are the list prices of the package `genai-prices`, which ships them as data. Some providers charge extra for
writing to the cache (Anthropic: 1.25 times the input price), others do not (OpenAI). Some charge more for all tokens of
a long request. Tokens are counted with the one counter that all measures share, not with the provider's own.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from tenfold.errors import UsageError
from tenfold.models.prices import Prices, find_prices, find_rate
from tenfold_yardstick.tables import Table

DEFAULT_PRICE_LISTS = ("anthropic:claude-sonnet-4-5", "openai:gpt-5")
"""The price lists used when none is named: one with a surcharge for cache writes, and one without."""
MIN_CACHEABLE_TOKENS = 1_024
"""The smallest prefix that is cached, in tokens: the minimum of OpenAI's and of most of Anthropic's models."""
_MILLION = 1_000_000


def get_prices(name: str) -> Prices:
    """Returns the list prices of `PROVIDER:MODEL`. Raises `UsageError`, with the next step, if there are none."""
    provider, colon, model = name.partition(":")
    if not (provider and colon and model):
        raise UsageError(f"{name!r} names no provider: write PROVIDER:MODEL, as in {DEFAULT_PRICE_LISTS[0]}")
    found = find_prices(name)
    if found is None:
        raise UsageError(
            f"no prices are known for {name!r} by input and output tokens: genai-prices lists no such model"
        )
    return found


class RequestTokens(Struct, frozen=True):
    """The tokens that one request sent and received.

    `shared` is the prefix that it shares with the request before. `total` is all that it sent. `new_input` is what the
    conversation gained since the request before. `output` is the answer. The `summary` fields count the tokens of the
    model calls that compacted the conversation before this request.
    """

    shared: int
    total: int
    new_input: int
    output: int
    summary_input: int = 0
    summary_output: int = 0

    @property
    def cache_reads(self) -> int:
        """The tokens read from the cache: the shared prefix, if it is long enough to be cached."""
        return self.shared if self.shared >= MIN_CACHEABLE_TOKENS else 0

    @property
    def cache_writes(self) -> int:
        """The tokens added to the cache: all after the cached prefix, if the request is long enough."""
        return self.total - self.cache_reads if self.total >= MIN_CACHEABLE_TOKENS else 0

    @property
    def uncached_input(self) -> int:
        """The tokens neither read from the cache nor written to it: those of a request too short to be cached."""
        return self.total - self.cache_reads - self.cache_writes

    @property
    def rewritten_input(self) -> int:
        """The tokens that are not new but have to be sent as if they were, because something before them changed."""
        return max(0, self.total - self.shared - self.new_input)


class Bill(Struct, frozen=True):
    """What the requests of a session cost by one price list, in US dollars."""

    model: str
    cache_reads: float
    cache_writes: float
    uncached_input: float
    output: float
    summaries: float

    @property
    def total(self) -> float:
        """The sum of all items."""
        return self.cache_reads + self.cache_writes + self.uncached_input + self.output + self.summaries


def compute_bill(requests: Iterable[RequestTokens], prices: Prices) -> Bill:
    """Returns the bill of these requests.

    Tokens that a provider caches without a surcharge are listed as uncached input.
    """
    reads = writes = uncached = output = summaries = 0.0
    for one in requests:
        size = one.total
        reads += one.cache_reads * find_rate(prices.read or prices.input, size)
        if prices.write:
            writes += one.cache_writes * find_rate(prices.write, size)
        uncached += (one.uncached_input if prices.write else one.uncached_input + one.cache_writes) * find_rate(
            prices.input, size
        )
        output += one.output * find_rate(prices.output, size)
        summaries += one.summary_input * find_rate(prices.input, one.summary_input)
        summaries += one.summary_output * find_rate(prices.output, one.summary_input)
    return Bill(prices.model, *(each / _MILLION for each in (reads, writes, uncached, output, summaries)))


def build_price_table(lists: Iterable[Prices], source: str) -> Table:
    """Returns a table of the prices, with a row for each tier of each list."""
    rows: list[tuple[str, ...]] = []
    for prices in lists:
        kinds = (prices.input, prices.read or prices.input, prices.write or prices.input, prices.output)
        starts = sorted({tier.above for tiers in kinds for tier in tiers})
        for start in starts:
            size = f"above {start:,}" if start >= 0 else f"up to {starts[1]:,}" if len(starts) > 1 else "any"
            rates = (f"${find_rate(tiers, start + 1):,.4g}" for tiers in kinds)
            rows.append((prices.model, size, *rates))
    columns = ("model", "input of the request", "input", "cached read", "cache write", "output")
    note = "In US dollars for a million tokens. The size of a request's input decides the price of all of it."
    return Table("Prices", columns, rows, f"{note} These are the list prices of {source}." if source else note)
