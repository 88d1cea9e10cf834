"""Hands views to readers and answers to judges outside a provider, as files, and takes back what they wrote.

A reader gets one folder, with the view and the questions and nothing else. The folder's name does not tell the method;
which views it stands for is in `key.json`, outside it. docs/reading.md describes the procedure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from tenfold.errors import BadInput
from tenfold.formats.output_file import write_output
from tenfold.testing.methods import UnableError
from tenfold_yardstick.future_recall import build_recall_tools
from tenfold_yardstick.reading.judge import GRADE_RULES, JudgingSheet, build_sheets, parse_grades, render_sheet
from tenfold_yardstick.reading.question_files import ReadingCase
from tenfold_yardstick.reading.readers import parse_answers, parse_lookups, render_lookups, render_questions
from tenfold_yardstick.reading.recorded_writer import PendingAsk, RecordedText
from tenfold_yardstick.reading.recordings import RecordedReading, Recordings, identify_reading
from tenfold_yardstick.reading.scoring import Examination, find_ungraded, find_unread

KEY_FILE, JUDGE_FOLDER, ASKS_FOLDER = "key.json", "judge", "asks"
ANSWERS, RECALL_ANSWERS, LOOKUPS, FOUND = "answers.md", "answers-recall.md", "lookups.md", "found.md"
_NAME_LENGTH = 8
"""Characters of a view's hash that name its folder: enough for some thousands of views."""


class _KeyEntry(Struct, frozen=True):
    """The views that one folder stands for: the same text may be made by several methods."""

    session: str
    hash: str
    made_by: list[tuple[str, float, int]]


class ReadingNames(Struct, frozen=True):
    """The models that write, read and judge, by their names."""

    writer: str = ""
    reader: str = ""
    judge: str = ""


def export_views(folder: Path, work: Examination) -> int:
    """Writes a folder for each view that is not read yet, and adds it to the key. Returns the number of folders."""
    unread = {view.hash for view, _ in find_unread(work)}
    key = _read_key(folder) if (folder / KEY_FILE).exists() else {}
    written: set[str] = set()
    for view in work.views:
        if view.hash not in unread:
            continue
        name, place = view.hash[:_NAME_LENGTH], (view.method, view.size, view.rounds)
        made_by = key[name].made_by if name in key else []
        key[name] = _KeyEntry(view.session, view.hash, [*made_by, *([place] if place not in made_by else [])])
        questions = work.cases[view.session].questions
        _write(folder / name / "view.md", view.text)
        _write(folder / name / "questions.md", render_questions(questions))
        written.add(name)
    _write(folder / KEY_FILE, msgspec.json.format(msgspec.json.encode(key)).decode() + "\n")
    return len(written)


def export_asks(folder: Path, asks: Iterable[PendingAsk]) -> int:
    """Writes what a writer is asked. It answers `HASH.md` in `HASH.answer.md`. Returns the number of Asks."""
    count = 0
    for count, pending in enumerate(asks, 1):  # noqa: B007 - the last number is the result
        ask = pending.ask
        limit = f"Reply with the text alone, in at most {ask.max_tokens} tokens."
        _write(folder / ASKS_FOLDER / f"{pending.hash}.md", f"{ask.system}\n\n{ask.prompt}\n\n{limit}\n")
    return count


def import_sheets(
    folder: Path, recordings: Recordings, cases: Mapping[str, ReadingCase], *, names: ReadingNames, date: str
) -> None:
    """Adds to the recordings what writers, readers and judges wrote in the folder.

    A reader's `lookups.md` gets its results in a `found.md` beside it. Raises `BadInput` for a grade that is not valid.
    """
    recordings.add_texts(_import_texts(folder, names.writer))
    grades = _read_grades(folder)
    for name, entry in _read_key(folder).items():
        case = cases.get(entry.session)
        if case is None:
            continue
        _answer_lookups(folder / name, case)
        for recall, text in _read_answers(folder / name):
            answers = parse_answers(text, case.questions)
            for question, answer in answers.items():
                grade = grades.get((entry.session, question, answer))
                origin = (names.reader, names.judge if grade is not None else "", date, identify_reading(answers))
                for place in entry.made_by:
                    recordings.add(
                        RecordedReading(entry.session, *place, recall, entry.hash, question, answer, grade, *origin)
                    )


def _import_texts(folder: Path, writer: str) -> list[RecordedText]:
    suffix = ".answer.md"
    return [
        RecordedText(path.name.removesuffix(suffix), path.read_text("utf-8").strip(), writer)
        for path in sorted((folder / ASKS_FOLDER).glob("*" + suffix))
    ]


def export_judging(folder: Path, work: Examination) -> int:
    """Writes sheets with the answers that nobody has graded. Returns their number."""
    readings = list(find_ungraded(work))
    first = number = max((int(path.stem) for path in (folder / JUDGE_FOLDER).glob("*.json")), default=0)
    for case in work.cases.values():
        for question in case.questions:
            mine = [
                reading.answer
                for reading in readings
                if (reading.session, reading.question) == (case.name, question.id)
            ]
            for sheet in build_sheets(question, mine):
                number += 1
                path = folder / JUDGE_FOLDER / f"{number:03}.md"
                _write(path, f"{GRADE_RULES}\n{render_sheet(sheet)}")
                _write(path.with_suffix(".json"), msgspec.json.encode(_SheetKey(case.name, sheet)).decode() + "\n")
    return number - first


class _SheetKey(Struct, frozen=True):
    """A sheet as it was exported: the letters must mean the same when the grades come back."""

    session: str
    sheet: JudgingSheet


def _read_grades(folder: Path) -> dict[tuple[str, str, str], float]:
    out: dict[tuple[str, str, str], float] = {}
    for path in sorted((folder / JUDGE_FOLDER).glob("*.grades.md")):
        kept = msgspec.json.decode((path.parent / f"{path.name.partition('.')[0]}.json").read_bytes(), type=_SheetKey)
        try:
            grades = parse_grades(path.read_text("utf-8"), list(kept.sheet.by_letter))
        except UnableError as exc:
            raise BadInput(f"{path}: {exc}") from exc
        out |= {(kept.session, kept.sheet.question.id, a): grades[k] for k, a in kept.sheet.by_letter.items()}
    return out


def _answer_lookups(folder: Path, case: ReadingCase) -> None:
    path = folder / LOOKUPS
    if path.exists():
        found = render_lookups(parse_lookups(path.read_text("utf-8"), case.questions), build_recall_tools(case.past))
        _write(folder / FOUND, found + "\n")


def _read_answers(folder: Path) -> Iterator[tuple[bool, str]]:
    for recall, name in ((False, ANSWERS), (True, RECALL_ANSWERS)):
        if (folder / name).exists():
            yield recall, (folder / name).read_text("utf-8")


def _read_key(folder: Path) -> dict[str, _KeyEntry]:
    try:
        return msgspec.json.decode((folder / KEY_FILE).read_bytes(), type=dict[str, _KeyEntry])
    except (OSError, msgspec.DecodeError) as exc:
        raise BadInput(f"{folder / KEY_FILE}: {exc}; --export writes it") from exc


def _write(path: Path, text: str) -> None:
    """Writes a file of the folder, or writes it again. What people write stands in files of their own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_output(path, text.encode(), force=True, option="the sheet")
