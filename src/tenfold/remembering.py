"""Results of pure functions over one text, kept for a while.

The same messages are read several times for one Block: by a preview, by what is prepared in the background, by the
compaction itself, by the attempt after one that failed; and a section of facts is rendered more than once to fit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

MOST = 2_048
"""Results that are kept of one function: of those asked for last."""
LONGEST = 10_000
"""Characters of the longest text whose result is kept: a text may be of any size."""


def remembered(function: Callable[Concatenate[str, P], R]) -> Callable[Concatenate[str, P], R]:
    """The function, with its newest results kept. They are shared, so they must be values that nobody changes."""
    kept = lru_cache(maxsize=MOST)(function)
    known = cast("Callable[Concatenate[str, P], R]", kept)  # its own type says nothing of the arguments

    @wraps(function)
    def either(text: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return known(text, *args, **kwargs) if len(text) <= LONGEST else function(text, *args, **kwargs)

    return either
