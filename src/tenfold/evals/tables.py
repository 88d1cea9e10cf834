"""A table as plain texts, so that a terminal, Markdown and HTML can each draw it in their own way."""

from __future__ import annotations

from typing import NamedTuple


class Table(NamedTuple):
    """A table as texts. `note` says how to read it."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    note: str = ""
