"""A session as a host uses it: append, read, undo, pin, find again, from several threads and over one file."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from msgspec.structs import replace

from tenfold.core.record.ask import Answer, SummaryAsk
from tenfold.core.record.block import Block, Replacement, Substitute
from tenfold.core.record.entry import Usage
from tenfold.core.record.message import Message, Text
from tenfold.errors import NotFoundError, StoreError, UnwritableStore, UsageError
from tenfold.session import AsyncSession, Session, SessionAddress
from tenfold.session.concurrency import run_uninterrupted
from tenfold.session.drive import Answerer
from tenfold.store.sqlite.store import SqliteStore
from tests.engine import making
from tests.engine.making import (
    Telling,
    build_policy,
    get_blocks,
    get_entries,
    make_call,
    make_read_step,
    make_reply,
    make_result,
    make_user_message,
    make_work,
    open_session,
    reopen_session,
)


def test_nothing_appended_is_nothing_written() -> None:
    session = open_session([make_user_message("go")])
    assert session.append() == []
    assert len(get_entries(session)) == 1


def test_undo_gives_back_the_view_and_says_which_block() -> None:
    session = open_session(make_work(12))
    before = session.view.get_messages()
    block = session.compact(to=900).block
    assert session.view.get_messages() != before
    assert session.undo() == block
    assert session.view.get_messages() == before
    assert reopen_session(session).view.get_messages() == before
    with pytest.raises(UsageError, match="nothing to undo"):
        session.undo()


def test_an_older_compaction_is_undone_and_a_newer_one_that_does_not_build_on_it_stays() -> None:
    session = open_session(make_work(30))
    first, second = (append_summary(session, at, at + 3) for at in (1, 9))
    both = session.view.get_messages()
    assert session.undo(first) == first
    assert "summary of 9" in str(session.view.get_messages())
    assert "summary of 1 " not in str(session.view.get_messages())
    reopened = reopen_session(session)
    assert reopened.view.get_messages() == session.view.get_messages() != both
    assert session.address.store.verify(session.address.namespace) == []
    with pytest.raises(NotFoundError, match="in force with an id that begins with"):
        session.undo(second)  # it stays as a copy, which has an id of its own
    session.undo()
    assert session.view.get_messages() == open_session(make_work(30)).view.get_messages()


def append_summary(session: Session, first: int, last: int) -> str:
    """Appends a Block over whole units and returns its id."""
    view, conversation = session.view, session.conversation
    units = [unit for unit in view.units if unit.last >= first and unit.first <= last]
    first, last = units[0].first, units[-1].last
    said = Message("user", (Text(f"summary of {first} "),), "tenfold")
    covered = view.get_slice(first, last)
    assert covered is not None
    replacement = Replacement(first, last, covered, (Substitute(said),), "summary")
    stamps, counter = conversation.stamps, session.policy.counter.name
    block = Block(
        stamps.new_id(), session.leaf, "", stamps.now(), "own", counter, (replacement,),
        previous_block=conversation.find_newest_block_id(),
    )  # fmt: skip
    assert conversation.append_result(block)
    return block.id


def test_pins_hold_through_compactions_with_their_whole_step() -> None:
    session = open_session(make_work(12))
    messages = session.view.get_messages()
    pinned = next(i for i, m in enumerate(messages) if m.role == "tool" and i > 4)
    entry = session.view.path.get_entry(pinned).id
    assert session.pin(entry) == entry
    session.compact(to=1_500)
    shown = session.view.get_messages()
    at = shown.index(messages[pinned])
    assert shown[at - 1] == messages[pinned - 1]
    assert session.conversation.find_violations("anthropic") == ()
    session.pin(entry, on=False)
    session.append(*make_work(6, start=30))
    session.compact(to=700)
    assert messages[pinned] not in session.view.get_messages()


def test_a_model_given_to_a_session_writes_also_where_its_policy_names_none() -> None:
    using = build_policy()
    assert not using.summary.models
    session = open_session(make_work(12), using, answerer=Answerer(model=Telling()))
    outcome = session.compact(to=600)
    assert (outcome.rung, outcome.spent.calls) == ("model", 1)
    alone = open_session(make_work(12), using)
    assert alone.compact(to=600).rung in {"extractive", "mechanical"}
    alone.append(*make_work(6, start=30))
    alone.compactor.use_answerer(Answerer(model=Telling()))
    assert alone.compact(to=600).rung == "model", "from the moment it is given"

    async def answer_ask(ask: SummaryAsk) -> Answer:
        return Telling().answer(ask)

    awaited = AsyncSession(open_session(make_work(12), using), answer=answer_ask)
    AsyncSession(awaited.session)  # another one beside it, which has none, takes nothing away
    assert asyncio.run(awaited.compact(to=600)).rung == "model"


@pytest.mark.parametrize("name", ["nonsense", ""])
def test_a_pin_must_name_one_message(name: str) -> None:
    with pytest.raises(NotFoundError, match="it must be one"):
        open_session(make_work(2)).pin(name)


def test_what_is_hidden_is_found_and_read_back_exactly() -> None:
    history = [
        make_user_message("Find out."),
        *make_read_step(1, "a.py"),
        make_call("z", "sh"),
        make_result("z", "the port is 49213"),
        *make_work(12),
    ]
    session = open_session(history)
    block = session.compact(to=700).block
    assert history[4] not in session.view.get_messages()
    hit = next(h for h in session.search("port 49213") if h.kind != "block")
    assert session.expand(hit.entry)[0].message == history[4]
    assert history[4] in [line.message for line in session.expand(block, deep=True)]


def test_preview_changes_nothing_and_says_what_compact_does() -> None:
    session = open_session(make_work(12), build_policy(models=("m",)), answerer=Answerer(Refusing()))
    held = get_entries(session)
    decision, plan = session.preview(to=900)
    assert decision.should_act
    assert plan is not None
    assert get_entries(session) == held
    session.compactor.use_answerer(Answerer(Telling()))
    assert session.compact(to=900).tokens_after <= plan.tokens_after


class Refusing:
    """A model that no one may ask."""

    def answer(self, ask: SummaryAsk) -> Answer:
        raise AssertionError(f"a model was asked ({ask.purpose})")


def test_a_lost_race_leaves_no_sizes_behind() -> None:
    """The position is given again, to another message: its size must be its own."""

    store = SometimesFull(":memory:")
    session = Session.create(SessionAddress(store, "s"), build_policy())
    session.append(make_user_message("go"))
    store.is_full = True
    with pytest.raises(UnwritableStore):
        session.append(make_user_message("word " * 5_000))
    store.is_full = False
    session.append(make_user_message("b"))
    assert session.take_reading(window=1_000).tokens < 100
    assert session.take_reading(window=1_000) == reopen_session(session).take_reading(window=1_000)


class SometimesFull(SqliteStore):
    """A store whose disk is full while `is_full`."""

    is_full = False

    def append(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 - whatever a store is given
        if self.is_full:
            raise UnwritableStore("the disk is full")
        super().append(*args, **options)


def test_many_threads_append_read_and_compact_at_once() -> None:
    session = open_session(make_work(12))
    errors: list[BaseException] = []

    def write_notes(number: int) -> None:
        try:
            for n in range(20):
                session.append(make_user_message(f"note {number}.{n}"))
                session.take_reading(window=20_000)
        except BaseException as exc:  # noqa: BLE001 - whatever it is, the test shows it
            errors.append(exc)

    threads = [threading.Thread(target=write_notes, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    outcomes = [session.compact(to=to) for to in (3_000, 2_000, 1_500)]
    for thread in threads:
        thread.join()
    assert errors == []
    assert {o.status for o in outcomes} <= {"compacted", "superseded", "nothing"}
    assert outcomes[0].status == "compacted"
    notes = {m.parts[0] for e in get_entries(session) if (m := making.find_message(e)) is not None}
    assert {Text(f"note {t}.{n}") for t in range(4) for n in range(20)} <= notes
    opened_anew = reopen_session(session)
    assert opened_anew.view.get_messages() == session.view.get_messages()
    assert opened_anew.take_reading(window=20_000) == session.take_reading(window=20_000)


def test_the_reading_under_a_compaction_is_not_disturbed_by_an_append() -> None:
    session = open_session(make_work(12))
    effects, _ = session.compactor.get_effects(session.compactor.build_call(to=700))
    session.append(make_user_message("meanwhile"))
    before = session.take_reading(window=9_000)
    effects.close()
    assert session.take_reading(window=9_000) == before == reopen_session(session).take_reading(window=9_000)


def test_the_sync_api_works_inside_a_running_loop() -> None:
    async def compact_inside_loop() -> str:
        session = open_session(make_work(12))
        return session.compact(to=900).status

    assert asyncio.run(compact_inside_loop()) == "compacted"


def test_async_compactions_of_one_session_run_one_at_a_time() -> None:
    model = Telling()
    session = open_session(make_work(12), build_policy(models=("m",)), answerer=Answerer(model))
    running: list[int] = []

    async def answer_slowly(ask: SummaryAsk) -> Answer:
        running.append(1)
        assert len(running) == 1
        await asyncio.sleep(0.02)
        running.pop()
        return model.answer(ask)

    async def compact_twice() -> list[str]:
        both = [AsyncSession(session, answer=answer_slowly).compact(to=700) for _ in range(2)]
        return [o.status for o in await asyncio.gather(*both)]

    assert sorted(asyncio.run(compact_twice())) == ["compacted", "nothing"]
    assert len(get_blocks(session)) == 1


def test_a_cancelled_wait_for_another_compaction_holds_nothing_up() -> None:
    session = open_session(make_work(12))

    async def cancel_wait() -> None:
        with session.compactor.lock:
            task = asyncio.create_task(AsyncSession(session).compact(to=700))
            await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(cancel_wait())
    assert get_blocks(session) == []
    assert session.compact(to=700).status == "compacted"


@pytest.mark.parametrize("ends_loop", [False, True])
def test_neither_a_cancellation_nor_what_failed_meanwhile_is_lost(
    caplog: pytest.LogCaptureFixture,
    ends_loop: bool,  # noqa: FBT001 - a parameter
) -> None:
    """Would catch an append that failed and that nobody hears of, since its caller was cancelled meanwhile."""
    begun, may_end = threading.Event(), threading.Event()
    ended: list[BaseException] = []

    def fail_to_append() -> None:
        begun.set()
        may_end.wait(60)
        raise StoreError("the disk is full")

    async def append() -> None:
        try:
            await run_uninterrupted(fail_to_append)
        except BaseException as exc:
            ended.append(exc)
            raise

    async def cancel_append() -> None:
        task = asyncio.create_task(append())
        await asyncio.to_thread(begun.wait)
        asyncio.get_running_loop().call_later(0.1, may_end.set)
        if ends_loop:  # which cancels all its tasks
            return
        task.cancel()
        await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(cancel_append())
    (error,) = ended
    assert isinstance(error, asyncio.CancelledError)
    assert isinstance(error.__cause__, StoreError)
    assert [record.message for record in caplog.records if record.name == "tenfold"] == [
        "work whose caller was cancelled failed: StoreError: the disk is full"
    ]


def test_a_calibrated_reading_survives_reopening_and_a_block() -> None:
    session = open_session(model="gpt-x")
    prompt = 4_000
    for number in range(8):
        session.append(*make_read_step(number, f"a{number}.py", words=30)) if number else session.append(
            make_user_message("go on")
        )
        size = sum(session.conversation.get_message_sizes().values())
        session.requests.record_usage(Usage.build(prompt + round(1.2 * size), model="gpt-x"))
        session.append(make_reply(f"answer {number}"))
    reading = session.take_reading(window=100_000)
    assert reading.source == "reported"
    assert reading.slope == pytest.approx(1.2, rel=0.02)
    assert reading == reopen_session(session).take_reading(window=100_000)
    session.compact(to=2_000)
    reading = session.take_reading(window=100_000)
    assert reading.source == "calibrated"
    assert reading.tokens == pytest.approx(
        prompt + 1.2 * sum(session.conversation.get_message_sizes().values()), rel=0.02
    )
    assert reading == reopen_session(session).take_reading(window=100_000)
    session.append(make_user_message("next"))
    session.undo()
    assert session.take_reading(window=100_000) == reopen_session(session).take_reading(window=100_000)


def test_noted_usage_goes_to_the_answer_of_its_request_whatever_follows_in_the_same_append() -> None:
    session = open_session([make_user_message("go")])
    session.requests.record_usage(Usage.build(5_000))
    session.append(*make_read_step(1, "a.py"))
    reading = session.take_reading(window=10_000)
    assert reading.source == "reported"
    assert reading.tokens > 5_000
    session.append(make_reply("done"))
    assert sum(1 for e in get_entries(session) if getattr(e, "usage", None)) == 1


def test_a_floor_that_reports_hold_already_is_not_counted_twice() -> None:
    session = open_session([make_user_message("go " * 1_000)])
    assert session.take_reading(window=100_000, floor=5_000).tokens > 5_000
    session.append(make_reply("ok"), usage=Usage.build(6_000))
    assert session.take_reading(window=100_000, floor=5_000).tokens == pytest.approx(6_000, abs=20)


def test_a_block_is_superseded_when_its_range_changed_meanwhile() -> None:
    session = open_session(make_work(12))
    effects, view = session.compactor.get_effects(session.compactor.build_call(to=700))
    verdict = making.run_effects(effects)
    reopen_session(session).compact(to=2_000)
    outcome = session.compactor.apply_result(verdict, view)
    assert outcome.status == "superseded"
    assert outcome.tokens_after == outcome.tokens_before
    assert len(get_blocks(session)) == 1
    assert replace(outcome, status="compacted").block == ""


def test_a_block_goes_on_the_new_leaf_when_only_messages_came() -> None:
    session = open_session(make_work(12))
    effects, view = session.compactor.get_effects(session.compactor.build_call(to=700))
    verdict = making.run_effects(effects)
    reopen_session(session).append(make_user_message("meanwhile"))
    assert session.compactor.apply_result(verdict, view).status == "compacted"
    assert session.view.get_messages()[-1] == make_user_message("meanwhile")
