"""`redo` writes the newest Block's summaries again from the originals; facts stay, undo gives the older text back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tenfold.compaction.engine.redo import RedoRequest
from tenfold.compaction.facts.section_headings import TITLE
from tenfold.core.record.message import get_text
from tenfold.core.wire.marks import extract_summary_text
from tenfold.errors import UsageError
from tenfold.session import Session, SessionAddress
from tenfold.session.drive import Answerer
from tenfold.store.sqlite.store import SqliteStore
from tests.engine.making import (
    Telling,
    build_policy,
    get_attempts,
    get_blocks,
    get_entries,
    make_user_message,
    make_work,
    open_session,
    reopen_session,
)

BETTER = "The parts of the project were read and changed one by one, and the tests stayed green throughout."


def get_summary(session: Session) -> str:
    texts = [extract_summary_text(get_text(m)) for m in session.view.get_messages() if m.origin == "tenfold"]
    return next(t for t in reversed(texts) if t)


def make_compacted_session(*, models: tuple[str, ...] = (), to: int = 700) -> Session:
    session = open_session(make_work(12), build_policy(models=models))
    assert session.compact(to=to).status == "compacted"
    return session


def test_a_model_bettered_text_over_the_same_range_with_the_same_facts() -> None:
    session = make_compacted_session()
    old, old_view = get_summary(session), session.view.get_messages()
    (first,) = get_blocks(session)
    model = Telling(BETTER)
    session.compactor.use_answerer(Answerer(model))
    outcome = session.redo(request=RedoRequest(model="large"))
    assert outcome.status == "compacted"
    assert outcome.rung == "model"
    assert model.asked[0].model == "large"
    assert "src/part3.py" in model.asked[0].prompt
    new = get_summary(session)
    assert BETTER in new
    assert new.partition(TITLE)[2] == old.partition(TITLE)[2]
    second = get_blocks(session)[-1]
    assert (second.previous_block, second.unshown_facts) == (first.id, first.unshown_facts)
    assert session.view.list_block_facts() == first.facts
    assert [(r.first, r.last) for r in second.replacements] == [
        (r.first, r.last) for r in first.replacements if r.kind == "summary"
    ]
    assert outcome.reading_after is not None
    assert (
        second.tokens_after == outcome.reading_after.estimate == sum(session.conversation.get_message_sizes().values())
    )
    assert outcome.tokens_after == outcome.reading_after.tokens
    assert session.conversation.find_violations("anthropic") == ()
    assert session.undo() == second.id
    assert session.view.get_messages() == old_view


def test_a_model_that_fails_changes_nothing_and_is_remembered() -> None:
    session = make_compacted_session()
    view = session.view.get_messages()
    session.compactor.use_answerer(Answerer(Telling("I cannot help with that.")))
    outcome = session.redo(request=RedoRequest(model="m"))
    assert outcome.status == "failed"
    assert session.view.get_messages() == view
    assert [a.status for a in get_attempts(session)] == ["failed"]
    assert get_attempts(session)[0].spent.calls == outcome.spent.calls > 0


def test_without_a_model_nothing_comes_out_better() -> None:
    session = make_compacted_session(to=400)
    held = get_entries(session)
    outcome = session.redo()
    assert outcome.status == "nothing"
    assert "name a model" in outcome.reason
    assert get_entries(session) == held
    longer = session.redo(request=RedoRequest(tokens=900))
    assert (longer.status, longer.rung) == ("compacted", "extractive")
    assert longer.tokens_after > outcome.tokens_after


def test_only_the_newest_block_in_force() -> None:
    session = make_compacted_session()
    (first,) = get_blocks(session)
    session.append(*make_work(6, start=30))
    session.compact(to=600)
    with pytest.raises(UsageError, match="only the newest"):
        session.redo(first.id)
    session.compactor.use_answerer(Answerer(Telling(BETTER)))
    newest = get_blocks(session)[-1]
    assert session.redo(newest.id[:20], RedoRequest(model="m")).status == "compacted"


def test_with_nothing_in_force_there_is_nothing_to_write() -> None:
    session = open_session(make_work(2))
    outcome = session.redo()
    assert outcome.status == "nothing"
    assert "no compaction" in outcome.reason


def test_an_earlier_summary_is_passed_apart_and_never_as_text() -> None:
    session = open_session(
        make_work(12), build_policy(models=("m",)), answerer=Answerer(Telling("FIRST TELLING of the parts."))
    )
    session.compact(to=700)
    session.append(*make_work(6, start=30))
    session.compact(to=600)
    model = Telling(BETTER)
    session.compactor.use_answerer(Answerer(model))
    assert session.redo().status == "compacted"
    head, _, messages = model.asked[0].prompt.partition("<conversation>")
    assert "FIRST TELLING" in head
    assert "FIRST TELLING" not in messages
    assert "<tenfold-summary" not in model.asked[0].prompt


def test_the_same_demand_afterwards_is_still_recognised() -> None:
    session = make_compacted_session()
    session.compactor.use_answerer(Answerer(Telling(BETTER)))
    session.redo(request=RedoRequest(model="m"))
    held = get_entries(session)
    assert session.compact(to=700).status == "nothing"
    assert get_entries(session) == held


def test_redo_reads_what_an_opening_left_on_disk(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    session = Session.create(SessionAddress(store, "s"), build_policy())
    session.append(*make_work(12))
    session.compact(to=700)
    reopened = Session(session.address, build_policy(), answerer=Answerer(Telling(BETTER)))
    assert reopened.redo(request=RedoRequest(model="m")).status == "compacted"
    assert BETTER in get_summary(reopen_session(reopened))
    assert store.verify("default") == []
    store.close()


def test_pins_and_kept_messages_stay_in_view() -> None:
    session = open_session([*make_work(12), make_user_message("Now the last thing.")])
    pinned = session.view.path.get_entry(2).id
    session.pin(pinned)
    session.compact(to=1_000)
    kept = [m for m in session.view.get_messages() if m.origin != "tenfold"]
    session.compactor.use_answerer(Answerer(Telling(BETTER)))
    assert session.redo(request=RedoRequest(model="m")).status == "compacted"
    assert [m for m in session.view.get_messages() if m.origin != "tenfold"] == kept
