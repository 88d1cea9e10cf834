"""Which model writes the summaries where none is named: a sensible cheap one of the session's own provider.

The order is: the models that were configured; the provider's row in `ROWS` if the provider still lists it; the rule by
price; the session's model. What a provider lists and charges is genai-prices' data, part of the extra
`tenfold[models]`; without it only the first and the last apply. Nothing is asked of any server.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from msgspec import Struct

ROWS: Mapping[str, str] = MappingProxyType(
    {
        "anthropic": "claude-haiku",
        "openai": "gpt-4o-mini",
        "google": "gemini-2.5-flash",
        "groq": "llama-3.3-70b-versatile",
    }
)
"""The summary model of a provider (spec tiers.B13): a model's name, or a family's, of which the newest is taken."""
AUTO = "auto"
"""Stands for the models that `choose` gives, where one is named."""
LEAST_WINDOW = 8_000
"""Tokens of context below which the rule by price leaves a model out."""
NEAR = 2.0
"""How many times the lowest price still counts as cheap: among these the newest is taken."""
_SPELLED = {"aws": "bedrock", "x-ai": "xai"}
"""Where genai-prices and model strings spell a provider differently."""
_OTHER_USES = re.compile(
    r"embed|tts|audio|realtime|transcri|moderation|guard|ocr|rerank|image|speech|sonic|voxtral|whisper|:batch|^~"
)
_DATE = re.compile(r"(20\d\d)-?(\d\d)-?(\d\d)(?!\d)|(?<!\d)(2\d)(0[1-9]|1[0-2])(?!\d)")


class Listed(Struct, frozen=True):
    """A model that a provider lists: US dollars per million input tokens, window in tokens, None where not known.

    `released` is a date as its name tells it ("2025-10-01"), "" where it does not.
    """

    name: str
    price: float
    window: int | None
    released: str = ""


class Offer(Struct, frozen=True):
    """What one provider has: its name in model strings, its row's name ("": none), and what it lists."""

    provider: str
    row: str
    listed: tuple[Listed, ...]


class Choice(Struct, frozen=True):
    """A model that is to write summaries, and why it."""

    model: str
    why: str


def cheapest(listed: Sequence[Listed]) -> Listed | None:
    """The rule by price (spec tiers.B14): of those within twice the lowest price above zero, the newest.

    Models without a price or with a window below 8,000 tokens, or with an unknown one, are left out. Of several of the
    same date the cheapest is taken, of those the first by name, and the largest window of one that is listed twice.
    """
    able = [m for m in listed if m.price > 0 and (m.window or 0) >= LEAST_WINDOW]
    if not able:
        return None
    least = min(m.price for m in able)
    near = [m for m in able if m.price <= NEAR * least]
    newest = max(m.released for m in near)
    return min((m for m in near if m.released == newest), key=lambda m: (m.price, m.name, -(m.window or 0)))


def choices(session: str, offer: Offer | None, configured: Sequence[str] = ()) -> tuple[Choice, ...]:
    """The models to try, in order, each with its reason. `session` is the session's own model, the last resort."""
    if configured:
        return tuple(
            Choice(model, "configured" if not i else "configured as a fallback") for i, model in enumerate(configured)
        )
    own = _own(session, offer)
    if offer is None:
        return (Choice(own, "the session's model: what its provider lists and charges is not known"),) if own else ()
    found = _of_row(offer)
    if found is not None:
        first = Choice(f"{offer.provider}:{found.name}", f"{offer.provider}'s row, {offer.row}, is listed")
    else:
        by_price = cheapest(offer.listed)
        if by_price is None:
            return (Choice(own, f"the session's model: no model of {offer.provider} has a price and a window"),)
        price = f"${by_price.price:g} per million tokens read"
        first = Choice(f"{offer.provider}:{by_price.name}", f"the newest of {offer.provider}'s cheapest, {price}")
    if own in ("", first.model):
        return (first,)
    return first, Choice(own, "the session's model, if that one fails")


def choose(session: str, *, configured: Sequence[str] = (), base_url: str = "") -> tuple[Choice, ...]:
    """`choices` with what genai-prices knows of the session's provider.

    Behind a `base_url` is a provider of one's own, of which nothing is known.
    """
    return choices(session, None if base_url or configured else offer_of(session), configured)


def offer_of(model: str) -> Offer | None:
    """What the provider of this model lists, None where that is not known or genai-prices is not installed.

    The provider is the one the model string names, else the one whose models are called so.
    """
    if not prices_known():
        return None
    prices: Any = importlib.import_module("genai_prices.data_snapshot")
    snapshot = prices.get_snapshot()
    prefix, colon, _ = model.partition(":")
    try:
        found = (
            prices.find_provider_by_id(snapshot.providers, prefix)
            if colon
            else snapshot.find_provider(model.lower(), None, None)
        )
    except LookupError:
        found = None
    if found is None:
        return None
    now = datetime.now(UTC)
    listed = [_listed(one, now) for one in found.models]
    name = prefix if colon else _SPELLED.get(found.id, found.id)
    return Offer(name, ROWS.get(found.id, ""), tuple(one for one in listed if one is not None))


def prices_known() -> bool:
    """Whether genai-prices is installed."""
    return importlib.util.find_spec("genai_prices") is not None


def _listed(model: Any, now: datetime) -> Listed | None:  # noqa: ANN401 - an object of genai-prices, loaded when used
    """A model of genai-prices, None for one that is no longer offered or does not write text."""
    if model.deprecated or not model.prices or _OTHER_USES.search(model.id.lower()):
        return None
    prices = vars(model.get_prices(now))
    if any(value is not None for unit, value in prices.items() if re.match(r"output_(?:audio|image|video)", unit)):
        return None
    if prices.get("output_mtok") is None:
        return None
    price: Any = prices.get("input_mtok")
    return Listed(model.id, float(getattr(price, "base", price) or 0), model.context_window, released_of(model.id))


def released_of(name: str) -> str:
    """The release date that a model's name tells, as 2025-10-01; "" for none. A month (`-2508`) counts from its 1st."""
    found = _DATE.search(name)
    if found is None:
        return ""
    year, month, day, short, of = found.groups()
    return f"{year}-{month}-{day}" if year else f"20{short}-{of}-01"


def _of_row(offer: Offer) -> Listed | None:
    """The model that the provider's row names; of a family the newest by the version in its name."""
    if not offer.row:
        return None
    exact = [m for m in offer.listed if m.name == offer.row]
    family = exact or [m for m in offer.listed if m.name.startswith(f"{offer.row}-")]
    return max(family, key=lambda m: ([int(n) for n in re.findall(r"\d+", m.name)], m.name), default=None)


def _own(session: str, offer: Offer | None) -> str:
    """The session's model as a model string, if its provider can be told."""
    if not session or ":" in session or offer is None:
        return session
    return f"{offer.provider}:{session}"
