"""A rule that was added since the newest compaction is in the view that the next command makes, at the same target."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Cli

RULE = "Ask before each release."


def test_an_added_rule_is_taken_in_at_the_same_target(tenfold: Cli, pi: Path) -> None:
    tenfold.run_ok("compact", pi, "--to", "20%")
    tenfold.run_ok("rules", "last", "--add", RULE)
    assert RULE not in tenfold.run_ok("show", "last").out
    again = tenfold.run_ok("compact", pi, "--to", "20%")
    assert "rules were changed since the newest compaction" in again.err
    assert RULE in tenfold.run_ok("show", "last").out
    assert "rules were changed" not in tenfold.run_ok("compact", pi, "--to", "20%").err


def test_a_preview_takes_nothing_back(tenfold: Cli, pi: Path) -> None:
    tenfold.run_ok("compact", pi, "--to", "20%")
    tenfold.run_ok("rules", "last", "--add", RULE)
    before = tenfold.run_ok("show", "last").out
    tenfold.run_ok("compact", pi, "--to", "20%", "--preview")
    assert tenfold.run_ok("show", "last").out == before
