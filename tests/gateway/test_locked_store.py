"""Another process writes to the store and does not end: no client waits for its end."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import httpx

from tenfold.store.location import open_store
from tests.gateway.conversations import Talk, read_stored
from tests.gateway.program import ServeProgram
from tests.gateway.serving import RawUpstream


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
            assert httpx.get(f"{program.url}/healthz", timeout=60).status_code == 200
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
        program.wait(60)
    with closing(open_store(path)) as store:
        stored = read_stored(store).values()
    assert sum(stored, Counter()) == Counter(mark for talk in talks for mark in talk.marks)
