"""A table as plain texts, so that a terminal, Markdown and HTML can each draw it in their own way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from textwrap import shorten
from typing import NamedTuple

_REASON = 120
"""Characters of a reason in a table, at most; it ends with a whole word."""


class Table(NamedTuple):
    """A table as texts. `note` says how to read it."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    note: str = ""


def most_often(reasons: Iterable[str]) -> str:
    """The reason that was given most often, in a line that fits into a table."""
    ((reason, _),) = Counter(" ".join(each.split()) for each in reasons).most_common(1)
    return shorten(reason, _REASON, placeholder=" …")
