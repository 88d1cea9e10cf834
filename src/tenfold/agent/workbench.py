"""The file, search and shell tools of a coding agent, as functions that pydantic-ai can offer to a model.

Files are confined to one folder and changed only after a yes. Commands are asked for too, but not confined in any way:
an approved command can do whatever the user can.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.toolsets import FunctionToolset

from tenfold.agent import tree
from tenfold.agent.tree import Refused, Stamp, Tree, lines_of, reason, visible

SECONDS = 120.0
"""How long a command or a search may take: most builds and test runs of a project end within two minutes."""
MOST = 30_000
"""The most of one result: characters of a file, bytes of a command's output; some 8,000 tokens."""
LISTED = 500
"""Names of a folder that are listed."""
MISCALLS = 5
"""Calls with malformed arguments that a tool answers in a row before pydantic-ai ends the run (its default is 1)."""
_LINGER = 1.0
"""Seconds that a command's output may stay open after its end: what it wrote last arrives at once."""
_DYING = 5.0
"""Seconds to wait for a killed process; one that runs as somebody else cannot be killed."""
_GROUP: int = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)

Kind = Literal["write", "command"]
"""What is asked about: a change of a file, or a command."""
Approve = Callable[[str, Kind], Awaitable[bool]]
"""Asked with one line that says what will be done, and what kind of deed it is; True is a yes."""


class _Ended(NamedTuple):
    """How a process ended; a negative code is the signal that ended it."""

    code: int
    output: str
    late: bool
    note: str


class Workbench:
    """The tools of one working folder. Every path is resolved through links and must lie in it.

    A refusal is a `ToolFailed`: pydantic-ai hands its text to the model as a failed call and goes on. `ModelRetry` uses
    up the tool's retries, after which the run ends with an error; a returned string would pass for a success.
    """

    def __init__(self, root: Path, approve: Approve, *, seconds: float = SECONDS, most: int = MOST) -> None:
        self._tree = Tree(root)
        self._approve = approve
        self._seconds = seconds
        self._most = most

    def toolset(self) -> FunctionToolset:
        """All tools, for `Agent(toolsets=[...])`. Those that ask run alone, so there is one question at a time."""
        tools: FunctionToolset = FunctionToolset(max_retries=MISCALLS, require_parameter_descriptions=True)
        for looking in (self.read_file, self.list_files):
            tools.add_function(looking)
        tools.add_function(self.search_files)
        for changing in (self.write_file, self.edit_file, self.run_command):
            tools.add_function(changing, sequential=True)
        return tools

    def read_file(self, path: str, first_line: int = 1, lines: int = 400) -> str:
        """Read a text file. If it is not shown whole, a last line in brackets says what was left out.

        Args:
            path: The file, relative to the working folder.
            first_line: The first line to show, from 1.
            lines: How many lines to show at most.
        """
        with _told(path):
            every = lines_of(self._tree.text(self._tree.locate(path)))
            if first_line < 1 or lines < 1 or first_line > max(len(every), 1):
                raise Refused(f"has {len(every)} lines: first_line is one of them, and lines at least 1")
        chosen = every[first_line - 1 : first_line - 1 + lines]
        text, last = "", first_line - 1
        for line in chosen:
            if len(text) + len(line) > self._most:
                break
            text, last = text + line, last + 1
        if chosen and not text:
            line = chosen[0]
            return f"{line[: self._most]}\n[line {first_line} of {len(every)}, cut at {self._most:,} of {len(line):,}]"
        if last - first_line + 1 == len(every):
            return text or "[the file is empty]"
        more = f"; first_line={last + 1} shows more" if last < len(every) else ""
        return f"{text}{_ended(text)}[lines {first_line} to {last} of {len(every)}{more}]"

    def list_files(self, path: str = ".") -> str:
        """List one folder, a name per line; "/" after a name is a folder, "@" a link.

        Args:
            path: The folder, relative to the working folder.
        """
        with _told(path):
            found = self._tree.entries(self._tree.locate(path))
        shown = [visible(name) + kind for name, kind in found[:LISTED]]
        if len(found) > LISTED:
            shown.append(f"[{len(found) - LISTED} of {len(found)} names left out]")
        return "\n".join(shown) or "[the folder is empty]"

    async def search_files(self, pattern: str, path: str = ".") -> str:
        """Search text files line by line; gives path:line:text for each match. Links are not followed.

        Version control, __pycache__, .venv and node_modules are passed by unless the path names them.

        Args:
            pattern: A regular expression of Python's `re`.
            path: The file or the folder to search, relative to the working folder.
        """
        query = json.dumps([self._tree.root, path, pattern, self._most])
        with _told(path):
            ended = await self._run([sys.executable, "-I", tree.__file__, query], most=self._most * 5)
        if ended.late:
            return f"{ended.output}[stopped after {self._seconds:g} seconds: simplify the pattern]"
        if ended.code:
            raise ToolFailed(f"{visible(path)}: {ended.output or f'the search ended with code {ended.code}'}")
        return ended.output

    async def write_file(self, path: str, content: str) -> str:
        """Create a file or replace all of it, with the folders on its way. The user is asked first.

        Args:
            path: The file, relative to the working folder.
            content: All of its new text.
        """
        with _told(path):
            parts = self._tree.locate(path)
            seen = self._tree.stamp(parts)
            _writable(seen)
            data = content.encode()
        was = "a new file" if seen is None else f"in place of {seen.size:,}"
        await self._agree("write", f"write {visible('/'.join(parts))}: {len(data):,} bytes, {was}")
        with _told(path):
            self._tree.replace(parts, data, seen=seen)
        return f"wrote {visible('/'.join(parts))}: {len(data):,} bytes, {was}"

    async def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace a text that occurs exactly once in a file. The user is asked first.

        Args:
            path: The file, relative to the working folder.
            old: The text to replace, exactly as it is in the file, with enough around it to occur once.
            new: The text to put in its place.
        """
        with _told(path):
            parts = self._tree.locate(path)
            seen = self._tree.stamp(parts)
            text = self._tree.text(parts)
            _writable(seen)
            line = _line_of_only(old, text)
            before, data = text.encode(), text.replace(old, new).encode()
        name = visible("/".join(parts))
        what = f"{name}, line {line}: {len(lines_of(old))} lines out, {len(lines_of(new))} in"
        await self._agree("write", f"edit {what} ({len(before):,} bytes become {len(data):,})")
        with _told(path):
            self._tree.replace(parts, data, seen=seen)
        return f"edited {what}"

    async def run_command(self, command: str) -> str:
        """Run a shell command in the working folder. The user is asked first.

        Gives the exit code, then what was written to standard output and standard error, the middle left out if it is
        long. There is no standard input. What it leaves in the background is ended unless its output goes to a file.

        Args:
            command: The command line.
        """
        if not command.strip() or "\0" in command:
            raise ToolFailed("a command has at least one word and no NUL character; nothing was run")
        await self._agree("command", f"run {visible(command)}")
        with _told("run_command"):
            ended = await self._run(command, most=self._most)
        if ended.late:
            how = f"killed after {self._seconds:g} seconds; its output until then:"
        elif ended.code < 0:
            how = f"ended by signal {-ended.code}"
        else:
            how = f"exit code {ended.code}"
        return f"[{how}]\n{ended.output}" + (f"{_ended(ended.output)}[{ended.note}]" if ended.note else "")

    async def _agree(self, kind: Kind, line: str) -> None:
        if not await self._approve(line, kind):
            raise ToolFailed(f"The user said no to this: {line}\nNothing was changed or run. Ask what to do instead.")

    async def _run(self, command: str | Sequence[str], *, most: int) -> _Ended:
        """Runs a shell command or a program to its end, its time-out or its cancellation, and kills what is left."""
        taken = _Taken(most)
        starting = asyncio.ensure_future(_start(command, self._tree.root, taken))
        try:
            transport = await asyncio.shield(starting)
        except asyncio.CancelledError:  # asyncio itself would kill the shell alone, and wait for what the shell started
            with suppress(OSError):
                await _end(await starting, taken)
            raise
        late, note = False, ""
        try:
            late = not await _within(self._seconds, taken.exited)
            if not late and not await _within(_LINGER, taken.closed):
                note = "a process it left behind kept the output open and was ended"
        finally:
            await _end(transport, taken)
        return _Ended(transport.get_returncode() or 0, taken.text(), late, note)


class _Taken(asyncio.SubprocessProtocol):
    """What a process wrote, its first and its last bytes.

    A protocol, because `Process.wait` waits for the output to be closed too in some releases of Python (3.11.7).
    """

    def __init__(self, most: int) -> None:
        self.exited, self.closed = asyncio.Event(), asyncio.Event()
        self._half = most // 2
        self._head, self._tail, self._total = bytearray(), bytearray(), 0

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002 - asyncio's signature
        """Called with each piece of the output."""
        self._total += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 8 * self._half:
            del self._tail[: -self._half]

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Called when nobody holds the output any more."""
        self.closed.set()

    def process_exited(self) -> None:
        """Called when the process itself has ended, whatever it left behind."""
        self.exited.set()

    def text(self) -> str:
        """The output, cut between characters; bytes that are not UTF-8 by their numbers."""
        tail = self._tail[-self._half :]
        if self._total <= len(self._head) + len(tail):
            return (self._head + tail).decode(errors="backslashreplace")
        decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        first = decoder.decode(self._head)
        while tail and tail[0] & 0xC0 == 0x80:
            del tail[0]
        gap = self._total - len(self._head) + len(decoder.getstate()[0]) - len(tail)
        return f"{first}\n[{gap:,} bytes left out]\n{tail.decode(errors='backslashreplace')}"


async def _start(command: str | Sequence[str], root: str, taken: _Taken) -> asyncio.SubprocessTransport:
    loop = asyncio.get_running_loop()
    if isinstance(command, str):
        transport, _ = await loop.subprocess_shell(
            lambda: taken,
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=root,
            start_new_session=True,  # Windows ignores it and takes the flag
            creationflags=_GROUP,
        )
    else:
        transport, _ = await loop.subprocess_exec(
            lambda: taken,
            *command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=root,
            start_new_session=True,
            creationflags=_GROUP,
        )
    return transport


async def _within(seconds: float, event: asyncio.Event) -> bool:
    with suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)
    return event.is_set()


async def _end(transport: asyncio.SubprocessTransport, taken: _Taken) -> None:
    """Kills what still runs or still holds the output, with its group, and takes leave of it."""
    try:
        if not (taken.exited.is_set() and taken.closed.is_set()):
            _kill(transport.get_pid())
            await _within(_DYING, taken.exited)
            await _within(_LINGER, taken.closed)
    finally:
        with suppress(PermissionError):  # of a process that runs as somebody else
            transport.close()


def _kill(pid: int) -> None:
    if sys.platform == "win32":
        subprocess.run(["taskkill", "/T", "/F", "/PID", str(pid)], check=False, capture_output=True)  # noqa: S603, S607
    else:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Turns what the system or the tree refuses into what the model is told."""
    try:
        yield
    except (Refused, OSError, UnicodeEncodeError) as error:
        raise ToolFailed(f"{visible(what)}: {reason(error)}") from error


def _writable(seen: Stamp | None) -> None:
    if seen is not None and not seen.mode & stat.S_IWUSR:
        raise Refused("is read-only")


def _line_of_only(old: str, text: str) -> int:
    """The line where `old` begins, if it occurs exactly once; occurrences that overlap count too."""
    if not old:
        raise Refused("old is empty; write_file replaces a whole file")
    places = [found.start() for found in re.finditer(f"(?={re.escape(old)})", text)]
    if len(places) == 1:
        return text.count("\n", 0, places[0]) + 1
    if places:
        lines = ", ".join(str(text.count("\n", 0, place) + 1) for place in places[:10])
        raise Refused(
            f"old occurs {len(places)} times, in lines {lines}; take in more of the text around the one meant"
        )
    hint = "; the lines of this file end in \\r\\n" if "\r\n" in text and "\r\n" not in old else ""
    raise Refused(f"old occurs 0 times; read the file and copy the text exactly{hint}")


def _ended(text: str) -> str:
    """What puts a note after the text on a line of its own."""
    return "" if not text or text.endswith("\n") else "\n"
