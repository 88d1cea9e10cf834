"""The reading test: files of questions, readers, judges, recordings, and sheets for readers outside a provider."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.errors import BadInput, UsageError
from tenfold.models.scripted_model import ScriptedModel, ScriptedReply
from tenfold.testing.chats import count_total_tokens, render_view
from tenfold.testing.methods import BASELINES, Baseline, Method, Preset, UnableError, keep_last
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.cases import read_sessions
from tenfold_yardstick.future_recall import build_recall_tools
from tenfold_yardstick.methods import CONTROLS
from tenfold_yardstick.reading.judge import Judge, build_sheets, parse_grades, render_sheet
from tenfold_yardstick.reading.paper_sheets import (
    ReadingNames,
    export_asks,
    export_judging,
    export_views,
    import_sheets,
)
from tenfold_yardstick.reading.question_draft import draft_questions, render_question_file
from tenfold_yardstick.reading.question_files import ReadingCase, ReadingQuestion, find_question_files, read_case
from tenfold_yardstick.reading.readers import Reader, is_unknown, parse_answers, parse_lookups, render_lookups
from tenfold_yardstick.reading.recorded_writer import RecordedWriter
from tenfold_yardstick.reading.recordings import RecordedReading, Recordings, load_recordings
from tenfold_yardstick.reading.score_tables import build_tables
from tenfold_yardstick.reading.scoring import Examination, ReadingScores, examine_views, score_readings
from tenfold_yardstick.reading.views import make_views
from tenfold_yardstick.reading.written_methods import (
    CLASSIC,
    CLASSIC_PROMPT,
    WrittenPreset,
    WrittenSummary,
    get_reading_methods,
)
from tenfold_yardstick.tables import Table
from tests.sessions import ROOT
from tests.yardstick.chats import make_long_past, make_reply, make_user_message

RULE = ReadingQuestion("chat-01", "instruction", "first", "Which file must stay as it is?", "legacy_config.toml")
FILE = ReadingQuestion(
    "chat-02", "tool_result", "last", "Which function does src/module_39.py define?", "handle_39_input"
)
QUESTIONS = (RULE, FILE)
SYSTEM: ChatMessage = {"role": "system", "content": "You are a careful agent. " * 40}
KEEP_LAST = BASELINES["keep-last"]


class ModelOf:
    """A model that answers by a function, for readings that run at the same time. It keeps its Asks."""

    def __init__(self, reply: Callable[[str], str]) -> None:
        self._reply = reply
        self.prompts: list[str] = []

    def answer(self, ask: SummaryAsk) -> Answer:
        self.prompts.append(ask.prompt)
        return Answer(text=self._reply(ask.prompt))


def build_classic(writer: RecordedWriter) -> WrittenSummary:
    return WrittenSummary(writer, CLASSIC, CLASSIC_PROMPT, 1 / 2)


def make_case(name: str = "chat", questions: Sequence[ReadingQuestion] = QUESTIONS) -> ReadingCase:
    return ReadingCase(name, (SYSTEM, *make_long_past()), tuple(questions))


def make_work(
    methods: Sequence[Method] = (KEEP_LAST,),
    *,
    recordings: Recordings | None = None,
    reader: Reader | None = None,
    judge: Judge | None = None,
    cases: Sequence[ReadingCase] | None = None,
    recall: bool = False,
) -> Examination:
    chosen = cases or [make_case()]
    views = [view for case in chosen for view in make_views(case, methods, sizes=(0.1,))]
    held = Recordings() if recordings is None else recordings
    return Examination({c.name: c for c in chosen}, views, held, reader, judge, recall, "2026-11-25")


def get_row(tables: Sequence[Table], title: str, method: str) -> dict[str, str]:
    table = next(table for table in tables if table.title.startswith(title))
    row = next(row for row in table.rows if row[0] == method)
    return dict(zip(table.columns, row, strict=True))


# -- files of questions ------------------------------------------------------------------------------------------------


def write_questions(
    folder: Path, *, session: str = "chat.json", total: int = 82, cut: int = 41, more: str = ""
) -> Path:
    (folder / "chat.json").write_text(json.dumps([*make_long_past(40), make_reply("Done.")]))
    path = folder / "chat.reading.toml"
    path.write_text(
        f'session = "{session}"\nmessages_total = {total}\ncut_message = {cut}\n{more}\n[[question]]\nid = "chat-01"\n'
        'category = "instruction"\nthird = "first"\nask = "Which file?"\ngold = "legacy_config.toml"\nevidence = [0]\n'
    )
    return path


def test_a_file_names_the_past_of_its_session(tmp_path: Path) -> None:
    case = read_case(write_questions(tmp_path))
    assert case.name == "chat"
    assert len(case.past) == 41
    assert case.questions[0].gold == "legacy_config.toml"


@pytest.mark.parametrize("given", ["chat.json", "chat.reading.toml", "."])
def test_questions_are_found_by_their_file_their_session_and_their_folder(tmp_path: Path, given: str) -> None:
    path = write_questions(tmp_path)
    assert find_question_files([tmp_path / given]) == [path]


def test_a_session_of_another_length_is_refused_with_both_numbers(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="messages_total is 80, and the session has 82 chat messages"):
        read_case(write_questions(tmp_path, total=80))


def test_the_text_at_the_cut_wins_over_the_count(tmp_path: Path) -> None:
    more = 'cut_text = "read_file\\npath: src/module_09.py"'
    case = read_case(write_questions(tmp_path, total=80, cut=3, more=more))
    assert len(case.past) == 19
    with pytest.raises(BadInput, match="no message of the session begins with"):
        read_case(write_questions(tmp_path, more='cut_text = "nobody said this"'))


@pytest.mark.parametrize(
    ("named", "message"),
    [("none.json", "does not exist"), ("chat.json#3", "there are 1 sessions"), ("chat.json#x", "FILE#NUMBER")],
)
def test_a_session_that_is_not_there_is_refused(tmp_path: Path, named: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        read_case(write_questions(tmp_path, session=named))


def test_a_session_without_questions_is_refused(tmp_path: Path) -> None:
    write_questions(tmp_path).unlink()
    with pytest.raises(BadInput, match=r"no \*.reading.toml comes with it"):
        find_question_files([tmp_path / "chat.json"])


# -- views -------------------------------------------------------------------------------------------------------------


def test_every_method_has_the_system_prompt_beside_its_share() -> None:
    case = make_case()
    (view,) = make_views(case, [KEEP_LAST], sizes=(0.1,))
    overhead, past = count_total_tokens([SYSTEM]), count_total_tokens(case.past)
    assert view.budget == overhead + int((past - overhead) * 0.1)
    assert overhead < view.tokens <= view.budget
    assert view.text.startswith("[system]\nYou are a careful agent.")


def test_more_rounds_are_made_at_a_tenth_only() -> None:
    views = list(make_views(make_case(), [KEEP_LAST], sizes=(0.1, 0.2), rounds=(1, 5)))
    assert [(view.rounds, view.size) for view in views] == [(1, 0.1), (1, 0.2), (5, 0.1)]


def test_the_classic_method_halves_its_size_between_a_summary_and_the_newest_messages() -> None:
    model = ScriptedModel(["## Goal\nTidy up the parser.\n## Rules\nNever touch legacy_config.toml."])
    case = make_case()
    (view,) = make_views(case, [build_classic(RecordedWriter({}, model=model))], sizes=(0.2,))
    assert view.tokens <= view.budget
    assert "Never touch legacy_config.toml." in view.text
    assert "src/module_39.py" in view.text
    assert "src/module_20.py" not in view.text
    (ask,) = model.asks
    assert "src/module_20.py" in ask.prompt
    assert ask.max_tokens < (view.budget - count_total_tokens([SYSTEM])) // 2


def test_without_a_writer_the_classic_method_is_unable_and_its_ask_waits() -> None:
    writer = RecordedWriter({})
    (view,) = make_views(make_case(), [build_classic(writer)], sizes=(0.1,))
    assert "no writer is named" in view.unable
    assert len(writer.pending_asks) == 1


def test_a_written_policy_is_made_again_from_recorded_texts_and_unable_without_them() -> None:
    text = "## Goal\nTidy up the parser. Never touch legacy_config.toml.\n" * 3
    first = RecordedWriter({}, model=ScriptedModel([text], repeat=True), name="m")
    (written,) = make_views(make_case(), [WrittenPreset("tenfold", first)], sizes=(0.2,))
    assert first.new_texts
    again = RecordedWriter({one.ask: one.text for one in first.new_texts})
    (replayed,) = make_views(make_case(), [WrittenPreset("tenfold", again)], sizes=(0.2,))
    assert replayed == written
    (unable,) = make_views(make_case(), [WrittenPreset("tenfold", RecordedWriter({}))], sizes=(0.2,))
    assert unable.unable


def test_controls_can_be_read_like_methods() -> None:
    case = make_case()
    views = {
        v.method: v for v in make_views(case, get_reading_methods(list(CONTROLS), RecordedWriter({})), sizes=(0.1,))
    }
    assert views["empty-view"].text.strip() == render_view(case.overhead).strip()
    assert "nothing special in step 20" in views["full-past"].text
    assert "src/module_39.py" in views["name-list"].text
    assert "nothing special" not in views["name-list"].text


def keep_newest(past: Sequence[ChatMessage], _budget: int) -> list[ChatMessage]:
    """A method of a user's own."""
    return list(past[-1:])


def test_a_function_of_ones_own_is_read_like_a_method() -> None:
    methods = get_reading_methods([f"{__name__}:keep_newest"], RecordedWriter({}))
    (view,) = make_views(make_case(), methods, sizes=(0.1,))
    assert view.text == render_view(make_case().past[-1:])
    with pytest.raises(UsageError, match="MODULE:FUNCTION is one of your own"):
        get_reading_methods(["keep_newest"], RecordedWriter({}))


# -- readers -----------------------------------------------------------------------------------------------------------


def test_answers_are_read_from_lines_of_many_shapes() -> None:
    reply = "Sure!\n- **chat-01**: legacy_config.toml,\n  and nothing else\n\nchat-03: not asked"
    assert parse_answers(reply, QUESTIONS) == {
        "chat-01": "legacy_config.toml, and nothing else chat-03: not asked",
        "chat-02": "unknown",
    }


@pytest.mark.parametrize(
    "line", ["`chat-02`: it", "1. chat-02: it", "2) **chat-02** - it", "| chat-02 | it", "_chat-02:_ it"]
)
def test_the_line_of_an_answer_may_be_marked_up(line: str) -> None:
    assert parse_answers(line, QUESTIONS) == {"chat-01": "unknown", "chat-02": "it"}


def test_two_lookups_a_question_are_answered_by_the_real_tools() -> None:
    asked = (
        "chat-02? recall_search: handle_39_input\n" * 3 + "chat-01? recall_search: legacy\nchat-09? recall_search: x"
    )
    lookups = parse_lookups(asked, QUESTIONS)
    assert [one.question for one in lookups] == ["chat-02", "chat-02", "chat-01"]
    tools = build_recall_tools(make_case().past)
    found = render_lookups(lookups[:1], tools)
    assert "def handle_39_input" in found
    entry = found.split("\n")[1].split(" ")[0]
    read = render_lookups(
        parse_lookups(f"chat-02? recall_read: {entry}", QUESTIONS), build_recall_tools(make_case().past)
    )
    assert "nothing special in step 39" in read, "ids are the same in every session of the same past"


def test_a_search_without_a_word_is_answered_too() -> None:
    tools = build_recall_tools(make_case().past)
    assert "\n" in render_lookups(parse_lookups("1. **chat-02**? recall_search: ???", QUESTIONS), tools)


def test_a_reader_sees_what_it_looked_up_and_then_answers() -> None:
    model = ScriptedModel(
        ["chat-02? recall_search: handle_39_input", "chat-01: legacy_config.toml\nchat-02: handle_39_input"]
    )
    answers = Reader(model, "r").read_with_recall("[user]\nhello", QUESTIONS, build_recall_tools(make_case().past))
    assert answers == {"chat-01": "legacy_config.toml", "chat-02": "handle_39_input"}
    assert "What you looked up" not in model.asks[0].prompt
    assert "def handle_39_input" in model.asks[1].prompt


def test_a_reader_that_only_looks_things_up_is_stopped() -> None:
    model = ScriptedModel(["chat-02? recall_search: module_39"] * 9)
    answers = Reader(model, "r").read_with_recall("[user]\nhello", QUESTIONS, build_recall_tools(make_case().past))
    assert set(answers.values()) == {"unknown"}
    assert len(model.asks) == 3
    assert "you may look up" not in model.asks[2].prompt


# -- judging -----------------------------------------------------------------------------------------------------------


def test_a_sheet_holds_each_different_answer_once_in_an_order_of_its_own() -> None:
    answers = ["toml", "the legacy file", "toml", "unknown", "", "none of them"]
    (sheet,) = build_sheets(RULE, answers)
    assert sorted(sheet.answers) == ["none of them", "the legacy file", "toml"]
    assert build_sheets(RULE, reversed(answers)) == [sheet]
    text = render_sheet(sheet)
    assert RULE.gold in text
    assert "C: " in text
    assert len(build_sheets(RULE, [str(n) for n in range(60)])) == 3


@pytest.mark.parametrize(
    "reply", ["A: 1", "A: 1\nB: 2", "A: 1\nB: 0.5\nC: 0", "A: 1\nA: 1\nB: 0", "A: 1\nB: good", "I think\nA: 1\nB: 1"]
)
def test_grades_are_parsed_strictly(reply: str) -> None:
    with pytest.raises(UnableError):
        parse_grades(reply, ["A", "B"])


def test_every_grade_has_its_letter() -> None:
    assert parse_grades("A: 1\n**B**: -1\n", ["A", "B"]) == {"A": 1.0, "B": -1.0}


def test_a_judge_is_asked_again_once() -> None:
    (sheet,) = build_sheets(RULE, ["toml"])
    assert Judge(ScriptedModel(["Well done.", "A: 0.5"]), "j").grade(sheet) == {"toml": 0.5}
    with pytest.raises(UnableError, match="is no grade"):
        Judge(ScriptedModel(["Well done.", "Very well."]), "j").grade(sheet)


@pytest.mark.parametrize("answer", ["", "unknown", "`Unknown`.", "**unknown**"])
def test_what_says_nothing_needs_no_judge(answer: str) -> None:
    assert is_unknown(answer)


# -- the run, and its recordings ---------------------------------------------------------------------------------------


def answer_from_view(prompt: str) -> str:
    """Answers as a reader would who sees the view and nothing else."""
    found = "handle_39_input" if "def handle_39_input" in prompt else "unknown"
    return f"chat-01: {'legacy_config.toml' if 'legacy_config.toml' in prompt else 'config.yaml'}\nchat-02: {found}"


def grade_by_gold(prompt: str) -> str:
    gold = prompt.partition("Gold answer: ")[2].partition("\n")[0]
    lines = [line for line in prompt.partition("Answers:")[2].splitlines() if line[1:2] == ":"]
    return "\n".join(f"{line[0]}: {1 if gold in line else -1}" for line in lines)


def run_fully() -> tuple[Examination, ReadingScores]:
    reader, judge = Reader(ModelOf(answer_from_view), "reader"), Judge(ModelOf(grade_by_gold), "judge")
    work = make_work(reader=reader, judge=judge)
    failures = examine_views(work)
    return work, score_readings(work, failures)


def test_a_view_is_read_and_graded() -> None:
    _, result = run_fully()
    assert {(s.question, s.grade) for s in result.scores} == {("chat-01", -1.0), ("chat-02", 1.0)}
    row = get_row(build_tables(result), "Reading test", "keep-last")
    assert (row["score"], row["complete"], row["misleading"], row["graded"]) == ("0.000", "50.0%", "50.0%", "2")
    assert (result.readers, result.judges) == (("reader",), ("judge",))


def test_recall_is_a_second_row_of_tenfolds_methods_only() -> None:
    work = make_work([KEEP_LAST, Preset("tenfold")], recall=True)
    assert [(view.method, recall) for view, recall in work.places] == [
        ("keep-last", False),
        ("tenfold", False),
        ("tenfold", True),
    ]


def test_recordings_replay_without_a_model(tmp_path: Path) -> None:
    work, result = run_fully()
    work.recordings.write_to(tmp_path)
    replayed = score_readings(make_work(recordings=load_recordings(tmp_path)))
    assert replayed == result
    line = json.loads((tmp_path / "readings.jsonl").read_text().splitlines()[0])
    assert line["view"] == work.views[0].hash
    assert (line["reader"], line["judge"], line["date"]) == ("reader", "judge", "2026-11-25")


def test_what_is_recorded_is_not_read_again() -> None:
    work, _ = run_fully()
    model = ModelOf(answer_from_view)
    again = make_work(recordings=work.recordings, reader=Reader(model, "other"), judge=Judge(model, "other"))
    assert examine_views(again) == []
    assert model.prompts == []


def test_a_changed_view_makes_its_recordings_stale() -> None:
    work, _ = run_fully()
    longer = ReadingCase("chat", (*make_case().past, make_user_message("And now the tests.")), QUESTIONS)
    result = score_readings(make_work(recordings=work.recordings, cases=[longer]))
    assert [(s.is_stale, s.grade) for s in result.scores] == [(True, None), (True, None)]
    assert get_row(build_tables(result), "Without a grade", "keep-last")["stale readings"] == "2"


def read_again(grades: Sequence[float], answers: Sequence[str] = ()) -> ReadingScores:
    """The scores of one view after as many readings, each with a grade for the first question and 1 for the second."""
    recordings = Recordings()
    work = make_work(recordings=recordings)
    (view,) = work.views
    for number, grade in enumerate(grades):
        said = answers[number] if answers else f"answer {number}"
        for question, given in ((RULE, grade), (FILE, 1.0)):
            place = (view.session, view.method, view.size, view.rounds, False, view.hash)
            recordings.add(
                RecordedReading(*place, question.id, said, given, "r", "j", "2026-11-25", reading=f"reading {number}")
            )
    return score_readings(work)


def test_every_reading_of_a_view_is_kept_and_counts() -> None:
    result = read_again([1.0, -1.0, 0.5])
    assert [(s.grade, s.grades) for s in result.scores] == [
        (pytest.approx(0.5 / 3), (-1.0, 0.5, 1.0)),
        (1.0, (1.0, 1.0, 1.0)),
    ]
    row = get_row(build_tables(result), "Reading test", "keep-last")
    assert (row["score"], row["range"], row["readings"]) == ("0.583", "0.00 to 1.00", "3")
    assert (row["complete"], row["half"], row["misleading"], row["graded"]) == ("66.7%", "16.7%", "16.7%", "2")
    once = get_row(build_tables(read_again([1.0])), "Reading test", "keep-last")
    assert (once["score"], once["range"], once["readings"]) == ("1.000", "-", "1")


def test_readings_that_say_the_same_count_as_often_as_they_were_made() -> None:
    result = read_again([1.0, 1.0, -1.0], ["so", "so", "not so"])
    assert result.scores[0].grade == pytest.approx(1 / 3)


def test_another_grading_of_an_answer_is_kept_beside_the_first(tmp_path: Path) -> None:
    recordings = Recordings()
    work = make_work(recordings=recordings)
    (view,) = work.views
    first = RecordedReading(
        "chat", "keep-last", 0.1, 1, False, view.hash, "chat-01", "so", -1.0, "r", "j", "2026-11-25"
    )
    recordings.add(first)
    recordings.add(replace(first, grade=1.0, judge="k"))
    recordings.add(replace(first, grade=1.0, judge="k"))
    recordings.write_to(tmp_path)
    again = load_recordings(tmp_path)
    assert len((tmp_path / "readings.jsonl").read_text().splitlines()) == 2
    scores = score_readings(make_work(recordings=again)).scores
    assert (scores[0].grade, scores[0].grades) == (0.0, (-1.0, 1.0))


def test_a_grade_completes_the_reading_that_it_is_of(tmp_path: Path) -> None:
    recordings = Recordings()
    (view,) = make_work().views
    waiting = RecordedReading("chat", "keep-last", 0.1, 1, False, view.hash, "chat-01", "so", reader="r")
    recordings.add(waiting)
    recordings.add(replace(waiting, grade=0.5, judge="j"))
    recordings.add(waiting)
    recordings.write_to(tmp_path)
    (line,) = (tmp_path / "readings.jsonl").read_text().splitlines()
    assert json.loads(line)["grade"] == 0.5


def test_a_row_that_rests_on_some_of_the_answers_says_so_and_has_no_place() -> None:
    recordings = Recordings()
    cases = [make_case(name) for name in "ab"]
    work = make_work([KEEP_LAST, Baseline("part", lambda past, _: list(past[-2:]))], recordings=recordings, cases=cases)
    for view in work.views:
        for question in QUESTIONS if view.method == "keep-last" else (RULE,) * (view.session == "a"):
            place = (view.session, view.method, view.size, view.rounds, False, view.hash)
            recordings.add(RecordedReading(*place, question.id, view.method, float(view.method == "part"), "r", "j"))
    tables = build_tables(score_readings(work))
    head = next(table for table in tables if table.title.startswith("Reading test"))
    assert [row[0] for row in head.rows] == ["keep-last", "part"], "1.000 of one answer is not above 0.000 of four"
    assert get_row(tables, "Reading test", "part")["graded"] == "1 of 4"
    assert get_row(tables, "By kind", "part")["instruction"] == "1.00 (1 of 2)"


def test_one_answer_of_several_methods_is_graded_once() -> None:
    model = ModelOf(grade_by_gold)
    cases = [make_case(), ReadingCase("chat", (*make_case().past, make_reply("So.")), QUESTIONS)]
    views = [view for case in cases for view in make_views(case, [KEEP_LAST], sizes=(0.1,))]
    work = Examination(
        {"chat": cases[0]},
        views,
        Recordings(),
        Reader(ModelOf(lambda _: "chat-01: legacy_config.toml\nchat-02: unknown"), "r"),
        Judge(model, "j"),
        has_recall=False,
    )
    assert examine_views(work) == []
    assert len(model.prompts) == 1
    assert {s.grade for s in score_readings(work).scores} == {1.0, 0.0}


def test_views_that_are_alike_are_read_once_and_recorded_for_each_method(tmp_path: Path) -> None:
    model = ModelOf(answer_from_view)
    work = make_work([KEEP_LAST, Baseline("same", keep_last)], reader=Reader(model, "r"))
    assert examine_views(work) == []
    assert len(model.prompts) == 1
    work.recordings.write_to(tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "readings.jsonl").read_text().splitlines()]
    assert {line["method"] for line in lines} == {"keep-last", "same"}


def test_a_model_that_fails_is_reported_and_nothing_is_scored() -> None:
    work = make_work(reader=Reader(ScriptedModel([ScriptedReply(error="no such model")], repeat=True), "r"))
    failures = examine_views(work)
    result = score_readings(work, failures)
    assert failures == ["no such model"]
    assert [s.grade for s in result.scores] == [None, None]
    assert "no such model" in next(t for t in build_tables(result) if t.title == "Without a grade").note


def test_intervals_are_over_sessions_and_kinds_have_a_table() -> None:
    cases = [make_case(name) for name in "abcd"]
    recordings = Recordings()
    work = make_work(recordings=recordings, cases=cases)
    for view in work.views:
        for question in QUESTIONS:
            grade = 1.0 if question is FILE or view.session in "ab" else 0.0
            place = (view.session, view.method, view.size, view.rounds, False, view.hash)
            recordings.add(RecordedReading(*place, question.id, "so", grade, "r", "j"))
    tables = build_tables(score_readings(work))
    row = get_row(tables, "Reading test", "keep-last")
    assert row["score"] == "0.750"
    low, high = (float(end) for end in row["95 %"].split(" to "))
    assert 0.5 <= low < 0.75 < high <= 1.0
    kinds = get_row(tables, "By kind", "keep-last")
    assert (kinds["instruction"], kinds["tool_result"]) == ("0.50", "1.00")
    assert get_row(tables, "By third", "keep-last")["last"] == "1.00"


# -- sheets on paper ---------------------------------------------------------------------------------------------------


def test_readers_and_judges_outside_a_provider_give_the_same_scores(tmp_path: Path) -> None:
    _, expected = run_fully()
    assert export_views(tmp_path, make_work()) == 1
    (folder,) = [path.parent for path in tmp_path.glob("*/view.md")]
    assert sorted(path.name for path in folder.iterdir()) == ["questions.md", "view.md"]
    assert not any("keep-last" in path.read_text() for path in folder.iterdir())
    (folder / "answers.md").write_text(answer_from_view((folder / "view.md").read_text()))
    names = ReadingNames(reader="reader", judge="judge")
    recordings = Recordings()
    work = make_work(recordings=recordings)
    import_sheets(tmp_path, recordings, work.cases, names=names, date="2026-11-25")
    assert export_judging(tmp_path, work) == 2
    for sheet in sorted((tmp_path / "judge").glob("*.md")):
        assert "keep-last" not in sheet.read_text()
        sheet.with_suffix(".grades.md").write_text(grade_by_gold(sheet.read_text()))
    import_sheets(tmp_path, recordings, work.cases, names=names, date="2026-11-25")
    assert score_readings(work) == expected
    assert export_judging(tmp_path, work) == 0
    assert export_views(tmp_path, work) == 0


def test_lookups_on_paper_are_answered_beside_them(tmp_path: Path) -> None:
    work = make_work([Preset("tenfold")], recall=True)
    export_views(tmp_path, work)
    (folder,) = [path.parent for path in tmp_path.glob("*/view.md")]
    (folder / "lookups.md").write_text("chat-02? recall_search: handle_39_input")
    (folder / "answers-recall.md").write_text("chat-02: handle_39_input")
    import_sheets(tmp_path, work.recordings, work.cases, names=ReadingNames(reader="r"), date="")
    assert "def handle_39_input" in (folder / "found.md").read_text()
    (found,) = work.recordings.find_answers(work.views[0], "chat-02", recall=True)
    assert found.recorded.answer == "handle_39_input"


def test_a_summary_on_paper_makes_the_view_possible(tmp_path: Path) -> None:
    writer = RecordedWriter({})
    work = make_work([build_classic(writer)])
    assert export_asks(tmp_path, writer.pending_asks) == 1
    export_views(tmp_path, work)
    (ask,) = (tmp_path / "asks").iterdir()
    assert "src/module_20.py" in ask.read_text()
    ask.with_suffix(".answer.md").write_text("## Goal\nTidy up the parser.\n")
    import_sheets(tmp_path, work.recordings, work.cases, names=ReadingNames(writer="w"), date="")
    again = make_work([build_classic(RecordedWriter(work.recordings.texts))])
    assert [(view.method, view.unable) for view in again.views] == [(CLASSIC, "")]
    assert "Tidy up the parser." in again.views[0].text


def test_a_grade_that_is_none_is_refused_with_its_file(tmp_path: Path) -> None:
    work, _ = run_fully()
    (tmp_path / "key.json").write_text("{}")
    answers = [RecordedReading("chat", "m", 0.1, 1, False, v.hash, "chat-01", "so", reader="r") for v in work.views]
    export_judging(tmp_path, make_work(recordings=Recordings(answers)))
    (tmp_path / "judge" / "001.grades.md").write_text("A: fine")
    with pytest.raises(BadInput, match=r"001\.grades\.md: 'A: fine' is no grade"):
        import_sheets(tmp_path, Recordings(), work.cases, names=ReadingNames(), date="")


def test_a_damaged_recording_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "readings.jsonl").write_text('{"session": "chat"}\n')
    with pytest.raises(BadInput, match=r"readings\.jsonl, line 1"):
        load_recordings(tmp_path)
    with pytest.raises(BadInput, match="--record writes them"):
        load_recordings(tmp_path / "none")


# -- drafts ------------------------------------------------------------------------------------------------------------


def test_a_draft_is_a_file_that_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(json.dumps([*make_long_past(40), make_reply("Done.")]))
    (session,) = read_sessions(tmp_path / "chat.json")
    reply = [
        {"category": "instruction", "ask": 'Which "file"?', "gold": "legacy_config.toml", "evidence": [0]},
        {"category": "tool_result", "ask": "What is in step 20?", "gold": "nothing special", "evidence": [42, 900]},
        {"category": "error", "ask": "Where?", "gold": "nowhere", "evidence": [81]},
    ]
    model = ScriptedModel([f"```json\n{json.dumps(reply)}\n```"])
    draft = draft_questions(session, model, name="chat", path="chat.json", count=3)
    (tmp_path / "chat.reading.toml").write_text(render_question_file(draft))
    case = read_case(tmp_path / "chat.reading.toml")
    assert len(case.past) == 49
    assert [(q.id, q.third, q.evidence) for q in case.questions] == [
        ("chat-01", "first", [0]),
        ("chat-02", "last", [42]),
    ]
    assert case.questions[0].ask == 'Which "file"?'
    assert "legacy_config.toml" in model.asks[0].prompt


def test_a_draft_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text(json.dumps(make_long_past(40)))
    (session,) = read_sessions(tmp_path / "chat.json")
    with pytest.raises(UnableError, match="not the JSON that was asked for"):
        draft_questions(session, ScriptedModel(["Here you are!"]), name="chat", path="chat.json", count=3)


def test_the_committed_recordings_answer_the_questions_of_the_projects_sessions() -> None:
    folder = ROOT / "examples" / "reading"
    lines = (folder / "readings.jsonl").read_bytes().splitlines()
    readings = [msgspec.json.decode(line, type=RecordedReading) for line in lines]
    cases = [read_case(path) for path in find_question_files([ROOT / "examples" / "sessions"])]
    questions = {(case.name, question.id) for case in cases for question in case.questions}
    assert len(questions) == 56
    assert {(reading.session, reading.question) for reading in readings} == questions
    methods = {reading.method for reading in readings}
    played = {method for method in methods if method.startswith("yardstick.scripts.played_views:")}
    assert methods - played == {"tenfold", "tenfold+model", "plain", "classic", "keep-last"}
    assert len(played) == 3, "what the bill's page has beside its figures"
    assert all(reading.grade in (-1, 0, 0.5, 1) and reading.date and reading.reader for reading in readings)
    assert len(load_recordings(folder).texts) == 12, "one for each view of three methods"


def test_the_command_in_the_readme_prints_scores_of_recorded_answers() -> None:
    """A view that changes makes its recorded answers stale, and the command prints nothing of it any more."""
    command = [sys.executable, "-m", "tenfold", "eval", "reading", "examples/sessions", "--replay", "examples/reading"]
    command += ["--sizes", "10%", "--methods", "tenfold,tenfold+model,plain,classic,keep-last"]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    header, *rows = [line.split("\t") for line in done.stdout.split("\n") if line.count("\t") > 5][:7]
    scores = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    assert len(scores) == 6
    assert all((row["graded"], row["stale readings"]) == ("56", "0") for row in scores.values()), scores
    assert float(scores["tenfold"]["score"]) > float(scores["keep-last"]["score"])
