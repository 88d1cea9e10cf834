"""Tools that are bound to one branch tell nothing of the others, which may be of other users."""

from __future__ import annotations

import pytest

from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.message import Message, Text
from tenfold.recall.expand import open_path
from tenfold.recall.tools import EXPAND, READ, SEARCH, RecallTools
from tenfold.session import Session, SessionAddress
from tenfold.store.base import DEFAULT_NAMESPACE, Store
from tests.engine.making import make_work

COUNTER = choose_counter("gpt-4o").counter
POLICY = build_policy("tenfold", COUNTER)
SECRETS = 90
"""More passages than are ranked for one question."""


def build_user(text: str) -> Message:
    return Message("user", (Text(text),), "human")


@pytest.fixture
def other(store: Store) -> Session:
    """Another user's branch: it shares the first messages, and has a compaction of its own."""
    main = Session.create(SessionAddress(store, "s"), POLICY)
    main.append(build_user("Hello, what does the letter about the zebra say?"), build_user("We begin with the ferry."))
    assert main.leaf is not None
    shared = open_path(store, DEFAULT_NAMESPACE, store.locate(DEFAULT_NAMESPACE, main.leaf))
    other = Session(SessionAddress(store, "s", head="other"), POLICY)
    assert other.compactor.move_to(shared, (), expected=None)
    other.append(*(build_user(f"My zebra letter says diagnosis number {n}.") for n in range(SECRETS)))
    other.append(*make_work(14))
    assert other.compact(to=900).status == "compacted"
    main.append(build_user("The ferry is at noon, and my letter is about a zebra crossing."))
    return other


@pytest.fixture
def tools(other: Session, store: Store) -> RecallTools:
    assert other.leaf is not None
    return RecallTools(store, DEFAULT_NAMESPACE, "s", count=COUNTER.count, is_path_only=True)


@pytest.mark.parametrize("words", ["zebra", "zebra letter diagnosis", "what does the letter say", '"my zebra letter"'])
def test_a_search_finds_what_is_on_its_own_path(words: str, tools: RecallTools) -> None:
    found = tools.handle(SEARCH, {"words": words})
    assert "diagnosis number" not in found
    assert "diagnosis number" not in tools.handle(SEARCH, {"words": "part3.py"})
    if "diagnosis" not in words and "my" not in words:
        assert "Hello, what does the letter" in found


@pytest.mark.parametrize("around", [0, 1, 50])
def test_an_entry_of_another_branch_is_not_there(around: int, tools: RecallTools, other: Session) -> None:
    theirs = other.view.path.get_entry(5).id
    block = other.view.path.get_entry(other.view.state.live_blocks[-1]).id
    for name, arguments in ((READ, {"entry": theirs, "around": around}), (EXPAND, {"block": block, "around": around})):
        assert tools.handle(name, arguments).startswith("no entry ")
    shared = other.view.path.get_entry(1).id
    for entry in (shared, shared[:20], "1"):
        found = tools.handle(READ, {"entry": entry, "around": around})
        assert "We begin with the ferry." in found
        assert "diagnosis" not in found
    assert ("zebra crossing" in tools.handle(READ, {"entry": shared, "around": around})) is (around > 0)


def test_a_branch_that_is_not_stored_yet_has_nothing(other: Session) -> None:
    store = other.address.store
    tools = RecallTools(store, DEFAULT_NAMESPACE, "s", count=COUNTER.count, head="new", is_path_only=True)
    assert tools.handle(SEARCH, {"words": "zebra"}).startswith("nothing in this conversation")
    for entry in ("0", other.view.path.get_entry(0).id):
        assert tools.handle(READ, {"entry": entry}).startswith("no entry ")
    assert "diagnosis" in RecallTools(store, DEFAULT_NAMESPACE, "s", count=COUNTER.count).handle(
        SEARCH, {"words": "diagnosis"}
    )


def test_the_other_branches_are_listed_by_the_store(other: Session) -> None:
    store, leaf = other.address.store, other.leaf
    assert leaf is not None
    main = store.read_heads(DEFAULT_NAMESPACE, "s")["main"]
    everything = {entry.id for entry in store.read_entries(DEFAULT_NAMESPACE, "s")}
    path = other.view.path
    on_path = {entry.id for entry in path.get_entries(0, path.length - 1)}
    assert store.list_other_branches(DEFAULT_NAMESPACE, "s", leaf) == everything - on_path == {main}
