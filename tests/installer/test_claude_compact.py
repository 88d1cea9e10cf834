"""Claude Code's function hook `session.compact`: the rows that Tenfold answers, and the module that asks for them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tenfold.apps.cli.main import run
from tenfold.apps.installer.claude_hooks import answer_hook
from tenfold.apps.installer.claude_rows import MOST_LEFT, Row, compact_rows
from tenfold.apps.installer.client_setups import read_asset
from tenfold.config.settings import Config, load_settings
from tenfold.errors import BadInput
from tenfold.store.base import Store
from tests.shape.scan import ROOT

NODE = shutil.which("node")
EXAMPLE = ROOT / "examples" / "sessions" / "pricing.claude-code.jsonl"
WORDS = " ".join(f"word{number}" for number in range(300))
RULE = "Never touch config.py."
Json = dict[str, Any]


def build_rows(steps: int, *, is_open: bool = False) -> list[Json]:
    """A conversation of steps: a thought, a text, two calls in rows of their own, and their results."""
    rows: list[Json] = [{"role": "user", "text": f"Look at all the parts. {RULE}", "toolUses": []}]
    for step in range(steps):
        calls = [
            {"tool_use_id": f"toolu_{step}{which}", "tool": "Read", "input": {"file_path": f"/p/part{step}{which}.py"}}
            for which in "ab"
        ]
        rows += [
            {"role": "assistant", "text": "", "toolUses": []},
            {"role": "assistant", "text": f"Step {step}.", "toolUses": []},
            *({"role": "assistant", "text": "", "toolUses": [call]} for call in calls),
        ]
        for call in calls:
            result = {"tool_use_id": call["tool_use_id"], "text": f"part {step}: {WORDS}", "isError": step == 0}
            rows.append({"role": "user", "text": "", "toolUses": [], "toolResults": [result]})
    if not is_open:
        rows.append({"role": "assistant", "text": "All parts are read.", "toolUses": []})
    return rows


def compact(rows: list[Json], config: Config | None = None) -> Json:
    answer = compact_rows(msgspec.convert(rows, list[Row]), config or load_settings())
    built: Json = msgspec.to_builtins(answer)
    return built


def place(answer: Json, rows: list[Json]) -> list[Json]:
    """The list as the module builds it."""
    return [rows[row] if isinstance(row, int) else row for row in answer["rows"]]


def list_ids(rows: list[Json], kind: str) -> list[str]:
    return [each["tool_use_id"] for row in rows for each in row.get(kind, [])]


def test_rows_are_compacted_and_words_stay() -> None:
    rows = build_rows(20)
    answer = compact(rows)
    placed = place(answer, rows)
    assert answer["tokensAfter"] <= MOST_LEFT * answer["tokensBefore"]
    assert len(json.dumps(placed)) < MOST_LEFT * len(json.dumps(rows))
    assert answer["rows"][0] == 0
    assert placed[-1]["text"] == "All parts are read."
    (summary,) = [row for row in placed[1:] if row["role"] == "user" and row["text"]]
    assert "tenfold-summary" in summary["text"]
    assert RULE in json.dumps(placed)
    newest = [row for row in placed if "toolu_19b" in json.dumps(row)]
    assert newest[1]["toolResults"][0]["text"].endswith(WORDS), "the newest step is whole"


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("steps", [8, 20, 60])
def test_steps_stay_whole(steps: int, is_open: bool) -> None:  # noqa: FBT001 - a parameter of the test
    rows = build_rows(steps, is_open=is_open)
    answer = compact(rows)
    placed = place(answer, rows)
    called, given = list_ids(placed, "toolUses"), list_ids(placed, "toolResults")
    assert called
    assert called == given, "each step's calls, then their results"
    waiting: set[str] = set()
    for row in placed:
        results = set(list_ids([row], "toolResults"))
        assert results <= waiting
        assert not waiting or results or row["role"] == "assistant", "no word of the user stands between"
        waiting = (waiting | set(list_ids([row], "toolUses"))) - results
    assert not waiting
    failed = [each for row in placed for each in row.get("toolResults", []) if each["isError"]]
    assert {each["tool_use_id"] for each in failed} <= {"toolu_0a", "toolu_0b"}


def test_only_words_and_the_open_step_of_the_model_stay_the_rows_they_were() -> None:
    """Calls and results that stay would bring back what was before them when the session is resumed."""
    rows = build_rows(20, is_open=True)
    answer = compact(rows)
    kept = [row for row in answer["rows"] if isinstance(row, int)]
    assert kept == [0, *range(len(rows) - 6, len(rows) - 2)], "the thought, the text and the calls of the newest step"
    closed = compact(build_rows(20))
    assert [row for row in closed["rows"] if isinstance(row, int)] == [0]


def test_a_second_compaction_takes_the_summary_in() -> None:
    rows = build_rows(20)
    again = [*place(compact(rows), rows), *build_rows(40)[1:]]
    placed = place(compact(again), again)
    assert len([row for row in placed if "tenfold-summary" in row["text"]]) == 1
    assert RULE in json.dumps(placed)


@pytest.mark.parametrize("rows", [[], build_rows(0), build_rows(1)[:1]])
def test_nothing_is_answered_if_nothing_can_be_compacted(rows: list[Json]) -> None:
    assert compact(rows) == {}


@pytest.mark.parametrize("is_open", [False, True])
def test_a_call_without_a_result_is_left_to_claude_code(is_open: bool) -> None:  # noqa: FBT001 - a parameter of the test
    rows = build_rows(20, is_open=is_open)
    del rows[-1 if is_open else -2]
    assert compact(rows) == {}


def test_the_settings_say_how_far(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = build_rows(30)
    wide = compact(rows)
    monkeypatch.setenv("TENFOLD_DOWN_TO", "15%")
    deep = compact(rows, load_settings())
    assert deep["tokensAfter"] < 0.6 * wide["tokensAfter"]


def test_the_event_stores_the_transcript_and_gets_rows(store: Store) -> None:
    event = {"hook_event_name": "session.compact", "session_id": "s1", "transcript_path": str(EXAMPLE)}
    answer = answer_hook(json.dumps({**event, "rows": build_rows(20)}).encode(), store, config=load_settings())
    assert answer["rows"]
    (row,) = store.list_sessions("default")
    assert row.entry_count > 200


@pytest.mark.parametrize("rows", [None, "rows", [{"role": "system"}], [{"role": "user", "toolUses": [{}]}]])
def test_wrong_rows_are_told_and_nothing_is_stored(rows: object, store: Store) -> None:
    event = {"hook_event_name": "session.compact", "session_id": "s1", "transcript_path": str(EXAMPLE), "rows": rows}
    with pytest.raises(BadInput, match="needs the rows"):
        answer_hook(json.dumps(event).encode(), store, config=load_settings())
    with pytest.raises(BadInput, match="transcript_path"):
        answer_hook(b'{"hook_event_name": "session.compact", "rows": []}', store, config=load_settings())
    assert not store.list_sessions("default")


# -- the module --------------------------------------------------------------------------------------------------------

DRIVER = """
import { readFileSync } from "node:fs";
import { register } from "./register.mjs";
const input = JSON.parse(readFileSync("input.json", "utf-8"));
let handler, fallback, event, asked = [];
register((name, run) => {
  [event, handler] = [name, run];
  return { catch: (run) => { fallback = run; } };
});
const $ = {
  session: { id: async () => "s1", info: async () => ({ transcriptPath: "/t.jsonl" }) },
  process: { run: async (argv, init) => {
    asked.push({ argv, ...init });
    if (input.fault) throw new Error("no such program");
    return { exitCode: 0, stderr: "", ...input.done };
  } },
};
const own = async () => ({ messages: ["own"] });
const answer = await handler($, input.e, own);
const same = (answer.messages ?? []).map((row) => input.e.messages.indexOf(row));
process.stdout.write(JSON.stringify({ event, answer, same, asked, fallback: await fallback($, input.e, own) }));
"""
MESSAGES = [{**row, "handle": f"h{number}", "more": 1} for number, row in enumerate(build_rows(2))]


def drive(folder: Path, **value: object) -> Json:
    """Runs the module in Node.js as Claude Code does, with a command that answers what `done` says."""
    if NODE is None:
        pytest.skip("Node.js is not installed")
    (folder / "register.mjs").write_text(read_asset("claude-register.js"), "utf-8")
    (folder / "driver.mjs").write_text(DRIVER, "utf-8")
    given = {"e": {"trigger": "manual", "messages": MESSAGES}, **value}
    (folder / "input.json").write_text(json.dumps(given), "utf-8")
    ran = subprocess.run([NODE, "driver.mjs"], cwd=folder, capture_output=True, check=False, timeout=500)
    assert ran.returncode == 0, ran.stderr.decode()
    out: Json = json.loads(ran.stdout)
    return out


def test_the_module_asks_and_places_the_rows(tmp_path: Path) -> None:
    new = {"role": "user", "text": "A summary.", "toolUses": [], "toolResults": []}
    told = {"rows": [0, new, len(MESSAGES) - 1], "tokensBefore": 10, "tokensAfter": 4}
    done = drive(tmp_path, done={"stdout": json.dumps(told)})
    assert done["event"] == "session.compact"
    assert done["same"] == [0, -1, len(MESSAGES) - 1], "rows that stay are the objects that came in"
    assert done["answer"] == {"messages": [MESSAGES[0], new, MESSAGES[-1]], "tokensBefore": 10, "tokensAfter": 4}
    (asked,) = done["asked"]
    event = json.loads(asked["stdin"])
    rows = msgspec.convert(event.pop("rows"), list[Row])
    assert rows == msgspec.convert(build_rows(2), list[Row])
    assert event == {"hook_event_name": "session.compact", "session_id": "s1", "transcript_path": "/t.jsonl"}
    assert done["fallback"] == {"messages": ["own"]}


@pytest.mark.parametrize(
    "value",
    [
        {"fault": True},
        {"done": {"exitCode": 1, "stdout": '{"rows": [0]}', "stderr": "tenfold: no"}},
        {"done": {"stdout": "{}"}},
        {"done": {"stdout": '{"rows": []}'}},
        {"done": {"stdout": '{"rows": [0, 999]}'}},
        {"done": {"stdout": "nonsense"}},
        {"e": {"trigger": "auto", "agentId": "a1", "messages": MESSAGES}, "done": {"stdout": '{"rows": [0]}'}},
    ],
)
def test_whatever_goes_wrong_claude_code_compacts_by_itself(value: Json, tmp_path: Path) -> None:
    assert drive(tmp_path, **value)["answer"] == {"messages": ["own"]}


def test_the_installed_module_names_the_command_of_the_hooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    assert run(["install", "claude-code", "--store", str(tmp_path / "a 'store'.db")]) == 0
    folder = tmp_path / ".claude" / "tenfold" / "plugin" / "hooks"
    (name,) = json.loads((folder / "hooks.json").read_text("utf-8"))["modules"]
    line = next(line for line in (folder / name).read_text("utf-8").splitlines() if line.startswith("const COMMAND"))
    command = json.loads(line.removeprefix("const COMMAND = ").removesuffix(";"))
    assert command[1:] == ["-m", "tenfold", "hook", "--store", str(tmp_path / "a 'store'.db")]
    assert run(["install", "claude-code", "--uninstall"]) == 0
    assert not (tmp_path / ".claude" / "tenfold").exists()
