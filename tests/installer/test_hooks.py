"""The hooks of Claude Code, run as it runs them: the installed shell command, with an event on standard input."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tenfold.apps.cli.main import run
from tenfold.apps.mcp.session_tools import SessionTools
from tenfold.core.meter.counters import choose_counter
from tenfold.store.location import open_store
from tests.shape.scan import ROOT

EXAMPLE = ROOT / "examples" / "sessions" / "pricing.claude-code.jsonl"
Json = dict[str, Any]


class Claude:
    """A home with the plugin installed, a transcript, and the hooks as Claude Code calls them."""

    def __init__(self, home: Path) -> None:
        self.home, self.store = home, home / "store.db"
        self.transcript = home / ".claude" / "projects" / "x" / "s1.jsonl"
        self.transcript.parent.mkdir(parents=True)
        self.transcript.write_bytes(EXAMPLE.read_bytes())
        self.hooks = json.loads((home / ".claude/tenfold/plugin/hooks/hooks.json").read_text("utf-8"))["hooks"]

    def call_hook(self, name: str, folder: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
        command = self.hooks[name][0]["hooks"][0]["command"]
        event = {"session_id": "s1", "transcript_path": str(self.transcript), "hook_event_name": name} | more
        env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOME": str(self.home)}
        return subprocess.run(
            ["sh", "-c", command], input=json.dumps(event), env=env, cwd=folder or self.home,
            capture_output=True, text=True, check=False, timeout=500,
        )  # fmt: skip


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Claude:
    if shutil.which("sh") is None:
        pytest.skip("the hooks are commands for a shell of POSIX")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    assert run(["install", "claude-code", "--store", str(tmp_path / "store.db")]) == 0
    return Claude(tmp_path)


def append_compaction(transcript: Path) -> None:
    """What Claude Code writes when it compacts: a boundary without a parent, and its summary."""
    last = json.loads(transcript.read_text("utf-8").splitlines()[-1])
    common = {key: last[key] for key in ("cwd", "sessionId", "version", "timestamp") if key in last}
    boundary = {
        **common, "type": "system", "subtype": "compact_boundary", "uuid": "b1", "parentUuid": None,
        "logicalParentUuid": last["uuid"], "content": "Conversation compacted",
    }  # fmt: skip
    message = {"role": "user", "content": "This session is being continued. Summary: some prices were looked at."}
    summary = {**common, "type": "user", "isCompactSummary": True, "uuid": "b2", "parentUuid": "b1", "message": message}
    with transcript.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in (boundary, summary))


def test_before_a_compaction_all_is_stored_and_after_it_what_must_survive_is_added(claude: Claude) -> None:
    before = claude.call_hook("PreCompact", trigger="auto")
    assert (before.returncode, before.stderr.count("\n")) == (0, 1), before.stderr
    assert json.loads(before.stdout) == {"suppressOutput": True}
    store = open_store(claude.store)
    (row,) = store.list_sessions("default")
    rules = SessionTools(store).list_rules().splitlines()
    assert len(rules) == 10
    append_compaction(claude.transcript)
    after = claude.call_hook("SessionStart", source="compact")
    assert after.returncode == 0, after.stderr
    output: Json = json.loads(after.stdout)["hookSpecificOutput"]
    assert output["hookEventName"] == "SessionStart"
    context = output["additionalContext"]
    assert "## Rules (user)" in context
    assert "## Files modified" in context
    assert sum(rule.split(". ", 1)[1].rpartition(" (position")[0][:40] in context for rule in rules) == 10
    assert f'session "{row.info.id}"' in context
    assert choose_counter(None).counter.count([context])[0] < 2_200
    (again,) = store.list_sessions("default")
    assert again.info.id == row.info.id
    assert again.entry_count > row.entry_count
    store.close()


def test_other_events_are_answered_with_nothing(claude: Claude) -> None:
    for source in ("startup", "resume", "clear"):
        done = claude.call_hook("SessionStart", source=source)
        assert (done.returncode, json.loads(done.stdout)) == (0, {})


def test_a_fault_is_shown_and_never_stops_the_compaction(claude: Claude, tmp_path: Path) -> None:
    """Exit code 2 of a PreCompact hook would. The project's own settings may be wrong, too."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "tenfold.toml").write_text("[tenfold]\npolicy = 'nonsense'\n", "utf-8")
    wrong = claude.call_hook("PreCompact", folder)
    assert wrong.returncode == 1
    assert "nonsense" in wrong.stderr
    claude.transcript.unlink()
    missing = claude.call_hook("PreCompact", trigger="manual")
    assert missing.returncode == 1
    assert str(claude.transcript) in missing.stderr
    claude.transcript.write_text("no session at all\n", "utf-8")
    unread = claude.call_hook("PreCompact", trigger="manual")
    assert (unread.returncode, unread.stdout) == (1, "")
    assert "no message can be read" in unread.stderr


def test_a_damaged_line_is_told_and_the_rest_is_stored(claude: Claude) -> None:
    whole = claude.transcript.read_bytes()
    claude.transcript.write_bytes(whole + b'{"type": "user", "uuid": "cut')
    done = claude.call_hook("PreCompact", trigger="auto")
    assert done.returncode == 0
    assert json.loads(done.stdout)["systemMessage"].startswith("tenfold: 1 lines of ")
    with_tail = open_store(claude.store)
    (row,) = with_tail.list_sessions("default")
    with_tail.close()
    assert row.entry_count > 200
