"""Caches the results of pure functions of a text, and bounds what that may take by bytes.

The same messages are read several times for one Block: by a preview, by the preparation in the background, by the
compaction itself, and by another attempt after a failure. A section of facts may be rendered several times until it
fits.

A cache holds the texts it was asked for. So each has a longest text besides a number of results: longer ones are not
kept. No other module caches by texts or bytes whose length is not bounded.
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
"""Length of the longest text whose result is kept, in characters: 20 million for each function at most."""
MAX_NAME_LENGTH = 200
"""Length of the longest word or name of a model whose result is kept."""


def memoize(function: Callable[Concatenate[str, P], R]) -> Callable[Concatenate[str, P], R]:
    """Wraps a function so that its recent results are cached. They are shared, so nobody may change them."""
    return memoize_short(MAX_RESULTS, longest=MAX_TEXT_LENGTH)(function)


def memoize_short(
    results: int, *, longest: int = MAX_NAME_LENGTH
) -> Callable[[Callable[Concatenate[str, P], R]], Callable[Concatenate[str, P], R]]:
    """Does the same for so many results of texts of at most `longest` characters, its other arguments included."""

    def wrap(function: Callable[Concatenate[str, P], R]) -> Callable[Concatenate[str, P], R]:
        cached = cast("Callable[Concatenate[str, P], R]", lru_cache(maxsize=results)(function))  # it has no such type

        @wraps(function)
        def call_cached(text: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
            length = len(text)
            if args or kwargs:
                length += sum(len(each) for each in (*args, *kwargs.values()) if isinstance(each, str))
            return cached(text, *args, **kwargs) if length <= longest else function(text, *args, **kwargs)

        return call_cached

    return wrap
