"""Runs the reading test: views are read, answers graded, and both taken from recordings where there are any."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from tenfold import __version__
from tenfold.config.policies import POLICIES
from tenfold.testing.chats import get_counter
from tenfold.testing.methods import UnableError
from tenfold_yardstick.future_recall import build_recall_tools
from tenfold_yardstick.players import MODEL_SUFFIX
from tenfold_yardstick.reading.judge import Judge, build_sheets
from tenfold_yardstick.reading.question_files import ReadingCase
from tenfold_yardstick.reading.readers import Reader
from tenfold_yardstick.reading.recordings import RecordedReading, Recordings, identify_reading
from tenfold_yardstick.reading.views import ReadView

_CONCURRENT_CALLS = 4
"""Calls to a provider at the same time. More run into the rate limits of small accounts."""


class AnswerScore(Struct, frozen=True, omit_defaults=True):
    """How one question was answered from one view. `grade` None: it was not read, not graded, or `is_stale`.

    `grade` is the mean over the readings of the view, `readings` their number, and `grades` what all judges gave them,
    lowest first. `is_stale` means that it was read only from an older view of the same method.
    """

    session: str
    method: str
    size: float
    rounds: int
    recall: bool
    question: str
    category: str
    third: str
    grade: float | None = None
    is_stale: bool = False
    grades: tuple[float, ...] = ()
    readings: int = 0


class ReadingScores(Struct, frozen=True):
    """The result of a reading test. The views are without their text.

    If a past went through `generations`, the rounds of a view say after which of them it was read, and the questions of
    a session are those of NAME@GENERATION.
    """

    version: str
    counter: str
    views: tuple[ReadView, ...]
    scores: tuple[AnswerScore, ...]
    readers: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    generations: int = 0


class Examination(Struct, frozen=True):
    """What a reading test has to read and who reads and grades it. Without a reader or judge, recordings must do."""

    cases: Mapping[str, ReadingCase]
    views: Sequence[ReadView]
    recordings: Recordings
    reader: Reader | None = None
    judge: Judge | None = None
    has_recall: bool = True
    date: str = ""

    @property
    def places(self) -> Iterator[tuple[ReadView, bool]]:
        """Every view that is read, alone and with recall. Only Tenfold's methods have recall tools."""
        for view in self.views:
            if not view.unable:
                yield view, False
                if self.has_recall and can_recall(view.method):
                    yield view, True


def can_recall(method: str) -> bool:
    """Tells whether a method offers its model recall tools."""
    return method.removesuffix(MODEL_SUFFIX) in POLICIES


def examine_views(work: Examination, on_progress: Callable[[], None] = lambda: None) -> list[str]:
    """Reads what is not recorded, and grades what is not graded, as far as a reader and a judge are given.

    Adds both to the recordings as they come, and returns the reasons for what failed.
    """
    failures = _read_views(work, work.reader, on_progress) if work.reader is not None else []
    return failures + (_grade_answers(work, work.judge) if work.judge is not None else [])


def find_unread(work: Examination) -> list[tuple[ReadView, bool]]:
    """Returns the views, alone or with recall, from which not all questions have an answer, each text once."""
    found: dict[tuple[str, str, bool], tuple[ReadView, bool]] = {}
    for view, recall in work.places:
        questions = work.cases[view.session].questions
        if not all(work.recordings.find_answers(view, question.id, recall=recall) for question in questions):
            found.setdefault((view.session, view.hash, recall), (view, recall))
    return list(found.values())


def _read_views(work: Examination, reader: Reader, on_progress: Callable[[], None]) -> list[str]:
    failures: list[str] = []
    with ThreadPoolExecutor(_CONCURRENT_CALLS) as pool:
        jobs = [
            (view, recall, pool.submit(_read_view, reader, work.cases[view.session], view, can_look_up=recall))
            for view, recall in find_unread(work)
        ]
        for view, recall, job in jobs:
            try:
                answers = job.result()
            except UnableError as exc:
                failures.append(str(exc))
            else:
                _record_answers(work, reader.name, (view.session, view.hash, recall), answers)
            on_progress()
    return failures


def _record_answers(work: Examination, reader: str, text: tuple[str, str, bool], answers: Mapping[str, str]) -> None:
    """Records the answers for every method that made this text."""
    for view, recall in work.places:
        if (view.session, view.hash, recall) == text:
            place = (view.session, view.method, view.size, view.rounds, recall, view.hash)
            name = identify_reading(answers)
            for question, answer in answers.items():
                work.recordings.add(
                    RecordedReading(*place, question, answer, reader=reader, date=work.date, reading=name)
                )


def _read_view(reader: Reader, case: ReadingCase, view: ReadView, *, can_look_up: bool) -> dict[str, str]:
    if can_look_up:
        return reader.read_with_recall(view.text, case.questions, build_recall_tools(case.past))
    return reader.read(view.text, case.questions)


def _grade_answers(work: Examination, judge: Judge) -> list[str]:
    """Grades each different answer to a question once, whichever methods it came from."""
    failures: list[str] = []
    waiting: dict[tuple[str, str], list[RecordedReading]] = defaultdict(list)
    for reading in find_ungraded(work):
        waiting[reading.session, reading.question].append(reading)
    questions = {(case.name, q.id): q for case in work.cases.values() for q in case.questions}
    with ThreadPoolExecutor(_CONCURRENT_CALLS) as pool:
        jobs = [
            (readings, pool.submit(judge.grade, sheet))
            for key, readings in waiting.items()
            for sheet in build_sheets(questions[key], (reading.answer for reading in readings))
        ]
        for readings, job in jobs:
            try:
                grades = job.result()
            except UnableError as exc:
                failures.append(f"{readings[0].question}: {exc}")
                continue
            for reading in readings:
                if reading.answer in grades:
                    work.recordings.add(replace(reading, grade=grades[reading.answer], judge=judge.name))
    return failures


def find_ungraded(work: Examination) -> Iterator[RecordedReading]:
    """Yields the recorded answers from these views that need a judge and have no grade."""
    for view, recall in work.places:
        for question in work.cases[view.session].questions:
            for answer in work.recordings.find_answers(view, question.id, recall=recall):
                if not answer.grades:
                    yield answer.recorded


def score_readings(work: Examination, failures: Sequence[str] = ()) -> ReadingScores:
    """Returns the scores of all views from what is recorded, without asking a model."""
    scores: list[AnswerScore] = []
    readings: list[RecordedReading] = []
    for view, recall in work.places:
        place = (view.session, view.method, view.size, view.rounds, recall)
        for question in work.cases[view.session].questions:
            found = work.recordings.find_answers(view, question.id, recall=recall)
            readings += [answer.recorded for answer in found]
            is_stale = work.recordings.is_stale(view, question.id, recall=recall)
            scored = AnswerScore(*place, question.id, question.category, question.third, is_stale=is_stale)
            scores.append(_average_readings(scored, [answer.grades for answer in found if answer.grades]))
    return ReadingScores(
        __version__,
        get_counter().name,
        tuple(replace(view, text="") for view in work.views),
        tuple(scores),
        tuple(sorted({reading.reader for reading in readings if reading.reader})),
        tuple(sorted({judge for reading in readings for judge in work.recordings.list_judges(reading)})),
        tuple(failures),
    )


def _average_readings(score: AnswerScore, grades: Sequence[tuple[float, ...]]) -> AnswerScore:
    """Returns the score with the mean over the readings, each with the grades of its judges."""
    if not grades:
        return score
    mean = sum(sum(each) / len(each) for each in grades) / len(grades)
    return replace(score, grade=mean, grades=tuple(sorted(chain.from_iterable(grades))), readings=len(grades))
