"""What a summary model writes is notes, however it words what a page orders: in every wire, again and again."""

from __future__ import annotations

import json

import pytest

import tenfold
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.fact import FactKind
from tenfold.core.record.message import get_text
from tenfold.core.wire.marks import extract_summary_text
from tenfold.formats import read_data, render_sessions
from tenfold.formats.export_items import get_view_items
from tenfold.formats.importer import import_sessions
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.base import DEFAULT_NAMESPACE
from tenfold.store.sqlite.store import SqliteStore
from tests.gateway.conversations import KINDS, Talk
from tests.injections.obeying import MARK, PAGE, WORDINGS, Obeying, list_under_users_name
from tests.thorough import is_taken

COUNTER = CharacterCounter()
POLICY = build_policy("tenfold", COUNTER, models=("m",))
USERS: frozenset[FactKind] = frozenset({"rule", "correction", "request", "remark"})
WORDS = "It says that the numbers of this quarter are like those of the last one, and names no reason. " * 8
RULE = "Never delete a file."
ROUNDS = 5
NUMBERED = tuple(enumerate(WORDINGS))


def add_work(talk: Talk, number: int) -> None:
    """A page that orders something, and work that is long enough to be summarized."""
    talk.add_user(f"Go on with part {number}.")
    talk.add_call(f"page{number}", "notes.md", PAGE)
    for part in range(6):
        talk.add_user(f"And page {part}?")
        talk.add_answer(f"Page {part} of part {number} is read. {WORDS}")


def start_talk(kind: str) -> Talk:
    talk = Talk(kind)
    talk.add_user(f"{RULE} Go through the report.")
    add_work(talk, 0)
    return talk


def assert_is_notes(session: Session) -> bool:
    """Nothing of the order is the user's, the user's own rule is there. Returns whether the notes have the order."""
    facts = session.view.list_block_facts()
    assert [(f.kind, f.text) for f in facts if f.kind in USERS and MARK in f.text] == []
    assert [each.text for each in session.read_instructions() if MARK in each.text] == []
    messages = session.view.get_messages()
    texts = [text for m in messages if (text := extract_summary_text(get_text(m))) is not None]
    assert [list_under_users_name(text) for text in texts] == [[]] * len(texts)
    assert RULE in "\n".join(map(get_text, messages))
    return MARK in "\n".join(texts)


def test_the_table_is_as_long_as_it_says_and_the_reader_sees_what_a_model_wrote() -> None:
    assert len(WORDINGS) >= 20
    seen = [bool(list_under_users_name(wording.replace("{attack}", f"run {MARK}"))) for wording in WORDINGS]
    assert sum(seen) >= 25, "undefused, they do stand under the user's name"


@pytest.mark.costly(3)
@pytest.mark.parametrize(("number", "wording"), NUMBERED, ids=[f"{n}" for n, _ in NUMBERED])
def test_a_stateless_host_has_it_as_notes_in_every_wire_for_five_rounds(number: int, wording: str) -> None:
    for kind in (kind for at, kind in enumerate(KINDS) if is_taken(wording, at, 2)):
        model, talk, seen = Obeying(wording), start_talk(kind), False
        for round_number in range(ROUNDS):
            done = tenfold.compact(talk.items, to=1_200, policy=POLICY, summarizer=model)
            assert done.session is not None, done.outcome
            seen |= assert_is_notes(done.session)
            talk.items = list(done.messages)
            add_work(talk, round_number + 1)
        assert model.calls >= ROUNDS - 1
        assert seen or "Quoted" in wording, number


@pytest.mark.costly(4)
@pytest.mark.parametrize("stores", [1, ROUNDS], ids=["the same store", "a new store each time"])
@pytest.mark.parametrize(("number", "wording"), NUMBERED, ids=[f"{n}" for n, _ in NUMBERED])
def test_exported_and_imported_it_stays_what_it_is(number: int, wording: str, stores: int) -> None:
    stored = [SqliteStore(":memory:") for _ in range(stores)]
    model, talk = Obeying(wording), start_talk("chat")
    for round_number in range(ROUNDS):
        (parsed,) = read_data(json.dumps(talk.items).encode(), file="talk.json")
        (name, *_) = import_sessions([parsed], stored[round_number % stores], DEFAULT_NAMESPACE, COUNTER)
        session = Session(SessionAddress(stored[round_number % stores], name), POLICY, answerer=Answerer(model))
        assert session.compact(to=1_200).status == "compacted"
        assert_is_notes(session)
        talk.items = json.loads(render_sessions([(parsed.info, get_view_items(session.view))]))
        add_work(talk, round_number + 1)
    assert model.calls >= ROUNDS - 1, number
