"""Caches the results of pure functions of a text, and bounds what that may take by bytes.

The same messages are read several times for one Block: by a preview, by the preparation in the background, by the
compaction itself, and by another attempt after a failure. A section of facts may be rendered several times until it
fits.

A cache holds the texts it was asked for. So each has a longest text besides a number of results: longer ones are not
kept. No other module caches by texts or bytes whose length is not bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

SIZES = ((1_000, 8_192), (10_000, 1_024), (60_000, 64))
"""For texts up to each length in characters: how many results are kept, the least recently used ones being dropped.

Longer texts are not kept. That is 22 million characters for each function at most: every text of a session of half a
million tokens, most of which are short, and the few long outputs of its tools.
"""
MAX_NAME_LENGTH = 200
"""Length of the longest word or name of a model whose result is kept."""


def memoize(function: Callable[Concatenate[str, P], R]) -> Callable[Concatenate[str, P], R]:
    """Wraps a function so that its recent results are cached. They are shared, so nobody may change them."""
    return _wrap(function, SIZES)


def memoize_short(
    results: int, *, longest: int = MAX_NAME_LENGTH
) -> Callable[[Callable[Concatenate[str, P], R]], Callable[Concatenate[str, P], R]]:
    """Does the same for so many results of texts of at most `longest` characters, its other arguments included."""

    def wrap(function: Callable[Concatenate[str, P], R]) -> Callable[Concatenate[str, P], R]:
        return _wrap(function, ((longest, results),))

    return wrap


def _wrap(
    function: Callable[Concatenate[str, P], R], sizes: Sequence[tuple[int, int]]
) -> Callable[Concatenate[str, P], R]:
    caches = [
        (longest, cast("Callable[Concatenate[str, P], R]", lru_cache(maxsize=results)(function)))  # it has no such type
        for longest, results in sizes
    ]

    @wraps(function)
    def call_cached(text: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
        length = len(text)
        if args or kwargs:
            length += sum(len(each) for each in (*args, *kwargs.values()) if isinstance(each, str))
        for longest, cached in caches:
            if length <= longest:
                return cached(text, *args, **kwargs)
        return function(text, *args, **kwargs)

    return call_cached
