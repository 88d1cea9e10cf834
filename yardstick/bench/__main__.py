"""Measures every figure of docs/benchmarks.md and prints it: `python -m yardstick.bench [PART...]`, as in `speed`.

`--keep` also writes each part into docs/benchmarks.md, with the commit, the day and the machine.
"""

from __future__ import annotations

import contextlib
import io
import os
import platform
import sys
from pathlib import Path

from scripts.figures import describe_measurement
from yardstick.bench import blocking, corpus, gateway, meter_replay, pages, speed, tokenizers

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
_PARTS = (
    ("Every recorded session to a tenth", corpus.main),
    ("A turn, an opening, a million tokens", speed.main),
    ("How long an agent's calls wait", blocking.main),
    ("What the gateway adds to a request", gateway.main),
    ("The pages of `tenfold inspect`", pages.main),
    ("The calibrated Reading against what the provider reported", meter_replay.main),
    ("Token counting", tokenizers.main),
)


class _Tee(io.TextIOBase):
    """Writes to the terminal at once and also keeps what was written."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def write(self, text: str) -> int:
        self.parts.append(text)
        written = sys.__stdout__
        if written is not None:
            written.write(text)
            written.flush()
        return len(text)


def describe_machine() -> str:
    """Describes the machine in a line: processors, architecture, system and Python."""
    return (
        f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()} {platform.release().split('-')[0]}, "
        f"Python {platform.python_version()}"
    )


def put_output(page: str, title: str, output: str) -> str:
    """Returns the page with this output in the section of that title, and where it was measured. Its prose stays."""
    section = page.index(f"## {title}\n")
    start = page.index("Measured on ", section)
    end = page.index("\n```\n", start)
    return f"{page[:start]}{describe_measurement()} {describe_machine()}.\n\n```text\n{output.strip()}{page[end:]}"


def main() -> None:
    """Runs all parts, or those whose names are given."""
    arguments, sys.argv = sys.argv[1:], sys.argv[:1]
    names = [argument for argument in arguments if argument != "--keep"]
    for title, part in _PARTS:
        if names and part.__module__.removeprefix("yardstick.bench.") not in names:
            continue
        print(f"\n== {title} ==\n")
        out = _Tee()
        with contextlib.redirect_stdout(out):
            part()
        if "--keep" in arguments:
            PAGE.write_text(put_output(PAGE.read_text("utf-8"), title, "".join(out.parts)), "utf-8")


if __name__ == "__main__":
    main()
