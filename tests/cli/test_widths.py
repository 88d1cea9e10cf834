"""What a person reads in a terminal of any width: lines that fit, whole ids, words between which lines are broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len

from tenfold.apps.cli.main import run
from tests.cli.conftest import Cli, write_messages
from tests.cli.test_terminal import typed

__all__ = ["typed"]
WIDE = "\u65e5\u672c\u8a9e\u306e\u9577\u3044\u984c\u540d\u3067\u3059 \U0001f3af " * 4
"""Each of its characters takes two columns."""
PATH = "/srv/a-folder-with-a-long-name/another-one-in-it/and-one-more/of-many/the-end.py"
COMMANDS = {
    "show": ("show", "last"),
    "timeline": ("show", "last", "--brief"),
    "whole timeline": ("show", "last", "--all"),
    "diff": ("diff", "last"),
    "search": ("search", "parcel"),
    "sessions": ("sessions",),
    "find": ("find",),
}


@pytest.fixture
def seen(
    typed: Callable[..., list[str]], tmp_path: Path, pi: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[str]]:
    """What `typed` gives, beside a compacted session with wide characters and a long path, and a client's session."""
    monkeypatch.setenv("HOME", str(tmp_path))
    messages: list[object] = [{"role": "user", "content": f"Never open the parcel. {WIDE}"}]
    for number in range(30):
        call = {"id": f"c{number}", "type": "function"}
        arguments = json.dumps({"path": PATH, "old_str": f"{number}", "new_str": f"{number + 1} {WIDE}"})
        function = {"name": "edit_file", "arguments": arguments}
        messages.append(
            {"role": "assistant", "content": f"{WIDE} parcel {number}", "tool_calls": [call | {"function": function}]}
        )
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": f"The file {PATH} was edited. " * 9})
    messages.append({"role": "user", "content": "Go on."})
    assert run(["compact", str(write_messages(tmp_path / "parcel.json", messages)), "--to", "30%"]) == 0
    place = tmp_path / ".pi" / "agent" / "sessions" / "--srv--"
    place.mkdir(parents=True)
    (place / "2026-01-01_x.jsonl").write_bytes(pi.read_bytes())
    return typed


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_every_line_fits_the_terminal(
    seen: Callable[..., list[str]], tenfold: Cli, width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = {name: seen(*command, width=width) for name, command in COMMANDS.items()}
    capsys.readouterr()
    for name, lines in printed.items():
        assert max(map(cell_len, lines)) <= width, (name, [line for line in lines if cell_len(line) > width])
    session = tenfold.run_ok("sessions", "--json").objects[0]["session"]
    assert printed["sessions"][-1].startswith(session[:18]), "a session is one line, at any width"
    assert len(printed["sessions"]) == 3
    assert len(printed["find"]) == 3
    rows = tenfold.run_json("show", "last")["timeline"]
    words = "\n".join(printed["timeline"]).replace(",", " ").split()
    assert words.count("was") >= sum(row["seen"] == "as it was" for row in rows), "what the model sees stays"
    assert {str(row["position"]) for row in rows} <= set(words)


def test_the_title_of_a_found_session_gives_way_before_its_size_does(
    seen: Callable[..., list[str]], tmp_path: Path
) -> None:
    project = tmp_path / ".claude" / "projects" / "-srv"
    project.mkdir(parents=True)
    line = {"type": "user", "uuid": "u", "parentUuid": None, "sessionId": "s", "cwd": "/srv", "timestamp": "2030-01-01"}
    said = {"message": {"role": "user", "content": f"Paint the shed in the garden green, please. {WIDE}"}}
    (project / "s.jsonl").write_text(json.dumps(line | said) + "\n")
    heading, _, *rows = seen("find", width=60)
    assert heading.split() == ["client", "session", "age", "size", "msgs", "title"]
    assert len(rows) == 2
    assert any("Paint" in row for row in rows)


def test_a_message_is_broken_between_words(seen: Callable[..., list[str]]) -> None:
    """Its lines were cut by the terminal, in the midst of words."""
    lines = seen("expand", "2", width=90)
    assert max(map(len, lines)) <= 90
    assert [word for line in lines[1:] for word in line.split()] == f"The file {PATH} was edited. ".split() * 9


def test_a_long_path_in_a_table_keeps_its_end(seen: Callable[..., list[str]]) -> None:
    """Facts of files were cut behind the folder that all of them have."""
    rows = [line for line in seen("diff", width=60) if "file modified" in line]
    assert rows
    assert all(line.rstrip().endswith("the-end.py") for line in rows)


def test_diff_says_first_what_changed_for_the_model(seen: Callable[..., list[str]], tenfold: Cli) -> None:
    for lines in (seen("diff"), tenfold.run_ok("diff").out.splitlines()):
        at = [
            next(number for number, line in enumerate(lines) if line.startswith(beginning))
            for beginning in ("left the view: ", "- ", "stands in its place: ", "+ ", "must-keep facts in view: ")
        ]
        assert at == sorted(at)


def test_search_prints_messages_before_what_sums_them_up(tenfold: Cli, pi: Path) -> None:
    """A Block that is no more in view is found by its summary, which came before the messages themselves."""
    tenfold.run_ok("compact", pi, "--to", "10%")
    tenfold.run_ok("undo")
    words = ("search", "warehouse", "report", "stock", "total", "--limit", "40")
    kinds = [hit["kind"] for hit in tenfold.run_ok(*words, "--json").objects]
    assert len(set(kinds)) > 1, "there are hits of both kinds"
    assert kinds == sorted(kinds, key=lambda kind: kind != "said")
    heads = [line.split("  ")[1] for line in tenfold.run_ok(*words).out.splitlines() if "  (session " in line]
    assert [head.startswith("message") for head in heads] == [kind == "said" for kind in kinds]
