"""A store that an older release wrote opens, verifies, shows the same views, and can be written to.

`fixtures/store-0.1.0.db` was made by 0.1.0 from the start of a recorded session, once with every policy: compacted
twice, pinned, undone, and with an attempt that failed. `fixtures/store-0.1.0.json` holds what that release showed:
hashes of each view's messages, the newest Block's id, and what a search found. A release that changes what is stored
adds a pair of its own and leaves the older ones as they are:

    PYTHONPATH=src:. python -m tests.log.test_older_stores NAME
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

import pytest
from msgspec import msgpack

from tenfold.drive import Answerer
from tenfold.llm.scripted import ScriptedModel
from tenfold.log.base import DEFAULT_NAMESPACE, SessionInfo
from tenfold.log.sqlite import SqliteStore
from tenfold.meter.counters import counter_for
from tenfold.policies import POLICIES
from tenfold.record.entry import Said
from tenfold.session import Place, Session
from tenfold.settings import policy_for
from tenfold.transcripts import read_file
from tenfold.view.view import View
from tests.sessions import ROOT

FIXTURES = Path(__file__).parent / "fixtures"
SOURCE = ROOT / "examples/sessions/desk.openai-chat.json"
MESSAGES = 54
WORDS = "refund"
RELEASES = [path.stem for path in sorted(FIXTURES.glob("store-*.db"))]


def view_hash(view: View) -> str:
    return hashlib.sha256(msgpack.encode([(m.role, m.parts, m.origin) for m in view.messages()])).hexdigest()


def shown(store: SqliteStore, policy: str) -> dict[str, object]:
    session = Session(Place(store, policy), policy_for(policy, counter_for(None).counter))
    live = session.view.marks.live
    return {
        "view": view_hash(session.view),
        "length": session.view.length,
        "newest": session.view.path.at(live[-1]).id if live else "",
        "found": sorted(hit.entry for hit in store.search(DEFAULT_NAMESPACE, WORDS, session=policy, limit=100)),
        "tokens": session.reading().tokens,
    }


def make(name: str) -> None:
    """Writes the store and what it shows."""
    counter = counter_for(None).counter
    path = FIXTURES / f"{name}.db"
    path.unlink(missing_ok=True)
    store = SqliteStore(path)
    said = [e for e in read_file(SOURCE)[0].entries if isinstance(e, Said)][:MESSAGES]
    expected = {}
    for policy in sorted(POLICIES):
        info = SessionInfo(policy, format="openai-chat", file="desk.openai-chat.json", model="gpt-4o")
        place = Place(store, policy)
        session = Session.create(place, policy_for(policy, counter), info=info)
        third = len(said) // 3
        session.append(*[e.message for e in said[:third]], run="r1")
        session.pin(next(s for s in (session.view.path.at(i).id for i in range(third)) if s))
        session.compact(to=session.uncompacted() // 3)
        session.append(*[e.message for e in said[third : 2 * third]], run="r2")
        session.compact(to=session.uncompacted() // 4)
        session.append(*[e.message for e in said[2 * third :]], run="r3")
        session.compact(to=session.uncompacted() // 5)
        session.undo()
        failing = policy_for("tail", counter, models=("m",))
        Session(place, failing, answerer=Answerer(model=ScriptedModel([]))).compact(to=900)
        expected[policy] = shown(store, policy)
    store.close()
    (FIXTURES / f"{name}.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[SqliteStore, dict[str, object]]:
    shutil.copy(FIXTURES / f"{request.param}.db", tmp_path / "store.db")
    known = json.loads((FIXTURES / f"{request.param}.json").read_text(encoding="utf-8"))
    return SqliteStore(tmp_path / "store.db"), known


def test_there_is_a_store_of_every_release() -> None:
    assert "store-0.1.0" in RELEASES


def test_an_older_store_shows_what_it_showed(release: tuple[SqliteStore, dict[str, object]]) -> None:
    store, known = release
    assert store.verify(DEFAULT_NAMESPACE) == []
    assert {policy: shown(store, policy) for policy in known} == known
    store.close()


def test_an_older_store_goes_on(release: tuple[SqliteStore, dict[str, object]]) -> None:
    store, known = release
    said = [e for e in read_file(SOURCE)[0].entries if isinstance(e, Said)][MESSAGES : MESSAGES + 30]
    for policy in known:
        session = Session(Place(store, policy), policy_for(policy, counter_for(None).counter))
        session.append(*[e.message for e in said])
        assert session.compact(to=session.uncompacted() // 6).status == "compacted"
        assert session.undo()
    assert store.verify(DEFAULT_NAMESPACE) == []
    store.close()


if __name__ == "__main__":
    make(sys.argv[1])
