"""Measures every figure of docs/benchmarks.md and prints it with the date and the machine: `python -m bench`.

`--keep` also writes the output to docs/benchmarks.md.
"""

from __future__ import annotations

import contextlib
import io
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

from bench import blocking, corpus, gateway, meter_replay, speed, tokenizers

PAGE = Path(__file__).resolve().parent.parent / "docs" / "benchmarks.md"
_PARTS = (
    ("Every recorded session to a tenth", corpus.main),
    ("A turn, an opening, a million tokens", speed.main),
    ("How long an agent's calls wait", blocking.main),
    ("What the gateway adds to a request", gateway.main),
    ("The calibrated Reading against what the provider reported", meter_replay.main),
    ("Token counting", tokenizers.main),
)
_HEAD = """# Benchmarks

These figures show what Tenfold costs and how well it meets its targets: how many tokens are left, how long a
call waits, how far off a token count is. `make bench` printed them on {date} on this machine: {machine}.
Absolute times depend on the machine, so each stands beside a named baseline of the same run.
`TENFOLD_SESSIONS` names the folder from which the recorded sessions are read.

The gold facts (`tests/gold`) were marked by reading, without the extractor. Their sessions are not a held-out
set, so these figures are a check and say less about other sessions.
"""


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


def main() -> None:
    """Runs all parts."""
    arguments, sys.argv = sys.argv[1:], sys.argv[:1]
    page = [_HEAD.format(date=datetime.now(UTC).strftime("%Y-%m-%d"), machine=describe_machine())]
    for title, part in _PARTS:
        print(f"\n== {title} ==\n")
        out = _Tee()
        with contextlib.redirect_stdout(out):
            part()
        page.append(f"\n## {title}\n\n```text\n{''.join(out.parts).strip()}\n```\n")
    if "--keep" in arguments:
        PAGE.write_text("".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
