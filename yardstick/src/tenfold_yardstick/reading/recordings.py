"""Records what readers answered and judges decided, so that figures can be checked and drawn without a provider."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


class RecordedReading(Struct, frozen=True, omit_defaults=True):
    """One answer to one question from one view. `view` is the view's hash. `grade` None: not yet graded."""

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


class Recordings:
    """What a folder holds: an answer for each question, view and method, and the texts of writers by their Ask's hash.

    Where an answer is added again for the same view, the later one counts.
    """

    def __init__(self, readings: Iterable[RecordedReading] = (), texts: Iterable[RecordedText] = ()) -> None:
        self._readings: dict[tuple[_Place, str], RecordedReading] = {}
        self._by_view: dict[tuple[str, str, bool, str], RecordedReading] = {}
        self._graded: dict[tuple[str, str, str], RecordedReading] = {}
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
        """Adds one answer. One that says nothing has the grade 0."""
        if reading.grade is None and is_unknown(reading.answer):
            reading = replace(reading, grade=0.0)
        place = (reading.session, reading.method, reading.size, reading.rounds, reading.recall, reading.question)
        self._places.add(place)
        self._readings[place, reading.view] = reading
        self._by_view[reading.session, reading.view, reading.recall, reading.question] = reading
        if reading.grade is not None:
            self._graded[reading.session, reading.question, reading.answer] = reading

    def add_texts(self, texts: Iterable[RecordedText]) -> None:
        """Adds what writers wrote."""
        self._texts |= {recorded.ask: recorded for recorded in texts}

    def find(self, view: ReadView, question: str, *, recall: bool) -> RecordedReading | None:
        """Returns the answer that was given from this very view, by whichever method it was made.

        It has the grade that the same answer got anywhere.
        """
        found = self._by_view.get((view.session, view.hash, recall, question))
        return self._with_grade(found) if found is not None else None

    def is_stale(self, view: ReadView, question: str, *, recall: bool) -> bool:
        """Tells whether the question was answered only from another view of the same method, size and rounds."""
        place = (view.session, view.method, view.size, view.rounds, recall, question)
        return self.find(view, question, recall=recall) is None and place in self._places

    def write_to(self, folder: Path) -> None:
        """Writes everything to the files of a folder, sorted. Raises what `write_output` raises."""
        readings = [self._with_grade(self._readings[key]) for key in sorted(self._readings)]
        _write_lines(folder / READINGS_FILE, readings)
        _write_lines(folder / TEXTS_FILE, [self._texts[key] for key in sorted(self._texts)])

    def _with_grade(self, reading: RecordedReading) -> RecordedReading:
        same = self._graded.get((reading.session, reading.question, reading.answer))
        if reading.grade is not None or same is None:
            return reading
        return replace(reading, grade=same.grade, judge=same.judge)


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
