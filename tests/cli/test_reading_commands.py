"""`tenfold eval reading` and `tenfold eval questions`, with real clients, a local server, and readers on paper."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tenfold_yardstick.reading.question_files import read_case
from tests.cli.conftest import EXAMPLES, Cli
from tests.models.loopback import Got, Loopback, Served, get_base_url

DESK = EXAMPLES / "desk.openai-chat.json"
QUESTIONS = EXAMPLES / "desk.reading.toml"
OPTIONS = ("--sizes", "10%", "--methods", "keep-last,tenfold,tenfold+model,classic")
MODELS = ("--writer", "openai:m", "--reader", "openai:m", "--judge", "openai:m")
SUMMARY = "## Goal\nThe user's tickets are worked on.\n"


def play_all_parts(got: Got) -> Served:
    """Writes, reads and grades, as each prompt asks."""
    if "Grade each answer" in got.prompt:
        answers = got.prompt.partition("Answers:")[2]
        return Served("\n".join(f"{letter}: 0.5" for letter in re.findall(r"\\n([A-Z]): ", answers)))
    if "Answer each question" in got.prompt:
        return Served("\n".join(f"desk-{n:02}: answer {n}" for n in range(1, 13)))
    return Served(SUMMARY)


@pytest.fixture
def _with_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")


@pytest.mark.usefixtures("_with_key")
def test_models_write_read_and_grade_and_their_recordings_replay(tenfold: Cli, tmp_path: Path) -> None:
    with Loopback(script=play_all_parts) as loopback:
        models = (*MODELS, "--base-url", get_base_url("openai:", loopback))
        made = tenfold.run_json("eval", "reading", DESK, *OPTIONS, *models, "--record", tmp_path / "kept")
    grades = {(s["method"], s.get("recall")): s.get("grade") for s in made["scores"] if s["question"] == "desk-01"}
    assert set(grades.values()) == {0.5}
    assert {method for method, recall in grades if recall} == {"tenfold", "tenfold+model"}
    assert (made["readers"], made["judges"]) == (["openai:m"], ["openai:m"])
    assert {view["method"] for view in made["views"] if not view.get("unable")} == set(OPTIONS[3].split(","))
    folders = ("--replay", tmp_path / "kept", "--record", tmp_path / "a new folder")
    again = tenfold.run_json("eval", "reading", DESK, *OPTIONS, *folders)
    assert again == made
    assert (tmp_path / "a new folder" / "readings.jsonl").read_bytes()


def test_readers_on_paper_are_scored_in_a_table_and_a_page(tenfold: Cli, tmp_path: Path) -> None:
    paper, kept = tmp_path / "paper", tmp_path / "kept"
    options = ("eval", "reading", QUESTIONS, "--methods", "keep-last", "--sizes", "10%")
    assert "1 views to read" in tenfold.run_ok(*options, "--export", paper).err
    (view,) = paper.glob("*/view.md")
    (view.parent / "answers.md").write_text("desk-01: It begins with MK:\ndesk-02: unknown\n")
    people = ("--reader", "one", "--judge", "other")
    ran = tenfold.run_ok(*options, "--import", paper, *people, "--record", kept, "--export-judging", paper)
    assert "1 judging sheets" in ran.err
    (paper / "judge" / "001.grades.md").write_text("A: 1\n")
    ran = tenfold.run_ok(*options, "--import", paper, *people, "--record", kept, "--html", tmp_path / "page.html")
    title, columns, row = (line.split("\t") for line in ran.out.splitlines()[:3])
    assert title == ["Reading test at 10%"]
    found = dict(zip(columns, row, strict=True))
    assert (found["method"], found["complete"], found["graded"]) == ("keep-last", "7.1%", "14")
    assert "read by one, graded by other" in ran.out
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "The reading test" in page
    assert "otherwise no model and no" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--sizes", "10"), "give sizes as in 5%,10%,20%"),
        (("--sizes", "0%"), "give sizes as in 5%,10%,20%"),
        (("--methods", "nobody"), "no method is called 'nobody'"),
        (("--replay", "/nowhere"), "--record writes them"),
        (("--import", "/nowhere"), "--export writes it"),
        (("--reader", "gpt"), "names no provider"),
    ],
)
def test_what_cannot_be_meant_is_refused(tenfold: Cli, arguments: tuple[str, ...], message: str) -> None:
    ran = tenfold("eval", "reading", QUESTIONS, *arguments)
    assert ran.code in (2, 3)
    assert message in ran.err


def test_two_files_of_one_name_are_refused(tenfold: Cli, tmp_path: Path) -> None:
    (tmp_path / DESK.name).write_bytes(DESK.read_bytes())
    (tmp_path / QUESTIONS.name).write_bytes(QUESTIONS.read_bytes())
    ran = tenfold("eval", "reading", QUESTIONS, tmp_path)
    assert ran.code == 2
    assert "is called desk.reading.toml too" in ran.err


@pytest.mark.usefixtures("_with_key")
def test_questions_are_drafted_into_a_file_that_can_be_read(tenfold: Cli, tmp_path: Path) -> None:
    draft = [{"category": "instruction", "ask": "How does a note begin?", "gold": "MK:", "evidence": [1]}]
    out = tmp_path / "desk.reading.toml"
    with Loopback(json.dumps(draft)) as loopback:
        options = ("--model", "openai:m", "--base-url", get_base_url("openai:", loopback), "--out", out)
        assert "1 questions" in tenfold.run_ok("eval", "questions", DESK, *options).err
        assert "name another file" in tenfold("eval", "questions", DESK, *options).err
    (question,) = read_case(out).questions
    assert (question.id, question.gold, question.third) == ("desk-01", "MK:", "first")


def test_the_projects_own_questions_fit_their_sessions() -> None:
    cases = [read_case(path) for path in sorted(EXAMPLES.glob("*.reading.toml"))]
    assert [case.name for case in cases] == ["desk", "logs", "pricing", "tracker"]
    assert all(0 <= index < len(case.past) for case in cases for q in case.questions for index in q.evidence)
    assert all(len(case.questions) >= 14 for case in cases)
