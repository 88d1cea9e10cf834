"""`redo` writes the newest Block's summaries again from the originals; facts stay, undo gives the older text back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tenfold.aio import AsyncSession
from tenfold.drive import Answerer
from tenfold.errors import UsageError
from tenfold.log.sqlite import SqliteStore
from tenfold.record.message import text_of
from tenfold.redo import Again
from tenfold.session import Place, Session
from tenfold.summarize.section import TITLE
from tenfold.wire.marks import summary_text
from tests.engine.making import Telling, again, attempts, blocks, entries, opened, policy, user, work

BETTER = "The parts of the project were read and changed one by one, and the tests stayed green throughout."


def summary(session: Session) -> str:
    texts = [summary_text(text_of(m)) for m in session.view.messages() if m.origin == "tenfold"]
    return next(t for t in reversed(texts) if t)


def compacted(*, models: tuple[str, ...] = ()) -> Session:
    session = opened(work(12), policy(models=models))
    assert session.compact(to=700).status == "compacted"
    return session


def test_a_model_bettered_text_over_the_same_range_with_the_same_facts() -> None:
    session = compacted()
    old, old_view = summary(session), session.view.messages()
    (first,) = blocks(session)
    model = Telling(BETTER)
    session.answerer = Answerer(model)
    outcome = session.redo(again=Again(model="large"))
    assert outcome.status == "compacted"
    assert outcome.rung == "model"
    assert model.asked[0].model == "large"
    assert "src/part3.py" in model.asked[0].prompt
    new = summary(session)
    assert BETTER in new
    assert new.partition(TITLE)[2] == old.partition(TITLE)[2]
    second = blocks(session)[-1]
    assert (second.under, second.facts, second.unshown) == (first.id, first.facts, first.unshown)
    assert [(r.first, r.last) for r in second.replacements] == [
        (r.first, r.last) for r in first.replacements if r.kind == "summary"
    ]
    assert second.tokens_after == outcome.tokens_after == sum(session.sizes().values())
    assert session.violations("anthropic") == ()
    assert session.undo() == second.id
    assert session.view.messages() == old_view


def test_the_originals_stay_behind_it() -> None:
    session = compacted()
    (first,) = blocks(session)
    before = [line.entry for line in session.expand(first.id, deep=True)]
    session.answerer = Answerer(Telling(BETTER))
    second = session.redo(again=Again(model="m")).block
    behind = [line.entry for line in session.expand(second, deep=True)]
    assert behind
    assert set(behind) <= set(before)
    assert any(not line.original for line in session.expand(second))


def test_a_model_that_fails_changes_nothing_and_is_remembered() -> None:
    session = compacted()
    view = session.view.messages()
    session.answerer = Answerer(Telling("I cannot help with that."))
    outcome = session.redo(again=Again(model="m"))
    assert outcome.status == "failed"
    assert session.view.messages() == view
    assert [a.status for a in attempts(session)] == ["failed"]
    assert attempts(session)[0].spent.calls == outcome.spent.calls > 0


def test_without_a_model_nothing_comes_out_better() -> None:
    session = compacted()
    held = entries(session)
    outcome = session.redo()
    assert outcome.status == "nothing"
    assert "name a model" in outcome.reason
    assert entries(session) == held
    longer = session.redo(again=Again(tokens=400))
    assert (longer.status, longer.rung) == ("compacted", "extractive")
    assert longer.tokens_after > outcome.tokens_after


def test_only_the_newest_block_in_force() -> None:
    session = compacted()
    (first,) = blocks(session)
    session.append(*work(6, start=30))
    session.compact(to=600)
    with pytest.raises(UsageError, match="only the newest"):
        session.redo(first.id)
    session.answerer = Answerer(Telling(BETTER))
    newest = blocks(session)[-1]
    assert session.redo(newest.id[:20], Again(model="m")).status == "compacted"


def test_with_nothing_in_force_there_is_nothing_to_write() -> None:
    session = opened(work(2))
    outcome = session.redo()
    assert outcome.status == "nothing"
    assert "no compaction" in outcome.reason


def test_an_earlier_summary_is_passed_apart_and_never_as_text() -> None:
    session = opened(work(12), policy(models=("m",)), answerer=Answerer(Telling("FIRST TELLING of the parts.")))
    session.compact(to=700)
    session.append(*work(6, start=30))
    session.compact(to=600)
    model = Telling(BETTER)
    session.answerer = Answerer(model)
    assert session.redo().status == "compacted"
    head, _, messages = model.asked[0].prompt.partition("<conversation>")
    assert "FIRST TELLING" in head
    assert "FIRST TELLING" not in messages
    assert "<tenfold-summary" not in model.asked[0].prompt


def test_the_same_demand_afterwards_is_still_recognised() -> None:
    session = compacted()
    session.answerer = Answerer(Telling(BETTER))
    session.redo(again=Again(model="m"))
    held = entries(session)
    assert session.compact(to=700).status == "nothing"
    assert entries(session) == held


def test_redo_reads_what_an_opening_left_on_disk(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "log.db")
    session = Session.create(Place(store, "s"), policy())
    session.append(*work(12))
    session.compact(to=700)
    reopened = Session(session.place, policy(), answerer=Answerer(Telling(BETTER)))
    assert reopened.redo(again=Again(model="m")).status == "compacted"
    assert BETTER in summary(again(reopened))
    assert store.verify("default") == []
    store.close()


def test_the_async_side_gives_the_same_block() -> None:
    one, two = compacted(), compacted()
    one.answerer = two.answerer = Answerer(Telling(BETTER))
    asyncio.run(AsyncSession(one).redo(again=Again(model="m")))
    two.redo(again=Again(model="m"))
    made = [[r.sizes for r in blocks(s)[-1].replacements] for s in (one, two)]
    assert made[0] == made[1]
    assert len(blocks(one)) == len(blocks(two)) == 2


def test_pins_and_kept_messages_stay_in_view() -> None:
    session = opened([*work(12), user("Now the last thing.")])
    pinned = session.view.path.at(2).id
    session.pin(pinned)
    session.compact(to=1_000)
    kept = [m for m in session.view.messages() if m.origin != "tenfold"]
    session.answerer = Answerer(Telling(BETTER))
    assert session.redo(again=Again(model="m")).status == "compacted"
    assert [m for m in session.view.messages() if m.origin != "tenfold"] == kept
