"""The example of docs/apply.md, run: what it prints is what the page shows."""

from __future__ import annotations

import shlex
from fnmatch import fnmatch
from pathlib import Path

from tests.cli.conftest import Cli
from tests.clients.test_apply import place_example
from tests.shape.scan import ROOT


def test_the_page_shows_what_is_printed(tenfold: Cli, home: Path) -> None:
    id_, _ = place_example("pi", home)
    block = (ROOT / "docs" / "apply.md").read_text("utf-8").split("```console\n")[1].split("```")[0]
    steps = [step.splitlines() for step in block.replace("{id}", id_).split("$ tenfold ")[1:]]
    assert len(steps) == 3
    for command, *shown in steps:
        printed = tenfold.run_ok(*shlex.split(command)).out.splitlines()
        assert len(printed) == len(shown), printed
        assert all(fnmatch(line, pattern) for line, pattern in zip(printed, shown, strict=True)), printed
