"""Records what happens in a session, independent of a format: who said what, which tools ran, what they returned."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from examples.recorder.checkout import Checkout, CommandResult

Json = str | int | bool | None | list["Json"] | dict[str, "Json"]
Arguments = dict[str, Json]
Tool = Literal["bash", "read", "edit", "write", "todo", "ask"]


@dataclass(frozen=True)
class Call:
    """A tool call. `arguments` use neutral names, which each format translates to its own."""

    id: str
    tool: Tool
    arguments: Arguments


@dataclass(frozen=True)
class User:
    """A message of a person."""

    time: int
    text: str


@dataclass(frozen=True)
class Assistant:
    """An answer: text, calls, or both."""

    time: int
    text: str
    calls: tuple[Call, ...] = ()
    thinking: str = ""


@dataclass(frozen=True)
class Result:
    """The result of a call."""

    time: int
    call: Call
    text: str
    failed: bool = False


Event = User | Assistant | Result
_ITEM = re.compile(r"[-*|`#>]|\d+\. ")


@dataclass
class Session:
    """Records a session while it runs the tools. Times are synthetic: `start` plus a few seconds for each event."""

    name: str
    start: int
    cwd: str
    system: str = ""
    events: list[Event] = field(default_factory=list)
    _call_count: int = 0
    _thought: str = ""
    checkout: Checkout = field(init=False)

    def open(self, root: Path) -> None:
        """Creates the checkout that the tools work in."""
        self.checkout = Checkout(root, shown_path=self.cwd, clock=self._get_time)

    # -- who speaks --------------------------------------------------------------------------------------------------

    def add_user(self, text: str) -> None:
        """Adds a message of the user."""
        self.events.append(User(self._get_time(), _unwrap_lines(text)))

    def say(self, text: str) -> None:
        """Adds an answer of the agent without a tool call."""
        self.events.append(Assistant(self._get_time(), _unwrap_lines(text), thinking=self._take_thought()))

    def think(self, text: str) -> None:
        """Gives the agent's next answer a thinking part."""
        self._thought = _unwrap_lines(text)

    # -- tools -------------------------------------------------------------------------------------------------------

    def run_bash(self, text: str, command: str) -> CommandResult:
        """Runs a command and returns what it printed."""
        call = self._add_call(text, "bash", {"command": command})
        ran = self.checkout.run(command)
        self._add_result(call, _format_output(ran), failed=ran.has_failed)
        return ran

    def run_both(self, text: str, commands: Sequence[str]) -> list[CommandResult]:
        """Runs commands as parallel calls of one answer."""
        calls = tuple(self._build_call("bash", {"command": command}) for command in commands)
        self._add_answer(text, calls)
        out = []
        for call, command in zip(calls, commands, strict=True):
            ran = self.checkout.run(command)
            self._add_result(call, _format_output(ran), failed=ran.has_failed)
            out.append(ran)
        return out

    def read(self, text: str, *paths: str) -> None:
        """Reads whole files, as parallel calls if there are several."""
        calls = tuple(self._build_call("read", {"path": path}) for path in paths)
        self._add_answer(text, calls)
        for call, path in zip(calls, paths, strict=True):
            self._add_result(call, self.checkout.read(path))

    def read_lines(self, text: str, path: str, first: int, last: int) -> None:
        """Reads a few lines of a file."""
        call = self._add_call(text, "read", {"path": path, "offset": first, "limit": last - first + 1})
        self._add_result(call, self.checkout.read(path, first, last))

    def edit(self, text: str, path: str, old: str, new: str) -> None:
        """Replaces a text that occurs once."""
        call = self._add_call(text, "edit", {"path": path, "old": old, "new": new})
        line = self.checkout.edit(path, old, new)
        snippet = self.checkout.read(path, max(1, line - 3), line + new.count("\n") + 3)
        self._add_result(call, f"Replaced 1 occurrence in {path} at line {line}. It now reads:\n{snippet}")

    def fail_edit(self, text: str, path: str, old: str, new: str) -> None:
        """Tries an edit whose old text is not there. The tool refuses it and changes nothing."""
        call = self._add_call(text, "edit", {"path": path, "old": old, "new": new})
        try:
            self.checkout.edit(path, old, new)
        except ValueError as exc:
            self._add_result(call, f"Error: {exc}\nNothing was changed.", failed=True)
        else:
            raise AssertionError(f"{path}: this edit was meant to be refused")

    def write(self, text: str, path: str, content: str) -> None:
        """Creates or replaces a file."""
        call = self._add_call(text, "write", {"path": path, "content": content})
        self.checkout.write(path, content)
        self._add_result(call, f"Wrote {path}: {len(content.splitlines())} lines, {len(content.encode())} bytes.")

    def set_todos(self, text: str, *items: str) -> None:
        """Updates the to-do list. `[x] ` before an item means done, `[>] ` in progress, `[ ] ` pending."""
        marks = {"x": "completed", ">": "in_progress", " ": "pending"}
        todos: list[Json] = [{"content": item[4:], "status": marks[item[1]]} for item in items]
        call = self._add_call(text, "todo", {"todos": todos})
        done = sum(item.startswith("[x]") for item in items)
        self._add_result(call, f"The list has {len(items)} items, {done} of them done.")

    def call_desk(self, text: str, command: str, /, **arguments: str) -> CommandResult:
        """Calls a function of the desk, which runs a command in the checkout."""
        call = self._add_call(text, "ask", {"function": command, **arguments})
        line = " ".join(
            ["python desk.py", command, *(f"--{k.replace('_', '-')} {shlex.quote(v)}" for k, v in arguments.items())]
        )
        ran = self.checkout.run(line)
        self._add_result(call, ran.output, failed=ran.has_failed)
        return ran

    # -- inside ------------------------------------------------------------------------------------------------------

    def _get_time(self) -> int:
        return self.start + 7 * len(self.events) + 240 * sum(isinstance(e, User) for e in self.events)

    def _build_call(self, tool: Tool, arguments: Arguments) -> Call:
        self._call_count += 1
        return Call(hash_parts(self.name, "call", self._call_count)[:24], tool, arguments)

    def _add_call(self, text: str, tool: Tool, arguments: Arguments) -> Call:
        call = self._build_call(tool, arguments)
        self._add_answer(text, (call,))
        return call

    def _add_answer(self, text: str, calls: tuple[Call, ...]) -> None:
        self.events.append(Assistant(self._get_time(), _unwrap_lines(text), calls, self._take_thought()))

    def _add_result(self, call: Call, text: str, *, failed: bool = False) -> None:
        self.events.append(Result(self._get_time(), call, text, failed))

    def _take_thought(self) -> str:
        thought, self._thought = self._thought, ""
        return thought


def hash_parts(*parts: object) -> str:
    """Returns a stable id: hex digits that depend on the parts only."""
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()


def _format_output(ran: CommandResult) -> str:
    text = ran.output or "(no output)"
    return f"{text}\n\nExit code: {ran.code}" if ran.code else text


def _unwrap_lines(text: str) -> str:
    """Joins the lines of a paragraph; a blank line, a list item or a code line stays a line of its own."""
    out: list[str] = []
    for line in text.strip().splitlines():
        stripped = line.strip()
        fresh = not stripped or not out or not out[-1] or _ITEM.match(stripped) is not None
        if fresh:
            out.append(stripped)
        else:
            out[-1] += f" {stripped}"
    return "\n".join(out)
