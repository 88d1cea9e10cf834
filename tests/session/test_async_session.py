"""A session has few names. `AsyncSession` has them with the same signatures, and nothing of it holds the event loop."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tenfold.compaction.engine.call import Call
from tenfold.core.record.message import get_text
from tenfold.errors import UsageError
from tenfold.session import AsyncSession, Session, SessionAddress
from tenfold.store.sqlite.store import SqliteStore
from tests.engine.making import build_policy, make_reply, make_user_message, make_work, open_session

MODEL = "gpt-4o"
TURNS = 20
PATIENCE = 60.0
"""Seconds after which a lock is given back though the loop has not turned: the test then fails and does not hang."""


PARTS = {"conversation", "compactor", "requests"}
"""What a session is made of. `AsyncSession.session` has them."""


def list_names(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def test_a_session_has_what_a_host_needs_and_no_more() -> None:
    assert len(list_names(Session) | {name for name in vars(open_session()) if not name.startswith("_")}) <= 28


def test_every_name_of_a_session_is_there() -> None:
    names = list_names(Session) | {name for name in vars(open_session()) if not name.startswith("_")}
    assert names - list_names(AsyncSession) == PARTS


@pytest.mark.parametrize("name", sorted(name for name in list_names(Session) if name != "create"))
def test_a_method_takes_what_the_session_takes(name: str) -> None:
    mine, other = inspect.getattr_static(Session, name), inspect.getattr_static(AsyncSession, name)
    if not inspect.isfunction(mine):
        assert isinstance(mine, property)
        assert not inspect.isfunction(other)
        return
    assert inspect.signature(other) == inspect.signature(mine)
    assert inspect.iscoroutinefunction(other)


def test_it_is_made_with_what_a_session_is_made_with() -> None:
    mine, other = inspect.signature(Session.create).parameters, inspect.signature(AsyncSession.create).parameters
    assert {name: each for name, each in other.items() if name != "answer"} == dict(mine)


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "add_rule": ("Be brief.",),
    "after_refusal": ({"messages": [{"role": "user", "content": "go"}]}, ValueError("prompt is too long")),
    "after_model": ({"usage": {"prompt_tokens": 40, "completion_tokens": 2}},),
    "append": (make_user_message("on"),),
    "before_model": ({"model": MODEL, "messages": [{"role": "user", "content": "go"}]},),
    "drop_rule": ("Keep it.",),
    "expand": ("1",),
    "pin": ("",),
    "search": ("go",),
    "switch_auto": ("off",),
    "sync": ([make_user_message("go"), make_reply("yes")],),
    "sync_and_compact": ([make_user_message("go")], Call(window=9_000)),
}
METHODS = sorted(name for name in list_names(AsyncSession) if inspect.iscoroutinefunction(getattr(AsyncSession, name)))


@contextmanager
def hold_until(is_released: threading.Event, lock: AbstractContextManager[object]) -> Iterator[None]:
    """Holds a lock on another thread until the event is set."""
    is_held = threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            is_released.wait(PATIENCE)
            is_released.set()

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    try:
        yield
    finally:
        is_released.set()
        thread.join()


async def count_turns(work: Callable[[], Awaitable[object]], is_released: threading.Event) -> int:
    """Starts work on the loop, lets the loop turn a number of times, and releases what the work waits for only then."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        for _ in range(TURNS):
            await asyncio.sleep(0)
            turns += not is_released.is_set()
        is_released.set()

    async def run() -> None:
        try:
            await work()
        except (UsageError, LookupError):
            pass
        except Exception as exc:
            if type(exc).__module__.startswith("tenfold"):
                return
            raise

    turning = asyncio.ensure_future(turn())
    await run()
    await turning
    return turns


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"create"}))
def test_nothing_waits_on_the_loop_for_the_lock_of_the_session(name: str) -> None:
    session = open_session(make_work(4), model=MODEL)
    is_released = threading.Event()

    async def run() -> int:
        wrapped = AsyncSession(session)

        async def work() -> object:
            return await getattr(wrapped, name)(*ARGUMENTS.get(name, ()))

        with hold_until(is_released, session.conversation.lock):
            return await count_turns(work, is_released)

    assert asyncio.run(run()) == TURNS


def test_nothing_waits_on_the_loop_for_a_store_that_somebody_writes(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    store = SqliteStore(path)
    is_released = threading.Event()

    @contextmanager
    def write() -> Iterator[None]:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("BEGIN IMMEDIATE")
            yield

    async def run() -> int:
        async def work() -> None:
            session = await AsyncSession.create(SessionAddress(store, "s"), build_policy(), model=MODEL)
            assert session.outcome is None
            await session.append(make_user_message("go"))

        with hold_until(is_released, write()):
            return await count_turns(work, is_released)

    with closing(store):
        assert asyncio.run(run()) == TURNS
        assert store.open("default", "s").length == 1


def test_properties_are_those_of_the_session() -> None:
    session = open_session(make_work(12), model=MODEL)

    async def run() -> None:
        wrapped = AsyncSession(session)
        assert (await wrapped.compact(to=900)).status == "compacted"
        for name in ("address", "view", "leaf", "outcome", "policy"):
            assert getattr(wrapped, name) is getattr(session, name), name
        assert await wrapped.read_instructions() == session.read_instructions()

    asyncio.run(run())


def test_a_cancelled_request_is_over_before_the_next_one_begins() -> None:
    """Its thread cannot be stopped, and must not go back behind a newer list that was synced meanwhile."""
    session = open_session(model=MODEL)
    listed = [{"role": "user", "content": "go"}, {"role": "assistant", "content": "yes"}]
    newer = [*listed, {"role": "user", "content": "on"}]
    is_released = threading.Event()

    async def run() -> None:
        wrapped = AsyncSession(session)
        with hold_until(is_released, session.conversation.lock):
            first = asyncio.ensure_future(wrapped.before_model({"model": MODEL, "messages": listed}, window=9_000))
            for _ in range(TURNS):
                await asyncio.sleep(0)
            first.cancel()
            for _ in range(TURNS):
                await asyncio.sleep(0)
            assert session.compactor.lock.is_held, "the first one is still at work"
            is_released.set()
        await wrapped.before_model({"model": MODEL, "messages": newer}, window=9_000)
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(run())
    assert [get_text(message) for message in session.view.get_messages()] == ["go", "yes", "on"]
