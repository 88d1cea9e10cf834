"""docs/presets.md, from the rows of each preset and from the tests that carry its numbers.

Written by `python -m tests.designs.page --write`; a test fails when the page and the tests differ.
"""

from __future__ import annotations

import ast
import importlib
import sys
from functools import cache
from pathlib import Path

from tenfold.config.policies import POLICIES
from tests.designs.row import Row
from tests.shape.scan import ROOT

PAGE = ROOT / "docs" / "presets.md"
HERE = Path(__file__).parent


def _build_ids(preset: str, *series: tuple[str, int]) -> tuple[str, ...]:
    return tuple(f"{preset}.{letter}{n}" for letter, last in series for n in range(1, last + 1))


NUMBERS: dict[str, tuple[str, ...]] = {
    "tail": _build_ids("tail", ("A", 46), ("W", 14)),
    "tiers": _build_ids("tiers", ("B", 20), ("X", 10), ("D", 11)),
    "blocks": _build_ids("blocks", ("C", 27), ("Y", 13), ("D", 21)),
    "threshold": _build_ids("threshold", ("", 27), ("W", 9), ("D", 10)),
    "clip": _build_ids("clip", ("", 22), ("X", 9), ("D", 5)),
}
"""The numbers of each design's page: behaviours, the defects that must not be inherited (`_DEFECTS`), and what the
document claims besides (D)."""

_DEFECTS = ("tail.W", "tiers.X", "blocks.Y", "threshold.W", "clip.X")
_DEFECT_VERDICT = "differs: a defect of the original, not inherited"
_PUBLISHED_VERDICT = "as published"

_TITLES = {
    "tail": "cut point, retained tail, iterative summary",
    "tiers": "truncate, clear, summarise",
    "blocks": "overlays over runs",
    "threshold": "calibrated threshold, summary and continuation; with `sliding`",
    "clip": "chunk-and-fold batches, clip-archive, merging",
}
PUBLISHED = {
    "tail": ("CursorTouch/Operator-Use", "badlogic/pi-mono"),
    "tiers": ("nijaru/ion",),
    "blocks": ("LazyBouy/phi-core",),
    "threshold": ("achetronic/adk-utils-go",),
    "clip": ("Numina-Systems/constellation",),
}
"""The public repository in which each design was published, and the one that it follows, if any."""
_INTRODUCTION = """# The presets

Each preset reproduces one published design on Tenfold's engine: its constants, texts and behaviours, without its
defects. The first table of each says where to find what the design's users know by name; the second, which test covers
which number of the design's page, and whether it holds as published. Where it does not, the reason stands there: a law
(docs/laws.md) would be broken, or the original has a defect.

Written by `python -m tests.designs.page --write` from the rows and the tests in `tests/presets`.
"""


def load_rows(preset: str) -> tuple[Row, ...]:
    """The rows of a preset."""
    found: tuple[Row, ...] = importlib.import_module(f"tests.presets.rows_{preset}").ROWS
    return found


def find_covering_tests() -> dict[str, list[str]]:
    """Which tests carry each number: number to `file::test`."""
    out: dict[str, list[str]] = {}
    for path in sorted(HERE.glob("test_*.py")):
        for name, ids in find_marked_tests(path):
            for each in ids:
                out.setdefault(each, []).append(f"{path.stem}::{name}")
    return out


@cache
def find_marked_tests(path: Path) -> list[tuple[str, tuple[str, ...]]]:
    """The tests of a file that carry numbers, with them."""
    return [
        (node.name, tuple(ast.literal_eval(arg) for arg in mark.args))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for mark in node.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.spec"
    ]


def find_verdict(number: str) -> str:
    """Whether a claim holds as published, by what the rows say of it; the reason where it does not."""
    if number.startswith(_DEFECTS):
        return _DEFECT_VERDICT
    rows = load_rows(number.partition(".")[0])
    reasons = [reason for row in rows for differing, reason in row.differs if differing == number]
    return f"differs: {'; '.join(reasons)}" if reasons else _PUBLISHED_VERDICT


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def render_page() -> str:
    """The whole page."""
    tests = find_covering_tests()
    parts = [_INTRODUCTION]
    for preset, numbers in NUMBERS.items():
        made = (POLICIES[preset].__doc__ or "").strip().split("\n")[0]
        parts.append(f"## `{preset}`: {_TITLES[preset]}\n\n{made}\n")
        links = [f"[{repository}](https://github.com/{repository})" for repository in PUBLISHED[preset]]
        parts.append(f"Published in {', after '.join(links)}.\n")
        if (PAGE.parent / "designs" / f"{preset}.md").exists():
            parts.append(f"[The design as code that runs](designs/{preset}.md)\n")
        parts.append("| number | the design's name | here | |\n|---|---|---|---|")
        for row in load_rows(preset):
            where = f"`{row.path}`" if row.path else ""
            short = ", ".join(i.partition(".")[2] for i in row.ids)
            parts.append(f"| {short} | {_escape_cell(row.name)} | {where} | {_escape_cell(row.meaning)} |")
        parts.append("\n| number | covered by | verdict |\n|---|---|---|")
        for each in numbers:
            names = ", ".join(f"`{name}`" for name in tests.get(each, ["**missing**"]))
            parts.append(f"| {each.partition('.')[2]} | {names} | {_escape_cell(find_verdict(each))} |")
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(render_page(), encoding="utf-8")
    else:
        sys.stdout.write(render_page())
