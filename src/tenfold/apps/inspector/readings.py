"""Reads what a reading test has recorded: questions, answers and grades, and makes the views again that were read.

The files are those of `tenfold eval reading`, described in docs/reading.md: `readings.jsonl` with the answers, and
beside each session its `NAME.reading.toml` with the questions and their gold answers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256
from math import log
from pathlib import Path

import msgspec
from msgspec import Struct

from tenfold.config.policies import POLICIES
from tenfold.errors import BadInput, NotFoundError, UsageError
from tenfold.testing.chats import count_total_tokens, get_role, read_chats, render_view
from tenfold.testing.methods import BASELINES, Method, Preset, UnableError
from tenfold.testing.probes.chat_text import get_text
from tenfold.testing.probes.kinds import ChatMessage

ANSWERS = "readings*.jsonl"
QUESTIONS = ".reading.toml"
PASSAGE_LINES = 4
"""Lines of a passage that is looked for, at most."""
LEAST_SHARE = 0.5
"""A passage holds an answer's words if it has at least this share of the weight that all of them have in the view."""
SHORTEST_WORD = 3
_WORD = re.compile(r"[^\W_]+")


class GivenAnswer(Struct, frozen=True):
    """One answer of a reader, from a view with the hash `view`. `question` is its id, `grade` None if there is none."""

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

    @property
    def place(self) -> Place:
        """What was read."""
        return Place(self.session, self.method, self.size, self.rounds, self.recall)


class Place(Struct, frozen=True, order=True):
    """What a reader has read: the view that a method made of a session's past at a size."""

    session: str
    method: str
    size: float
    rounds: int
    recall: bool


class SheetQuestion(Struct, frozen=True):
    """A question about a past, with its gold answer."""

    id: str
    ask: str
    gold: str
    category: str = ""


class QuestionSheet(Struct, frozen=True):
    """A file of questions: the session's file, and how much of it is the past."""

    session: str
    messages_total: int
    cut_message: int
    cut_text: str = ""
    questions: tuple[SheetQuestion, ...] = msgspec.field(default=(), name="question")


class MadeView(Struct, frozen=True):
    """A view that was made again. With `is_same` it is the very one that was read; `problem` says why there is none."""

    text: str = ""
    is_same: bool = False
    problem: str = ""


class Readings:
    """The recorded answers, and the questions by the name of their session."""

    def __init__(self, answers: Iterable[GivenAnswer], sheets: dict[str, tuple[Path, QuestionSheet]]) -> None:
        self.answers, self.sheets = tuple(answers), sheets
        self.make_view = lru_cache(maxsize=16)(self._make_view)

    def list_places(self) -> list[tuple[Place, int, float | None]]:
        """Lists what was read, each with the number of answers and their mean grade, None if none was graded."""
        found: dict[Place, list[GivenAnswer]] = {}
        for answer in self.answers:
            found.setdefault(answer.place, []).append(answer)
        return [(place, len(given), _compute_mean(given)) for place, given in sorted(found.items())]

    def find_place(self, session: str, method: str, size: str, rounds: str, recall: str) -> Place:
        """Finds what was read by its fields as an address has them. Raises `NotFoundError` if there is no such."""
        for place, _, _ in self.list_places():
            fields = (place.session, place.method, f"{place.size:g}", str(place.rounds), place.recall)
            if fields == (session, method, size, rounds, recall == "yes"):
                return place
        raise NotFoundError(f"no reading of {session[:80]!r} by {method[:80]!r} is recorded at that size")

    def list_questions(self, place: Place) -> list[tuple[SheetQuestion, list[GivenAnswer]]]:
        """Lists the questions about a place, each with its answers. A question of no sheet is known by its id alone."""
        given: dict[str, list[GivenAnswer]] = {}
        for answer in self.answers:
            if answer.place == place:
                given.setdefault(answer.question, []).append(answer)
        _, sheet = self.sheets.get(place.session, (Path(), None))
        asked = {each.id: each for each in (sheet.questions if sheet is not None else ())}
        return [(asked.get(id_, SheetQuestion(id_, "", "")), given[id_]) for id_ in sorted(given)]

    def _make_view(self, place: Place) -> MadeView:
        """Makes the view of a place again, by code. `make_view` remembers the last ones."""
        if place.session not in self.sheets:
            return MadeView(
                problem=f"no {place.session}{QUESTIONS} says which session this is: name its folder as well"
            )
        method = find_method(place.method)
        if method is None:
            return MadeView(problem=f"{place.method} is no policy or baseline that code alone runs")
        if place.rounds != 1:
            return MadeView(problem="it was compacted several times in a row, which is not made again here")
        try:
            past = read_past(*self.sheets[place.session])
            overhead = count_total_tokens(past[: _count_system(past)])
            budget = int((count_total_tokens(past) - overhead) * place.size) + overhead
            text = render_view(method.compact(past, budget=budget).messages)
        except (UnableError, BadInput, UsageError) as exc:
            return MadeView(problem=str(exc))
        digest = sha256(text.encode()).hexdigest()
        return MadeView(text, any(answer.view == digest for answer in self.answers if answer.place == place))


def find_method(name: str) -> Method | None:
    """Finds a method that needs no model by its name: a policy, or a baseline. None for any other."""
    if name in POLICIES:
        return Preset(name)
    return BASELINES.get(name)


def read_past(path: Path, sheet: QuestionSheet) -> tuple[ChatMessage, ...]:
    """Reads the messages that the questions of a sheet are about. Raises `BadInput` if the session is another."""
    name, _, number = sheet.session.partition("#")
    source = path.parent / name
    if not source.is_file():
        raise BadInput(f"{path}: its session {source} does not exist")
    chats = read_chats(source)
    at = int(number) if number.isdecimal() else 0
    if at >= len(chats):
        raise BadInput(f"{path}: {source} holds {len(chats)} sessions, numbered from 0")
    messages = chats[at].messages
    if not sheet.cut_text:
        if len(messages) != sheet.messages_total:
            raise BadInput(f"{path}: it is about {sheet.messages_total} messages, and the session has {len(messages)}")
        return messages[: sheet.cut_message]
    begin = " ".join(sheet.cut_text.split())
    places = [at for at, message in enumerate(messages) if " ".join(get_text(message).split()).startswith(begin)]
    if not places:
        raise BadInput(f"{path}: no message begins with the cut_text {sheet.cut_text[:80]!r}")
    return messages[: min(places, key=lambda place: abs(place - sheet.cut_message))]


def _count_system(past: Sequence[ChatMessage]) -> int:
    return next((at for at, message in enumerate(past) if get_role(message) != "system"), len(past))


def _compute_mean(answers: Iterable[GivenAnswer]) -> float | None:
    grades = [answer.grade for answer in answers if answer.grade is not None]
    return sum(grades) / len(grades) if grades else None


def find_passage(text: str, answer: str) -> tuple[int, int] | None:
    """Finds the lines of a text that hold an answer's words, as the places where they begin and end.

    Rare words count more. None if no passage of a few lines holds half of what the text has of them.
    """
    wanted = {word.casefold() for word in _WORD.findall(answer)}
    lines = text.splitlines(keepends=True)
    in_lines = [wanted & {word.casefold() for word in _WORD.findall(line)} for line in lines]
    seen = Counter(word for words in in_lines for word in words)
    weights = {word: log(1 + len(lines) / count) for word, count in seen.items()}
    whole = sum(weights[word] for word in seen)
    best: tuple[float, int, int] | None = None
    for first in range(len(lines)):
        held: set[str] = set()
        for last in range(first, min(first + PASSAGE_LINES, len(lines))):
            held |= in_lines[last]
            score = sum(weights[word] for word in held) - 0.01 * (last - first)
            if held and (best is None or score > best[0]):
                best = score, first, last
    if best is None or best[0] < LEAST_SHARE * whole:
        return None
    start = sum(map(len, lines[: best[1]]))
    return start, start + sum(map(len, lines[best[1] : best[2] + 1]))


def mark_answer(passage: str, answer: str) -> list[tuple[str, bool]]:
    """Splits a passage into pieces, each with whether it is a word of the answer. Short words count as none."""
    wanted = {word.casefold() for word in _WORD.findall(answer) if len(word) >= SHORTEST_WORD or word.isdecimal()}
    pieces: list[tuple[str, bool]] = []
    end = 0
    for match in _WORD.finditer(passage):
        if match[0].casefold() in wanted:
            pieces += [(passage[end : match.start()], False), (match[0], True)]
            end = match.end()
    return [(text, is_word) for text, is_word in (*pieces, (passage[end:], False)) if text]


def load_readings(paths: Sequence[Path]) -> Readings:
    """Reads the answers and the questions in these files and folders.

    Raises `BadInput` for a missing path, for one without answers among them all, and for a line that is not valid.
    """
    answers: list[GivenAnswer] = []
    sheets: dict[str, tuple[Path, QuestionSheet]] = {}
    for path in paths:
        if not path.exists():
            raise BadInput(f"{path}: there is no such file or folder; check the path")
        for each in sorted({*path.rglob(ANSWERS), *path.rglob(f"*{QUESTIONS}")}) if path.is_dir() else (path,):
            if each.name.endswith(QUESTIONS):
                sheets[each.name.removesuffix(QUESTIONS)] = each, _read_sheet(each)
            else:
                answers += _read_answers(each)
    if not answers:
        raise BadInput(
            f"{', '.join(map(str, paths))}: no {ANSWERS} is there; `tenfold eval reading --record` writes one"
        )
    return Readings(answers, sheets)


def _read_answers(path: Path) -> Iterator[GivenAnswer]:
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            yield msgspec.json.decode(line, type=GivenAnswer)
        except msgspec.DecodeError as exc:
            raise BadInput(f"{path}, line {number}: {exc}") from exc


def _read_sheet(path: Path) -> QuestionSheet:
    try:
        return msgspec.toml.decode(path.read_bytes(), type=QuestionSheet)
    except msgspec.DecodeError as exc:
        raise BadInput(f"{path}: {exc}") from exc
