"""Another process writes to the store and does not end: no client waits for its end."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import httpx

from tenfold.apps.gateway.lanes import Lane, try_lock
from tenfold.store.base import Store
from tenfold.store.location import open_store
from tests.gateway.conversations import Talk, read_stored
from tests.gateway.loose_sessions import LooseSessions, go_on
from tests.gateway.program import ServeProgram
from tests.gateway.serving import RawUpstream, wait_until


@contextmanager
def lock_store(path: Path) -> Iterator[None]:
    """Another process begins to write."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def test_every_client_is_answered_while_the_store_is_locked(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    talks = [Talk("chat", f"t{number}") for number in range(24)]
    with RawUpstream() as upstream, ServeProgram(path, upstream.url, "--window", "16000") as program:
        program.wait_until_ready()
        for talk in talks[:12]:  # these are known before, the others come while it is locked
            talk.add_user()
            talk.add_steps(12, 300)
            assert talk.send(program.url).status_code == 200
        with lock_store(path):
            for talk in talks:
                talk.add_user()
                talk.add_steps(2, 300)
            with ThreadPoolExecutor(24) as pool:
                answers = list(pool.map(lambda talk: talk.send(program.url), talks))
            assert httpx.get(f"{program.url}/healthz", timeout=500).status_code == 200
            assert {answer.status_code for answer in answers} == {200}
            assert {answer.headers["x-tenfold-bypass"] for answer in answers[12:]} == {
                "a fault of the gateway: LockedStore"
            }
            assert {got.body for got in upstream.requests} >= {talk.build_body() for talk in talks}
        time.sleep(1.5)
        for talk in talks:
            talk.add_step()
            answer = talk.send(program.url)
            assert "x-tenfold-bypass" not in answer.headers
        program.terminate()
        program.wait(500)
    with closing(open_store(path)) as store:
        stored = read_stored(store).values()
    assert sum(stored, Counter()) == Counter(mark for talk in talks for mark in talk.marks)


PATIENCE = 20.0
"""Seconds that a write waits. What stalls the event loop for as long makes the write fail."""


def test_a_write_that_waits_for_another_process_stalls_nobody_else(tmp_path: Path) -> None:
    """The next request of the same session waits in a thread, with a view in force and without."""
    path = tmp_path / "s.db"
    small, large, other = (Talk("chat", name) for name in ("small", "large", "other"))

    async def run(store: Store) -> None:
        async with httpx.AsyncClient(timeout=500) as client:
            sessions = LooseSessions(store, client)
            for talk, steps in ((small, 2), (large, 30), (other, 2)):
                talk.add_user()
                talk.add_steps(steps, 300 if talk is large else 40)
            lanes = [[await sessions.learn(go_on(talk)) for _ in range(4)][-1] for talk in (small, large, other)]
            assert [lane.sent_view is not None for lane in lanes] == [False, True, False]
            with lock_store(path):
                first = [await sessions.prepare(go_on(talk)) for talk in (small, large)]
                writing = [each.pending.start() for each in first if each.pending is not None]
                assert len(writing) == 2, "both were sent before their sessions were looked at"
                await asyncio.to_thread(wait_until, lambda: all(is_held(lane) for lane in lanes[:2]))
                waiting = [asyncio.ensure_future(sessions.prepare(go_on(talk))) for talk in (small, large)]
                for _ in range(200):  # turns of the loop: what blocks it holds the lock below until the writes fail
                    await asyncio.sleep(0)
                served = await sessions.prepare(go_on(other))
                assert served.sent is served.original
                assert not any(each.done() for each in (*writing, *waiting))
            await asyncio.gather(*writing, *waiting)
            await sessions.sessions.lanes.finish_later_work()

    with closing(open_store(path, busy_seconds=PATIENCE)) as store:
        asyncio.run(run(store))
        stored = read_stored(store).values()
    assert sum(stored, Counter()) == Counter(mark for talk in (small, large, other) for mark in talk.marks)


def is_held(lane: Lane) -> bool:
    """Whether another thread holds the lock of a lane's session."""
    with try_lock(lane) as is_free:
        return not is_free
