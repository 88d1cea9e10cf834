"""Draws `docs/thrift.svg` from the measured table of `docs/meter.md`: `python -m scripts.draw_thrift`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE, PICTURE = ROOT / "docs" / "meter.md", ROOT / "docs" / "thrift.svg"
_HEADER = "| | compactions |"
WIDTH, ROW = 660, 24
NAMES, PRICES, BARS, LONGEST = 10, 122, 240, 410
"""Where names, prices and bars begin: prices stand before the bars, so a narrow screen shows them first."""
_KINDS = ("r", "a", "u", "s")
_STYLE = """\
<style>
 .t{fill:#24292f}.d{fill:#57606a}.u{fill:#bf8700}.a{fill:#0969da}.r{fill:#afb8c1}.s{fill:#1a7f37}
 @media (prefers-color-scheme: dark){.t{fill:#e6edf3}.d{fill:#9198a1}.r{fill:#57606a}}
</style>"""


def read_table(page: str) -> tuple[list[str], list[list[str]]]:
    """Reads the models of the table of bills, and its rows: what was done, how many compactions, a price a model."""
    lines = page[page.index(_HEADER) :].split("\n\n", 1)[0].splitlines()
    header, _, *rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines]
    return header[2:], rows


def draw_thrift(page: str) -> str:
    """Draws a bar for each row of the table, once for each model, as long as its share of the first row's price."""
    models, rows = read_table(page)
    height = 34 + len(models) * (len(rows) * ROW + 38)
    label = "The bill of one long session. " + " ".join(
        f"{model}: {', '.join(f'{row[0]} {row[column]}' for row in rows)}." for column, model in enumerate(models, 2)
    )
    parts = [_write(NAMES, 22, "d", "a session of 254,000 tokens in a window of 200,000, request by request")]
    y = 34
    for column, model in enumerate(models, 2):
        parts.append(_write(NAMES, y + 20, "t", model, 'font-weight="bold" '))
        parts += _draw_bars(rows, column, y + 30)
        y += len(rows) * ROW + 38
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12" role="img" aria-label="{label}">\n'
        + "\n".join([_STYLE, *parts, "</svg>\n"])
    )


def _draw_bars(rows: Sequence[Sequence[str]], column: int, y: int) -> list[str]:
    prices = [float(re.sub(r"[$,]", "", row[column])) for row in rows]
    parts = []
    for row, price, kind in zip(rows, prices, _KINDS, strict=True):
        share = price / prices[0]
        parts.append(_write(NAMES, y + 14, "d", row[0]))
        parts.append(_write(PRICES, y + 14, "t", f"{row[column]}, {share:.0%}"))
        parts.append(f'<rect class="{kind}" x="{BARS}" y="{y}" width="{LONGEST * share:.0f}" height="{ROW - 6}"/>')
        y += ROW
    return parts


def _write(x: int, y: int, kind: str, text: str, more: str = "") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" {more}>{text}</text>'.replace(" >", ">")


if __name__ == "__main__":
    PICTURE.write_text(draw_thrift(TABLE.read_text("utf-8")), "utf-8")
