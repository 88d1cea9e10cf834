"""What the command prints of a session holds none of its secrets: reports, timelines, hits, differences."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Cli
from tests.secrets import load_kinds
from tests.secrets.test_compacted_secrets import build_conversation, list_leaks

KINDS = load_kinds()


def test_no_command_prints_a_secret(tenfold: Cli, tmp_path: Path) -> None:
    source = tmp_path / "talk.json"
    source.write_text(json.dumps(build_conversation(KINDS)))
    printed = [tenfold.run_ok("compact", source, "--to", "4000", "--format", "openai-chat", "--preview")]
    printed.append(tenfold.run_ok("compact", source, "--to", "4000", "--format", "openai-chat"))
    printed.append(tenfold.run_ok("show", "last", "--all"))
    printed.append(tenfold.run_ok("show", "last", "--all", "--json"))
    printed.append(tenfold.run_ok("diff", "last"))
    printed.append(tenfold.run_ok("rules", "last", "--all"))
    printed.append(tenfold.run_ok("sessions"))
    printed += [tenfold.run_ok("search", f"part {number}", "--limit", "20") for number in range(0, len(KINDS), 25)]
    block = tenfold.run_ok("diff", "last", "--json").objects
    assert block
    printed.append(tenfold.run_ok("expand", "5", "--session", "last", "--around", "40"))
    assert list_leaks([ran.out + ran.err for ran in printed], KINDS) == []
