"""Chooses the models that write summaries if none is named: cheap ones of the session's own provider.

The order of preference is: the configured models, the provider's preferred model in `PREFERRED_MODELS` if the provider
still lists it, the session's model at the lowest price where a router has several hosts for it (`PRICE_ROUTES`), the
rule by price, and the session's model. What a provider lists and charges comes from genai-prices,
part of the extra `tenfold[models]`. Without it, only the first and the last apply. No server is asked.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from tenfold.models.prices import get_base_price

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo

PREFERRED_MODELS: Mapping[str, str] = MappingProxyType(
    {
        "anthropic": "claude-haiku",
        "openai": "gpt-4o-mini",
        "google": "gemini-2.5-flash",
        "groq": "llama-3.3-70b-versatile",
    }
)
"""The summary model of each provider (spec tiers.B13). It is the name of a model, or of a family, whose newest model is
then taken."""
PRICE_ROUTES: Mapping[str, str] = MappingProxyType({"openrouter": ":floor"})
"""What a provider that routes every request takes behind a model's name to send it to the cheapest host. OpenRouter's
docs, "Model variants": it equals `provider.sort` "price" in the request."""
AUTO = "auto"
"""Stands for the models that `choose_models` returns, where a model is to be named."""
MIN_WINDOW = 8_000
"""The rule by price ignores models with fewer tokens of context than this."""
CHEAP_FACTOR = 2.0
"""How many times the lowest price still counts as cheap. The newest of the cheap models is taken."""
_PROVIDER_PREFIX = re.compile(r"[a-z][a-z-]*:.")
_PROVIDER_SPELLINGS = {"aws": "bedrock", "x-ai": "xai"}
"""Providers whose names differ between genai-prices and model strings."""
_OTHER_USES = re.compile(
    r"embed|tts|audio|realtime|transcri|moderation|guard|ocr|rerank|image|speech|sonic|voxtral|whisper|:batch|^~"
)
_OTHER_ROUTE = re.compile(r":(?:nitro|exacto|floor)$")
"""The routes that `:floor` replaces. Other variants, such as `:free`, name another model."""
_DATE = re.compile(r"(20\d\d)-?(\d\d)-?(\d\d)(?!\d)|(?<!\d)(2\d)(0[1-9]|1[0-2])(?!\d)")


class ListedModel(Struct, frozen=True):
    """A model that a provider lists. `price` is in US dollars per million input tokens.

    `window` is in tokens, or None if it is not known. `released` is the date in the model's name ("2025-10-01"), or "".
    """

    name: str
    price: float
    window: int | None
    released: str = ""


class ProviderCatalog(Struct, frozen=True):
    """The models of one provider.

    `provider` is its name in model strings, `preferred_model` its row in `PREFERRED_MODELS`, and `price_route` its row
    in `PRICE_ROUTES`; both are "" if it has none.
    """

    provider: str
    preferred_model: str
    models: tuple[ListedModel, ...]
    price_route: str = ""


class ModelChoice(Struct, frozen=True):
    """A model that is to write summaries, and the reason for it."""

    model: str
    why: str


def find_cheapest(models: Sequence[ListedModel]) -> ListedModel | None:
    """Applies the rule by price (spec tiers.B14): the newest model within twice the lowest price above zero.

    Models without a price are ignored, and so are those whose window is unknown or below 8,000 tokens. Of several
    models with the same date the cheapest is taken, then the first by name. If one is listed twice, its largest window
    counts.
    """
    usable = [m for m in models if m.price > 0 and (m.window or 0) >= MIN_WINDOW]
    if not usable:
        return None
    lowest = min(m.price for m in usable)
    cheap = [m for m in usable if m.price <= CHEAP_FACTOR * lowest]
    newest = max(m.released for m in cheap)
    return min((m for m in cheap if m.released == newest), key=lambda m: (m.price, m.name, -(m.window or 0)))


def list_choices(session_model: str, catalog: ProviderCatalog | None) -> tuple[ModelChoice, ...]:
    """Returns the models to try where none is configured, in order, each with its reason.

    The session's own model is the last resort. Without a `catalog`, it is the only one.
    """
    own = _qualify_model(session_model, catalog)
    first = _choose_first(own, catalog)
    if own in ("", first.model):
        return (first,) if first.model else ()
    return first, ModelChoice(own, "the session's model, if that one fails")


def _choose_first(own: str, catalog: ProviderCatalog | None) -> ModelChoice:
    if catalog is None:
        return ModelChoice(own, "the session's model: what its provider lists and charges is not known")
    if own and catalog.price_route:
        return _choose_route(own, catalog)
    provider = catalog.provider
    preferred = _find_preferred(catalog)
    if preferred is not None:
        return ModelChoice(f"{provider}:{preferred.name}", f"{provider}'s row, {catalog.preferred_model}, is listed")
    by_price = find_cheapest(catalog.models)
    if by_price is None:
        return ModelChoice(own, f"the session's model: no model of {provider} has a price and a window")
    price = f"${by_price.price:g} per million tokens read"
    return ModelChoice(f"{provider}:{by_price.name}", f"the newest of {provider}'s cheapest, {price}")


def choose_models(session_model: str, *, configured: Sequence[str] = ()) -> tuple[ModelChoice, ...]:
    """Returns the models to try, in order, each once, with what genai-prices knows about the session's provider.

    In `configured`, "auto" stands for those that are chosen where nothing is configured. Configured models may be
    named without their provider, as in `find_model`.
    """
    choices: dict[str, ModelChoice] = {}
    for place, name in enumerate(configured or (AUTO,)):
        if name == AUTO:
            chosen = list_choices(session_model, find_catalog(session_model))
        else:
            why = "configured as a fallback" if place else "configured"
            chosen = (ModelChoice(find_model(name, session_model) or name, why),)
        for choice in chosen:
            choices.setdefault(choice.model, choice)
    return tuple(choices.values())


def choose_writers(session_model: str, *, configured: Sequence[str] = ()) -> tuple[ModelChoice, ...]:
    """Returns those of `choose_models` that can be called, because they name their provider."""
    return tuple(choice for choice in choose_models(session_model, configured=configured) if ":" in choice.model)


def resolve_models(models: Sequence[str], session_model: str) -> tuple[str, ...]:
    """Returns the configured models as they are called, for a session with this model.

    "auto" becomes those that `choose_writers` chooses. A name without its provider gets the one that `find_model`
    finds, and stays as it is if there is none.
    """
    chosen = [choice.model for choice in choose_writers(session_model)] if AUTO in models else []
    names = (chosen if name == AUTO else [find_model(name, session_model) or name] for name in models)
    return tuple(dict.fromkeys(each for some in names for each in some))


def explain_no_choice(session_model: str) -> str:
    """Explains why "auto" chooses no model for a session with this model, and what to do."""
    if not session_model:
        return "auto chooses it by the agent's, which is not recorded in the session: name that, as in --model gpt-5"
    extra = "" if has_price_data() else ", or install the lists of models: pip install 'tenfold[models]'"
    return (
        "auto chooses it by the agent's, and no provider is known to offer "
        f"{session_model}: name one, as PROVIDER:NAME{extra}"
    )


def find_model(name: str, session_model: str = "") -> str:
    """Finds the model string for a configured name without its provider. "" if no provider is known for it.

    The name is that of a model, or of a family, whose newest model is then taken. The session's provider comes first,
    then the one whose models have such names, then the providers with a preferred model. Where nobody knows what the
    session's provider has, as a server of one's own, the model is one of it: the conversation goes to nobody else.

        find_model("haiku", "openai:gpt-5")  # anthropic:claude-haiku-5-5
    """
    if has_provider(name) or not name:
        return name
    own = find_catalog(session_model) if session_model else None
    if own is None and has_provider(session_model):
        return f"{session_model.partition(':')[0]}:{name}"
    if found := _find_listed(name, own):
        return found
    if named := find_catalog(name):
        return f"{named.provider}:{name}"
    catalogs = (find_catalog(f"{provider}:{name}") for provider in PREFERRED_MODELS)
    return next((found for catalog in catalogs if (found := _find_listed(name, catalog))), "")


def _find_listed(name: str, catalog: ProviderCatalog | None) -> str:
    """Finds the model of a provider that has this name, else its preferred or newest one of this family."""
    if catalog is None:
        return ""
    exact = [m for m in catalog.models if m.name.rpartition("/")[2] == name]
    word = re.compile(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", re.IGNORECASE)
    preferred = _find_preferred(catalog)
    found = exact[:1] or [m for m in (preferred,) if m is not None and word.search(m.name)]
    found = found or sorted((m for m in catalog.models if word.search(m.name)), key=_rank_version)[-1:]
    if not found or _is_served_elsewhere(found[0].name, catalog):
        return ""
    return f"{catalog.provider}:{found[0].name}"


def _is_served_elsewhere(name: str, catalog: ProviderCatalog) -> bool:
    """Tells whether a listed model is that of another provider with a preferred model: Google lists Anthropic's."""
    maker = find_catalog(name) if catalog.preferred_model and ":" not in name else None
    return maker is not None and maker.preferred_model not in ("", catalog.preferred_model)


def _rank_version(model: ListedModel) -> tuple[list[int], int]:
    """Returns the rank of a model in its family: by the version in its name; of the same version the shortest name."""
    return [int(n) for n in re.findall(r"\d+", model.name)], -len(model.name)


def has_provider(model: str) -> bool:
    """Tells whether a model string begins with a provider. A tag, as in `qwen2.5:7b`, is none."""
    return _PROVIDER_PREFIX.match(model) is not None


def qualify_served_model(model: str) -> str:
    """Returns the model string for a server at a base URL. It speaks OpenAI's protocol unless a provider is named."""
    return model if has_provider(model) else f"openai:{model}"


def qualify_recorded_model(model: str) -> str:
    """Returns the model string for a name that a session recorded without its provider, if the provider is known."""
    return _qualify_model(model, None if ":" in model else find_catalog(model))


def find_catalog(model: str) -> ProviderCatalog | None:
    """Returns the models of this model's provider. None if they are unknown or genai-prices is not installed.

    The provider is the one that the model string names, else the one whose models have such names.
    """
    try:
        from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415 - an optional package, and slow to load
    except ImportError:
        return None
    prefix, colon, _ = model.partition(":")
    try:
        found = get_snapshot().find_provider(None if colon else model.lower(), prefix if colon else None, None)
    except LookupError:
        return None
    now = datetime.now(UTC)
    listed = [_to_listed_model(one, now) for one in found.models]
    name = prefix if colon else _PROVIDER_SPELLINGS.get(found.id, found.id)
    models = tuple(one for one in listed if one is not None)
    return ProviderCatalog(name, PREFERRED_MODELS.get(found.id, ""), models, PRICE_ROUTES.get(found.id, ""))


def has_price_data() -> bool:
    """Tells whether genai-prices is installed."""
    return importlib.util.find_spec("genai_prices") is not None


def _to_listed_model(model: ModelInfo, now: datetime) -> ListedModel | None:
    """Converts a model of genai-prices. None if it is no longer offered or does not write text."""
    if model.deprecated or not model.prices or _OTHER_USES.search(model.id.lower()):
        return None
    prices = model.get_prices(now)
    priced = [unit for unit, price in vars(prices).items() if price is not None]
    if prices.output_mtok is None or any(re.match(r"output_(?:audio|image|video)", unit) for unit in priced):
        return None
    price = 0.0 if prices.input_mtok is None else get_base_price(prices.input_mtok)
    return ListedModel(model.id, price, model.context_window, parse_release_date(model.id))


def parse_release_date(name: str) -> str:
    """Returns the release date in a model's name as 2025-10-01, or "". A month (`-2508`) means its first day."""
    found = _DATE.search(name)
    if found is None:
        return ""
    year, month, day, short_year, short_month = found.groups()
    return f"{year}-{month}-{day}" if year else f"20{short_year}-{short_month}-01"


def _choose_route(own: str, catalog: ProviderCatalog) -> ModelChoice:
    """Returns the session's model on the provider's cheapest host; as it is, if it names a variant of its own."""
    model = _OTHER_ROUTE.sub("", own)
    if ":" in model.removeprefix(f"{catalog.provider}:"):
        return ModelChoice(own, f"the session's model: it is a variant, and {catalog.provider} routes those itself")
    return ModelChoice(
        model + catalog.price_route, f"the session's model, routed by {catalog.provider} to the lowest price"
    )


def _find_preferred(catalog: ProviderCatalog) -> ListedModel | None:
    """Finds the provider's preferred model. Of a family it is the newest by the version in its name."""
    if not catalog.preferred_model:
        return None
    exact = [m for m in catalog.models if m.name == catalog.preferred_model]
    family = exact or [m for m in catalog.models if m.name.startswith(f"{catalog.preferred_model}-")]
    return max(family, key=_rank_version, default=None)


def _qualify_model(session_model: str, catalog: ProviderCatalog | None) -> str:
    """Returns the session's model as a model string, if its provider is known."""
    if not session_model or ":" in session_model or catalog is None:
        return session_model
    return f"{catalog.provider}:{session_model}"
