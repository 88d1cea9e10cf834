"""Agents on the real SDKs, and the real clients that are installed, work through `tenfold wrap` in a small window.

`make clients` installs and runs all of them: that takes a network and ten minutes, which is too long for every change.
"""

from __future__ import annotations

import sys

import pytest

from tests.live.client_rows import CLIENTS, ClientRow
from tests.live.client_runs import find_programs, run_client
from tests.thorough import IS_THOROUGH

SHORT = ("OpenAI SDK, Responses", "Anthropic SDK, Messages", "pydantic-ai, Chat")
OWN = [row for row in CLIENTS if not row.place and (IS_THOROUGH or row.name in SHORT)]
"""Every SDK and every wire once, and in a thorough run each SDK with each of its wires: a run takes ten seconds."""
INSTALLABLE = [row for row in CLIENTS if row.place in ("pi", "codex")]
"""Two of those that `make clients` installs: the quick ones."""


@pytest.mark.timeout(400)
@pytest.mark.skipif(sys.platform == "win32", reason="the tools run commands of a POSIX shell")
@pytest.mark.parametrize("row", [*OWN, *INSTALLABLE], ids=lambda row: row.name)
def test_a_client_works_in_a_small_window(row: ClientRow) -> None:
    programs = find_programs(row)
    if programs is None:
        pytest.skip(f"{row.place} is not installed: make clients CLIENTS={row.place}")
    result = run_client(row, programs)
    assert result.problems == ()
    assert result.steps >= 40
    assert result.largest <= row.window
