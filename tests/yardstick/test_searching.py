"""Search by question: what counts as evidence, and how recall is counted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tenfold.apps.cli.main import run
from tenfold.errors import BadInput
from tenfold_yardstick.asked_sessions import AskedSession, read_asked_session
from tenfold_yardstick.question_search import DEPTHS, EvidenceHits, build_table, run_searches
from tests import sessions
from tests.formats.made import EVENTS


def read(file: Path) -> AskedSession:
    session = read_asked_session(file)
    assert session is not None
    return session


def list_evidence(session: AskedSession) -> list[tuple[str, tuple[int, ...]]]:
    return [(question.prompt, question.evidence) for question in session.questions if question.evidence]


def write_scenario(folder: Path, said: list[str], questions: list[tuple[str, str]]) -> Path:
    """A file as Gemini CLI's compression scenarios are: turns of user and model, and questions."""
    roles = ("user", "model")
    file = folder / "scenario.json"
    made = {
        "scenarioId": "made-up",
        "history": [{"role": roles[i % 2], "parts": [{"text": text}]} for i, text in enumerate(said)],
        "questions": [{"id": str(i), "prompt": q, "expectedSubstring": a} for i, (q, a) in enumerate(questions)],
    }
    file.write_text(json.dumps(made), encoding="utf-8")
    return file


TALK = [
    "The gateway listens on port-8841 in staging.",
    "Understood.",
    "Which colour has the banner?",
    "It is teal.",
    "And again: staging uses PORT-8841.",
    "Noted.",
]


def test_evidence_is_every_message_that_holds_the_answer(tmp_path: Path) -> None:
    file = write_scenario(
        tmp_path, TALK, [("Where does the gateway listen?", "Port-8841"), ("Is it teal?", "yes"), ("x", "gone")]
    )
    session = read(file)
    assert [message["content"] for message in session.messages] == TALK
    assert list_evidence(session) == [("Where does the gateway listen?", (0, 4))]


def test_each_search_is_asked_each_question(tmp_path: Path) -> None:
    scores = run_searches(read(write_scenario(tmp_path, TALK, [("gateway", "port-8841"), ("banner", "banner")])))
    assert [(s.method, s.evidence, s.found) for s in scores] == [
        (method, evidence, (1, 1, 1)) for method in ("tenfold", "bm25 with stemming") for evidence in (2, 1)
    ]


def test_the_yardstick_looks_for_stems_and_for_any_of_the_words(tmp_path: Path) -> None:
    scores = run_searches(
        read(write_scenario(tmp_path, TALK, [("Tell me the colours, listening gateways?", "banner")]))
    )
    assert [s.found for s in scores if s.method != "tenfold"] == [(0, 1, 1)]


def test_recall_counts_what_so_many_hits_can_hold() -> None:
    made = build_table(
        [
            EvidenceHits("a", "m", 2, (1, 2, 2)),
            EvidenceHits("b", "m", 20, (0, 1, 5)),
            EvidenceHits("c", "n", 1, (0, 0, 0)),
        ]
    )
    assert len(DEPTHS) == 3
    assert made.rows == [("m", "0.500", "0.600", "0.750", "2/2"), ("n", "0.000", "0.000", "0.000", "0/1")]


def test_a_file_without_questions_has_nothing_to_ask(tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_text('{"role": "user", "content": "Hello."}\n{"role": "assistant", "content": "Hi."}\n')
    assert read_asked_session(file) is None
    with pytest.raises(BadInput, match="check the path"):
        read_asked_session(tmp_path / "missing.json")


def test_the_command_says_what_it_found_or_that_there_was_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = write_scenario(tmp_path, TALK, [("gateway", "port-8841")])
    assert run(["eval", "search", str(file)]) == 0
    assert "tenfold\t1.000\t0.500\t0.500\t1/1" in capsys.readouterr().out
    assert run(["eval", "search", str(file), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [s["method"] for s in told["search"]] == ["tenfold", "bm25 with stemming"]
    assert {s["method"]: s["shown"] for s in told["gold"]}["tenfold"] == 1
    empty = write_scenario(tmp_path, TALK, [])
    assert run(["eval", "search", str(empty)]) == 0
    assert "nothing to ask" in capsys.readouterr().err


def write_session(folder: Path, questions: str) -> Path:
    """A session of chat messages, with a file of questions beside it."""
    file = folder / "talk.chat.jsonl"
    said = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(TALK)]
    file.write_text("".join(json.dumps(one) + "\n" for one in said), "utf-8")
    (folder / "talk.chat.questions.toml").write_text(questions, "utf-8")
    return file


def test_questions_may_stand_in_a_file_beside_a_session_in_any_format(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asks = '[[questions]]\nprompt = "Where does the gateway listen?"\nexpectedSubstring = "port-8841"\n'
    file = write_session(tmp_path, asks)
    assert list_evidence(read(file)) == [("Where does the gateway listen?", (0, 4))]
    assert run(["eval", "search", str(tmp_path), "--methods", "tenfold,keep-last", "--budgets", "2k,1k"]) == 0
    out = capsys.readouterr().out
    assert out.count("Questions of files beside sessions, compacted to") == 2
    assert out.count("keep-last\t1/1\t-\t") == out.count("tenfold\t1/1\t1/1\t") == 2
    assert "Questions with gold answers" not in out


@pytest.mark.parametrize(
    ("questions", "said"),
    [
        ("[[questions]\n", "talk.chat.questions.toml"),
        ('[[questions]]\nprompt = "Where?"\n', "expectedSubstring"),
        ('questions = "none"\n', "array"),
    ],
)
def test_a_file_of_questions_that_is_none_is_refused(tmp_path: Path, questions: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        read_asked_session(write_session(tmp_path, questions))


def test_of_a_file_with_several_sessions_nothing_can_be_asked(tmp_path: Path) -> None:
    file = tmp_path / "two.jsonl"
    file.write_bytes(EVENTS)
    (tmp_path / "two.questions.toml").write_text('[[questions]]\nprompt = "x"\nexpectedSubstring = "x"\n', "utf-8")
    with pytest.raises(BadInput, match="and 2 sessions"):
        read_asked_session(file)


def test_the_projects_own_questions_are_answered_better_than_by_plain_bm25() -> None:
    own = Path(__file__).resolve().parents[2] / "examples" / "sessions"
    every = [one for file in sorted(own.glob("*.json*")) for one in run_searches(read(file))]
    assert len(every) == 2 * 48, "every answer stands in its session"
    ours, theirs = ([float(share) for share in row[1:4]] for row in build_table(every).rows)
    assert ours[0] > theirs[0]
    assert ours[-1] > theirs[-1]


def test_the_bundled_questions_are_answered_by_plain_bm25_and_better_by_tenfold() -> None:
    sessions.require_sessions()
    files = sorted((sessions.FOLDER / "gemini-cli" / "compression-scenarios").glob("*.json"))
    every = [one for file in files for one in run_searches(read(file))]
    scores = [one for one in every if one.method != "tenfold"]
    assert len(scores) == 16
    assert sum(one.found[-1] > 0 for one in scores) >= 14
    ours, theirs = ([float(share) for share in row[1:4]] for row in build_table(every).rows)
    assert all(our >= their for our, their in zip(ours, theirs, strict=True)), "below it at no depth"
    assert ours[0] > theirs[0]
    assert ours[-1] > theirs[-1], "the goal: above it at 10"
