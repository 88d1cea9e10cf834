"""A store that an older release wrote opens, verifies, shows the same views, and can be written to.

`fixtures/store-0.1.0.db` was made by 0.1.0 from the start of a recorded session, once with every policy: compacted
twice, pinned, undone, and with an attempt that failed. `fixtures/store-0.1.0.json` holds what that release showed:
hashes of each view's messages, the newest Block's id, and what a search found. `store-0.3.0` is the same of that
release, with two policies, and so is `store-0.4.0`: its Blocks store what they change of the facts, and long bodies
are compressed. A release that changes what is stored adds a pair of its own and leaves the older ones as
they are:

    PYTHONPATH=src:. python -m tests.store.test_older_stores NAME
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

import pytest
from msgspec import msgpack

from tenfold.config.policies import POLICIES
from tenfold.config.settings import build_policy
from tenfold.core.meter.counters import choose_counter
from tenfold.core.record.entry import MessageEntry
from tenfold.core.record.fact import BlankFact
from tenfold.core.view.fold import View
from tenfold.formats import read_file
from tenfold.models.scripted_model import ScriptedModel
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo
from tenfold.store.sqlite.store import SqliteStore
from tests.sessions import ROOT

FIXTURES = Path(__file__).parent / "fixtures"
SOURCE = ROOT / "examples/sessions/desk.openai-chat.json"
MESSAGES = 54
WORDS = "refund"
COUNTED_ANEW = {"sliding": 1_965, "threshold": 1_962}
"""The estimator of these policies took a vocabulary's count 1.6 times until 0.3.0, and takes it as it is since then."""
RELEASES = [path.stem for path in sorted(FIXTURES.glob("store-*.db"))]


def hash_view(view: View) -> str:
    return hashlib.sha256(msgpack.encode([(m.role, m.parts, m.origin) for m in view.get_messages()])).hexdigest()


def read_state(store: SqliteStore, policy: str) -> dict[str, object]:
    session = Session(SessionAddress(store, policy), build_policy(policy, choose_counter(None).counter))
    live = session.view.state.live_blocks
    return {
        "view": hash_view(session.view),
        "length": session.view.length,
        "newest": session.view.path.get_entry(live[-1]).id if live else "",
        "found": sorted(hit.entry for hit in store.search(DEFAULT_NAMESPACE, WORDS, session=policy, limit=100)),
        "tokens": session.take_reading().tokens,
    }


def make(name: str) -> None:
    """Writes the store and what it shows."""
    counter = choose_counter(None).counter
    path = FIXTURES / f"{name}.db"
    path.unlink(missing_ok=True)
    store = SqliteStore(path)
    said = [e for e in read_file(SOURCE)[0].entries if isinstance(e, MessageEntry)][:MESSAGES]
    expected = {}
    for policy in sorted(POLICIES):
        info = SessionInfo(policy, format="openai-chat", file="desk.openai-chat.json", model="gpt-4o")
        place = SessionAddress(store, policy)
        session = Session.create(place, build_policy(policy, counter), info=info)
        third = len(said) // 3
        session.append(*[e.message for e in said[:third]], run="r1")
        session.pin(next(s for s in (session.view.path.get_entry(i).id for i in range(third)) if s))
        session.compact(to=session.conversation.count_uncompacted() // 3)
        session.append(*[e.message for e in said[third : 2 * third]], run="r2")
        session.compact(to=session.conversation.count_uncompacted() // 4)
        session.append(*[e.message for e in said[2 * third :]], run="r3")
        session.compact(to=session.conversation.count_uncompacted() // 5)
        session.undo()
        failing = build_policy("tail", counter, models=("m",))
        Session(place, failing, answerer=Answerer(model=ScriptedModel([]))).compact(to=900)
        expected[policy] = read_state(store, policy)
    store.close()
    (FIXTURES / f"{name}.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[SqliteStore, dict[str, dict[str, object]]]:
    shutil.copy(FIXTURES / f"{request.param}.db", tmp_path / "store.db")
    known = json.loads((FIXTURES / f"{request.param}.json").read_text(encoding="utf-8"))
    return SqliteStore(tmp_path / "store.db"), known


def test_there_is_a_store_of_every_release() -> None:
    assert {"store-0.1.0", "store-0.3.0", "store-0.4.0"} <= set(RELEASES)


def test_an_older_store_shows_what_it_showed(release: tuple[SqliteStore, dict[str, dict[str, object]]]) -> None:
    store, known = release
    assert store.verify(DEFAULT_NAMESPACE) == []
    for policy, told in known.items():
        tokens = COUNTED_ANEW.get(policy, told["tokens"])
        assert read_state(store, policy) == {**told, "tokens": tokens}, policy
    store.close()


def test_an_older_store_goes_on(release: tuple[SqliteStore, dict[str, object]]) -> None:
    store, known = release
    said = [e for e in read_file(SOURCE)[0].entries if isinstance(e, MessageEntry)][MESSAGES : MESSAGES + 30]
    for policy in known:
        session = Session(SessionAddress(store, policy), build_policy(policy, choose_counter(None).counter))
        session.append(*[e.message for e in said])
        assert session.compact(to=session.conversation.count_uncompacted() // 6).status == "compacted"
        assert session.undo()
    assert store.verify(DEFAULT_NAMESPACE) == []
    store.close()


def test_the_facts_of_an_older_store_hold_and_new_blocks_add_to_them(
    release: tuple[SqliteStore, dict[str, object]],
) -> None:
    """Until 0.4.0 each Block held the facts of all before it; later ones store what they change."""
    store, known = release
    said = [e for e in read_file(SOURCE)[0].entries if isinstance(e, MessageEntry)][MESSAGES : MESSAGES + 30]
    added = 0
    for policy in known:
        session = Session(SessionAddress(store, policy), build_policy(policy, choose_counter(None).counter))
        path, live = session.view.path, session.view.state.live_blocks
        newest, before = path.get_block(live[-1]), session.view.list_block_facts()
        known_facts = tuple(fact for fact in newest.facts if not isinstance(fact, BlankFact))
        assert before == known_facts or newest.ended_facts is not None
        session.append(*[e.message for e in said])
        session.compact(to=session.conversation.count_uncompacted() // 6)
        new, held = session.view.find_newest_block(), session.view.list_block_facts()
        assert new is not None
        if new.ended_facts is not None:
            assert {f.order for f in held} - {f.order for f in before} <= {f.order for f in new.facts}
            assert len(new.facts) <= len(held)
            added += 1
        again = Session(SessionAddress(store, policy), build_policy(policy, choose_counter(None).counter))
        assert again.view.list_block_facts() == held
        session.undo()
        assert session.view.list_block_facts() == before
    assert added
    store.close()


if __name__ == "__main__":
    make(sys.argv[1])
