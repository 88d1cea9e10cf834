"""Measures whether search finds the messages that hold the answer to a question, given the question's words.

The questions come with a session file, each with a text that its answer must hold. They are in the file itself, as in
Gemini CLI's compression scenarios, or in a file beside it. Tenfold's search is compared with plain BM25 over stemmed
words, as SQLite's FTS5 has it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
from msgspec import Struct

from tenfold.config.settings import build_policy
from tenfold.core.wire import WIRES
from tenfold.errors import BadInput
from tenfold.session import Session, SessionAddress
from tenfold.store.ids import IDS
from tenfold.store.sqlite.store import SqliteStore
from tenfold.testing.chats import get_counter
from tenfold.testing.probes.chat_text import get_text
from tenfold_yardstick.cases import EvalSession, read_sessions
from tenfold_yardstick.tables import Table

DEPTHS = (1, 5, 10)
"""How many hits are looked at."""
QUESTIONS_SUFFIX = ".questions.toml"
"""The suffix of a file of questions: those for `logs.pi.jsonl` are in `logs.pi.questions.toml`, in the same folder."""
MIN_ANSWER_LENGTH = 4
"""The shortest answer, in characters, that marks its evidence. A "yes" stands in many messages that are no evidence."""
_WORD = re.compile(r"[\w./-]*\w")

IndexSearch = Callable[[str, int], list[int]]
"""Returns the indexes of the messages that match a query, best first, at most the given number."""


class Question(Struct, frozen=True):
    """A question about a session, and the indexes of the messages that hold its answer."""

    session: str
    prompt: str
    evidence: tuple[int, ...]


class EvidenceHits(Struct, frozen=True):
    """What one search found for one question: `found[i]` messages of the evidence among the first `DEPTHS[i]` hits."""

    session: str
    method: str
    evidence: int
    found: tuple[int, ...]


class PosedQuestion(Struct, frozen=True):
    """A question, and a text that its answer must hold."""

    prompt: str
    expected: str = msgspec.field(name="expectedSubstring")


class _QuestionFile(Struct):
    questions: list[PosedQuestion] = []


def find_evidence(path: Path, name: str = "", *, format: str | None = None) -> tuple[list[str], list[Question]]:
    """Returns the texts of a file's session and the questions about it whose answers it holds.

    Both are empty if the file brings no questions. `name` and `format` are as in `read_sessions`. Raises what
    `read_questioned_session` raises.
    """
    posed = read_questions(path)
    if not posed:
        return [], []
    session = read_questioned_session(path, name, format=format)
    texts = [get_text(message) for message in session.messages]
    out: list[Question] = []
    for one in posed:
        answer = one.expected.casefold()
        evidence = tuple(i for i, text in enumerate(texts) if answer in text.casefold())
        if evidence and len(answer) >= MIN_ANSWER_LENGTH:
            out.append(Question(session.name, one.prompt, evidence))
    return texts, out


def read_questions(path: Path) -> list[PosedQuestion]:
    """Returns the questions that come with a file: those in it, then those in the file of questions beside it.

    Raises `BadInput` if a file cannot be read, or if the file of questions is not valid.
    """
    beside = path.with_suffix(QUESTIONS_SUFFIX)
    try:
        return [*_parse_scenario(path.read_bytes()), *(_read_question_file(beside) if beside.exists() else ())]
    except OSError as exc:
        raise BadInput(f"{exc.filename}: {exc.strerror or exc}; check the path and its permissions") from exc


def read_questioned_session(path: Path, name: str = "", *, format: str | None = None) -> EvalSession:
    """Returns the one session of a file that comes with questions.

    Raises `BadInput` if there are several sessions, and whatever `read_file` raises.
    """
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


def run_searches(path: Path, name: str = "", *, format: str | None = None) -> list[EvidenceHits]:
    """Asks every search every question of a file. `name` and `format` are as in `read_sessions`."""
    texts, questions = find_evidence(path, name, format=format)
    if not questions:
        return []
    searches: dict[str, IndexSearch] = {
        "tenfold": _build_tenfold_search(texts),
        "bm25 with stemming": _build_bm25_search(texts),
    }
    out: list[EvidenceHits] = []
    for method, search in searches.items():
        for question in questions:
            hits = search(question.prompt, max(DEPTHS))
            found = tuple(len(set(hits[:depth]) & set(question.evidence)) for depth in DEPTHS)
            out.append(EvidenceHits(question.session, method, len(question.evidence), found))
    return out


def build_table(scores: Sequence[EvidenceHits]) -> Table:
    """Returns the recall at each depth by search: the share found of the evidence that this many hits can hold."""
    rows = []
    for name in dict.fromkeys(one.method for one in scores):
        own = [one for one in scores if one.method == name]
        shares = [
            sum(one.found[i] / min(depth, one.evidence) for one in own) / len(own) for i, depth in enumerate(DEPTHS)
        ]
        some = sum(one.found[-1] > 0 for one in own)
        rows.append((name, *(f"{share:.3f}" for share in shares), f"{some}/{len(own)}"))
    columns = ("search", *(f"at {depth}" for depth in DEPTHS), "questions with any")
    note = "How many of the messages that hold the answer are among the first hits for the question's words."
    return Table("Search by question", columns, rows, note)


# -- the searches ------------------------------------------------------------------------------------------------------


def _build_tenfold_search(texts: Sequence[str]) -> IndexSearch:
    """Returns Tenfold's own search, as used by `tenfold search` and the recall tool."""
    items = [msgspec.json.encode({"role": "user", "content": text}) for text in texts]
    session = Session.create(
        SessionAddress(SqliteStore(":memory:"), IDS.generate()), build_policy("tenfold", get_counter())
    )
    session.append(*WIRES["openai-chat"].decode(items))

    def search(query: str, limit: int) -> list[int]:
        words = " ".join(_WORD.findall(query))
        return [hit.position for hit in session.search(words, limit=limit)] if words else []

    return search


def _build_bm25_search(texts: Sequence[str]) -> IndexSearch:
    """Returns BM25 over stemmed words (Porter's), any of which may match: the default of a search engine."""

    def search(query: str, limit: int) -> list[int]:
        words = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", query))
        with closing(sqlite3.connect(":memory:")) as db:
            db.execute("CREATE VIRTUAL TABLE said USING fts5(text, tokenize='porter unicode61')")
            db.executemany("INSERT INTO said (rowid, text) VALUES (?, ?)", enumerate(texts))
            best = "SELECT rowid FROM said WHERE said MATCH ? ORDER BY bm25(said), rowid LIMIT ?"
            return [row[0] for row in db.execute(best, (words, limit))] if words else []

    return search
