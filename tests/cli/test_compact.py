from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tenfold.core.view.fold import View
from tenfold.core.view.path import Path as LogPath
from tenfold.core.view.rules import check_messages
from tenfold.formats import read_file
from tests import sessions
from tests.cli.conftest import EXAMPLES, Cli, write_messages

FIELDS = (
    *("file", "session", "block", "status", "reason", "tokens_before", "tokens_after", "target", "target_missed"),
    *("messages_before", "messages_after", "facts", "violations"),
)


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.json*")), ids=lambda file: file.name)
def test_json_has_every_promised_field_and_the_figures_add_up(tenfold: Cli, file: Path) -> None:
    told = tenfold.run_json("compact", file, "--to", "10%")
    assert [f for f in FIELDS if f not in told] == []
    assert told["status"] == "compacted"
    assert told["violations"] == []
    assert told["target"] == told["tokens_before"] // 10
    assert told["tokens_after"] <= told["target"]
    assert not told["target_missed"]
    assert all(0 <= kept <= total for kept, total in told["facts"].values())
    shown = tenfold.run_json("show", told["session"])
    assert shown["tokens_in_view"] == told["tokens_after"]
    assert len(shown["timeline"]) == told["messages_after"]
    assert shown["messages"] == told["messages_before"]


def test_a_share_is_one_of_the_uncompacted_size_so_doing_it_again_does_nothing(tenfold: Cli, pi: Path) -> None:
    first = tenfold.run_json("compact", pi, "--to", "20%")
    again = tenfold.run_json("compact", pi, "--to", "20%")
    assert (again["status"], again["block"]) == ("nothing", "")
    assert again["target"] == first["target"]
    assert again["tokens_before"] == again["tokens_after"] == first["tokens_after"]
    assert "already within" in again["reason"] or "newest Block" in again["reason"]
    deeper = tenfold.run_json("compact", pi, "--to", "8%")
    assert deeper["target"] == first["tokens_before"] * 8 // 100
    assert deeper["tokens_after"] < first["tokens_after"]


def test_a_window_acts_only_if_the_trigger_says_so(tenfold: Cli, pi: Path) -> None:
    roomy = tenfold.run_json("compact", pi, "--window", "200000")
    assert roomy["status"] == "nothing"
    assert "do not reach the trigger" in roomy["reason"]
    tight = tenfold.run_json("compact", pi, "--window", "50000")
    assert tight["status"] == "compacted"
    assert tight["tokens_after"] <= tight["target"] <= 20_000


def test_without_size_and_window_the_error_names_both_flags(tenfold: Cli, pi: Path) -> None:
    ran = tenfold("compact", pi)
    assert ran.code == 2
    assert "--to" in ran.err
    assert "--window" in ran.err
    tenfold.run_ok("verify")


def test_without_size_and_window_a_known_model_decides(tenfold: Cli, pi: Path) -> None:
    told = tenfold.run_json("compact", pi, "--model", "claude-opus-4-5")
    assert told["status"] == "nothing"
    assert "trigger" in told["reason"]


def test_previews_outcomes_and_sessions_say_between_which_bounds_the_provider_counts(tenfold: Cli, pi: Path) -> None:
    keys = {"tokens", "low", "high", "window", "source", "evidence"}
    planned = tenfold.run_json("compact", pi, "--to", "10%", "--window", "200000", "--preview")["reading"]
    assert planned.keys() == keys
    assert planned["low"] < planned["tokens"] < planned["high"] < planned["window"] == 200_000
    outcome = tenfold.run_json("compact", pi, "--to", "10%", "--window", "200000")
    assert outcome["reading_before"] == planned
    assert outcome["reading_after"].keys() == keys
    assert outcome["reading_after"]["high"] < planned["low"]
    shown = tenfold.run_json("show", "last")["reading"]
    assert (shown["low"], shown["high"]) == tuple(outcome["reading_after"][key] for key in ("low", "high"))
    tenfold.run_ok("compact", pi.parent / "pricing.claude-code.jsonl", "--to", "10%")
    assert "the provider counts 5." in tenfold.run_ok("show", "last").out


def test_preview_prints_the_plan_and_changes_nothing(tenfold: Cli, pi: Path) -> None:
    ran = tenfold.run_ok("compact", pi, "--to", "10%", "--preview")
    assert "plan: 52," in ran.out
    assert not tenfold.store.exists()
    tenfold.run_ok("compact", pi, "--to", "30%")
    before = tenfold.store.read_bytes()
    told = tenfold.run_json("compact", pi, "--to", "10%", "--preview")
    assert told["act"]
    assert told["tokens_after_at_most"] <= told["target"] < told["tokens_before"]
    assert told["tokens_before"] < 20_000, "it previews on what was compacted before"
    assert tenfold.store.read_bytes() == before


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.json*")), ids=lambda file: file.name)
def test_out_is_readable_again_smaller_and_valid(tenfold: Cli, file: Path, tmp_path: Path) -> None:
    out = tmp_path / file.name
    told = tenfold.run_json("compact", file, "--to", "10%", "--out", out)
    (original,), (again,) = read_file(file), read_file(out)
    assert again.info.format == original.info.format
    assert again.problems == original.problems
    assert out.stat().st_size < file.stat().st_size / 2
    messages = View.from_path(LogPath(again.entries)).get_messages()
    assert len(messages) in (told["messages_after"], told["messages_after"] - 1), (
        "Codex joins a call to the words before"
    )
    wire = "anthropic" if again.info.format == "claude-code" else "openai-chat"
    assert list(check_messages(messages, wire)) == []


def test_a_container_is_written_whole(tenfold: Cli, tmp_path: Path) -> None:
    sessions.require_sessions()
    file = sessions.FOLDER / "tau2" / "toolorchestra_retail_gpt-5_1trial.json"
    data = json.loads(file.read_text("utf-8"))
    data["simulations"] = data["simulations"][:4]
    small = tmp_path / "four.json"
    small.write_text(json.dumps(data), "utf-8")
    out = tmp_path / "out.json"
    results = tenfold.run_ok("compact", small, "--to", "30%", "--out", out, "--json").objects
    assert len(results) == 4
    written_ = json.loads(out.read_text("utf-8"))
    assert list(written_) == list(data)
    assert [s["id"] for s in written_["simulations"]] == [s["id"] for s in data["simulations"]]
    assert written_["tasks"] == data["tasks"]
    assert [len(s["messages"]) for s in written_["simulations"]] == [r["messages_after"] for r in results]
    assert len(read_file(out)) == 4


def test_a_folder_is_searched_and_what_is_no_session_is_left_out(tenfold: Cli, tmp_path: Path, pi: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    shutil.copy(pi, tmp_path / "in" / "deep" / "a.jsonl")
    shutil.copy(EXAMPLES / "desk.openai-chat.json", tmp_path / "in" / "b.json")
    (tmp_path / "in" / "settings.json").write_text('{"colour": "blue"}')
    (tmp_path / "in" / "notes.txt").write_text("not looked at")
    (tmp_path / "out").mkdir()
    ran = tenfold.run_ok("compact", tmp_path / "in", "--to", "10%", "--out", tmp_path / "out", "--json")
    assert [Path(o["file"]).name for o in ran.objects] == ["b.json", "a.jsonl"]
    assert "skipped: " in ran.err
    assert "settings.json" in ran.err
    assert (tmp_path / "out" / "deep" / "a.jsonl").exists()
    assert (tmp_path / "out" / "b.json").exists()


def test_many_sessions_are_told_as_a_table(tenfold: Cli) -> None:
    lines = tenfold.run_ok("compact", EXAMPLES, "--to", "10%").out.splitlines()
    assert lines[0].split("\t") == ["file", "session", "status", "before", "after", "share", "must-keep"]
    assert len(lines) == 6
    assert lines[-1].startswith("4 sessions (4 compacted): ")


def test_few_sessions_are_told_in_full(tenfold: Cli, pi: Path) -> None:
    ran = tenfold.run_ok("compact", pi, "--to", "10%")
    assert "tokens 52,296 -> " in ran.out
    assert "must-keep facts in view: correction " in ran.out
    assert "next: tenfold diff " in ran.out
    assert ran.err.splitlines() == [f"store: {tenfold.store}"], "the place is told at the first write, and only then"
    assert tenfold.run_ok("compact", pi, "--to", "10%").err == ""
    assert "\x1b" not in ran.out


def test_out_never_replaces_what_was_read(tenfold: Cli, tmp_path: Path, pi: Path) -> None:
    file = tmp_path / "a.jsonl"
    shutil.copy(pi, file)
    ran = tenfold("compact", file, "--to", "10%", "--out", file)
    assert ran.code == 2
    assert "never overwritten" in ran.err
    assert file.read_bytes() == pi.read_bytes()
    ran = tenfold("compact", file, "--to", "10%", "--out", tmp_path)
    assert ran.code == 2
    assert file.read_bytes() == pi.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--to", "0"), "no size"),
        (("--to", "-5"), "no size"),
        (("--to", "110%"), "no size"),
        (("--to", "nan%"), "no size"),
        (("--to", "many"), "give tokens, as in 120000 or 120k"),
        (("--window", "0"), "--window"),
        (("--policy", "tenfould"), "did you mean 'tenfold'?"),
        (("--to", "10%", "--format", "klingon"), "no format is called 'klingon'"),
        (("--to", "10%", "--recall", "sometimes"), "sometimes"),
        (("--to", "10%", "--out", "nowhere/at/all.json"), "make it first"),
        (("--to", "10%", "--preview", "--out", "x.json"), "changes nothing"),
        (("--bogus",), "--bogus"),
        (("--to", "10%", "--model", "auto", "--model", "openai:gpt-5"), "only the agent's"),
        (("--to", "10%", "--model", "auto", "--base-url", "http://127.0.0.1:1"), "name it with --model"),
        (("--to", "10%", "--base-url", "http://127.0.0.1:1"), "name it with --model"),
        (("--to", "10%", "--model", "klingon:bird"), "no provider is called 'klingon'"),
        (("--to", "10%", "--model", "cohere:command-a"), "pip install 'pydantic-ai-slim[cohere]'"),
        (("--to", "10%", "--model", "gpt-4o", "--model", "gpt-5"), "openai:gpt-4o-mini"),
        (("--compare", "all", "--out", "x.json"), "leave out --out"),
        (("--compare", "tenfold,tenfould"), "did you mean 'tenfold'?"),
        (("--compare", ","), "--compare names policies"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_read(
    tenfold: Cli, pi: Path, arguments: tuple[str, ...], told: str
) -> None:
    ran = tenfold("compact", pi, *arguments)
    assert ran.code == 2
    assert told in ran.err
    assert ran.out == ""
    assert not tenfold.store.exists()


def test_sizes_may_be_written_with_separators(tenfold: Cli, pi: Path) -> None:
    assert tenfold.run_json("compact", pi, "--to", "20_000")["target"] == 20_000
    assert tenfold.run_json("compact", pi, "--to", "8,000")["target"] == 8_000


@pytest.mark.parametrize(("recall", "named"), [("cli", "`tenfold expand "), ("tool", "recall_read("), ("none", "")])
def test_stubs_name_the_way_back_that_was_asked_for(tenfold: Cli, pi: Path, recall: str, named: str) -> None:
    told = tenfold.run_json("compact", pi, "--to", "30%", "--recall", recall)
    timeline = tenfold.run_json("show", told["session"])["timeline"]
    stubs = [row for row in timeline if row["seen"] == "shortened"]
    assert stubs
    for way in ("`tenfold expand ", "recall_read("):
        assert any(way in row["text"] for row in stubs) is (way == named)
    if recall == "cli":
        (stub, *_) = [row for row in stubs if "`tenfold expand " in row["text"]]
        id_ = stub["text"].split("`tenfold expand ")[1].split("`")[0]
        assert id_ == stub["id"]
        assert tenfold.run_json("expand", id_)["original"]


def test_a_store_in_memory_needs_no_file(tenfold: Cli, pi: Path) -> None:
    ran = tenfold.run_ok("compact", pi, "--to", "10%", "--store", ":memory:")
    assert not tenfold.store.exists()
    assert "next: tenfold" not in ran.out, "there is nothing to look at afterwards"


def test_a_grown_file_gives_only_what_is_new(tenfold: Cli, tmp_path: Path, pi: Path) -> None:
    lines = pi.read_bytes().splitlines(keepends=True)
    file = tmp_path / "growing.jsonl"
    file.write_bytes(b"".join(lines[:120]))
    first = tenfold.run_json("compact", file, "--to", "5000")
    file.write_bytes(b"".join(lines))
    second = tenfold.run_json("compact", file, "--to", "5000")
    assert second["session"] == first["session"]
    assert second["tokens_before"] > first["tokens_after"]
    (row,) = tenfold.run_ok("sessions", "--json").objects
    assert row["blocks"] == 2
    exported = tenfold.run_ok("export", first["session"], "--original").out
    assert exported.encode() == b"".join(lines)


def test_nothing_to_compact_in_a_short_conversation(tenfold: Cli, tmp_path: Path) -> None:
    file = write_messages(
        tmp_path / "short.json", [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    )
    told = tenfold.run_json("compact", file, "--to", "20000")
    assert told["status"] == "nothing"
    assert told["messages_before"] == told["messages_after"] == 2


def test_facts_that_found_no_room_are_counted_aloud(tenfold: Cli, pi: Path) -> None:
    ran = tenfold.run_ok("compact", pi, "--to", "300", "--yes")
    outcome = tenfold.run_json("diff", "last")
    lost = [f for f in outcome["facts"] if f["must_keep"] and f["state"] != "in view"]
    assert lost
    assert "must-keep facts did not fit" in ran.out
    tenfold.run_ok("undo", "last")
    assert "did not fit" not in tenfold.run_ok("compact", pi, "--to", "10%").out


def test_the_policy_tail_begins_with_the_compaction_that_the_file_records(
    tenfold: Cli, pi: Path, tmp_path: Path
) -> None:
    """What the tool had hidden was all in view again, and its summary was lost to the next one."""
    lines = [json.loads(line) for line in pi.read_text("utf-8").splitlines()]
    middle = len(lines) // 2
    kept = next(n for n in range(middle, len(lines)) if lines[n].get("message", {}).get("role") == "user")
    end = {"parentId": lines[-1]["id"], "id": "c0ffee00", "timestamp": lines[-1]["timestamp"]}
    compaction = {"type": "compaction", "summary": "The logs were read.", "firstKeptEntryId": lines[kept]["id"], **end}
    file = tmp_path / "ended.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in [*lines, compaction]), "utf-8")
    wide = ("--policy", "tail", "--window", "1000000", "--json")

    (raw,) = tenfold("compact", file, "--policy", "tenfold", *wide[2:], "--store", ":memory:").objects
    (previewed,) = tenfold("compact", file, *wide, "--preview").objects
    ran = tenfold("compact", file, *wide)
    (first,) = ran.objects
    assert "the compaction that pi recorded is in force" in ran.err
    assert first["status"] == "nothing", "what pi sent fits"
    assert raw["messages_before"] == len(lines) - 1
    assert first["messages_before"] == len(lines) - kept + 1, "its summary and what it kept"
    assert first["tokens_before"] < raw["tokens_before"]
    assert previewed["messages_before"] == first["messages_before"]
    again = tenfold("compact", file, *wide)
    assert again.objects == [first]
    assert "recorded" not in again.err, "once"
    assert "The logs were read." in tenfold.run_ok("export", first["session"]).out
    assert tenfold.run_ok("export", first["session"], "--original").out == file.read_text("utf-8")
    tenfold.run_ok("undo", first["session"])
    (undone,) = tenfold("compact", file, *wide).objects
    assert undone["messages_before"] == raw["messages_before"], "undone, it stays undone"
