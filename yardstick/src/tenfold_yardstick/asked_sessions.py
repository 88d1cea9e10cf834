"""Sessions with questions that have gold answers: what search, gold answers and generations all ask.

The questions come with a session's own file, in a file beside it, or in a public set (`public_sets.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from tenfold.errors import BadInput
from tenfold.testing.probes.chat_text import get_text
from tenfold.testing.probes.kinds import ChatMessage
from tenfold_yardstick.cases import EvalSession, read_sessions

Item = TypeVar("Item")
QUESTIONS_SUFFIX = ".questions.toml"
"""The suffix of a file of questions: those for `logs.pi.jsonl` are in `logs.pi.questions.toml`, in the same folder."""
MIN_ANSWER_LENGTH = 4
"""The shortest answer, in characters, that marks its evidence. A "yes" stands in many messages that are no evidence."""


class AskedQuestion(Struct, frozen=True):
    """A question about a session, with its gold answer.

    `expected` are the texts that an answer must hold, in any case of letters; without one, only a reader can judge.
    `evidence` are the indexes of the messages that hold the answer, and `kind` is the kind that a public set gives.
    """

    id: str
    prompt: str
    answer: str
    expected: tuple[str, ...] = ()
    evidence: tuple[int, ...] = ()
    kind: str = ""

    def is_in(self, text: str) -> bool:
        """Tells whether a text, in small letters, holds all that the answer must hold."""
        return bool(self.expected) and all(each.casefold() in text for each in self.expected)


class AskedSession(Struct, frozen=True):
    """A session and the questions about it. `source` is "" for a session's own file, else where the questions are."""

    name: str
    messages: tuple[ChatMessage, ...]
    questions: tuple[AskedQuestion, ...]
    source: str = ""


BESIDE = "files beside sessions"
"""The source of questions that are in a file beside their session."""


class PosedQuestion(Struct, frozen=True):
    """A question as a file has it: its words, and a text that its answer must hold."""

    prompt: str
    expected: str = msgspec.field(name="expectedSubstring")


class _QuestionFile(Struct):
    questions: list[PosedQuestion] = []


def read_asked_session(path: Path, name: str = "", *, format: str | None = None) -> AskedSession | None:
    """Returns the session of a file with the questions that come with it, or None if none do.

    The evidence is every message that holds the answer. `name` and `format` are as in `read_sessions`. Raises
    `BadInput` if a file cannot be read, if the file of questions is not valid, or if there are several sessions.
    """
    beside = path.with_suffix(QUESTIONS_SUFFIX)
    try:
        posed = [*_parse_scenario(path.read_bytes()), *(_read_question_file(beside) if beside.exists() else ())]
    except OSError as exc:
        raise BadInput(f"{exc.filename}: {exc.strerror or exc}; check the path and its permissions") from exc
    if not posed:
        return None
    session = _read_one_session(path, name, format)
    texts = [get_text(message).casefold() for message in session.messages]
    questions = tuple(
        AskedQuestion(str(number), one.prompt, one.expected, (one.expected,), _find_evidence(texts, one.expected))
        for number, one in enumerate(posed, 1)
    )
    return AskedSession(session.name, session.messages, questions, BESIDE if beside.exists() else "")


def join_text(messages: Sequence[ChatMessage]) -> str:
    """Returns the text of messages in small letters."""
    return "\n".join(get_text(m) for m in messages).casefold()


def spread_evenly(items: Sequence[Item], count: int) -> list[Item]:
    """Returns at most so many of the items, spread evenly, the first and the last among them."""
    if len(items) <= count:
        return list(items)
    return [items[round(at * (len(items) - 1) / max(1, count - 1))] for at in range(count)]


def _find_evidence(texts: Sequence[str], answer: str) -> tuple[int, ...]:
    if len(answer) < MIN_ANSWER_LENGTH:
        return ()
    return tuple(i for i, text in enumerate(texts) if answer.casefold() in text)


def _read_one_session(path: Path, name: str, format: str | None) -> EvalSession:
    found = read_sessions(path, name, format=format)
    if len(found) != 1:
        raise BadInput(f"{path}: questions come with it, and {len(found)} sessions: keep a file for each session")
    return found[0]


def _parse_scenario(data: bytes) -> list[PosedQuestion]:
    try:
        return msgspec.json.decode(data, type=_QuestionFile).questions
    except msgspec.DecodeError:  # a session without questions, in any format
        return []


def _read_question_file(path: Path) -> list[PosedQuestion]:
    try:
        return msgspec.toml.decode(path.read_bytes(), type=_QuestionFile).questions
    except msgspec.DecodeError as exc:
        raise BadInput(f"{path}: {exc}; each [[questions]] needs a prompt and an expectedSubstring") from exc
