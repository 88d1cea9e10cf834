"""Caches the results of pure functions of a text.

The same messages are read several times for one Block: by a preview, by the preparation in the background, by the
compaction itself, and by another attempt after a failure. A section of facts may be rendered several times until it
fits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

MAX_RESULTS = 2_048
"""How many results are kept for each function; the least recently used ones are dropped."""
MAX_TEXT_LENGTH = 10_000
"""Length of the longest text whose result is kept, in characters, to bound the memory used."""


def memoize(function: Callable[Concatenate[str, P], R]) -> Callable[Concatenate[str, P], R]:
    """Wraps a function so that its recent results are cached. They are shared, so nobody may change them."""
    cache = lru_cache(maxsize=MAX_RESULTS)(function)
    cached = cast("Callable[Concatenate[str, P], R]", cache)  # its own type does not describe the arguments

    @wraps(function)
    def call_cached(text: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return cached(text, *args, **kwargs) if len(text) <= MAX_TEXT_LENGTH else function(text, *args, **kwargs)

    return call_cached
