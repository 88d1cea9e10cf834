"""`tenfold eval quality`: tables, one JSON object, and arguments that cannot be meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tenfold_yardstick.commands.eval_options import parse_methods, parse_peers
from tenfold_yardstick.peers import PEERS
from tests.cli.conftest import EXAMPLES, Cli, Ran
from tests.yardstick.chats import make_long_past, make_reply

DESK = EXAMPLES / "desk.openai-chat.json"


def test_a_table_of_the_methods_named(tenfold: Cli) -> None:
    ran = tenfold("eval", "quality", DESK, "--methods", "tenfold,keep-last", "--budgets", "4k,8000")
    assert ran.code == 0, ran.err
    lines = [line.split("\t") for line in ran.out.splitlines()]
    assert lines[0] == ["Future-use recall"]
    assert lines[1][:2] == ["method", "area"]
    assert {"4k", "8k"} <= set(lines[1])
    assert {line[0] for line in lines[2:4]} == {"tenfold", "keep-last"}


def test_json_holds_every_score(tenfold: Cli) -> None:
    ran = tenfold("eval", "quality", DESK, "--methods", "keep-last", "--budgets", "4k", "--rounds", "2", "--json")
    assert ran.code == 0, ran.err
    made = json.loads(ran.out)
    assert made["methods"] == ["keep-last"]
    assert made["rounds"] == [2]
    named = [(s["budget"], s["rounds"], s["kind"]) for s in made["recall"] if not s["tenth"]]
    assert named == [(4_000, 2, "50%"), (4_000, 2, "75%")]
    assert all(0 <= s["present"] <= s["needed"] for s in made["recall"])
    assert len(made["probes"]) == len(made["recall"])


def parse_tables(ran: Ran) -> dict[str, list[list[str]]]:
    assert ran.code == 0, ran.err
    parts = [part.splitlines() for part in ran.out.split("\n\n") if part.strip()]
    return {title: [line.split("\t") for line in lines] for title, *lines in parts}


def write_chat(folder: Path, steps: int) -> Path:
    path = folder / "chat.json"
    path.write_text(json.dumps([*make_long_past(steps), *[make_reply("open src/module_00.py")] * 8]))
    return path


def write_twins(folder: Path) -> list[Path]:
    """Two sessions, not the same, in files that are called alike."""
    for name, steps in (("a", 40), ("b", 60)):
        (folder / name).mkdir()
        write_chat(folder / name, steps)
    return [folder / "a" / "chat.json", folder / "b" / "chat.json"]


def test_sessions_of_files_called_alike_are_each_measured(tenfold: Cli, tmp_path: Path) -> None:
    ran = tenfold("eval", "quality", *write_twins(tmp_path), "--methods", "tenfold", "--budgets", "2k", "--json")
    assert ran.code == 0, ran.err
    made = json.loads(ran.out)
    assert {score["session"] for score in made["recall"]} == {"a/chat.json", "b/chat.json"}
    assert [(one["session"], one["cuts"]) for one in made["checked"]] == [("a/chat.json", 2), ("b/chat.json", 2)]


def test_files_called_alike_have_each_a_table_of_their_replay(tenfold: Cli, tmp_path: Path) -> None:
    write_twins(tmp_path)
    found = parse_tables(tenfold("eval", "replay", tmp_path, "--methods", "none", "--windows", "9k"))
    assert {title: [row[0] for row in rows[:-1]] for title, rows in found.items() if "window" in title} == {
        "a/chat.json, window 9,000": ["method", "none"],
        "b/chat.json, window 9,000": ["method", "none"],
    }


def test_several_rounds_have_a_table(tenfold: Cli, tmp_path: Path) -> None:
    arguments = ["--methods", "keep-last", "--budgets", "4k", "--rounds", "3,1"]
    ran = tenfold("eval", "quality", write_chat(tmp_path, 75), *arguments)
    assert {"probes 1x", "probes 3x"} <= set(parse_tables(ran)["After several compactions"][0])


def test_the_gates_at_every_message(tenfold: Cli, tmp_path: Path) -> None:
    path = write_chat(tmp_path, 16)
    cuts = {}
    for option in ([], ["--every-cut"]):
        ran = tenfold("eval", "quality", path, "--methods", "sliding", "--budgets", "1k", *option)
        name, *row = parse_tables(ran)["Validity of Tenfold's methods, run twice"][1]
        assert (name, row[1:]) == ("sliding", ["0", "0", "none"])
        cuts[len(option)] = int(row[0])
    assert cuts == {0: 2, 1: len(json.loads(path.read_text()))}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--methods", "keep-lost"], "keep-lost"),
        (["--methods", ""], "no method is named"),
        (["--methods", "langchain/trum"], "no peer 'langchain/trum'; there are langchain/summarization"),
        (["--format", "clyne"], "no format is called 'clyne'"),
        (["--budgets", "lots"], "lots"),
        (["--budgets", "0"], "not a size"),
        (["--budgets", ","], "no size is named"),
        (["--rounds", "0"], "1,3,10"),
        (["--rounds", "some"], "1,3,10"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(tenfold: Cli, arguments: list[str], said: str) -> None:
    ran = tenfold("eval", "quality", DESK, *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert ran.out == ""


def test_a_session_with_nothing_to_measure_is_said(tenfold: Cli, tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]))
    ran = tenfold("eval", "quality", path, "--methods", "keep-last")
    assert ran.code == 0
    assert "nothing to measure" in ran.err


# -- names that all commands take --------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["quality", "replay", "speed"])
@pytest.mark.parametrize(("methods", "said"), [("", "no method is named"), ("langgraph", "'langgraph'")])
def test_no_command_measures_with_a_name_that_means_nothing(
    tenfold: Cli, command: str, methods: str, said: str
) -> None:
    ran = tenfold("eval", command, DESK, "--methods", methods)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_each_command_takes_the_others_names(tenfold: Cli, tmp_path: Path) -> None:
    path = write_chat(tmp_path, 16)
    played = tenfold.run_json("eval", "replay", path, "--methods", "keep-all,agno,openai-agents/session-limit")
    names = ["none", "agno/tool-results", "openai-agents/session-limit"]
    assert [one["method"] for one in played["played"]] == names
    scored = tenfold.run_json("eval", "quality", path, "--methods", "none", "--budgets", "1k")
    assert scored["methods"] == ["keep-all"]
    options = ["--methods", "tenfold", "--lengths", "20", "--no-waits"]
    timed = tenfold.run_json("eval", "speed", path, *options, "--html", tmp_path / "report.html")
    assert {turn["method"] for turn in timed["turns"]} == {"tenfold", "tenfold, SQLite"}
    assert f"tenfold eval speed FILES... {' '.join(options)}" in (tmp_path / "report.html").read_text("utf-8")


def test_all_peers_at_once() -> None:
    every = [peer.name for peer in PEERS]
    assert [peer.name for peer in parse_methods("tenfold,peers")[1]] == every
    assert [peer.name for peer in parse_peers("all,peers")] == every
    assert parse_methods("all")[1] == parse_peers("all") == [], "it means the same in every command"
    assert parse_methods("all,tail")[0] == ["all", "tail"]
    assert parse_peers("tenfold") == []


def test_the_format_is_named_where_it_is_not_recognised(tenfold: Cli, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(
        json.dumps({"history_of": 1, "messages": [*make_long_past(16), *[make_reply("open src/module_00.py")] * 8]})
    )
    ran = tenfold("eval", "quality", path, "--format", "pi")
    assert ran.code == 3
    made = tenfold.run_json(
        "eval", "quality", path, "--format", "openai-chat", "--methods", "keep-last", "--budgets", "1k"
    )
    assert made["probes"]


def test_a_file_of_a_folder_that_has_questions_and_no_session_is_left_out(tenfold: Cli, tmp_path: Path) -> None:
    (tmp_path / "quiz.json").write_text('{"questions": [{"prompt": "Where?", "expectedSubstring": "there"}]}')
    write_chat(tmp_path, 16)
    for command in ("quality", "search"):
        ran = tenfold("eval", command, tmp_path, *(["--methods", "none", "--budgets", "1k"] * (command == "quality")))
        assert ran.code == 0, ran.err
        assert "skipped: " in ran.err
    assert tenfold("eval", "search", tmp_path / "quiz.json").code == 3
