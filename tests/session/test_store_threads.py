"""Coroutines that wait for PostgreSQL take a thread for each of its connections, and none for each call."""

from __future__ import annotations

import asyncio
import threading

import psycopg

from tenfold.core.record.message import Message, Text
from tenfold.session import AsyncSession, SessionAddress
from tenfold.store.location import open_store
from tenfold.store.postgres.connections import POOL_SIZE
from tests.engine.making import build_policy
from tests.postgres import create_database

CALLS = 150


def test_many_calls_that_wait_take_no_thread_each_and_hold_nobody_up() -> None:
    with create_database() as url:
        store = open_store(url, busy_seconds=60)

        async def work() -> tuple[int, int]:
            sessions = [await AsyncSession.create(SessionAddress(store, f"s{n}"), build_policy()) for n in range(CALLS)]
            before = threading.active_count()
            with psycopg.connect(url) as other:  # a slow database: nobody gets to write
                other.execute("SET tenfold.namespace = 'all'")
                other.execute("LOCK TABLE tenfold.head IN ACCESS EXCLUSIVE MODE")
                message = Message("user", (Text("Where is my parcel?"),), "human")
                waiting = [asyncio.ensure_future(each.append(message)) for each in sessions]
                await asyncio.sleep(0.5)
                assert not any(each.done() for each in waiting)
                threads = threading.active_count() - before
                assert await asyncio.to_thread(lambda: "free") == "free"  # the loop and its own threads go on
                assert not any(each.done() for each in waiting)
                other.rollback()
            await asyncio.gather(*waiting)
            return threads, sum(each.leaf is not None for each in sessions)

        try:
            threads, done = asyncio.run(work())
        finally:
            store.close()
    assert done == CALLS
    assert threads <= POOL_SIZE + 4, "a thread for each connection, and those that open connections"
