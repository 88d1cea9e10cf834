"""Runs the agent of every framework that is installed, with Tenfold and with the framework's own compaction.

Prints the table of docs/frameworks.md; --write also saves it. `ADAPTERS="langchain agno"` selects some.
`python -m tests.adapters.run_adapters`
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from scripts.figures import describe_measurement
from tests.adapters.host_rows import HOSTS, HostRow
from tests.adapters.host_runs import INSTALLED, ROOT, HostResult, find_python, run_host, run_tests

PAGE = ROOT / "docs" / "frameworks.md"
WINDOWS = (8_000, 32_000)
HEADER = (
    "framework",
    "version",
    "window",
    "compacted by",
    "steps",
    "requests",
    "refused",
    "largest request",
    "sent",
    "cached",
)


def main() -> None:
    """Runs one framework after the other. The exit code is 1 if one of them failed."""
    chosen = os.environ.get("ADAPTERS", "").split()
    rows, failed = list[str](), False
    for host in HOSTS:
        if chosen and host.name not in chosen:
            continue
        python = find_python(host)
        if python is None:
            rows.append(f"| {host.title} | left out: {_read_failure(host)} |" + " |" * (len(HEADER) - 2))
            print(rows[-1], flush=True)
            continue
        failed_tests = run_tests(host, python)
        problems = [f"its tests: {failed_tests}"] if failed_tests else []
        version = _read_version(host, python)
        for result, is_own, window in _run_windows(host, python):
            compactor = host.own if is_own else "Tenfold"
            rows.append(_render_result(host, version, window, compactor, result))
            if not is_own:
                problems += [*result.problems, *result.refusals]
            print(rows[-1], flush=True)
        failed = failed or bool(problems)
        for problem in problems:
            print(f"  {problem}", flush=True)
    if "--write" in sys.argv:
        _write_page(rows)
    sys.exit(failed)


def _run_windows(host: HostRow, python: Path) -> Iterator[tuple[HostResult, bool, int]]:
    for window in WINDOWS:
        yield run_host(host, python, window), False, window
        if host.own:
            yield run_host(host, python, window, own=True), True, window


def _read_version(host: HostRow, python: Path) -> str:
    code = f"import importlib.metadata; print(importlib.metadata.version({host.package or host.name!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=False).stdout.strip()


def _render_result(host: HostRow, version: str, window: int, compactor: str, result: HostResult) -> str:
    cells = (
        host.title, version, f"{window:,}", compactor, result.steps, result.requests, len(result.refusals),
        f"{result.largest:,}", f"{result.sent:,}", f"{result.cached:.0%}",
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def _write_page(rows: Iterable[str]) -> None:
    """Writes the table into the page. A framework that was not run now keeps its rows."""
    page, new, old = PAGE.read_text("utf-8"), _group_rows(rows), {}
    table = re.search(r"(?<=<!-- figures -->\n).*?(?=<!-- end -->)", page, re.DOTALL)
    assert table is not None
    old = _group_rows(line for line in table[0].splitlines() if line.startswith("| "))
    lines = [f"| {' | '.join(HEADER)} |", "|" + "---|" * len(HEADER)]
    for host in HOSTS:
        lines += new.get(host.title) or old.get(host.title, [])
    text = "\n".join([describe_measurement(), "", *lines, ""])
    PAGE.write_text(page[: table.start()] + text + page[table.end() :], "utf-8")


def _group_rows(rows: Iterable[str]) -> dict[str, list[str]]:
    grouped: dict[str, list[str]] = {}
    for row in rows:
        grouped.setdefault(row.split("|")[1].strip(), []).append(row)
    return grouped


def _read_failure(host: HostRow) -> str:
    failed = INSTALLED / f"{host.name}.failed"
    return failed.read_text("utf-8").strip() if failed.exists() else "it is not installed"


if __name__ == "__main__":
    main()
