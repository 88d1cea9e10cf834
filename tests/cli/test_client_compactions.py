"""A session that its client compacted by itself: the commands that show it say so, since its model sees less."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Cli


def test_show_and_diff_say_that_the_client_compacted_it(tenfold: Cli, pi: Path, tmp_path: Path) -> None:
    lines = pi.read_text("utf-8").splitlines()
    last = json.loads(lines[-1])
    compaction = {
        "type": "compaction",
        "id": "c0ffee00",
        "parentId": last["id"],
        "timestamp": last["timestamp"],
        "summary": "Work on the stations went on.",
        "firstKeptEntryId": last["id"],
        "tokensBefore": 50_000,
    }
    file = tmp_path / "compacted.jsonl"
    file.write_text("\n".join([*lines, json.dumps(compaction)]) + "\n", "utf-8")
    tenfold.run_ok("import", file)
    assert "its client compacted it once" in tenfold.run_ok("show", "last").out
    refused = tenfold("diff", "last")
    assert refused.code == 2
    assert "its client compacted it once, at entry" in refused.err


def test_one_that_it_did_not_compact_says_nothing(tenfold: Cli, pi: Path) -> None:
    tenfold.run_ok("import", pi)
    assert "its client" not in tenfold.run_ok("show", "last").out
