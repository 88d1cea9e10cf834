"""Says a bill in words: amounts, shares with their denominators, prices with their dates, and why something cost more.

The command line and the pages show the same sentences.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from msgspec.structs import asdict

from tenfold.core.record.token_reading import format_thousands
from tenfold.core.text.terminal_safe import to_one_line
from tenfold.errors import UsageError
from tenfold.models.choose import has_price_data
from tenfold.models.prices import Prices, find_rate
from tenfold.session.ledger import SHARE_NAMES, Bill, BillLine
from tenfold.store.retention import parse_age

_LEAST_CENTS = 0.995
"""From so many dollars on, cents are exact enough; below, four digits are shown."""

_MINUTE_OR_MONTH = re.compile(r"([1-9]\d{0,5})\s*(min|mo|m)")


def parse_start(text: str) -> int | None:
    """Parses an age or a day to microseconds UTC. None for "". Raises `UsageError` for anything else.

    `min` is a minute and `mo` a month. `m` is refused: it is a minute in a list of sessions, and elsewhere a month.
    """
    if not text:
        return None
    matched = _MINUTE_OR_MONTH.fullmatch(text.strip().lower())
    if matched and matched[2] == "m":
        raise UsageError(
            f"since is {text!r}, and m may be a minute or a month: write {matched[1]}min or {matched[1]}mo"
        )
    if matched and matched[2] == "min":
        return int((datetime.now(UTC) - timedelta(minutes=int(matched[1]))).timestamp() * 1e6)
    try:
        return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1e6)
    except ValueError:
        pass
    try:
        return int(datetime.now(UTC).timestamp() * 1e6) - parse_age(f"{matched[1]}m" if matched else text) * 1_000_000
    except UsageError as exc:
        raise UsageError(
            f"since is {text!r}: give an age, as in 7d or 12h (also 30min), or a day, as in 2026-11-30"
        ) from exc


def describe_shares(line: BillLine) -> list[tuple[str, bool]]:
    """Says what was saved as a share of each denominator that is known, with its arithmetic, and whether it is a loss.

    >>> from tenfold.models.prices import TokenUse
    >>> describe_shares(BillLine("", unhidden=TokenUse(200), sent=TokenUse(50)))
    [('75.0% of the input tokens (150 of 200)', False)]
    """
    saved = format_dollars(line.saving)
    parts = {
        "of_input_tokens": (format_thousands_signed(line.saved_tokens), format_thousands(line.unhidden.input)),
        "of_input_bill": (saved, format_dollars(line.unhidden_paid.input)),
        "of_whole_bill": (saved, format_dollars(line.unhidden_paid.total)),
        "of_session": (saved, format_dollars(line.session_paid.total)),
    }
    shares = asdict(line.shares)
    return [
        (f"{shares[name]:.1%} {SHARE_NAMES[name]} ({part} of {whole})", shares[name] < 0)
        for name, (part, whole) in parts.items()
        if shares[name] is not None
    ]


def explain_loss(line: BillLine) -> list[str]:
    """Explains why Tenfold cost more than it saved, in sentences. Nothing where it did not.

    >>> from tenfold.models.prices import Dollars
    >>> explain_loss(BillLine("", paid=Dollars(2.0), summary_paid=Dollars(0.5), unhidden_paid=Dollars(2.25)))
    ['What was hidden saved $0.2500.', "Tenfold's own requests cost more than that: summaries $0.5000."]
    """
    if line.saving >= 0:
        return []
    less = line.unhidden_paid.total - line.paid.total
    costs = (("summaries", line.summary_paid.total), ("lookups", line.lookup_paid.total))
    own = " and ".join(f"{name} {format_dollars(paid)}" for name, paid in costs if paid)
    if less >= 0:
        return [f"What was hidden saved {format_dollars(less)}.", f"Tenfold's own requests cost more than that: {own}."]
    fresh, before = (use.uncached + use.written for use in (line.sent, line.unhidden))
    reason = (
        f"The requests were shorter and yet cost {format_dollars(-less)} more: {format_thousands(fresh)} of their "
        f"tokens were not read from the cache, and {format_thousands(before)} would not have been. A compaction "
        "changes what the cache holds, which is paid once; each request that follows is cheaper."
    )
    return [reason, f"Tenfold's own requests cost {own}."] if own else [reason]


def describe_limits(found: Bill) -> list[str]:
    """Says where the figures are from, and what is not in them."""
    total, lines = found.total, []
    if total.too_long:
        lines.append(
            f"{total.too_long:,} of these requests would not have fitted the window. Each counts as a full window, "
            "read from the cache."
        )
    first, last = found.days
    days = "" if not first else f" on {first}" if first == last else f" from {first} to {last}"
    for prices in found.prices:
        since = f", in force since {prices.since}" if prices.since else ""
        lines.append(f"{prices.model}: {describe_prices(prices)} ({prices.source}{since})")
    if found.prices:
        lines.append(f"In dollars for a million tokens, as listed for the day of each request{days}.")
    if found.unknown_prices:
        count = f"{total.unpriced:,} request{'s' * (total.unpriced != 1)}"
        names = ", ".join(to_one_line(name, 60) for name in found.unknown_prices)
        remedy = "" if found.prices or has_price_data() else "; pip install 'tenfold[models]' has the prices of many"
        lines.append(f"No price is known for {count} by {names}: they are in no dollar above{remedy}.")
    if found.untimed:
        many = "1 request was, so it is" if found.untimed == 1 else f"{found.untimed:,} requests were, so they are"
        lines.append(f"Nobody knows when {many} left out.")
    return lines


def describe_prices(prices: Prices) -> str:
    """Names the prices of a short request, and of long ones where they differ."""
    kinds = (("in", prices.input), ("cached", prices.read), ("written", prices.write), ("answers", prices.output))
    text = ", ".join(f"{name} ${find_rate(tiers, 1):g}" for name, tiers in kinds if tiers)
    steps = sorted({tier.above for _, tiers in kinds for tier in tiers if tier.above >= 0})
    return text + (f", more above {format_thousands(steps[0])}" if steps else "")


def format_dollars(amount: float) -> str:
    """Formats an amount: `$12.34`, `-$0.0512`.

    >>> format_dollars(-0.05123)
    '-$0.0512'
    """
    sign, size = "-" if amount < 0 else "", abs(amount)
    return f"{sign}${size:,.2f}" if size >= _LEAST_CENTS or not size else f"{sign}${size:.4f}"


def format_thousands_signed(tokens: int) -> str:
    """Formats a number of tokens that may be below zero."""
    return f"-{format_thousands(-tokens)}" if tokens < 0 else format_thousands(tokens)
