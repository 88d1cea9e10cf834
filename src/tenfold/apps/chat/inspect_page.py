"""The page of `tenfold inspect`, served by a process of its own that ends with the chat."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from contextlib import suppress

from tenfold.errors import TenfoldError, UsageError

START_SECONDS = 60.0
"""Seconds within which the process has to say its address."""
_END_SECONDS = 5.0
"""Seconds that the process may take to end when it is told to."""
_ADDRESS = re.compile(r"https?://\S+")


class InspectPage:
    """Starts the process, and ends it. `store` is where the session is, None if it is in this process's memory."""

    def __init__(self, store: str | None) -> None:
        self._store = store
        self._process: Process | None = None
        self._reader: asyncio.Task[None] | None = None

    async def start(self, session: str, namespace: str) -> str:
        """Serves the page of a session, and no longer that of another one. Returns its address.

        Raises `UsageError` if no other process can read the store, and `TenfoldError` with the last line that the
        process said if it ends without an address.
        """
        if self._store is None:
            raise UsageError("this session is kept in memory only; start the chat with a --store to inspect it")
        await self.stop()
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tenfold", "inspect", session, "--no-browser", "--namespace", namespace),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            # Its address may hold a password, which others would read in a command line.
            env={**os.environ, "TENFOLD_STORE": self._store, "PYTHONUNBUFFERED": "1", "COLUMNS": "500"},
        )
        try:
            return await asyncio.wait_for(self._read_address(self._process), START_SECONDS)
        except (TimeoutError, TenfoldError):
            await self.stop()
            raise

    async def _read_address(self, process: Process) -> str:
        said = ""
        while line := await self._read_line(process):
            if found := _ADDRESS.search(line):
                self._reader = asyncio.create_task(self._read_on(process))
                return found[0]
            said = line.strip() or said
        raise TenfoldError(said or "the page's process ended without an address")

    async def _read_line(self, process: Process) -> str:
        return (await process.stdout.readline()).decode(errors="replace") if process.stdout is not None else ""

    async def _read_on(self, process: Process) -> None:
        """Reads what it says later, so that it is never held up."""
        while await self._read_line(process):
            pass

    async def stop(self) -> None:
        """Ends the process, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), _END_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()
        if self._reader is not None:
            await self._reader


def has_browser() -> bool:
    """Returns whether a browser would open in a window, and not in the terminal that the chat is in."""
    return sys.platform in ("win32", "darwin") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
