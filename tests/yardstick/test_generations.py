"""Recall over generations: a session compacted again and again, and what is left of its answers each time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from tenfold.apps.cli.main import run
from tenfold.testing.chats import count_total_tokens
from tenfold.testing.methods import BASELINES, Method, MethodResult, Preset, UnableError, compact_in_rounds
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.asked_sessions import AskedQuestion, AskedSession, spread_evenly
from tenfold_yardstick.generations import GenerationScore, build_asked_session, build_tables, measure_generations
from tenfold_yardstick.methods import CONTROLS
from tenfold_yardstick.plots import draw_charts
from tenfold_yardstick.quality_report import Yardstick
from tenfold_yardstick.reading.question_files import ReadingCase, ReadingQuestion, build_reading_case
from tenfold_yardstick.reading.views import make_generation_views, split_case
from tests.sessions import ROOT
from tests.yardstick.chats import make_long_past
from tests.yardstick.test_public_sets import write_locomo

PAST = tuple(make_long_past())
"""A request and 40 steps, each with a call and a result: the first of ten stretches has three of them."""


def make_session(*steps: int) -> AskedSession:
    names = {step: f"handle_{step:02}_input" for step in steps}
    questions = (
        AskedQuestion(str(step), f"What does src/module_{step:02}.py define?", name, (name,), (2 + 2 * step,))
        for step, name in names.items()
    )
    return AskedSession("chat", PAST, tuple(questions))


class Listed(Struct, frozen=True):
    """A method that keeps the newest messages that a list of sizes says, one size after the other; 0 is unable."""

    sizes: list[int]
    seen: list[tuple[ChatMessage, ...]]
    name: str = "listed"

    def compact(self, past: Sequence[ChatMessage], *, budget: int) -> MethodResult:
        """See `Method.compact`."""
        del budget
        self.seen.append(tuple(past))
        size = self.sizes[len(self.seen) - 1]
        if not size:
            raise UnableError("it asks a server")
        kept = tuple(past[-size:])
        return MethodResult(kept, count_total_tokens(kept), 0.0)


def by_generation(scores: Sequence[GenerationScore], method: str) -> list[tuple[int, int]]:
    return [(one.shown, one.asked) for one in scores if one.method == method]


def test_a_question_is_asked_once_its_answer_is_said_and_the_ceiling_has_all() -> None:
    result = measure_generations([make_session(1, 18, 39)], [CONTROLS["full-past"], BASELINES["keep-last"]])
    assert (result.posed, result.literal) == (3, 3)
    ceiling = by_generation(result.scores, "full-past")
    assert ceiling == [(1, 1)] * 4 + [(2, 2)] * 5 + [(3, 3)]
    last = by_generation(result.scores, "keep-last")
    assert last[0] == (1, 1)
    assert [asked for _, asked in last] == [asked for _, asked in ceiling]


def test_each_generation_compacts_the_last_view_and_what_is_new() -> None:
    method = Listed([2] * 5, [])
    measure_generations([make_session(1)], [method], generations=5)
    assert [given[:2] for given in method.seen[1:]] == [given[-2:] for given in method.seen[:-1]]
    assert tuple(message for given in method.seen for message in given[2 * (given is not method.seen[0]) :]) == PAST


def test_the_last_generation_is_what_so_many_rounds_give() -> None:
    (*_, view) = make_generation_views(
        ReadingCase("chat", PAST, (ReadingQuestion("1", "error", "last", "What?", "That"),)),
        [Preset("tenfold")],
        sizes=[0.2],
        generations=10,
    )
    assert view.rounds == 10
    assert view.tokens == compact_in_rounds(Preset("tenfold"), PAST, budget=view.budget, rounds=10).tokens


def test_what_was_lost_stays_lost_and_has_an_age() -> None:
    keep_two = Listed([2] * 10, [])
    result = measure_generations([make_session(2)], [keep_two])
    assert by_generation(result.scores, "listed") == [(1, 1)] + [(0, 1)] * 9
    assert [one.ages for one in result.scores] == [{"1": (1, 1)}] + [{str(age): (0, 1)} for age in range(2, 11)]


def test_a_lookup_finds_what_the_view_lost_and_is_tenfolds_alone() -> None:
    result = measure_generations([make_session(1, 5, 12)], [Preset("tail"), BASELINES["keep-last"]], budgets=[1_000])
    for one in result.scores:
        if one.method == "tail":
            assert one.within is not None
            assert one.shown <= one.within <= one.asked
        else:
            assert one.within is None
    last = [one for one in result.scores if one.method == "tail"][-1]
    assert last.within == 3


def test_a_view_that_is_not_sent_answers_nothing_and_goes_on() -> None:
    large, orphan = Listed([99] * 10, []), Listed([3] * 10, [], "orphan")
    result = measure_generations([make_session(2)], [large, orphan], budgets=[1_500])
    first, *_, last = [one for one in result.scores if one.method == "listed"]
    assert (first.shown, first.over) == (1, False)
    assert (last.shown, last.over) == (0, True)
    assert [one.refused for one in result.scores if one.method == "orphan"] == ["orphan result"] * 10
    assert by_generation(result.scores, "orphan")[0] == (0, 1)


def test_a_method_that_cannot_go_on_is_unable_from_then_on() -> None:
    result = measure_generations([make_session(1)], [Listed([9, 9, 0], []), BASELINES["keep-last"]])
    assert [one.unable for one in result.scores if one.method == "listed"] == ["", "", *["it asks a server"] * 8]
    tables = {table.title: table for table in build_tables(result)}
    assert tables["Could not go through the generations"].rows == [("listed", "8/10", "it asks a server")]


def test_only_what_code_can_check_is_asked_and_spread_over_the_session() -> None:
    session = make_session(*range(40))
    prose = AskedQuestion("prose", "Why?", "Because it was slow")
    full: list[Method] = [CONTROLS["full-past"]]
    result = measure_generations([AskedSession("chat", PAST, (prose, *session.questions))], full, questions=5)
    assert (result.posed, result.literal) == (41, 5)
    assert by_generation(result.scores, "full-past") == [(n, n) for n in (1, 1, 2, 2, 2, 3, 3, 4, 4, 5)]


@given(st.lists(st.integers(), max_size=60), st.integers(min_value=1, max_value=20))
def test_a_spread_has_both_ends_and_keeps_the_order(items: list[int], count: int) -> None:
    numbered = list(enumerate(items))
    chosen = spread_evenly(numbered, count)
    assert len(chosen) == min(count, len(items))
    assert chosen == sorted(set(chosen))
    if len(chosen) > 1:
        assert (chosen[0], chosen[-1]) == (numbered[0], numbered[-1])


def test_the_gold_answers_of_a_reading_test_are_checked_by_their_identifiers() -> None:
    questions = (
        ReadingQuestion("a", "error", "first", "What may not be touched?", "legacy_config.toml, so said the user"),
        ReadingQuestion("b", "error", "last", "Which?", "handle_39_input"),
        ReadingQuestion("c", "error", "last", "Why?", "it was slow"),
    )
    session = build_asked_session(ReadingCase("chat", PAST, questions))
    assert [question.expected for question in session.questions] == [("legacy_config.toml",), ("handle_39_input",), ()]


def test_the_tables_and_the_charts() -> None:
    methods: list[Method] = [Preset("tenfold"), BASELINES["keep-last"], CONTROLS["full-past"]]
    result = measure_generations([make_session(1, 18, 39)], methods, budgets=[1_000, 2_000])
    tables = {table.title: table for table in build_tables(result)}
    for size in ("1k", "2k"):
        recall = tables[f"Recall over generations, compacted to {size} tokens"]
        assert recall.columns == ("method", *map(str, range(1, 11)), "tokens", "not sent")
        assert {row[0]: row[1:11] for row in recall.rows}["full-past"] == ("1.00",) * 10
        lookup = tables[f"Recall over generations with one lookup, compacted to {size} tokens"]
        assert [row[0] for row in lookup.rows] == ["tenfold"]
        retained = tables[f"Retained tokens over generations, compacted to {size} tokens"].rows
        assert {row[0]: row[-1] for row in retained}["full-past"] == f"{count_total_tokens(PAST):,}"
    assert [chart.name for chart in draw_charts(Yardstick(generations=result))] == [
        "generations-recall",
        "generations-tokens",
    ]


# -- the commands ------------------------------------------------------------------------------------------------------


def test_the_command_on_questions_beside_a_session_and_of_a_reading_test(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    desk = ROOT / "examples" / "sessions" / "desk.openai-chat.json"
    options = ["--methods", "keep-last", "--budgets", "2k", "--generations", "3", "--questions", "4"]
    outputs = ["--csv", str(tmp_path / "tables"), "--figures", str(tmp_path / "figures")]
    assert run(["eval", "generations", str(desk), *options, *outputs]) == 0
    out = capsys.readouterr().out
    assert "full-past\t1.00\t1.00\t1.00\t" in out
    assert "3 4. Of 12 questions about 1 sessions, 4 are asked" in out
    assert (tmp_path / "figures" / "generations-recall.svg").exists()
    assert "recall-over-generations-compacted-to-2k-tokens.csv" in {p.name for p in (tmp_path / "tables").iterdir()}
    assert run(["eval", "generations", str(desk.with_name("desk.reading.toml")), *options, "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["posed"] == 14
    assert {one["method"] for one in made["scores"]} == {"keep-last", "full-past"}


def test_the_command_on_a_public_set_with_a_method_that_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unable_method.py").write_text("def fail(messages, budget):\n    raise ValueError('no')\n")
    options = ["--set", "locomo", "--methods", "unable_method:fail,tenfold", "--budgets", "1k"]
    assert run(["eval", "generations", str(write_locomo(tmp_path)), *options]) == 4
    said = capsys.readouterr()
    assert "could not run: unable_method:fail" in said.err
    assert "tenfold\t" in said.out


def test_a_session_without_questions_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(PAST))
    assert run(["eval", "generations", str(path)]) == 0
    assert "nothing to ask" in capsys.readouterr().err


# -- for a reader ------------------------------------------------------------------------------------------------------


def test_a_past_is_split_into_what_was_said_after_each_stretch() -> None:
    asked = [
        ReadingQuestion(str(at), "error", "first", "?", "!", evidence) for at, evidence in enumerate(([2], [2, 40], []))
    ]
    parts = split_case(ReadingCase("chat", PAST, tuple(asked)), 10)
    assert [part.name for part in parts] == [f"chat@{number}" for number in range(1, 11)]
    assert [len(part.questions) for part in parts] == [1, 1, 1, 1, 1, 2, 2, 2, 2, 3]
    assert parts[-1].past == PAST


def test_the_views_of_all_generations_are_handed_to_readers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_locomo(tmp_path)
    options = ["--set", "locomo", "--methods", "keep-last,full-past", "--sizes", "50%", "--generations", "4"]
    folder = tmp_path / "sheets"
    assert run(["eval", "reading", str(path), *options, "--export", str(folder)]) == 0
    key = json.loads((folder / "key.json").read_text())
    assert {entry["session"] for entry in key.values()} == {f"conv-1@{n}" for n in (1, 2, 3, 4)}
    assert {place[2] for entry in key.values() for place in entry["made_by"]} == {1, 2, 3, 4}
    for name in key:
        (folder / name / "answers.md").write_text("conv-1-000: greyhound\nconv-1-001: a canoe\nconv-1-002: two\n")
    record = ["--import", str(folder), "--reader", "me", "--record", str(tmp_path / "record")]
    assert run(["eval", "reading", str(path), *options, *record, "--export-judging", str(folder)]) == 0
    for sheet in (folder / "judge").glob("*.md"):
        sheet.with_suffix(".grades.md").write_text("A: 1\n")
    capsys.readouterr()
    options += ["--import", str(folder), "--reader", "me", "--judge", "you", "--record", str(tmp_path / "graded")]
    assert run(["eval", "reading", str(path), *options]) == 0
    out = capsys.readouterr().out
    assert "Reading test at 50%, 4 rounds" in out, "the headline is of the last generation"
    row = next(line.split("\t") for line in out.splitlines() if line.startswith("full-past\t"))
    assert (row[1], row[7]) == ("1.000", "3")


def test_a_conversation_of_a_public_set_is_a_case_with_its_questions_spread() -> None:
    case = build_reading_case(make_session(*range(40)), count=3)
    assert [(one.third, one.evidence) for one in case.questions] == [("first", [2]), ("middle", [42]), ("last", [80])]
    assert len(build_reading_case(make_session(*range(40))).questions) == 40
