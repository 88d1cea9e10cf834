"""Chooses the models that write summaries if none is named: cheap ones of the session's own provider.

The order of preference is: the configured models, the provider's preferred model in `PREFERRED_MODELS` if the provider
still lists it, the rule by price, and the session's model. What a provider lists and charges comes from genai-prices,
part of the extra `tenfold[models]`. Without it, only the first and the last apply. No server is asked.
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
"""The summary model of each provider (spec tiers.B13). It is the name of a model, or of a family, whose newest model is
then taken."""
AUTO = "auto"
"""Stands for the models that `choose_models` returns, where a model is to be named."""
LEAST_WINDOW = 8_000
"""The rule by price ignores models with fewer tokens of context than this."""
NEAR = 2.0
"""How many times the lowest price still counts as cheap. The newest of the cheap models is taken."""
_SPELLED = {"aws": "bedrock", "x-ai": "xai"}
"""Providers whose names differ between genai-prices and model strings."""
_OTHER_USES = re.compile(
    r"embed|tts|audio|realtime|transcri|moderation|guard|ocr|rerank|image|speech|sonic|voxtral|whisper|:batch|^~"
)
_DATE = re.compile(r"(20\d\d)-?(\d\d)-?(\d\d)(?!\d)|(?<!\d)(2\d)(0[1-9]|1[0-2])(?!\d)")


class Listed(Struct, frozen=True):
    """A model that a provider lists. `price` is in US dollars per million input tokens.

    `window` is in tokens, or None if it is not known. `released` is the date in the model's name ("2025-10-01"), or "".
    """

    name: str
    price: float
    window: int | None
    released: str = ""


class Offer(Struct, frozen=True):
    """The models of one provider.

    `provider` is its name in model strings, and `preferred_model` its row in `PREFERRED_MODELS`, or "".
    """

    provider: str
    row: str
    listed: tuple[Listed, ...]


class Choice(Struct, frozen=True):
    """A model that is to write summaries, and the reason for it."""

    model: str
    why: str


def cheapest(listed: Sequence[Listed]) -> Listed | None:
    """Applies the rule by price (spec tiers.B14): the newest model within twice the lowest price above zero.

    Models without a price are ignored, and so are those whose window is unknown or below 8,000 tokens. Of several
    models with the same date the cheapest is taken, then the first by name. If one is listed twice, its largest window
    counts.
    """
    usable = [m for m in listed if m.price > 0 and (m.window or 0) >= LEAST_WINDOW]
    if not usable:
        return None
    lowest = min(m.price for m in usable)
    cheap = [m for m in usable if m.price <= NEAR * lowest]
    newest = max(m.released for m in cheap)
    return min((m for m in cheap if m.released == newest), key=lambda m: (m.price, m.name, -(m.window or 0)))


def choices(session: str, offer: Offer | None, configured: Sequence[str] = ()) -> tuple[Choice, ...]:
    """Returns the models to try, in order, each with its reason. The session's own model is the last resort."""
    if configured:
        return tuple(
            Choice(model, "configured" if not i else "configured as a fallback") for i, model in enumerate(configured)
        )
    own = _own(session, offer)
    if offer is None:
        return (Choice(own, "the session's model: what its provider lists and charges is not known"),) if own else ()
    preferred = _of_row(offer)
    if preferred is not None:
        first = Choice(f"{offer.provider}:{preferred.name}", f"{offer.provider}'s row, {offer.row}, is listed")
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
    """Returns the models to try, with what genai-prices knows about the session's provider.

    Nothing is known about the provider behind a `base_url`.
    """
    return choices(session, None if base_url or configured else offer_of(session), configured)


def offer_of(model: str) -> Offer | None:
    """Returns the models of this model's provider. None if they are unknown or genai-prices is not installed.

    The provider is the one that the model string names, else the one whose models have such names.
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
    """Tells whether genai-prices is installed."""
    return importlib.util.find_spec("genai_prices") is not None


def _listed(model: Any, now: datetime) -> Listed | None:  # noqa: ANN401 - an object of genai-prices, loaded when used
    """Converts a model of genai-prices. None if it is no longer offered or does not write text."""
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
    """Returns the release date in a model's name as 2025-10-01, or "". A month (`-2508`) means its first day."""
    found = _DATE.search(name)
    if found is None:
        return ""
    year, month, day, short_year, short_month = found.groups()
    return f"{year}-{month}-{day}" if year else f"20{short_year}-{short_month}-01"


def _of_row(offer: Offer) -> Listed | None:
    """Finds the provider's preferred model. Of a family it is the newest by the version in its name."""
    if not offer.row:
        return None
    exact = [m for m in offer.listed if m.name == offer.row]
    family = exact or [m for m in offer.listed if m.name.startswith(f"{offer.row}-")]
    return max(family, key=lambda m: ([int(n) for n in re.findall(r"\d+", m.name)], m.name), default=None)


def _own(session: str, offer: Offer | None) -> str:
    """Returns the session's model as a model string, if its provider is known."""
    if not session or ":" in session or offer is None:
        return session
    return f"{offer.provider}:{session}"
