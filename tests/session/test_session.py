"""A session as a host uses it: append, read, undo, pin, find again, from several threads and over one file."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from tenfold.aio import AsyncSession
from tenfold.drive import Answerer
from tenfold.errors import LostRace, NotFound, StoreUnwritable, UsageError
from tenfold.log.memory import MemoryStore
from tenfold.log.sqlite import SqliteStore
from tenfold.record.ask import Answer, Summarize
from tenfold.record.entry import Usage
from tenfold.record.message import Text
from tenfold.session import Place, Session
from tests.engine import making
from tests.engine.making import Telling, again, blocks, called, entries, gave, opened, policy, read, said, user, work


def test_nothing_appended_is_nothing_written() -> None:
    session = opened([user("go")])
    assert session.append() == []
    assert len(entries(session)) == 1


def test_undo_gives_back_the_view_and_says_which_block() -> None:
    session = opened(work(12))
    before = session.view.messages()
    block = session.compact(to=900).block
    assert session.view.messages() != before
    assert session.undo() == block
    assert session.view.messages() == before
    assert again(session).view.messages() == before
    with pytest.raises(UsageError, match="nothing to undo"):
        session.undo()


def test_pins_hold_through_compactions_with_their_whole_step() -> None:
    session = opened(work(12))
    messages = session.view.messages()
    pinned = next(i for i, m in enumerate(messages) if m.role == "tool" and i > 4)
    entry = session.view.path.at(pinned).id
    assert session.pin(entry) == entry
    session.compact(to=1_500)
    shown = session.view.messages()
    at = shown.index(messages[pinned])
    assert shown[at - 1] == messages[pinned - 1]
    assert session.violations("anthropic") == ()
    session.pin(entry, on=False)
    session.append(*work(6, start=30))
    session.compact(to=700)
    assert messages[pinned] not in session.view.messages()


def test_a_model_given_to_a_session_writes_also_where_its_policy_names_none() -> None:
    using = policy()
    assert not using.summary.models
    session = opened(work(12), using, answerer=Answerer(model=Telling()))
    outcome = session.compact(to=600)
    assert (outcome.rung, outcome.spent.calls) == ("model", 1)
    alone = opened(work(12), using)
    assert alone.compact(to=600).rung in {"extractive", "mechanical"}
    alone.append(*work(6, start=30))
    alone.answerer = Answerer(model=Telling())
    assert alone.compact(to=600).rung == "model", "from the moment it is given"

    async def tells(ask: Summarize) -> Answer:
        return Telling().answer(ask)

    awaited = AsyncSession(opened(work(12), using), answer=tells)
    AsyncSession(awaited.session)  # another one beside it, which has none, takes nothing away
    assert asyncio.run(awaited.compact(to=600)).rung == "model"


@pytest.mark.parametrize("name", ["nonsense", ""])
def test_a_pin_must_name_one_message(name: str) -> None:
    with pytest.raises(NotFound, match="it must be one"):
        opened(work(2)).pin(name)


def test_what_is_hidden_is_found_and_read_back_exactly() -> None:
    history = [user("Find out."), *read(1, "a.py"), called("z", "sh"), gave("z", "the port is 49213"), *work(12)]
    session = opened(history)
    block = session.compact(to=700).block
    assert history[4] not in session.view.messages()
    hit = next(h for h in session.search("port 49213") if h.kind != "block")
    assert session.expand(hit.entry)[0].message == history[4]
    assert history[4] in [line.message for line in session.expand(block, deep=True)]


def test_an_entry_of_another_session_is_not_read() -> None:
    store = MemoryStore()
    mine, other = (Session.create(Place(store, name), policy()) for name in ("mine", "other"))
    (entry,) = other.append(user("a secret"))
    with pytest.raises(NotFound, match="in this session"):
        mine.expand(entry)


def test_preview_changes_nothing_and_says_what_compact_does() -> None:
    session = opened(work(12), policy(models=("m",)), answerer=Answerer(Refusing()))
    held = entries(session)
    decision, plan = session.preview(to=900)
    assert decision.act
    assert plan is not None
    assert entries(session) == held
    session.answerer = Answerer(Telling())
    assert session.compact(to=900).tokens_after <= plan.tokens_after


class Refusing:
    """A model that no one may ask."""

    def answer(self, ask: Summarize) -> Answer:
        raise AssertionError(f"a model was asked ({ask.purpose})")


def test_no_model_is_called_except_to_compact() -> None:
    session = opened(work(12), policy(models=("m",)), answerer=Answerer(Telling()))
    block = session.compact(to=700).block
    session.answerer = Answerer(Refusing())
    session.preview(to=600)
    session.reading(window=10_000)
    session.search("part")
    session.expand(block, deep=True)
    session.undo()
    session.refresh()
    session.sync(work(12))
    assert session.place.store.verify(session.place.namespace) == []


def test_two_sessions_on_one_file_lose_nothing(tmp_path: Path) -> None:
    one = Session.create(Place(SqliteStore(tmp_path / "log.db"), "s"), policy())
    one.append(*work(3))
    two = Session(Place(SqliteStore(tmp_path / "log.db"), "s"), policy())
    one.append(user("from one"))
    with pytest.raises(LostRace):
        two.append(user("from two"))
    assert two.view.messages() == work(3)
    two.refresh()
    two.append(user("from two"))
    assert two.view.messages() == [*work(3), user("from one"), user("from two")]
    assert one.refresh().messages() == two.view.messages()
    one.place.store.close()
    two.place.store.close()


def test_a_lost_race_leaves_no_sizes_behind() -> None:
    """The position is given again, to another message: its size must be its own."""

    session = opened([user("go")])
    good = session.place.store
    session._head.store = Full()
    with pytest.raises(StoreUnwritable):
        session.append(user("word " * 5_000))
    session._head.store = good
    session.append(user("b"))
    assert session.reading(window=1_000).tokens < 100
    assert session.reading(window=1_000) == again(session).reading(window=1_000)


class Full(MemoryStore):
    """A store whose disk is full."""

    def append(self, *_: object, **__: object) -> None:
        raise StoreUnwritable("the disk is full")


def test_many_threads_append_read_and_compact_at_once() -> None:
    session = opened(work(12))
    errors: list[BaseException] = []

    def writer(number: int) -> None:
        try:
            for n in range(20):
                session.append(user(f"note {number}.{n}"))
                session.reading(window=20_000)
        except BaseException as exc:  # noqa: BLE001 - whatever it is, the test shows it
            errors.append(exc)

    threads = [threading.Thread(target=writer, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    outcomes = [session.compact(to=to) for to in (3_000, 2_000, 1_500)]
    for thread in threads:
        thread.join()
    assert errors == []
    assert {o.status for o in outcomes} <= {"compacted", "superseded", "nothing"}
    assert outcomes[0].status == "compacted"
    notes = {m.parts[0] for e in entries(session) if (m := making.message_in(e)) is not None}
    assert {Text(f"note {t}.{n}") for t in range(4) for n in range(20)} <= notes
    opened_anew = again(session)
    assert opened_anew.view.messages() == session.view.messages()
    assert opened_anew.reading(window=20_000) == session.reading(window=20_000)


def test_the_reading_under_a_compaction_is_not_disturbed_by_an_append() -> None:
    session = opened(work(12))
    effects, _ = session.effects(session.call(to=700))
    session.append(user("meanwhile"))
    before = session.reading(window=9_000)
    effects.close()
    assert session.reading(window=9_000) == before == again(session).reading(window=9_000)


def test_the_sync_api_works_inside_a_running_loop() -> None:
    async def inside() -> str:
        session = opened(work(12))
        return session.compact(to=900).status

    assert asyncio.run(inside()) == "compacted"


def test_async_compactions_of_one_session_run_one_at_a_time() -> None:
    model = Telling()
    session = opened(work(12), policy(models=("m",)), answerer=Answerer(model))
    running: list[int] = []

    async def slow(ask: Summarize) -> Answer:
        running.append(1)
        assert len(running) == 1
        await asyncio.sleep(0.02)
        running.pop()
        return model.answer(ask)

    async def twice() -> list[str]:
        both = [AsyncSession(session, answer=slow).compact(to=700) for _ in range(2)]
        return [o.status for o in await asyncio.gather(*both)]

    assert sorted(asyncio.run(twice())) == ["compacted", "nothing"]
    assert len(blocks(session)) == 1


def test_a_cancelled_wait_for_another_compaction_holds_nothing_up() -> None:
    session = opened(work(12))

    async def waits() -> None:
        session.compacting.acquire()
        task = asyncio.create_task(AsyncSession(session).compact(to=700))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        session.compacting.release()

    asyncio.run(waits())
    assert blocks(session) == []
    assert session.compact(to=700).status == "compacted"


def test_a_calibrated_reading_survives_reopening_and_a_block() -> None:
    session = opened(model="gpt-x")
    prompt = 4_000
    for number in range(8):
        session.append(*read(number, f"a{number}.py", words=30)) if number else session.append(user("go on"))
        size = sum(session.sizes().values())
        session.used(Usage(prompt + round(1.2 * size), model="gpt-x"))
        session.append(said(f"answer {number}"))
    reading = session.reading(window=100_000)
    assert reading.source == "reported"
    assert reading.slope == pytest.approx(1.2, rel=0.02)
    assert reading == again(session).reading(window=100_000)
    session.compact(to=2_000)
    reading = session.reading(window=100_000)
    assert reading.source == "calibrated"
    assert reading.tokens == pytest.approx(prompt + 1.2 * sum(session.sizes().values()), rel=0.02)
    assert reading == again(session).reading(window=100_000)
    session.append(user("next"))
    session.undo()
    assert session.reading(window=100_000) == again(session).reading(window=100_000)


def test_noted_usage_goes_to_the_answer_of_its_request_whatever_follows_in_the_same_append() -> None:
    session = opened([user("go")])
    session.used(Usage(5_000))
    session.append(*read(1, "a.py"))
    reading = session.reading(window=10_000)
    assert reading.source == "reported"
    assert reading.tokens > 5_000
    session.append(said("done"))
    assert sum(1 for e in entries(session) if getattr(e, "usage", None)) == 1


def test_a_floor_that_reports_hold_already_is_not_counted_twice() -> None:
    session = opened([user("go " * 1_000)])
    assert session.reading(window=100_000, floor=5_000).tokens > 5_000
    session.append(said("ok"), usage=Usage(6_000))
    assert session.reading(window=100_000, floor=5_000).tokens == pytest.approx(6_000, abs=20)


def test_without_target_and_window_the_error_names_both() -> None:
    with pytest.raises(UsageError, match="neither a target nor a window"):
        opened(work(2), model="nobody-knows-this").compact()


def test_a_block_is_superseded_when_its_range_changed_meanwhile() -> None:
    session = opened(work(12))
    effects, view = session.effects(session.call(to=700))
    verdict = making.finished(effects)
    again(session).compact(to=2_000)
    outcome = session.install(verdict, view)
    assert outcome.status == "superseded"
    assert outcome.tokens_after == outcome.tokens_before
    assert len(blocks(session)) == 1
    assert replace(outcome, status="compacted").block == ""


def test_a_block_goes_on_the_new_leaf_when_only_messages_came() -> None:
    session = opened(work(12))
    effects, view = session.effects(session.call(to=700))
    verdict = making.finished(effects)
    again(session).append(user("meanwhile"))
    assert session.install(verdict, view).status == "compacted"
    assert session.view.messages()[-1] == user("meanwhile")


@pytest.mark.parametrize("to", [0, -4, 5.5, "10%"])
def test_a_target_that_is_no_size_is_refused(to: object) -> None:
    session = opened(work(4))
    with pytest.raises(UsageError, match="a target is a whole number of tokens, at least 1"):
        session.compact(to=to)  # type: ignore[arg-type]
