"""Measures whether search finds the messages that hold the answer to a question, given the question's words.

Tenfold's search is compared with plain BM25 over stemmed words, as SQLite's FTS5 has it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib.util import find_spec

import msgspec
from msgspec import Struct

from tenfold.config.settings import build_policy
from tenfold.core.wire import WIRES
from tenfold.session import Session, SessionAddress
from tenfold.store.ids import IDS
from tenfold.store.sqlite.store import SqliteStore
from tenfold.testing.chats import get_counter
from tenfold.testing.probes.chat_text import get_text
from tenfold_yardstick.asked_sessions import AskedSession
from tenfold_yardstick.tables import Table

DEPTHS = (1, 5, 10)
"""How many hits are looked at."""
_WORD = re.compile(r"[\w./-]*\w")

IndexSearch = Callable[[str, int], list[int]]
"""Returns the indexes of the messages that match a query, best first, at most the given number."""


class EvidenceHits(Struct, frozen=True):
    """What one search found for one question: `found[i]` messages of the evidence among the first `DEPTHS[i]` hits."""

    session: str
    method: str
    evidence: int
    found: tuple[int, ...]


def run_searches(session: AskedSession) -> list[EvidenceHits]:
    """Asks every search every question of a session that has evidence."""
    questions = [question for question in session.questions if question.evidence]
    if not questions:
        return []
    texts = [get_text(message) for message in session.messages]
    searches: dict[str, IndexSearch] = {
        "tenfold": _build_tenfold_search(texts),
        "bm25 with stemming": _build_bm25_search(texts),
    }
    out: list[EvidenceHits] = []
    for method, search in searches.items():
        for question in questions:
            hits = search(question.prompt, max(DEPTHS))
            found = tuple(len(set(hits[:depth]) & set(question.evidence)) for depth in DEPTHS)
            out.append(EvidenceHits(session.name, method, len(question.evidence), found))
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
    with_extra = "with" if find_spec("wordllama") else "without"
    note = (
        "How many of the messages that hold the answer are among the first hits for the question's words. Tenfold "
        f"searched {with_extra} the extra `semantic`."
    )
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
