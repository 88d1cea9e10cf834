"""Runs every client that is installed in .clients and prints the table of docs/clients.md; --write also saves it.

`CLIENTS="pi codex"` selects some by their folders. `python -m tests.live.run_clients`
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from importlib.metadata import version

from scripts.figures import describe_measurement
from tests.live.client_rows import CLIENTS, ClientRow
from tests.live.client_runs import INSTALLED, ROOT, ClientResult, find_programs, run_client

PAGE = ROOT / "docs" / "clients.md"
HEADER = (
    "client, API", "version", "window", "steps", "requests", "compactions", "largest request", "refusals",
    "native compactions", "resumed", "searched", "undone", "seconds",
)  # fmt: skip
_PACKAGES = {"OpenAI SDK": "openai", "Anthropic SDK": "anthropic", "pydantic-ai": "pydantic-ai-slim"}


def main() -> None:
    """Runs one client after the other. The exit code is 1 if one of them failed."""
    chosen = os.environ.get("CLIENTS", "").split()
    rows, failed = list[str](), False
    for row in CLIENTS:
        if chosen and (row.place or "own") not in chosen:
            continue
        programs = find_programs(row)
        if programs is None:
            rows.append(f"| {row.name} | {row.version} | left out: {_read_failure(row)} |" + " |" * (len(HEADER) - 3))
            print(rows[-1], flush=True)
            continue
        result = run_client(row, programs)
        rows.append(render_result(result))
        failed = failed or bool(result.problems)
        print(rows[-1], *result.problems, sep="\n  ", flush=True)
    if "--write" in sys.argv:
        write_page(rows)
    sys.exit(failed)


def render_result(result: ClientResult) -> str:
    """One row of the table."""
    package = _PACKAGES.get(result.client.partition(",")[0])
    resumed = "none to resume" if result.is_resumed is None else _render_answer(holds=result.is_resumed)
    cells = (
        result.client, result.version or (version(package) if package else ""), f"{result.window:,}", result.steps,
        result.requests, result.compactions, f"{result.largest:,}", len(result.refusals), result.native, resumed,
        _render_answer(holds=result.is_searched), _render_answer(holds=result.is_undone), f"{result.seconds:.0f}",
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def write_page(rows: Iterable[str]) -> None:
    """Writes the table into the page. What was not run now keeps its row."""
    page = PAGE.read_text("utf-8")
    new = {row.split("|")[1].strip(): row for row in rows}
    old = {line.split("|")[1].strip(): line for line in page.splitlines() if line.startswith("| ")}
    names = [row.name for row in CLIENTS if row.name in new or row.name in old]
    head = [f"| {' | '.join(HEADER)} |", "|" + "---|" * len(HEADER)]
    table = "\n".join([describe_measurement(), "", *head, *(new.get(name) or old[name] for name in names), ""])
    found = r"(?<=<!-- figures -->\n).*?(?=<!-- end -->)"
    PAGE.write_text(re.sub(found, lambda _: table, page, count=1, flags=re.DOTALL), "utf-8")


def _render_answer(*, holds: bool) -> str:
    return "yes" if holds else "NO"


def _read_failure(row: ClientRow) -> str:
    failed = INSTALLED / f"{row.place}.failed"
    return failed.read_text("utf-8").strip() if failed.exists() else "it is not installed"


if __name__ == "__main__":
    main()
