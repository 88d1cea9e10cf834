"""Renders the tables that a notebook shows of results: plain HTML without styles, with every text escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def render_table(rows: Iterable[tuple[object, ...]]) -> str:
    """Renders rows of a table. The first cell of each is its heading."""
    lines = (
        f"<tr><th>{escape(str(first))}</th>{''.join(f'<td>{escape(str(cell))}</td>' for cell in cells)}</tr>"
        for first, *cells in rows
    )
    return f"<table>{''.join(lines)}</table>"
