"""A question finds what answers it in other words, if the extra is installed; a purge forgets meanings in any case."""

from __future__ import annotations

from array import array
from importlib.util import find_spec

import pytest

from tenfold.store.search.entry_text import fold_text
from tenfold.store.search.terms import parse_question
from tenfold.store.sqlite.meanings import DIMENSIONS, _append_vectors
from tenfold.store.sqlite.store import SqliteStore
from tests.store.build import NS, Growing

needs_extra = pytest.mark.skipif(find_spec("wordllama") is None, reason="needs tenfold[semantic]")
SAID = (
    "The weather is fine.",
    "Customers get their money back within thirty days.",
    "class HeaderParser lives in src/app/header_parser.py",
    "We hired two engineers from Lyon.",
    "My dog was ill on Sunday.",
    "The train leaves at noon.",
    "Paint the door green.",
)


def read_chunks(store: SqliteStore) -> list[tuple[int, list[int], bytes]]:
    with store._database.read() as db:
        rows = db.execute("SELECT session, seqs, numbers FROM vector ORDER BY session, first").fetchall()
    return [(session, array("q", seqs).tolist(), numbers) for session, seqs, numbers in rows]


@needs_extra
@pytest.mark.parametrize(("question", "best"), [("refund policy", 1), ("veterinarian for a sick pet", 4)])
def test_a_question_finds_what_shares_no_word_with_it(sqlite: SqliteStore, question: str, best: int) -> None:
    Growing(sqlite).say(*SAID)
    assert not set(parse_question(question)) & set(fold_text(SAID[best]).rstrip(".").split())
    assert sqlite.search_passages(NS, question)[0].position == best


@needs_extra
def test_words_count_as_well_as_meaning(sqlite: SqliteStore) -> None:
    Growing(sqlite).say(*SAID, "The refund policy: see W-5043.")
    assert sqlite.search_passages(NS, "refund policy W-5043")[0].position == len(SAID)


@needs_extra
def test_sessions_and_what_is_left_out_are_kept_apart(sqlite: SqliteStore) -> None:
    log = Growing(sqlite)
    log.say(*SAID)
    Growing(sqlite, "other", first=5_000).say("A refund.", "Noise.", "More noise.")
    Growing(sqlite, "s", namespace="tenant", first=9_000).say("A refund.", "Noise.", "More noise.")
    assert {hit.session for hit in sqlite.search_passages(NS, "reimbursement", session="s")} == {"s"}
    assert {hit.session for hit in sqlite.search_passages(NS, "reimbursement")} <= {"s", "other"}
    hits = sqlite.search_passages(NS, "reimbursement", session="s", without={log.entries[1].id})
    assert hits
    assert 1 not in {hit.position for hit in hits}


@needs_extra
def test_every_entry_has_its_place_in_a_chunk(sqlite: SqliteStore) -> None:
    log = Growing(sqlite)
    for number in range(3):
        log.say(*(f"Turn {number} has line {line}." for line in range(100)))
        while sqlite.index():
            pass
    chunks = read_chunks(sqlite)
    assert [len(seqs) for _, seqs, _ in chunks] == [128, 128, 44]
    assert [seq for _, seqs, _ in chunks for seq in seqs] == list(range(1, 301))
    assert all(len(numbers) == len(seqs) * DIMENSIONS for _, seqs, numbers in chunks)
    assert sqlite.index() == 0


def test_a_purge_forgets_the_meaning_without_the_extra_too(sqlite: SqliteStore) -> None:
    log = Growing(sqlite)
    log.say(*SAID)
    while sqlite.index():
        pass
    numbers = [bytes([number + 1]) * DIMENSIONS for number in range(7)]
    with sqlite._database.write() as db:
        db.execute("DELETE FROM vector")
        for number in range(7):
            _append_vectors(db, 1, [(number + 1, numbers[number])])
    sqlite.purge(NS, "s", log.entries[2].id, now=1)
    numbers[2] = bytes(DIMENSIONS)
    assert read_chunks(sqlite) == [(1, [1, 2, 0, 4, 5, 6, 7], b"".join(numbers))]
    sqlite.purge(NS, "s", None, now=1)
    assert read_chunks(sqlite) == []
