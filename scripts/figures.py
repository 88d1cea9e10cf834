"""Lists the pages whose figures are older than the code that they measure: `make figures`.

Each page of `PAGES` says where its figures are from in lines that begin as `describe_measurement` writes them. A page
has several of these if its parts were measured at different times.
"""

from __future__ import annotations

import datetime as dt
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
MEASURED = re.compile(r"^Measured on (\d{4}-\d\d-\d\d) at commit ([0-9a-f]{7,40})(-dirty)?\b", re.MULTILINE)
_VIEWS = ("src/tenfold/compaction", "src/tenfold/core")
_WHOLE = ("src/tenfold",)


class FigurePage(NamedTuple):
    """A page with measured figures, the folders of the code that it measures, and the command that measures it anew."""

    name: str
    folders: tuple[str, ...]
    command: str


PAGES = (
    FigurePage(
        "docs/bill.md", (*_VIEWS, "yardstick/src"), "TENFOLD_SESSIONS=... python -m yardstick.scripts.bill_page --write"
    ),
    FigurePage("docs/compare.md", _VIEWS, "make yardstick, then copy its figures"),
    FigurePage("docs/benchmarks.md", (*_WHOLE, "yardstick/bench"), "make bench WRITE=1"),
    FigurePage("docs/clients.md", (*_WHOLE, "clients", "tests/live"), "make clients"),
    FigurePage("docs/frameworks.md", (*_WHOLE, "adapters", "tests/adapters"), "make adapters WRITE=1"),
    FigurePage("docs/installing.md", _WHOLE, "make release WRITE=1"),
    FigurePage("docs/kits.md", (*_VIEWS, "yardstick/kits"), "make kits WRITE=1"),
    FigurePage("docs/measures.md", ("src/tenfold/store",), "tenfold eval search and generations with --set"),
    FigurePage(
        "docs/meter.md",
        ("src/tenfold/core/meter", "src/tenfold/core/wire"),
        "python -m yardstick.bench.meter_replay && python -m yardstick.bench.error_bounds",
    ),
    FigurePage("docs/reading.md", _VIEWS, "make yardstick STAGES=reading"),
    FigurePage("docs/store.md", ("src/tenfold/store",), "python -m yardstick.bench.stores 100000"),
    FigurePage("docs/yardstick.md", (*_WHOLE, "yardstick/src"), "make peers yardstick"),
)


class HistoryMissing(Exception):
    """There is no git history to compare with."""


def describe_measurement(root: Path = ROOT) -> str:
    """Returns the line of a page whose figures are measured now, with what is checked out."""
    try:
        commit = _run_git(root, "describe", "--always", "--dirty", "--exclude", "*").strip()
    except HistoryMissing:
        commit = "unknown"
    return f"Measured on {dt.datetime.now(dt.UTC).date()} at commit {commit}."


def describe_age(page: FigurePage, root: Path = ROOT) -> list[str]:
    """Says for each measurement of a page how much of its code was changed since. Lists nothing if nothing was.

    Raises `HistoryMissing` if the folder `root` is no clone.
    """
    found = dict.fromkeys(MEASURED.findall((root / page.name).read_text("utf-8")))
    lines = [] if found else [f"{page.name}: says of no commit that it was measured there"]
    for date, commit, dirty in found:
        start = f"{page.name}: measured on {date} at commit {commit}"
        if dirty:
            lines.append(f"{start} with changes that were not committed, so nobody can tell with which code")
        elif not _run_git(root, "rev-list", "--max-count=1", commit, "--", may_fail=True):
            lines.append(f"{start}, which this clone does not have (git fetch --unshallow)")
        elif changed := _run_git(root, "log", "--format=%h of %cs", f"{commit}..", "--", *page.folders).splitlines():
            lines.append(f"{start}, {len(changed)} commits before the newest of its code, {changed[0]}")
    return [*lines, f"  measure it anew: {page.command}"] if lines else []


def main(pages: Sequence[FigurePage] = PAGES, root: Path = ROOT) -> None:
    """Prints the pages that are older than their code. They may be: the exit code is 1 only if nobody can tell."""
    try:
        lines = [line for page in pages for line in describe_age(page, root)]
    except HistoryMissing as exc:
        sys.exit(f"figures: {exc}")
    print("\n".join(lines) or "figures: no page is older than the code that it measures")


def _run_git(root: Path, *arguments: str, may_fail: bool = False) -> str:
    if not (root / ".git").exists():  # a copy inside another project's clone has no history either
        raise HistoryMissing(f"{root} has no git history, so the age of its figures is not known: take a clone")
    try:
        ran = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise HistoryMissing("git is not installed, so the age of the figures is not known") from None
    if ran.returncode and not may_fail:
        raise HistoryMissing(f"git failed: {ran.stderr.strip()}")
    return ran.stdout


if __name__ == "__main__":
    main()
