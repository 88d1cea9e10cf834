"""What a compaction costs and saves in money, and how that moves the limits of a policy.

Every request pays for the whole view again, at the price of cached input. A compaction pays once: what it leaves is
written to the cache anew, and a model may write the summary. Nobody knows how many requests follow. So a compaction is
due when what could be compacted away has cost as much, since the last one, as the compaction would: the rule for
renting or buying (Karlin et al., "Competitive snoopy caching", Algorithmica 3, 1988). It needs no guess of what
follows, and where a conversation grows evenly it comes near the best fixed trigger (tests/trigger/test_economy.py).
"""

from __future__ import annotations

import math

from msgspec import Struct
from msgspec.structs import replace

from tenfold.record.block import Receipt
from tenfold.trigger.limits import Limits

_MILLION = 1_000_000

KEPT_SHARE = 0.10
"""How much of what came since the last compaction a cheaper one leaves, as a share of its tokens: a tenth."""
MIN_CONTENT = 4_000
"""The tokens that it leaves at least, besides system prompt and tools. Below them a summary becomes a list of names."""
NEARLY_DUE_SHARE = 0.5
"""From this share of what a compaction costs on it is prepared ahead, or made at once if the cache has expired."""


class Rates(Struct, frozen=True):
    """The prices of one model, in US dollars for a million tokens, and how many seconds an idle cache lives.

    `cached` is input read from the cache, `write` input that is written to it: the surcharge included where the
    provider has one, else the price of `input`. `lifetime` is None if the provider does not say.
    """

    model: str
    input: float
    cached: float
    write: float
    output: float
    lifetime: int | None = None


class Spending(Struct, frozen=True):
    """What a conversation has sent since its last compaction.

    `kept` is the size of what that compaction left, in tokens of a Reading, 0 if there was none. `sizes` are the tokens
    of each request since. `idle` is how many seconds ago the last one was, None if nobody knows.
    """

    kept: int
    sizes: tuple[int, ...]
    idle: float | None = None


def adjust_limits(
    limits: Limits, tokens: int, floor: int, spending: Spending, rates: Rates, writer: Rates | None = None
) -> Limits:
    """Returns the limits as money moves them: a lower target, and the trigger at the present size if it is due.

    `tokens` is the present size of the view and `floor` what of it cannot be compacted, both in tokens of a Reading.
    `writer` are the prices of the model that writes the summary, None if code does. Nothing is moved upwards, and the
    hard limit stays where it is.
    """
    content, kept = tokens - floor, max(0, spending.kept - floor)
    left = max(MIN_CONTENT, kept + round(KEPT_SHARE * (content - kept)))
    target = floor + left
    if target >= min(limits.target, tokens):
        return limits
    lowered = replace(limits, target=target)
    cost = estimate_rewrite(left, rates)
    if writer is not None:  # it reads what is compacted, and writes what is left at most
        cost += (content * writer.input + left * writer.output) / _MILLION
    paid = sum(max(0, size - target) for size in spending.sizes) * rates.cached / _MILLION
    if paid < NEARLY_DUE_SHARE * cost:
        return lowered
    warned = replace(lowered, warning=min(limits.warning, tokens))
    is_expired = rates.lifetime is not None and spending.idle is not None and spending.idle > rates.lifetime
    if tokens >= limits.soft or (paid < cost and not is_expired):
        return warned
    why = f"keeping what can go has cost ${paid:.4f} since the last compaction, and a compaction costs ${cost:.4f}"
    if is_expired:
        why += ", less now that the provider's cache has expired"
    return replace(warned, soft=tokens, inclusive=True, reason=why)


def estimate_rewrite(tokens: int, rates: Rates) -> float:
    """Returns what it costs, in US dollars, that so many tokens are written to the cache instead of read from it."""
    return tokens * (rates.write - rates.cached) / _MILLION


def build_receipt(before: int, after: int, rewritten: int, rates: Rates, summary_price: float | None) -> Receipt:
    """Builds the receipt of a compaction from `before` to `after` tokens that changes the last `rewritten` of them."""
    return Receipt(
        rates.model,
        rewrite=estimate_rewrite(rewritten, rates),
        summary=summary_price or 0.0,
        saving=(before - after) * rates.cached / _MILLION,
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
