"""Context windows of models, as rows with their evidence. An unknown window is None, never a guess.

A row matches its model's name, also followed by a release date, `-latest` or a cloud's version mark. It does not match
another size or a newer number: `gpt-5` says nothing about `gpt-5-mini` or `gpt-5.9`. Windows that need an opt-in (a
beta header, a paid tier) are not listed. Pass the window yourself where you have one.
"""

from __future__ import annotations

import re

from msgspec import Struct

from tenfold.core.meter.model_names import normalize_model_name
from tenfold.core.record.token_reading import ProviderTokens
from tenfold.core.text.memoize import memoize_short


class ModelWindow(Struct, frozen=True):
    """One model: its context window and its largest answer in tokens (0: unknown)."""

    model: str
    window: ProviderTokens
    max_output: ProviderTokens


def _build_rows(names: str, window: int, max_output: int) -> tuple[ModelWindow, ...]:
    return tuple(ModelWindow(name, ProviderTokens(window), ProviderTokens(max_output)) for name in names.split())


WINDOWS: tuple[ModelWindow, ...] = (
    # https://platform.claude.com/docs/en/about-claude/models/overview
    *_build_rows(
        "claude-opus-5-5 claude-sonnet-5-5 claude-haiku-5-5 claude-fable-5-1 claude-fable-5 claude-opus-5 "
        "claude-sonnet-5 claude-opus-4-6 claude-sonnet-4-6",
        1_000_000,
        128_000,
    ),
    *_build_rows("claude-opus-4-7 claude-opus-4-8", 1_000_000, 0),
    *_build_rows("claude-opus-4-5 claude-sonnet-4-5 claude-haiku-4-5", 200_000, 64_000),
    *_build_rows("claude-opus-4-1 claude-opus-4-0 claude-opus-4", 200_000, 32_000),
    *_build_rows("claude-sonnet-4-0 claude-sonnet-4 claude-3-7-sonnet", 200_000, 64_000),
    *_build_rows("claude-3-5-sonnet claude-3-5-haiku", 200_000, 8_192),
    *_build_rows("claude-3-opus claude-3-sonnet claude-3-haiku", 200_000, 4_096),
    # https://platform.openai.com/docs/models
    *_build_rows(
        "gpt-6-sol gpt-6-luna gpt-6-astra gpt-6.1-sol gpt-6.1-terra gpt-5.6-sol gpt-5.6-luna gpt-5.6-terra",
        1_050_000,
        0,
    ),
    *_build_rows("gpt-5.5 gpt-5.4 gpt-5.4-pro", 1_050_000, 128_000),
    *_build_rows(
        "gpt-5 gpt-5-mini gpt-5-nano gpt-5-pro gpt-5.1 gpt-5.2 gpt-5.2-pro gpt-5.1-codex-mini gpt-5.3-codex "
        "gpt-5.4-mini gpt-5.4-nano",
        400_000,
        128_000,
    ),
    *_build_rows("gpt-5-chat gpt-5.1-chat", 128_000, 16_384),
    *_build_rows("gpt-4.1 gpt-4.1-mini gpt-4.1-nano", 1_047_576, 32_768),
    *_build_rows("gpt-4o gpt-4o-mini chatgpt-4o", 128_000, 16_384),
    *_build_rows("gpt-4-turbo gpt-4-1106-preview gpt-4-0125-preview", 128_000, 4_096),
    *_build_rows("gpt-4", 8_192, 8_192),
    *_build_rows("gpt-4-32k", 32_768, 0),
    *_build_rows("gpt-3.5-turbo gpt-3.5-turbo-16k", 16_385, 4_096),
    *_build_rows("o1 o1-pro o3 o3-mini o3-pro o4-mini codex-mini", 200_000, 100_000),
    *_build_rows("o1-mini", 128_000, 65_536),
    *_build_rows("o1-preview", 128_000, 32_768),
    *_build_rows("gpt-oss-120b gpt-oss-20b", 131_072, 0),
    # https://ai.google.dev/gemini-api/docs/models
    *_build_rows(
        "gemini-2.5-pro gemini-2.5-flash gemini-2.5-flash-lite gemini-3-pro gemini-3-flash gemini-3.1-pro",
        1_048_576,
        65_536,
    ),
    *_build_rows("gemini-3.5-flash gemini-3.6-flash gemini-3.7-flash gemini-3.8-flash gemini-4-argon", 1_048_576, 0),
    *_build_rows("gemini-2.0-flash gemini-2.0-flash-lite gemini-1.5-flash", 1_048_576, 8_192),
    *_build_rows("gemini-1.5-pro", 2_097_152, 8_192),
)
"""Compared on 2026-11-21 with the vendors' pages, as stored publicly, and with the data of genai-prices 0.2.3. Where
that registry rounds (1,000,000 for Gemini), the vendor's figure is used.
"""
_RELEASE_SUFFIX = re.compile(r"(?:[-@](?:\d{8}|\d{4}|\d{2}-\d{2}|0\d\d)|-latest|-preview|-exp)*(?:-v\d+)?(?::[\w.-]+)?")


def find_window_row(model: str) -> ModelWindow | None:
    """Returns the row for a model, by the longest name that `model` begins with, or None."""
    name = normalize_model_name(model)
    best: ModelWindow | None = None
    for row in WINDOWS:
        longer = best is None or len(row.model) > len(best.model)
        if longer and name.startswith(row.model) and _RELEASE_SUFFIX.fullmatch(name, len(row.model)):
            best = row
    return best


@memoize_short(256)
def find_window(model: str) -> ProviderTokens | None:
    """Returns a model's context window in tokens. Where it is None, nothing triggers automatically."""
    row = find_window_row(model)
    return row.window if row else None
