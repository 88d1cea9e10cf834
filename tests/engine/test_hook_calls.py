"""Hooks and listeners that are coroutine functions: on which loop they run, and that they may use the session."""

from __future__ import annotations

import asyncio

from tenfold.config.extensions import Extension
from tenfold.core.record.ask import Answer, ConsultAsk, Outcome
from tenfold.core.record.block import Block
from tenfold.events import CompactionEnd, CompactionWarning
from tenfold.session import AsyncSession
from tenfold.session.concurrency import wait_for_result
from tenfold.session.drive import Answerer
from tests.designs.tail.making import WINDOW, build_manual_call, get_blocks, make_exchanges, make_session


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def test_a_coroutine_is_waited_for_without_a_loop_and_on_the_thread_of_one() -> None:
    assert wait_for_result(double(4)) == 8
    assert wait_for_result("as it is") == "as it is"

    async def wait_here() -> object:
        return wait_for_result(double(5))

    assert asyncio.run(wait_here()) == 10


def make_extension(heard: list[str]) -> Extension:
    extension = Extension("awaited")

    @extension.before
    async def add_focus(consult: ConsultAsk) -> Answer:
        await asyncio.sleep(0)
        heard.append(consult.demand)
        return Answer(focus="the parser")

    @extension.after
    async def note_block(outcome: Outcome, block: Block) -> None:
        await asyncio.sleep(0)
        heard.append(f"{outcome.status} {block.policy}")

    @extension.on(CompactionEnd)
    async def note_end(event: CompactionEnd) -> None:
        await asyncio.sleep(0)
        heard.append(f"ended {event.session}")

    return extension


def test_hooks_and_listeners_of_both_drivers_may_be_coroutines() -> None:
    for is_async in (False, True):
        heard: list[str] = []
        session = make_session(make_exchanges(9))
        session.compactor.use_answerer(session.compactor.answerer.with_extensions([make_extension(heard)]))
        call = build_manual_call(session)
        outcome = asyncio.run(AsyncSession(session).compact(call)) if is_async else session.compact(call)
        assert outcome.status == "compacted"
        assert heard == ["manual", "ended s", "compacted tail"]
        assert len(get_blocks(session)) == 1


def test_a_listener_on_another_thread_may_use_the_session_it_is_told_of() -> None:
    """The warning was told while the conversation was locked: a coroutine that read the session waited for ever."""
    session = make_session(make_exchanges(5))
    sizes: list[int] = []
    watch = Extension("watch")

    @watch.on(CompactionWarning)
    async def read(_event: CompactionWarning) -> None:
        reading = await AsyncSession(session).take_reading(window=WINDOW)
        sizes.append(reading.tokens)

    session.compactor.use_answerer(Answerer().with_extensions([watch]))
    assert session.compact(window=WINDOW).status == "nothing"
    assert len(sizes) == 1
