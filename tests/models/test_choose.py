"""Which model writes the summaries where none is named."""

from __future__ import annotations

import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenfold.models.choose import (
    PREFERRED_MODELS,
    ListedModel,
    ProviderCatalog,
    choose_models,
    find_catalog,
    find_cheapest,
    find_model,
    list_choices,
    parse_release_date,
)

OLD = ListedModel("old", 0.10, 128_000, "2024-01-01")
NEWER = ListedModel("newer", 0.12, 128_000, "2025-06-01")
DEAR = ListedModel("dear", 15.0, 200_000, "2025-09-01")
MINI = ListedModel("gpt-4o-mini", 0.15, 128_000)
SMALL = ListedModel("small", 0.01, 4_000, "2025-01-01")
FAMILY = tuple(ListedModel(n, 1.0, 200_000) for n in ("claude-haiku-4-5", "claude-haiku-5-5", "claude-3-haiku"))


@pytest.mark.parametrize(
    ("listed_models", "found"),
    [
        ([OLD, NEWER, DEAR], NEWER),
        ([], None),
        ([ListedModel("free", 0.0, 128_000, "2025-01-01")], None),
        ([ListedModel("unknown", 0.01, None)], None),
        ([SMALL], None),
        ([SMALL, OLD], OLD),  # what is left out sets no lowest price either
        ([ListedModel("just", 0.01, 8_000), OLD], ListedModel("just", 0.01, 8_000)),
        ([OLD, ListedModel("twice", 0.20, 10_000, "2025-01-01")], ListedModel("twice", 0.20, 10_000, "2025-01-01")),
        ([OLD, ListedModel("more", 0.21, 10_000, "2025-01-01")], OLD),
    ],
)
def test_the_newest_of_the_cheap_ones_with_a_price_and_a_window(
    listed_models: list[ListedModel], found: ListedModel | None
) -> None:
    assert find_cheapest(listed_models) == found


listed = st.builds(
    ListedModel,
    st.text("abc", min_size=1, max_size=3),
    st.sampled_from([0.0, 0.05, 0.1, 0.15, 0.2, 1.0, 15.0]),
    st.sampled_from([None, 4_000, 8_000, 200_000]),
    st.sampled_from(["", "2024-01-01", "2025-01-01"]),
)


@given(st.lists(listed, max_size=8), st.randoms())
def test_the_rule_holds_for_any_list_in_any_order(models: list[ListedModel], dice: Random) -> None:
    found = find_cheapest(models)
    able = [m for m in models if m.price > 0 and m.window is not None and m.window >= 8_000]
    assert (found is None) == (not able)
    if found is not None:
        assert found in able
        assert found.price <= 2 * min(m.price for m in able)
        assert not [m for m in able if m.price <= 2 * min(a.price for a in able) and m.released > found.released]
    mixed = list(models)
    dice.shuffle(mixed)
    assert find_cheapest(mixed) == found


def test_what_is_configured_comes_first_and_alone() -> None:
    found = choose_models("openai:gpt-5", configured=("groq:a", "openai:b"))
    assert [(c.model, c.why) for c in found] == [("groq:a", "configured"), ("openai:b", "configured as a fallback")]


@pytest.mark.parametrize(
    ("session_model", "catalog", "chosen"),
    [
        # the provider's row, if it is still listed
        ("openai:gpt-5", ("openai", "gpt-4o-mini", (OLD, MINI)), ["openai:gpt-4o-mini", "openai:gpt-5"]),
        ("gpt-4o-mini", ("openai", "gpt-4o-mini", (MINI,)), ["openai:gpt-4o-mini"]),
        ("", ("anthropic", PREFERRED_MODELS["anthropic"], FAMILY), ["anthropic:claude-haiku-5-5"]),
        # a row that is gone gives way to the rule by price
        ("openai:gpt-5", ("openai", "gpt-4o-mini", (OLD, NEWER, DEAR)), ["openai:newer", "openai:gpt-5"]),
        # the session's model is the last resort
        ("local:llama", ("local", "", (ListedModel("llama", 0.0, 128_000),)), ["local:llama"]),
        ("some-model", None, ["some-model"]),
        ("", None, []),
    ],
)
def test_the_order_where_nothing_is_configured(
    session_model: str, catalog: tuple[str, str, tuple[ListedModel, ...]] | None, chosen: list[str]
) -> None:
    found = list_choices(session_model, None if catalog is None else ProviderCatalog(*catalog))
    assert [choice.model for choice in found] == chosen
    assert all(choice.why for choice in found)
    assert "openai:newer" not in chosen or "$0.12" in found[0].why


@pytest.mark.parametrize(
    ("named", "chosen"),
    [
        ("anthropic:claude-opus-4-5", "anthropic:claude-haiku-"),
        ("claude-opus-4-5", "anthropic:claude-haiku-"),
        ("openai:gpt-5", "openai:gpt-4o-mini"),
        ("openai-chat:gpt-5", "openai-chat:gpt-4o-mini"),
        ("google:gemini-3-pro", "google:gemini-2.5-flash"),
        ("groq:openai/gpt-oss-120b", "groq:llama-3.3-70b"),
        ("ollama:llama3", "ollama:llama3"),
        ("no-provider-has-this", "no-provider-has-this"),
    ],
)
def test_the_rows_of_the_table_on_the_prices_of_today(named: str, chosen: str) -> None:
    first = choose_models(named)[0]
    assert first.model.startswith(chosen)
    assert first.why


@pytest.mark.parametrize("provider", ["mistral", "bedrock", "deepseek", "xai"])
def test_providers_without_a_row_give_a_cheap_model_that_writes_text(provider: str) -> None:
    offer = find_catalog(f"{provider}:any")
    assert offer is not None
    first, last = choose_models(f"{provider}:any")
    assert last.model == f"{provider}:any"
    found = next(m for m in offer.models if f"{provider}:{m.name}" == first.model)
    able = [m for m in offer.models if m.price > 0 and (m.window or 0) >= 8_000]
    assert 0 < found.price <= 2 * min(m.price for m in able)
    assert not [m for m in offer.models if any(word in m.name for word in ("embed", "tts", "guard", "moderation"))]


@pytest.mark.parametrize(
    ("name", "date"),
    [
        ("claude-sonnet-4-5-20250929", "2025-09-29"),
        ("gpt-4o-2024-08-06", "2024-08-06"),
        ("mistral-small-2603", "2026-03-01"),
        ("gpt-5-mini", ""),
        ("llama-3.3-70b", ""),
        ("model-2099x", ""),
    ],
)
def test_a_date_is_read_from_the_name(name: str, date: str) -> None:
    assert parse_release_date(name) == date


def test_a_batch_endpoint_answers_no_call_and_is_left_out() -> None:
    found = choose_models("openrouter:anthropic/claude-sonnet-4")
    assert found
    assert [c.model for c in found if c.model.endswith(":batch")] == []


@pytest.mark.parametrize(
    ("name", "session_model", "resolved"),
    [
        ("gpt-4o-mini", "", "openai:gpt-4o-mini"),
        ("gpt-4o-mini", "claude-sonnet-4-5", "openai:gpt-4o-mini"),
        ("gpt-4o-mini", "openrouter:anthropic/claude-sonnet-4.5", "openrouter:openai/gpt-4o-mini"),
        ("claude-haiku-4-5", "openai:gpt-5", "anthropic:claude-haiku-4-5"),
        ("gemini-2.5-flash", "", "google:gemini-2.5-flash"),
        ("llama-3.3-70b", "", "groq:llama-3.3-70b-versatile"),
        ("groq:mine", "openai:gpt-5", "groq:mine"),
        ("qwen3", "ollama:llama3", "ollama:qwen3"),
        ("haiku", "ollama:llama3", "ollama:haiku"),
        ("no-such-model", "openai:gpt-5", ""),
        ("no-such-model", "", ""),
        ("default", "claude-sonnet-4-5", ""),
    ],
)
def test_a_name_without_a_provider_is_resolved_by_the_sessions_model_and_the_tables(
    name: str, session_model: str, resolved: str
) -> None:
    assert find_model(name, session_model) == resolved


@pytest.mark.parametrize(
    ("name", "session_model", "family"),
    [
        ("haiku", "", "anthropic:claude-haiku-"),
        ("Haiku", "openai:gpt-5", "anthropic:claude-haiku-"),
        ("haiku", "claude-sonnet-4-5", "anthropic:claude-haiku-"),
        ("haiku", "google:gemini-3-pro", "anthropic:claude-haiku-"),
        ("haiku", "openrouter:anthropic/claude-sonnet-4.5", "openrouter:anthropic/claude-haiku-"),
        ("haiku", "bedrock:anthropic.claude-sonnet-4-5", "bedrock:global.anthropic.claude-haiku-"),
        ("sonnet", "", "anthropic:claude-sonnet-"),
        ("flash", "", "google:gemini-2.5-flash"),
    ],
)
def test_the_name_of_a_family_is_its_newest_model(name: str, session_model: str, family: str) -> None:
    found = find_model(name, session_model)
    assert found.startswith(family)
    if name.lower() == "haiku" and found.startswith("anthropic:"):
        listed = find_catalog("anthropic:x")
        assert listed is not None
        newest = max(re.findall(r"\d+", m.name) for m in listed.models if m.name.startswith("claude-haiku-"))
        assert re.findall(r"\d+", found) == newest
