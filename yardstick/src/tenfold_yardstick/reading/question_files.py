"""Reads the files of questions that come with sessions: `NAME.reading.toml`, described in docs/reading.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from tenfold.errors import BadInput
from tenfold.testing.chats import get_role
from tenfold.testing.probes.chat_text import get_text
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.asked_sessions import AskedSession, spread_evenly
from tenfold_yardstick.cases import EvalSession, read_sessions

READING_SUFFIX = ".reading.toml"
THIRDS = ("first", "middle", "last")
"""The thirds of a past, as questions name them."""


class ReadingQuestion(Struct, frozen=True, omit_defaults=True):
    """A question about the past, with a gold answer.

    `category` is its kind, as in "instruction" or "tool_result". `third` says in which third of the past the answer
    lies. `evidence` are the indexes of the messages that hold it.
    """

    id: str
    category: str
    third: str
    ask: str
    gold: str
    evidence: list[int] = []


class QuestionFile(Struct, frozen=True, omit_defaults=True):
    """A file of questions as it is written.

    `session` is the path of the session from the file's folder on, with `#n` for one of several. The past is the first
    `cut_message` of its `messages_total` chat messages. `cut_text`, if there is one, is how the first message after the
    past begins; it is looked up, and wins.
    """

    session: str
    messages_total: int
    cut_message: int
    cut_text: str = ""
    questions: list[ReadingQuestion] = msgspec.field(default_factory=list, name="question")


class ReadingCase(Struct, frozen=True):
    """A past with the questions about it. `name` is the file's name without its suffix."""

    name: str
    past: tuple[ChatMessage, ...]
    questions: tuple[ReadingQuestion, ...]

    @property
    def overhead(self) -> tuple[ChatMessage, ...]:
        """The leading system messages, which are counted apart."""
        end = next((i for i, message in enumerate(self.past) if get_role(message) != "system"), len(self.past))
        return self.past[:end]


def build_reading_case(session: AskedSession, *, count: int | None = None) -> ReadingCase:
    """Builds a case of a session of a public set, whose whole past is read, with at most `count` questions."""
    ordered = sorted(session.questions, key=lambda one: one.evidence[-1:])
    chosen = spread_evenly(ordered, len(ordered) if count is None else count)
    total = max(1, len(session.messages))
    questions = tuple(
        ReadingQuestion(
            one.id,
            one.kind,
            THIRDS[len(THIRDS) * max(one.evidence, default=total - 1) // total],
            one.prompt,
            one.answer,
            list(one.evidence),
        )
        for one in chosen
    )
    return ReadingCase(session.name, session.messages, questions)


def find_question_files(paths: Sequence[Path]) -> list[Path]:
    """Finds the files of questions that are named, that lie in a named folder, or that name a named session.

    Raises `BadInput` for a missing path, and for one without questions.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if not path.exists():
            raise BadInput(f"{path}: there is no such file or folder; check the path")
        own = list(_iter_question_files(path))
        if not own:
            raise BadInput(f"{path}: no *{READING_SUFFIX} comes with it; docs/reading.md says how to write one")
        found |= dict.fromkeys(own)
    return list(found)


def _iter_question_files(path: Path) -> Iterator[Path]:
    if path.name.endswith(READING_SUFFIX):
        yield path
    elif path.is_dir():
        yield from sorted(path.rglob("*" + READING_SUFFIX))
    else:
        for each in sorted(path.parent.glob("*" + READING_SUFFIX)):
            if _locate_session(each, _decode_file(each))[0].resolve() == path.resolve():
                yield each


def read_case(path: Path, *, format: str | None = None) -> ReadingCase:
    """Reads a file of questions and the past that it is about.

    Raises `BadInput` if the file is not valid or does not fit its session, and whatever `read_file` raises.
    """
    file = _decode_file(path)
    session = _read_session(path, file, format)
    cut = _find_cut(path, file, session)
    return ReadingCase(path.name.removesuffix(READING_SUFFIX), session.messages[:cut], tuple(file.questions))


def _decode_file(path: Path) -> QuestionFile:
    try:
        file = msgspec.toml.decode(path.read_bytes(), type=QuestionFile)
    except msgspec.DecodeError as exc:
        raise BadInput(f"{path}: {exc}; docs/reading.md describes the format") from exc
    except OSError as exc:
        raise BadInput(f"{path}: {exc.strerror or exc}; check the path and its permissions") from exc
    names = [question.id for question in file.questions]
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice:
        raise BadInput(f"{path}: two questions have the id {twice!r}; give each its own")
    return file


def _locate_session(path: Path, file: QuestionFile) -> tuple[Path, int]:
    """Returns the path of the session's file, and the number of the session in it."""
    name, _, number = file.session.partition("#")
    if not name or (number and not number.isdecimal()):
        raise BadInput(f'{path}: session = "{file.session}": write FILE, or FILE#NUMBER for one of several sessions')
    return path.parent / name, int(number or 0)


def _read_session(path: Path, file: QuestionFile, format: str | None) -> EvalSession:
    source, number = _locate_session(path, file)
    if not source.exists():
        raise BadInput(f"{path}: its session {source} does not exist; a path is relative to the file of questions")
    sessions = read_sessions(source, format=format)
    if number >= len(sessions):
        raise BadInput(f'{path}: session = "{file.session}", but there are {len(sessions)} sessions, from #0 on')
    if "#" not in file.session and len(sessions) > 1:
        raise BadInput(f"{path}: {source} holds {len(sessions)} sessions; name one, as in {source.name}#0")
    return sessions[number]


def _find_cut(path: Path, file: QuestionFile, session: EvalSession) -> int:
    """Returns how many messages the past has. Raises `BadInput` if the session is not what the file describes."""
    total = len(session.messages)
    if file.cut_text:
        begin = " ".join(file.cut_text.split())
        places = [i for i, message in enumerate(session.messages) if _flatten_text(message).startswith(begin)]
        if not places:
            raise BadInput(f"{path}: no message of the session begins with the cut_text {file.cut_text!r}")
        return min(places, key=lambda place: abs(place - file.cut_message))
    if total != file.messages_total:
        raise BadInput(
            f"{path}: messages_total is {file.messages_total}, and the session has {total} chat messages: correct "
            "cut_message and messages_total, or name the first message after the past with cut_text"
        )
    if not 0 < file.cut_message <= total:
        raise BadInput(f"{path}: cut_message is {file.cut_message}, which is not between 1 and {total}")
    return file.cut_message


def _flatten_text(message: ChatMessage) -> str:
    return " ".join(get_text(message).split())
