"""The file, search and shell tools of a coding agent, as functions that pydantic-ai can offer to a model.

File tools are confined to one folder, and the user approves each change. Commands need an approval too, but nothing
confines them: an approved command can do whatever the user can.
"""

from __future__ import annotations

import asyncio
import codecs
import difflib
import json
import ntpath
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import IO, Literal, NamedTuple

from msgspec import Struct
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.toolsets import FunctionToolset

from tenfold.apps.agent import file_tree
from tenfold.apps.agent.file_tree import FileStamp, FileTree, PathParts, Refusal, explain_error, split_lines
from tenfold.core.text.hidden import escape_hidden
from tenfold.core.text.redaction import redact

DEFAULT_TIMEOUT = 120.0
"""Seconds that a command or a search may take. Most builds and test runs end within two minutes."""
MAX_RESULT_SIZE = 30_000
"""Maximum size of one result, some 8,000 tokens: characters of a file, or bytes of a command's output."""
MAX_LISTED_NAMES = 500
"""Maximum number of names that are listed of a folder."""
MAX_RETRIES = 5
"""Calls with malformed arguments that a tool answers in a row before pydantic-ai ends the run (its default is 1)."""
MAX_CONTEXT = 200
"""Characters of a line on either side of an edit that are shown with it. Beyond that, its line is not shown whole."""
CONTEXT_LINES = 3
"""Unchanged lines that are shown around each change of a file that is written anew."""
MAX_COMPARED_LINES = 2_000
"""Lines that are compared one by one, in the worst case in quadratic time. A longer change is shown as old and new."""
_OUTPUT_GRACE = 1.0
"""Seconds to wait for a command's output to be closed after its end. Its last output arrives at once."""
_KILL_GRACE = 5.0
"""Seconds to wait for a killed process to end."""
ApprovalKind = Literal["write", "command"]
"""What needs an approval: a change of a file, or a command."""


class Section(NamedTuple):
    """A part of an action's text, exactly as it is.

    `sign` tells how it is meant, as in a diff: "+" lines that will be there, "-" lines that will be gone, " " lines
    that stay, "@" how many more stay that are not shown; "" is a command.
    """

    sign: Literal["", " ", "-", "+", "@"]
    text: str


class Action(Struct, frozen=True):
    """What will be done if the user says yes.

    `line` says it in one line, for a list or a log: hidden characters in it are named, and the secrets of a command are
    redacted. `sections` are the whole text that will run or be written. They are not made safe for a terminal;
    `tenfold.core.text.hidden` does that. `tool` is the tool that asks, and `subject` the path in `folder` or the
    command that runs there, exactly as it is.
    """

    kind: ApprovalKind
    line: str
    sections: tuple[Section, ...]
    tool: str
    subject: str
    folder: str


Approver = Callable[[Action], Awaitable[bool]]
"""Asks for an approval. True means yes."""


class _ProcessResult(NamedTuple):
    """How a process ended. A negative code is the number of the signal that ended it."""

    exit_code: int
    output: str
    has_timed_out: bool
    note: str


class CodingTools:
    """The tools of one working folder. Every path is resolved through its links and must lie in the folder.

    A refusal raises `ToolFailed`: pydantic-ai passes its text to the model as a failed call and goes on. `ModelRetry`
    would use up the tool's retries, after which the run ends with an error. A returned string would look like a
    success.
    """

    def __init__(
        self, root: Path, approve: Approver, *, timeout: float = DEFAULT_TIMEOUT, max_size: int = MAX_RESULT_SIZE
    ) -> None:
        self._tree = FileTree(root)
        self._approver = approve
        self._timeout = timeout
        self._max_size = max_size

    def build_toolset(self) -> FunctionToolset:
        """Builds the tools, for `Agent(toolsets=[...])`. Those that ask run alone, so only one question is open."""
        tools: FunctionToolset = FunctionToolset(max_retries=MAX_RETRIES, require_parameter_descriptions=True)
        for read_tool in (self.read_file, self.list_files, self.search_files):
            tools.add_function(read_tool)
        for write_tool in (self.write_file, self.edit_file, self.run_command):
            tools.add_function(write_tool, sequential=True)
        return tools

    def read_file(self, path: str, first_line: int = 1, lines: int = 400) -> str:
        """Read a text file. If it is not shown whole, a last line in brackets says what was left out.

        Args:
            path: The file, relative to the working folder.
            first_line: The first line to show, from 1.
            lines: How many lines to show at most.
        """
        with _convert_errors(path):
            every = split_lines(self._tree.read_text(self._tree.locate(path)))
            if first_line < 1 or lines < 1 or first_line > max(len(every), 1):
                raise Refusal(f"has {len(every)} lines: first_line is one of them, and lines at least 1")
        selected = every[first_line - 1 : first_line - 1 + lines]
        text, last = "", first_line - 1
        for line in selected:
            if len(text) + len(line) > self._max_size:
                break
            text, last = text + line, last + 1
        if selected and not text:
            line = selected[0]
            return (
                f"{line[: self._max_size]}\n[line {first_line} of {len(every)}, cut at {self._max_size:,} "
                f"of {len(line):,}]"
            )
        if last - first_line + 1 == len(every):
            return text or "[the file is empty]"
        more = f"; first_line={last + 1} shows more" if last < len(every) else ""
        return f"{text}{_get_separator(text)}[lines {first_line} to {last} of {len(every)}{more}]"

    def list_files(self, path: str = ".") -> str:
        """List one folder, a name per line; "/" after a name is a folder, "@" a link.

        Args:
            path: The folder, relative to the working folder.
        """
        with _convert_errors(path):
            names = self._tree.list_entries(self._tree.locate(path))
        output = [escape_hidden(name) + kind for name, kind in names[:MAX_LISTED_NAMES]]
        if len(names) > MAX_LISTED_NAMES:
            output.append(f"[{len(names) - MAX_LISTED_NAMES} of {len(names)} names left out]")
        return "\n".join(output) or "[the folder is empty]"

    async def search_files(self, pattern: str, path: str = ".") -> str:
        """Search text files line by line; gives path:line:text for each match. Links are not followed.

        Version control, __pycache__, .venv and node_modules are passed by unless the path names them.

        Args:
            pattern: A regular expression of Python's `re`.
            path: The file or the folder to search, relative to the working folder.
        """
        query = json.dumps([self._tree.root, path, pattern, self._max_size])
        with _convert_errors(path):
            result = await self._run_process(
                [sys.executable, "-I", file_tree.__file__, query], max_size=self._max_size * 5
            )
        if result.has_timed_out:
            return f"{result.output}[stopped after {self._timeout:g} seconds: simplify the pattern]"
        if result.exit_code:
            raise ToolFailed(
                f"{escape_hidden(path)}: {result.output or f'the search ended with code {result.exit_code}'}"
            )
        return result.output

    async def write_file(self, path: str, content: str) -> str:
        """Create a file or replace all of it, with the folders on its way. The user is asked first.

        Args:
            path: The file, relative to the working folder.
            content: All of its new text.
        """
        with _convert_errors(path):
            parts = self._tree.locate(path)
            expected = self._tree.get_stamp(parts)
            _check_writable(expected)
            data = content.encode()
            sections = self._diff_write(parts, content) if expected is not None else (Section("+", content),)
        previous = "a new file" if expected is None else f"in place of {expected.size:,}"
        summary = f"{_get_name(parts)}: {len(data):,} bytes, {previous}"
        await self._ask_approval(
            Action("write", f"write {summary}", sections, "write_file", "/".join(parts), self._tree.root)
        )
        with _convert_errors(path):
            self._tree.replace(parts, data, expected=expected)
        return f"wrote {summary}"

    async def edit_file(self, path: str, old: str, new: str) -> str:
        """Replace a text that occurs exactly once in a file. The user is asked first.

        Args:
            path: The file, relative to the working folder.
            old: The text to replace, exactly as it is in the file, with enough around it to occur once.
            new: The text to put in its place.
        """
        with _convert_errors(path):
            parts = self._tree.locate(path)
            expected = self._tree.get_stamp(parts)
            text = self._tree.read_text(parts)
            _check_writable(expected)
            start = _find_only(old, text)
            before, data = text.encode(), (text[:start] + new + text[start + len(old) :]).encode()
        line = text.count("\n", 0, start) + 1
        edit = f"{_get_name(parts)}, line {line}: {len(split_lines(old))} lines out, {len(split_lines(new))} in"
        summary = f"edit {edit} ({len(before):,} bytes become {len(data):,})"
        await self._ask_approval(
            Action("write", summary, diff_edit(text, start, old, new), "edit_file", "/".join(parts), self._tree.root)
        )
        with _convert_errors(path):
            self._tree.replace(parts, data, expected=expected)
        return f"edited {edit}"

    async def run_command(self, command: str) -> str:
        """Run a shell command in the working folder. The user is asked first.

        Gives the exit code, then what was written to standard output and standard error, the middle left out if it is
        long. There is no standard input. What it leaves in the background is ended unless its output goes to a file.

        Args:
            command: The command line.
        """
        if not command.strip() or "\0" in command:
            raise ToolFailed("a command needs at least one word and no NUL character; nothing was run")
        line = f"run {escape_hidden(redact(command))}"  # in one line, a secret of several would not be recognised
        await self._ask_approval(
            Action("command", line, (Section("", command),), "run_command", command, self._tree.root)
        )
        with _convert_errors("run_command"):
            result = await self._run_process(command, max_size=self._max_size)
        if result.has_timed_out:
            ending = f"killed after {self._timeout:g} seconds; its output until then:"
        elif result.exit_code < 0:
            ending = f"ended by signal {-result.exit_code}"
        else:
            ending = f"exit code {result.exit_code}"
        return f"[{ending}]\n{result.output}" + (
            f"{_get_separator(result.output)}[{result.note}]" if result.note else ""
        )

    def _diff_write(self, parts: PathParts, content: str) -> tuple[Section, ...]:
        """Returns what a write changes in a file that exists: all of its new text, if the old one is no text."""
        try:
            return diff_texts(self._tree.read_text(parts), content)
        except Refusal:
            return (Section("+", content),)

    async def _ask_approval(self, action: Action) -> None:
        if not await self._approver(action):
            raise ToolFailed(
                f"The user said no to this: {action.line}\nNothing was changed or run. Ask what to do instead."
            )

    async def _run_process(self, command: str | Sequence[str], *, max_size: int) -> _ProcessResult:
        """Runs a shell command or a program until it ends, times out or is cancelled, then kills what is left."""
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - it returns at once; the user has approved a command
            command,
            shell=isinstance(command, str),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self._tree.root,
            start_new_session=True,
        )
        output = _Output(max_size)
        reader = Thread(target=output.read, args=(process.stdout,), daemon=True)
        reader.start()
        has_timed_out = False
        try:
            await asyncio.to_thread(process.wait, self._timeout)
            await asyncio.to_thread(reader.join, _OUTPUT_GRACE)
        except subprocess.TimeoutExpired:
            has_timed_out = True
        finally:
            is_open = reader.is_alive()
            if is_open or process.poll() is None:
                _kill_group(process.pid)
        with suppress(subprocess.TimeoutExpired):  # one that runs as another user cannot be killed
            await asyncio.to_thread(process.wait, _KILL_GRACE)
        await asyncio.to_thread(reader.join, _OUTPUT_GRACE)
        has_left_one = is_open and not has_timed_out
        note = "a process it left behind kept the output open and was ended" if has_left_one else ""
        return _ProcessResult(process.returncode or 0, output.decode(), has_timed_out, note)


class _Output:
    """The first and the last bytes that a process writes."""

    def __init__(self, max_size: int) -> None:
        self._half_size = max_size // 2
        self._head, self._tail, self._total = bytearray(), bytearray(), 0

    def read(self, pipe: IO[bytes]) -> None:
        """Reads until nobody holds the output open any more."""
        with pipe:
            while data := os.read(pipe.fileno(), 65_536):
                self._total += len(data)
                head_space = self._half_size - len(self._head)
                self._head += data[:head_space]
                self._tail += data[head_space:]
                if len(self._tail) > 8 * self._half_size:
                    del self._tail[: -self._half_size]

    def decode(self) -> str:
        """Decodes the output, cut between characters. Bytes that are not UTF-8 are shown by their numbers."""
        tail = self._tail[-self._half_size :]
        if self._total <= len(self._head) + len(tail):
            return (self._head + tail).decode(errors="backslashreplace")
        decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        first = decoder.decode(self._head)
        while tail and tail[0] & 0xC0 == 0x80:
            del tail[0]
        gap = self._total - len(self._head) + len(decoder.getstate()[0]) - len(tail)
        return f"{first}\n[{gap:,} bytes left out]\n{tail.decode(errors='backslashreplace')}"


def _get_name(parts: PathParts) -> str:
    return escape_hidden("/".join(parts))


def build_kill_command(pid: int, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Builds the command of Windows that ends a process and its children.

    By its whole path: by its name, Windows looks in the working folder first, and an agent writes there.
    """
    program = ntpath.join(environ.get("SYSTEMROOT") or r"C:\Windows", "System32", "taskkill.exe")
    return [program, "/T", "/F", "/PID", str(pid)]


def _kill_group(pid: int) -> None:
    if sys.platform == "win32":
        subprocess.run(build_kill_command(pid), check=False, capture_output=True)  # noqa: S603 - of the system
    else:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


@contextmanager
def _convert_errors(subject: str) -> Iterator[None]:
    """Turns system errors and refusals of the file tree into failed tool calls, which the model reads."""
    try:
        yield
    except (Refusal, OSError, UnicodeEncodeError) as error:
        raise ToolFailed(f"{escape_hidden(subject)}: {explain_error(error)}") from error


def _check_writable(stamp: FileStamp | None) -> None:
    if stamp is not None and not stamp.mode & stat.S_IWUSR:
        raise Refusal("is read-only")


def _find_only(old: str, text: str) -> int:
    """Returns where `old` begins. Raises `Refusal` unless it occurs exactly once; overlaps count too."""
    if not old:
        raise Refusal("old is empty; write_file replaces a whole file")
    positions = [occurrence.start() for occurrence in re.finditer(f"(?={re.escape(old)})", text)]
    if len(positions) == 1:
        return positions[0]
    if positions:
        lines = ", ".join(str(text.count("\n", 0, position) + 1) for position in positions[:10])
        raise Refusal(f"old occurs {len(positions)} times, in lines {lines}; include more of the text around it")
    hint = "; the lines of this file end in \\r\\n" if "\r\n" in text and "\r\n" not in old else ""
    raise Refusal(f"old occurs 0 times; read the file and copy the text exactly{hint}")


def _get_separator(text: str) -> str:
    """Returns the line break, if one is missing, that puts a note after the text on a line of its own."""
    return "" if not text or text.endswith("\n") else "\n"


def diff_edit(text: str, start: int, old: str, new: str) -> tuple[Section, ...]:
    """Returns the lines that an edit takes out and puts in, with the lines of `old` that stay.

    `start` is where `old` begins in `text`. Only equal lines at the beginning and at the end count as staying, so this
    takes linear time.
    """
    end = start + len(old)
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end) + 1 or len(text)
    first = line_start if start - line_start <= MAX_CONTEXT else start
    last = line_end if line_end - end <= MAX_CONTEXT else end
    before = split_lines(text[first:last])
    after = split_lines(text[first:start] + new + text[end:last])
    head = _count_equal(before, after)
    tail = _count_equal(before[head:][::-1], after[head:][::-1])
    removed, added = before[head : len(before) - tail], after[head : len(after) - tail]
    return tuple(
        section
        for section in (
            Section(" ", "".join(before[:head])),
            Section("-", "".join(removed)),
            Section("+", "".join(added)),
            Section(" ", "".join(before[len(before) - tail :])),
        )
        if section.text
    )


def diff_texts(before: str, after: str) -> tuple[Section, ...]:
    """Returns the lines that go and come where a text takes the place of another one, with a few that stay around them.

    Stretches of more lines that stay are counted and not shown.
    """
    old, new = split_lines(before), split_lines(after)
    head = _count_equal(old, new)
    tail = _count_equal(old[head:][::-1], new[head:][::-1])
    left, right = old[head : len(old) - tail], new[head : len(new) - tail]
    sections = _build_unchanged(old[:head], is_first=True)
    if max(len(left), len(right)) > MAX_COMPARED_LINES:
        sections += [Section("-", "".join(left)), Section("+", "".join(right))]
    else:
        for _, i, k, m, n in difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
            if left[i:k] == right[m:n]:
                sections += _build_unchanged(left[i:k])
            else:
                sections += [Section("-", "".join(left[i:k])), Section("+", "".join(right[m:n]))]
    sections += _build_unchanged(old[len(old) - tail :], is_last=True)
    return tuple(section for section in sections if section.text)


def _build_unchanged(lines: list[str], *, is_first: bool = False, is_last: bool = False) -> list[Section]:
    """Returns unchanged lines: those beside a change, and the number of those between."""
    above, below = 0 if is_first else CONTEXT_LINES, 0 if is_last else CONTEXT_LINES
    if len(lines) <= above + below + 1:
        return [Section(" ", "".join(lines))]
    hidden = lines[above : len(lines) - below]
    return [
        Section(" ", "".join(lines[:above])),
        Section("@", f"{len(hidden):,} lines stay"),
        Section(" ", "".join(lines[len(lines) - below :])),
    ]


def _count_equal(left: list[str], right: list[str]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count
