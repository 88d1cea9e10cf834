"""A table of plain text, which a terminal, Markdown and HTML can each draw in their own way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from textwrap import shorten
from typing import NamedTuple

_MAX_REASON = 120
"""The most characters of a reason in a table. It ends with a whole word."""


class Table(NamedTuple):
    """A table of text. `note` says how to read it."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    note: str = ""


def find_most_frequent(reasons: Iterable[str]) -> str:
    """Returns the most frequent reason, shortened to a line that fits into a table."""
    ((reason, _),) = Counter(" ".join(each.split()) for each in reasons).most_common(1)
    return shorten(reason, _MAX_REASON, placeholder=" …")


def format_seconds(seconds: float) -> str:
    """Formats a time in the unit that shows it best."""
    for unit, scale in (("s", 1.0), ("ms", 1e3)):
        if seconds * scale >= 1:
            return f"{seconds * scale:,.3g} {unit}"
    return f"{seconds * 1e6:,.3g} us"
