"""Records what readers answered and judges decided, so that figures can be checked and drawn without a provider."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tenfold.errors import BadInput
from tenfold.formats.output_file import write_output
from tenfold_yardstick.reading.readers import is_unknown
from tenfold_yardstick.reading.recorded_writer import RecordedText
from tenfold_yardstick.reading.views import ReadView

READINGS_FILE = "readings.jsonl"
TEXTS_FILE = "texts.jsonl"
Line = TypeVar("Line", bound=Struct)
_Place = tuple[str, str, float, int, bool, str]
"""Session, method, size, rounds, with recall or not, and question."""
_NAME_LENGTH = 16


class RecordedReading(Struct, frozen=True, omit_defaults=True):
    """One answer to one question from one view. `view` is the view's hash. `grade` None: not yet graded.

    `reading` tells the readings of one view apart: `identify_reading` makes it.
    """

    session: str
    method: str
    size: float
    rounds: int
    recall: bool
    view: str
    question: str
    answer: str
    grade: float | None = None
    reader: str = ""
    judge: str = ""
    date: str = ""
    reading: str = ""

    @property
    def place(self) -> _Place:
        """What was read, whichever view it was."""
        return self.session, self.method, self.size, self.rounds, self.recall, self.question

    @property
    def key(self) -> tuple[str, ...]:
        """Tells the answer from those of other readings of the same view."""
        return self.view, self.reading, self.reader, self.answer


class GradedAnswer(Struct, frozen=True):
    """The answer of one reading, and the grades that judges gave it, lowest first. There are none before one did."""

    recorded: RecordedReading
    grades: tuple[float, ...]


class Recordings:
    """What a folder holds: the answers to each question, and the texts of writers by their Ask's hash.

    Nothing replaces anything: a second reading of a view stays beside the first, and so does a second grade of an
    answer. A grade completes the answer that had none, and the same line twice is one.
    """

    def __init__(self, readings: Iterable[RecordedReading] = (), texts: Iterable[RecordedText] = ()) -> None:
        self._readings: dict[tuple[_Place, tuple[str, ...]], RecordedReading] = {}
        self._by_view: dict[tuple[str, str, bool, str], dict[tuple[str, ...], RecordedReading]] = {}
        self._gradings: dict[tuple[str, str, str], dict[tuple[str, float], None]] = {}
        self._places: set[_Place] = set()
        self._texts: dict[str, RecordedText] = {}
        for reading in readings:
            self.add(reading)
        self.add_texts(texts)

    @property
    def texts(self) -> dict[str, str]:
        """The texts by the hash of the Ask that they answer."""
        return {key: recorded.text for key, recorded in self._texts.items()}

    def add(self, reading: RecordedReading) -> None:
        """Adds one answer, or a grade of one. An answer that says nothing has the grade 0, without a judge."""
        judge, grade = ("", 0.0) if is_unknown(reading.answer) else (reading.judge, reading.grade)
        if grade is not None:
            self._gradings.setdefault(_get_answer_key(reading), {})[judge, grade] = None
        reading = replace(reading, grade=None, judge="")
        self._places.add(reading.place)
        self._readings.setdefault((reading.place, reading.key), reading)
        text = (reading.session, reading.view, reading.recall, reading.question)
        self._by_view.setdefault(text, {}).setdefault(reading.key, reading)

    def add_texts(self, texts: Iterable[RecordedText]) -> None:
        """Adds what writers wrote."""
        self._texts |= {recorded.ask: recorded for recorded in texts}

    def find_answers(self, view: ReadView, question: str, *, recall: bool) -> list[GradedAnswer]:
        """Returns the answer of each reading of this very view, by whichever method it was made.

        It has all grades that the same answer got anywhere.
        """
        found = self._by_view.get((view.session, view.hash, recall, question), {})
        return [GradedAnswer(each, tuple(sorted(g for _, g in self._list_gradings(each)))) for each in found.values()]

    def list_judges(self, reading: RecordedReading) -> list[str]:
        """Returns who graded this answer."""
        return [judge for judge, _ in self._list_gradings(reading) if judge]

    def is_stale(self, view: ReadView, question: str, *, recall: bool) -> bool:
        """Tells whether the question was answered only from another view of the same method, size and rounds."""
        wanted = (view.session, view.method, view.size, view.rounds, recall, question)
        has_answer = bool(self.find_answers(view, question, recall=recall))
        return not has_answer and wanted in self._places

    def write_to(self, folder: Path) -> None:
        """Writes everything to the files of a folder, sorted, with a line for each grade. Raises as `write_output`."""
        lines: list[RecordedReading] = []
        for key in sorted(self._readings):
            reading = self._readings[key]
            gradings = sorted(self._list_gradings(reading))
            lines += [replace(reading, grade=grade, judge=judge) for judge, grade in gradings] or [reading]
        _write_lines(folder / READINGS_FILE, lines)
        _write_lines(folder / TEXTS_FILE, [self._texts[key] for key in sorted(self._texts)])

    def _list_gradings(self, reading: RecordedReading) -> Iterable[tuple[str, float]]:
        return self._gradings.get(_get_answer_key(reading), ())


def identify_reading(answers: Mapping[str, str]) -> str:
    """Returns a name for the reading that gave these answers. Taking the same answers twice gives the same name."""
    return sha256(msgspec.json.encode(sorted(answers.items()))).hexdigest()[:_NAME_LENGTH]


def _get_answer_key(reading: RecordedReading) -> tuple[str, str, str]:
    return reading.session, reading.question, reading.answer


def load_recordings(folder: Path) -> Recordings:
    """Returns the recordings of a folder. Raises `BadInput` if it holds none, or if a line is not valid."""
    files = list_files(folder)
    if not any(path.exists() for path in files):
        raise BadInput(f"{folder}: there is no {READINGS_FILE} or {TEXTS_FILE}; --record writes them")
    return Recordings(_read_lines(files[0], RecordedReading), _read_lines(files[1], RecordedText))


def list_files(folder: Path) -> tuple[Path, Path]:
    """Lists the files in which a folder keeps its recordings."""
    return folder / READINGS_FILE, folder / TEXTS_FILE


def _write_lines(path: Path, lines: Sequence[Struct]) -> None:
    data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_output(path, data, force=True, option="--record")


def _read_lines(path: Path, kind: type[Line]) -> list[Line]:
    out: list[Line] = []
    if path.exists():
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            try:
                out.append(msgspec.json.decode(line, type=kind))
            except msgspec.DecodeError as exc:
                raise BadInput(f"{path}, line {number}: {exc}; correct or delete the line") from exc
    return out
