"""Normalizes the names of models, by which counters, media rules, error bounds and windows are found."""

from __future__ import annotations

import re

from tenfold.core.text.memoize import memoize_short

_PROVIDER_PREFIX = re.compile(r"^[a-z][a-z-]*:(?=.)")
_ROUTER_PREFIXES = ("models/", "anthropic.", "us.anthropic.", "eu.anthropic.", "apac.anthropic.", "global.anthropic.")


@memoize_short(256)
def normalize_model_name(model: str) -> str:
    """Returns a model's own name in lower case.

    A prefix of a provider, router or cloud (`openai:`, `anthropic/`, `us.anthropic.`) is removed. Routers write
    `claude-sonnet-4.5` for `claude-sonnet-4-5`. The result has the vendor's spelling.
    """
    name = _PROVIDER_PREFIX.sub("", model.strip().lower(), count=1).rsplit("/", 1)[-1]
    for prefix in _ROUTER_PREFIXES:
        name = name.removeprefix(prefix)
    return name.replace(".", "-") if name.startswith("claude-") else name
