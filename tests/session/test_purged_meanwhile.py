"""What was purged stays purged, also if a session that was opened before goes on with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import CharacterCounter
from tenfold.core.record.entry import MessageEntry
from tenfold.core.record.message import Message, Text, get_text
from tenfold.models.scripted_model import ScriptedModel
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.base import Store
from tenfold.store.sqlite.store import SqliteStore

PURGED = "the colour of the vault door is heliotrope-4417"
NS = "default"


def build_messages() -> list[Message]:
    filler = "The next part was looked at, and it is as it should be. " * 30
    said = [Message("user", (Text(f"Remember always: {PURGED}."),), "human")]
    for number in range(30):
        said.append(Message("assistant", (Text(f"Part {number}: {filler}"),), "model"))
        said.append(Message("user", (Text(f"Go on with part {number + 1}."),), "human"))
    return said


def open_session(store: Store, answerer: Answerer | None = None) -> Session:
    return Session.create(SessionAddress(store, "s"), build_policy("tenfold", CharacterCounter()), answerer=answerer)


def read_everything(store: SqliteStore) -> bytes:
    if store.path == ":memory:":
        return repr(store.read_entries(NS, "s")).encode()
    sides = (store.path, store.path + "-wal", store.path + "-journal")
    return b"".join(Path(p).read_bytes() for p in sides if Path(p).exists())


@pytest.fixture(params=["memory", "file"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[SqliteStore, SqliteStore]]:
    """The store as the older session has it open, and as the one that purges has it: two of one file, or one."""
    mine = SqliteStore(":memory:" if request.param == "memory" else tmp_path / "store.db")
    other = mine if request.param == "memory" else SqliteStore(tmp_path / "store.db")
    yield mine, other
    mine.close()
    other.close()


def test_a_session_opened_before_writes_nothing_of_it(stores: tuple[SqliteStore, SqliteStore]) -> None:
    mine, other = stores
    session = open_session(mine)
    first, *_ = session.append(*build_messages())
    assert b"heliotrope" in read_everything(other)
    other.purge(NS, "s", first, now=1)
    assert b"heliotrope" not in read_everything(other)

    outcome = session.compact(to=1_500)
    assert outcome.status == "superseded"
    assert "purged" in outcome.reason
    assert b"heliotrope" not in read_everything(other)

    again = session.compact(to=1_500)
    assert again.status == "compacted"
    session.append(Message("user", (Text("And what else is there?"),), "human"))
    assert all("heliotrope" not in str(message) for message in session.view.get_messages())
    assert b"heliotrope" not in read_everything(other)
    assert other.verify(NS) == []


def test_neither_does_a_second_compaction(stores: tuple[SqliteStore, SqliteStore]) -> None:
    mine, other = stores
    session = open_session(mine)
    first, *_ = session.append(*build_messages())
    assert session.compact(to=2_500).status == "compacted"
    assert b"heliotrope" in read_everything(other)
    session.append(*build_messages()[1:])
    other.purge(NS, "s", first, now=1)
    assert session.compact(to=1_500).status == "superseded"
    assert session.compact(to=1_500).status == "compacted"
    session.append(Message("user", (Text("Go on."),), "human"))
    assert b"heliotrope" not in read_everything(other)
    assert other.verify(NS) == []


def test_messages_can_still_be_appended(stores: tuple[SqliteStore, SqliteStore]) -> None:
    mine, other = stores
    session = open_session(mine, Answerer(model=ScriptedModel([])))
    first, *_ = session.append(*build_messages())
    other.purge(NS, "s", first, now=1)
    assert session.append(Message("user", (Text("Go on."),), "human"))
    assert b"heliotrope" not in read_everything(other)


def test_a_host_that_goes_on_sending_it_does_not_bring_it_back(stores: tuple[SqliteStore, SqliteStore]) -> None:
    """The same session object, and one that is opened anew, take the purged message for the one that stood there."""
    mine, other = stores
    session = open_session(mine)
    history: list[dict[str, str]] = [{"role": "user", "content": "The heliotrope key is under the mat."}]
    history += [{"role": "assistant", "content": "Noted."}, {"role": "user", "content": "Go on."}]
    session.before_model({"model": "gpt-4o", "messages": history})
    first = session.view.path.get_entry(0).id
    other.purge(NS, "s", first, now=1)
    for each in (session, Session(SessionAddress(other, "s"), "tenfold")):
        history += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "And on."}]
        assert each.before_model({"model": "gpt-4o", "messages": history})["messages"] == history
        assert b"heliotrope" not in read_everything(other)
        assert len(other.read_entries(NS, "s")) == len(history), "nothing was taken for a rewrite"
    assert other.verify(NS) == []


def test_another_message_in_its_place_is_new(stores: tuple[SqliteStore, SqliteStore]) -> None:
    """Only what was purged is taken for it: a correction, an answer or a call that stands there instead is kept."""
    mine, other = stores
    session = open_session(mine)
    history: list[dict[str, str]] = [{"role": "user", "content": "Use the production database."}]
    history += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "Thanks."}]
    session.before_model({"model": "gpt-4o", "messages": history})
    other.purge(NS, "s", session.view.path.get_entry(0).id, now=1)
    corrected = [{"role": "user", "content": "Never touch production."}, *history[1:]]
    again = Session(SessionAddress(other, "s"), "tenfold")
    assert again.before_model({"model": "gpt-4o", "messages": corrected})["messages"] == corrected
    assert "Never touch production." in str([get_text(m) for m in again.view.get_messages()])
    shorter = history[1:]
    last = Session(SessionAddress(other, "s"), "tenfold")
    assert last.before_model({"model": "gpt-4o", "messages": shorter})["messages"] == shorter


def test_it_does_not_come_back_behind_an_older_view_either(stores: tuple[SqliteStore, SqliteStore]) -> None:
    """A host that goes on from the view of an earlier Block sends what was said after it in full."""
    mine, other = stores
    session = open_session(mine)
    session.append(*build_messages()[1:])
    assert session.compact(to=1_500).status == "compacted"
    view = [{"role": m.role, "content": get_text(m)} for m in session.view.get_messages()]
    secret = {"role": "user", "content": f"Remember: {PURGED}."}
    sent = [*view, secret, {"role": "assistant", "content": "Noted."}, {"role": "user", "content": "Go on."}]
    session.before_model({"model": "gpt-4o", "messages": sent})
    session.append(*build_messages()[1:])
    assert session.compact(to=1_200).status == "compacted"
    (entry,) = (e for e in other.read_entries(NS, "s") if isinstance(e, MessageEntry) and PURGED in get_text(e.message))
    other.purge(NS, "s", entry.id, now=1)
    for each in (session, Session(SessionAddress(other, "s"), build_policy("tenfold", CharacterCounter()))):
        each.before_model({"model": "gpt-4o", "messages": sent})
        assert b"heliotrope" not in read_everything(other)
