"""Waits for hooks and listeners that are coroutine functions.

They run on the event loop of the host, if the work is done for one, so that they can use what belongs to that loop.
Work without a loop runs them on a loop of their own.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

_HOST_LOOP: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("tenfold_host_loop", default=None)


def register_host_loop() -> None:
    """Registers the running loop as the host's, for this task and for the threads that work for it."""
    _HOST_LOOP.set(asyncio.get_running_loop())


def wait_for_result(result: object) -> object:
    """Returns what a hook returned. If that is awaitable, waits until it is done and returns its result.

    On the thread of the host's own loop it cannot wait for that loop. There the coroutine gets a loop of its own.
    """
    if not inspect.isawaitable(result):
        return result
    loop = _HOST_LOOP.get()
    if loop is not None and loop.is_running() and not _is_loop_thread():
        return asyncio.run_coroutine_threadsafe(_await_result(result), loop).result()
    with ThreadPoolExecutor(1, "tenfold-hook") as pool:
        return pool.submit(asyncio.run, _await_result(result)).result()


async def _await_result(result: Awaitable[object]) -> object:
    return await result


def _is_loop_thread() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
