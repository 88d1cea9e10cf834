"""Writes a table as CSV with plain numbers, so that a spreadsheet or a data frame can compute with it.

A table is made to be read: a cell may say `2.5k`, `98%`, `1.02 ms`, `0.60 to 0.87`, `9/169` or `0.876 langchain/trim`.
Here a number stands alone, in tokens, shares, seconds, megabytes or dollars, and a second value has its own column.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from tenfold_yardstick.tables import Table

_SCALES = {"": "1", "%": "0.01", "k": "1000", "M": "1000000", "s": "1", "ms": "0.001", "us": "0.000001", "MB": "1"}
_UNIT_NAMES = {"s": "s", "ms": "s", "us": "s", "MB": "MB", "$": "USD"}
"""The units that a column's name has to say, since its numbers do not. All others are counts, tokens or shares."""
_BLANKS = ("", "-")
_VALUE = re.compile(r"([-+]?)(\$?)(\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)(?: ?(%|k|ms|us|s|MB|M)(?!\w))?")


class _Cell(NamedTuple):
    """What a cell says: a number, a second value with what it is, and the unit. `first` is the text if it has none."""

    first: str
    second: str = ""
    kind: str = ""
    unit: str = ""
    is_number: bool = True


def render_csv(table: Table) -> bytes:
    """Renders a table as CSV, with its columns in the first line. The first column holds names and stays as it is."""
    columns = [_convert_column(name, [row[at] for row in table.rows]) for at, name in enumerate(table.columns) if at]
    names = [table.columns[0], *(name for found, _ in columns for name in found)]
    rows = [[row[0], *(cell for _, cells in columns for cell in cells[at])] for at, row in enumerate(table.rows)]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([names, *rows])
    return out.getvalue().encode()


def _convert_column(name: str, texts: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """Returns the names and the cells of the one or two columns that a column becomes."""
    cells = [_parse_cell(text) for text in texts]
    filled = [cell for cell in cells if cell.first]
    is_whole = all(cell.is_number for cell in filled)
    if not any(cell.is_number and (is_whole or cell.kind != "which") for cell in filled):
        return [name], [["" if text in _BLANKS else text] for text in texts]
    if not is_whole:  # a reason where a number could not be had
        cells = [_Cell(text, is_number=False) if c.kind == "which" else c for c, text in zip(cells, texts, strict=True)]
    unit = next((_UNIT_NAMES[cell.unit] for cell in filled if cell.unit in _UNIT_NAMES), "")
    first = f"{name} ({unit})" if unit else name
    kind = next((cell.kind for cell in cells if cell.kind), "")
    if kind == "to":
        return [f"{first} low", f"{first} high"], [[cell.first, cell.second or cell.first] for cell in cells]
    if kind:
        return [first, f"{name} {kind}"], [[cell.first, cell.second] for cell in cells]
    return [first], [[cell.first] for cell in cells]


def _parse_cell(text: str) -> _Cell:
    if text in _BLANKS:
        return _Cell("", is_number=False)
    found = _VALUE.match(text)
    if found is None:
        return _Cell(text, is_number=False)
    number, unit, rest = _scale(found), found[2] or found[4] or "", text[found.end() :]
    if not rest:
        return _Cell(number, unit=unit)
    for separator, kind in ((" to ", "to"), ("/", "of"), (" of ", "of")):
        second = _VALUE.fullmatch(rest.removeprefix(separator)) if rest.startswith(separator) else None
        if second is not None:
            return _Cell(number, _scale(second), kind, unit)
    if rest.startswith(" "):
        return _Cell(number, rest.strip(" ()"), "which", unit)
    return _Cell(text, is_number=False)


def _scale(found: re.Match[str]) -> str:
    sign = "-" if found[1] == "-" else ""
    return f"{sign}{Decimal(found[3].replace(',', '')) * Decimal(_SCALES[found[4] or '']):f}"
