"""Work on a session that waits until its request was sent on."""

from __future__ import annotations

import asyncio

import pytest

from tenfold.apps.gateway.lanes import LaterWork


def test_it_begins_by_itself_and_only_once() -> None:
    done: list[str] = []

    async def work() -> str:
        done.append("done")
        return "result"

    async def run() -> None:
        later = LaterWork(work, delay=0.01)
        assert done == []
        while not done:  # noqa: ASYNC110 - it begins by itself
            await asyncio.sleep(0.01)
        assert await later.start() == "result"
        assert done == ["done"]

    asyncio.run(run())


def test_it_is_done_after_what_came_before_even_if_that_failed() -> None:
    done: list[int] = []

    async def fail() -> int:
        await asyncio.sleep(0.01)
        done.append(1)
        raise ValueError("the first one fails")

    async def work() -> int:
        done.append(2)
        return 2

    async def run() -> None:
        first = LaterWork(fail, delay=60)
        second = LaterWork(work, first, delay=60)
        assert await second.start() == 2
        assert done == [1, 2]
        await first.finish()
        with pytest.raises(ValueError, match="the first one fails"):
            await first.start()

    asyncio.run(run())
