"""Hooks and events: who is told what, in which order, and that nobody who is told can spoil anything."""

from __future__ import annotations

import asyncio
import threading

from tenfold.core.record.ask import Answer, ConsultAsk, Outcome
from tenfold.core.record.block import Block
from tenfold.core.record.token_reading import ProviderTokens
from tenfold.events import CompactionEnd, CompactionFailure, CompactionSkip, CompactionStart, CompactionWarning, Event
from tenfold.models.scripted_model import ScriptedModel, ScriptedReply
from tenfold.session import AsyncSession
from tenfold.session.drive import Answerer
from tests.engine.making import build_policy, make_work, open_session


def get_kinds(told: list[Event | str]) -> list[str]:
    return [each if isinstance(each, str) else type(each).__name__ for each in told]


def test_a_compaction_is_bracketed_and_hooks_stand_around_it() -> None:
    told: list[Event | str] = []

    def note_before(consult: ConsultAsk) -> None:
        told.append(f"before {consult.tokens_before}")

    def note_after(outcome: Outcome, block: Block) -> None:
        assert outcome.block == block.id
        told.append("after")

    session = open_session(
        make_work(20),
        answerer=Answerer(before_hooks=(note_before,), after_hooks=(note_after,), listeners=(told.append,)),
    )
    outcome = session.compact(to=900)
    assert get_kinds(told) == [f"before {outcome.tokens_before}", "CompactionStart", "CompactionEnd", "after"]
    started, ended = told[1], told[2]
    assert isinstance(started, CompactionStart)
    assert isinstance(ended, CompactionEnd)
    assert (started.tokens, started.target, started.session) == (outcome.tokens_before, 900, session.address.session)
    assert started.plan.startswith("plan: ")
    assert ended.outcome == outcome


def test_a_cancelled_one_never_starts() -> None:
    told: list[Event | str] = []
    cancels = Answerer(before_hooks=(lambda _: Answer(cancel=True, error="not now"),), listeners=(told.append,))
    assert open_session(make_work(20), answerer=cancels).compact(to=900).status == "cancelled"
    assert get_kinds(told) == ["CompactionSkip"]


def test_a_failed_one_says_so() -> None:
    told: list[Event | str] = []
    answerer = Answerer(ScriptedModel([ScriptedReply(error="down")], repeat=True), listeners=(told.append,))
    session = open_session(make_work(30), build_policy(models=("m",), on_failure="abort"), answerer=answerer)
    outcome = session.compact(to=900)
    assert outcome.status == "failed"
    assert get_kinds(told) == ["CompactionStart", "CompactionFailure"]
    assert isinstance(told[1], CompactionFailure)
    assert told[1].outcome == outcome


def test_a_quiet_check_is_no_news_a_warning_is_and_so_is_a_refusal() -> None:
    told: list[Event | str] = []
    session = open_session(make_work(30), answerer=Answerer(listeners=(told.append,)))
    tokens = session.take_reading(window=1_000_000).tokens
    session.compact(window=tokens * 10)
    assert told == []
    window = int(tokens / 0.75)
    limits = session.policy.trigger.get_limits(window, output_reserve=0, floor=ProviderTokens(0))
    assert limits.warning <= tokens < limits.soft
    session.compact(window=window)
    (warned,) = told
    assert isinstance(warned, CompactionWarning)
    assert (warned.tokens, warned.limit, warned.window) == (tokens, limits.soft, window)
    assert 0.7 < warned.fill < 0.8
    session.compact(to=tokens * 2)
    assert get_kinds(told) == ["CompactionWarning", "CompactionSkip"]
    assert isinstance(told[1], CompactionSkip)
    assert told[1].outcome.status == "nothing"


def test_the_async_side_tells_the_same() -> None:
    told: list[Event | str] = []
    session = open_session(make_work(20), answerer=Answerer(listeners=(told.append,)))
    asyncio.run(AsyncSession(session).compact(to=900))
    assert get_kinds(told) == ["CompactionStart", "CompactionEnd"]


async def abort_while(session: AsyncSession, reached: threading.Event, aborted: threading.Event) -> str:
    """Aborts a compaction once somebody in it is `reached`, who is then told, and gives its status."""
    task = asyncio.create_task(session.compact(to=900))
    await asyncio.to_thread(reached.wait, 10)
    session.abort()
    status = (await task).status
    aborted.set()
    return status


def test_one_that_is_aborted_while_a_hook_still_thinks_is_never_told_to_have_started() -> None:
    told: list[Event | str] = []
    asked, aborted = threading.Event(), threading.Event()

    def think(_: ConsultAsk) -> None:
        asked.set()
        assert aborted.wait(10)

    answerer = Answerer(before_hooks=(think,), listeners=(told.append,))
    session = AsyncSession(open_session(make_work(20), answerer=answerer))
    assert asyncio.run(abort_while(session, asked, aborted)) == "cancelled"  # `run` waits for the hook's thread
    assert get_kinds(told) == []


def test_one_that_is_aborted_while_a_listener_hears_of_its_start_is_told_to_have_ended() -> None:
    told: list[Event | str] = []
    heard, aborted = threading.Event(), threading.Event()

    def listen(event: Event) -> None:
        if isinstance(event, CompactionStart):
            heard.set()
            assert aborted.wait(10)
        told.append(event)

    session = AsyncSession(open_session(make_work(20), answerer=Answerer(listeners=(listen,))))
    assert asyncio.run(abort_while(session, heard, aborted)) == "cancelled"
    assert get_kinds(told) == ["CompactionStart", "CompactionSkip"]
