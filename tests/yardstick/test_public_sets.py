"""The public sets, in the form in which each is published: small ones of the tests' own, and what is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tenfold.apps.cli.main import run
from tenfold.errors import BadInput
from tenfold_yardstick.public_sets import PUBLIC_SETS, read_public_set

FILLER = "Then we talked about the weather, the garden and the long way home. " * 12


def write_locomo(folder: Path) -> Path:
    turns = [
        {"speaker": "Ada", "dia_id": f"D{day}:{n}", "text": f"Number {n}. {FILLER}"}
        for day in (2, 10)
        for n in range(1, 9)
    ]
    turns[1]["text"] = "I adopted a greyhound."
    turns[2] |= {"speaker": "Ben", "text": "Look.", "blip_caption": "a photo of a red canoe"}
    talk: dict[str, Any] = {"speaker_a": "Ada", "speaker_b": "Ben"}
    for day in (10, 2):  # the keys' order says nothing
        talk[f"session_{day}_date_time"] = f"1:56 pm on {day} May, 2023"
        talk[f"session_{day}"] = [turn for turn in turns if turn["dia_id"].startswith(f"D{day}:")]
    asked = [
        {"question": "Which pet did Ada adopt?", "answer": "Greyhound", "evidence": ["D2:2"], "category": 4},
        {"question": "What did Ben show?", "answer": "red canoe", "evidence": ["D2:3; D10:1"], "category": 1},
        {"question": "How many were there?", "answer": 2, "evidence": [], "category": 2},
        {"question": "When did Ben adopt it?", "adversarial_answer": "May", "evidence": ["D2:2"], "category": 5},
    ]
    path = folder / "locomo10.json"
    path.write_text(json.dumps([{"sample_id": "conv-1", "conversation": talk, "qa": asked, "observation": {}}]))
    return path


def write_beam(folder: Path) -> Path:
    turn = {"question_type": "main_question", "index": "1,1"}
    said = [
        {**turn, "role": ("user", "assistant")[n % 2], "id": n, "content": f"Point {n}. {FILLER}->-> 1,{n}"}
        for n in range(24)
    ]
    said[4]["content"] = "The sprint ends on March 29, and the API answers in 250ms. ->-> 1,4"
    asked = {
        "abstention": [{"question": "Why?", "ideal_response": "It is not said.", "rubric": ["It is not said"]}],
        "information_extraction": [
            {
                "question": "When does the sprint end?",
                "answer": "It ends on March 29.",
                "source_chat_ids": [4],
                "rubric": ["LLM response should state: March 29"],
            }
        ],
        "knowledge_update": [
            {
                "question": "How fast is the API?",
                "answer": "Around 250ms",
                "source_chat_ids": {"original_info": [2], "updated_info": [4]},
                "rubric": ["LLM response should state: 250ms."],
            }
        ],
        "summarization": [
            {"question": "Sum it up.", "ideal_summary": "A sprint.", "rubric": ["LLM response is short"]}
        ],
    }
    for number in ("2", "10"):
        chat = folder / "100K" / number
        (chat / "probing_questions").mkdir(parents=True)
        (chat / "chat.json").write_text(json.dumps([{"batch_number": 1, "turns": [said[:12], said[12:]]}]))
        (chat / "probing_questions" / "probing_questions.json").write_text(json.dumps(asked))
    (folder / "100K" / "10" / "chat_trunecated.json").write_text(json.dumps([{"turns": [said[:6]]}]))
    (folder / "100K" / "topics.json").write_text("[]")
    return folder / "100K"


def write_longmemeval(folder: Path) -> Path:
    def make(name: str, answer: str | int) -> dict[str, Any]:
        turns = [
            {"role": "user", "content": f"I study {answer}. {FILLER}", "has_answer": True},
            {"role": "assistant", "content": FILLER},
        ]
        other = [{"role": "user", "content": FILLER}, {"role": "assistant", "content": FILLER}]
        return {
            "question_id": name,
            "question_type": "single-session-user",
            "question": "What do I study?",
            "answer": answer,
            "question_date": "2023/05/30 (Tue) 23:40",
            "haystack_session_ids": ["a", "b", "c"],
            "haystack_dates": ["2023/05/20 (Sat) 02:21", "2023/05/21 (Sun) 02:57", "2023/05/22 (Mon) 11:00"],
            "haystack_sessions": [other, turns, []],
            "answer_session_ids": ["b"],
        }

    path = folder / "longmemeval_s.json"
    path.write_text(json.dumps([make("q1", "Business Administration"), make("q2", 4), make("q3_abs", "nothing")]))
    return path


WRITERS = {"locomo": write_locomo, "beam": write_beam, "longmemeval": write_longmemeval}


def test_a_talk_of_locomo(tmp_path: Path) -> None:
    (session,) = read_public_set("locomo", write_locomo(tmp_path))
    assert (session.name, session.source, len(session.messages)) == ("conv-1", "LoCoMo", 16)
    assert str(session.messages[0]["content"]).startswith("[1:56 pm on 2 May, 2023]\nAda: Number 1."), "day 2 before 10"
    assert session.messages[2] == {"role": "assistant", "content": "Ben: Look. [shares a photo of a red canoe]"}
    assert [(q.answer, q.kind, q.evidence, q.expected) for q in session.questions] == [
        ("Greyhound", "single-hop", (1,), ("Greyhound",)),
        ("red canoe", "multi-hop", (2, 8), ("red canoe",)),
        ("2", "temporal", (), ()),
    ]


def test_the_chats_of_beam(tmp_path: Path) -> None:
    folder = write_beam(tmp_path)
    long, cut = read_public_set("beam", folder)
    assert [(s.name, len(s.messages)) for s in (long, cut)] == [("100K/2", 24), ("100K/10", 6)]
    assert str(long.messages[4]["content"]).endswith("in 250ms."), "without the plan's number"
    assert [(q.answer, q.kind, q.evidence, q.expected) for q in long.questions] == [
        ("It ends on March 29.", "information_extraction", (4,), ("March 29",)),
        ("Around 250ms", "knowledge_update", (2, 4), ("250ms",)),
        ("A sprint.", "summarization", (), ()),
    ]
    assert read_public_set("beam", folder / "2") == [long]
    assert read_public_set("beam", folder, first=1) == [long]


def test_a_chat_of_beam_in_several_plans(tmp_path: Path) -> None:
    chat = write_beam(tmp_path) / "2" / "chat.json"
    batches = json.loads(chat.read_text())
    turns = [{**t, "id": t["id"] + 24} for group in batches[0]["turns"] for t in group]
    chat.write_text(json.dumps([{"plan-1": batches}, {"plan-2": [{"turns": [turns]}]}]))
    (session,) = read_public_set("beam", chat.parent)
    assert len(session.messages) == 48


def test_the_instances_of_longmemeval(tmp_path: Path) -> None:
    first, second, none = read_public_set("longmemeval", write_longmemeval(tmp_path))
    assert str(first.messages[2]["content"]).startswith("[2023/05/21 (Sun) 02:57]\nI study Business Administration.")
    (question,) = first.questions
    assert (question.id, question.kind, question.evidence) == ("q1", "single-session-user", (2,))
    assert [(q.answer, q.expected) for q in second.questions] == [("4", ())], "too short to look for"
    assert none.questions == ()


@pytest.mark.parametrize("name", PUBLIC_SETS)
def test_what_is_missing_or_of_another_form_says_where_the_set_is(name: str, tmp_path: Path) -> None:
    page = PUBLIC_SETS[name].page
    with pytest.raises(BadInput, match=f"No such file.*{page}"):
        read_public_set(name, tmp_path / "missing")
    for other, write in WRITERS.items():
        if other != name:
            folder = tmp_path / f"{name}-{other}"
            folder.mkdir()
            with pytest.raises(BadInput, match=page):
                read_public_set(name, write(folder))
    empty = tmp_path / "empty.json"
    empty.write_text("[]")
    with pytest.raises(BadInput, match=page):
        read_public_set(name, empty)


@pytest.mark.parametrize("name", PUBLIC_SETS)
def test_the_command_measures_a_set(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(WRITERS[name](tmp_path))
    options = ["--set", name, "--methods", "tenfold,keep-last,full-past", "--budgets", "1k"]
    assert run(["eval", "search", path, *options, "--first", "1", "--csv", str(tmp_path / "tables")]) == 0
    out = capsys.readouterr().out
    title = PUBLIC_SETS[name].title
    assert f"Questions of {title}, compacted to 1k tokens" in out
    assert f"Questions of {title} in the view, by kind" in out
    literal = {"locomo": 2, "beam": 2, "longmemeval": 1}[name]
    assert f"full-past\t{literal}/{literal}\t-" in out
    assert "Search by question" in out


def test_a_method_that_could_not_run_on_a_set_ends_with_an_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_method.py").write_text("def fail(messages, budget):\n    raise ValueError('no')\n")
    path = str(write_locomo(tmp_path))
    assert run(["eval", "search", path, "--set", "locomo", "--methods", "broken_method:fail,keep-last"]) == 4
    assert "could not run: broken_method:fail (ValueError: no)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"), [(["--set", "lacuna"], "there are beam, locomo"), (["--first", "1"], "name it with --set")]
)
def test_a_set_that_is_not_known_is_refused(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["eval", "search", str(write_locomo(tmp_path)), *options]) == 2
    assert said in capsys.readouterr().err
