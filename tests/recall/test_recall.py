"""Recall over a log: levels of Blocks, token caps, wrong arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenfold.config.policies import get_preset
from tenfold.core.meter.counters import choose_counter
from tenfold.errors import NotFoundError, UnknownFormat
from tenfold.formats import read_file
from tenfold.formats.importer import import_sessions
from tenfold.recall.expand import expand
from tenfold.recall.tools import EXPAND, READ, SEARCH, RecallTools
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE
from tenfold.store.sqlite.store import SqliteStore
from tests.shape.scan import ROOT

FILE = ROOT / "examples" / "sessions" / "logs.pi.jsonl"


@pytest.fixture
def twice() -> tuple[SqliteStore, Session]:
    """A recorded session, compacted to a third and then to a tenth."""
    store, counter = SqliteStore(":memory:"), choose_counter(None).counter
    (id_,) = import_sessions(read_file(Path(FILE)), store, DEFAULT_NAMESPACE, counter)
    one = Session(SessionAddress(store, id_), get_preset("tenfold")(counter))
    for share in (3, 12):
        assert one.compact(to=one.conversation.count_uncompacted() // share).status == "compacted"
    return store, one


def get_newest_id(one: Session) -> str:
    return one.view.path.get_entry(one.view.state.live_blocks[-1]).id


def test_all_the_way_down_are_exactly_the_covered_originals(twice: tuple[SqliteStore, Session]) -> None:
    _, one = twice
    lines = one.expand(get_newest_id(one), deep=True)
    assert [line.position for line in lines] == sorted({line.position for line in lines})
    stored = {e.id: e for e in one.view.path.get_entries(0, one.view.path.length - 1)}
    assert all(line.original and getattr(stored[line.entry], "message", None) is not None for line in lines)
    assert all(line.message == getattr(stored[line.entry], "message", None) for line in lines)
    in_view = {s.position for s in one.view.get_visible_messages() if s.is_original}
    live = [one.view.path.get_entry(position).id for position in one.view.state.live_blocks]
    behind = {line.position for block in live for line in one.expand(block, deep=True)}
    messages = {p for p, e in enumerate(stored.values()) if getattr(e, "message", None) is not None}
    assert messages <= in_view | behind


def test_one_level_down_stands_what_was_in_view_before(twice: tuple[SqliteStore, Session]) -> None:
    _, one = twice
    lines = one.expand(get_newest_id(one))
    before = one.view.path
    one.undo()
    earlier = [s.message for s in one.view.get_visible_messages()]
    assert before is one.view.path
    assert all(line.message in earlier for line in lines)
    assert any(not line.original for line in lines)


def test_an_entry_is_given_by_the_beginning_of_its_id(twice: tuple[SqliteStore, Session]) -> None:
    store, one = twice
    entry = one.view.path.get_entry(5)
    (line,) = expand(store, DEFAULT_NAMESPACE, entry.id[:18])
    assert (line.entry, line.position, line.original) == (entry.id, 5, True)
    with pytest.raises(NotFoundError):
        expand(store, DEFAULT_NAMESPACE, "ffff")


def test_answers_stay_under_their_cap_and_say_what_is_missing(twice: tuple[SqliteStore, Session]) -> None:
    store, one = twice
    count = choose_counter(None).counter.count
    tools = RecallTools(store, DEFAULT_NAMESPACE, one.address.session, count=count, cap=300)
    answer = tools.handle(EXPAND, {"block": get_newest_id(one)})
    assert count([answer])[0] <= 300
    assert f'{EXPAND}(block="{get_newest_id(one)}", part=2) goes on]' in answer
    small = tools.handle(READ, {"entry": one.view.path.get_entry(1).id})
    assert "[part " not in small


def test_wrong_calls_are_answered_not_raised(twice: tuple[SqliteStore, Session]) -> None:
    store, one = twice
    tools = RecallTools(store, DEFAULT_NAMESPACE, one.address.session, count=choose_counter(None).counter.count)
    assert "there is no tool" in tools.handle("recall_everything", {})
    assert "needs the argument 'words'" in tools.handle(SEARCH, {"word": "x"})
    assert "needs the argument 'entry'" in tools.handle(READ, {"entry": [7]})
    assert "no entry" in tools.handle(READ, {"entry": "ffff"})
    assert "nothing in this conversation holds" in tools.handle(SEARCH, {"words": "xyzzy plugh"})
    entry = one.view.path.get_entry(1).id
    assert entry in tools.handle(READ, {"entry": entry, "around": 10**30}), "as many as there are"


@pytest.mark.parametrize("name", [SEARCH, READ, EXPAND])
def test_half_of_an_emoji_in_a_models_call_is_answered_not_raised(
    twice: tuple[SqliteStore, Session], name: str
) -> None:
    store, one = twice
    tools = RecallTools(store, DEFAULT_NAMESPACE, one.address.session, count=choose_counter(None).counter.count)
    key = {SEARCH: "words", READ: "entry", EXPAND: "block"}[name]
    for tool, value in ((name, "x\ud83dy"), ("look\ud83d", "x")):
        answer = tools.handle(tool, {key: value})
        assert answer.encode(), "a model is told something, in text that can be sent"


def test_another_sessions_entries_are_out_of_reach(twice: tuple[SqliteStore, Session]) -> None:
    store, one = twice
    counter = choose_counter(None).counter
    (other,) = import_sessions(
        read_file(ROOT / "examples" / "sessions" / "desk.openai-chat.json"), store, DEFAULT_NAMESPACE, counter
    )
    foreign = store.open(DEFAULT_NAMESPACE, other).entries[3].id
    tools = RecallTools(store, DEFAULT_NAMESPACE, one.address.session, count=counter.count)
    answer = tools.handle(READ, {"entry": foreign})
    assert "no entry" in answer
    assert foreign in answer


@pytest.mark.parametrize("wire", ["openai-chat", "openai-responses", "anthropic", "gemini"])
def test_schemas_are_as_each_wire_wants_them(twice: tuple[SqliteStore, Session], wire: str) -> None:
    store, one = twice
    tools = RecallTools(store, DEFAULT_NAMESPACE, one.address.session, count=choose_counter(None).counter.count)
    schemas = tools.build_schemas(wire)
    inner = [s["function"] if wire == "openai-chat" else s for s in schemas]
    assert [s["name"] for s in inner if isinstance(s, dict)] == [SEARCH, READ, EXPAND]
    with pytest.raises(UnknownFormat, match="no wire is called"):
        tools.build_schemas("klingon")
