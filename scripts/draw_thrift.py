"""Draws `docs/thrift.svg` from a measured table of `docs/bill.md`: `python -m scripts.draw_thrift`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE, PICTURE = ROOT / "docs" / "bill.md", ROOT / "docs" / "thrift.svg"
_TABLE = re.compile(r"^\| (the \d+ that outgrow the window) \|.*?(?=\n\n)", re.MULTILINE | re.DOTALL)
_DRAWN = ("none", "keep-last", "tenfold", "thrift 0.5", "thrift 1")
WIDTH, ROW = 660, 24
NAMES, PRICES, BARS, LONGEST = 10, 122, 240, 410
"""Where names, prices and bars begin: prices stand before the bars, so a narrow screen shows them first."""
_KINDS = ("r", "d", "a", "u", "s")
_STYLE = """\
<style>
 .t{fill:#24292f}.d{fill:#57606a}.u{fill:#bf8700}.a{fill:#0969da}.r{fill:#afb8c1}.s{fill:#1a7f37}
 @media (prefers-color-scheme: dark){.t{fill:#e6edf3}.d{fill:#9198a1}.r{fill:#57606a}}
</style>"""


def read_table(page: str) -> tuple[str, list[str], list[list[str]]]:
    """Reads the table of the sessions that outgrow a window of 100,000: its title, its models, and the rows to draw."""
    found = _TABLE.search(page)
    assert found is not None, "docs/bill.md has no table of the sessions that outgrow the window"
    header, _, *rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in found[0].splitlines()]
    return found[1], [name.partition(",")[0] for name in header[2:4]], [row for row in rows if row[0] in _DRAWN]


def draw_thrift(page: str) -> str:
    """Draws a bar for each row of the table, once for each model, as long as its share of the first row's price."""
    title, models, rows = read_table(page)
    height = 34 + len(models) * (len(rows) * ROW + 38)
    label = f"The bill of the sessions, {title} of 100,000. " + " ".join(
        f"{model}: {', '.join(f'{row[0]} {_read_price(row[column])}' for row in rows)}."
        for column, model in enumerate(models, 2)
    )
    parts = [_write(NAMES, 22, "d", f"of the recorded sessions, {title} of 100,000 tokens")]
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
    prices = [float(_read_price(row[column])[1:].replace(",", "")) for row in rows]
    parts = []
    for row, price, kind in zip(rows, prices, _KINDS, strict=True):
        share = price / prices[0]
        parts.append(_write(NAMES, y + 14, "d", row[0]))
        parts.append(_write(PRICES, y + 14, "t", f"{_read_price(row[column])}, {share:.0%}"))
        parts.append(f'<rect class="{kind}" x="{BARS}" y="{y}" width="{LONGEST * share:.0f}" height="{ROW - 6}"/>')
        y += ROW
    return parts


def _read_price(cell: str) -> str:
    return cell.split(", ", maxsplit=1)[0]


def _write(x: int, y: int, kind: str, text: str, more: str = "") -> str:
    return f'<text class="{kind}" x="{x}" y="{y}" {more}>{text}</text>'.replace(" >", ">")


if __name__ == "__main__":
    PICTURE.write_text(draw_thrift(TABLE.read_text("utf-8")), "utf-8")
