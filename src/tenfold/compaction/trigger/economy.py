"""What a compaction costs and saves in money. It is shown, and decides nothing.

Every request pays for the whole view again, at the price of cached input. A compaction pays once: what it leaves is
written to the cache anew, and a model may write the summary.
"""

from __future__ import annotations

import math

from msgspec import Struct

from tenfold.core.record.block import Receipt
from tenfold.core.record.token_reading import ProviderTokens

_MILLION = 1_000_000


class Rates(Struct, frozen=True):
    """The prices of one model, in US dollars for a million tokens.

    `cached` is input read from the cache, `write` input that is written to it: the surcharge included where the
    provider has one, else the price of `input`.
    """

    model: str
    input: float
    cached: float
    write: float
    output: float


def estimate_rewrite(tokens: ProviderTokens, rates: Rates) -> float:
    """Returns what it costs, in US dollars, that so many tokens are written to the cache instead of read from it."""
    return tokens * (rates.write - rates.cached) / _MILLION


def build_receipt(
    saved: ProviderTokens, rewritten: ProviderTokens, rates: Rates, summary_price: float | None
) -> Receipt:
    """Builds the receipt of a compaction that takes `saved` tokens out of each request and changes `rewritten` more."""
    return Receipt(
        rates.model,
        rewrite=estimate_rewrite(rewritten, rates),
        summary=summary_price or 0.0,
        saving=saved * rates.cached / _MILLION,
    )


def explain_receipt(receipt: Receipt, requests: int | None = None) -> str:
    """Says in a line what a compaction costs and saves, and after `requests` that followed it what it has saved."""
    cost = receipt.rewrite + receipt.summary
    summary = f", ${receipt.summary:.4f} of it for the summary" if receipt.summary else ""
    text = f"costs ${cost:.4f}{summary}, saves ${receipt.saving:.4f} with each request by the prices of {receipt.model}"
    if receipt.saving > 0:
        count = math.ceil(cost / receipt.saving)
        text += f": paid after {count:,} request{'' if count == 1 else 's'}"
    if requests is not None:
        saved = requests * receipt.saving - cost
        text += f"; {requests:,} so far, {'-' if saved < 0 else '+'}${abs(saved):.4f}"
    return text
