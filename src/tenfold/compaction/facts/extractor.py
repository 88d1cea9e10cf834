"""Extracts facts by code: the request, rules, corrections, files, commands, errors, to-dos.

It uses typed message parts and origins only. Tool output never becomes a rule, whatever it says. Injected context,
demonstrations (origin harness) and Tenfold's own summaries yield nothing. It calls no model and does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tenfold.compaction.facts.demonstrations import MAX_START_POSITION, find_task_start, is_later_range, strip_examples
from tenfold.compaction.facts.edit_content import describe_edit
from tenfold.compaction.facts.instructions import extract_instructions
from tenfold.compaction.facts.merge import merge_facts
from tenfold.compaction.facts.redacted_messages import redact_message
from tenfold.compaction.facts.shell import FileEffect, list_reported_renames, strip_directory_change
from tenfold.compaction.facts.shortened_steps import parse_step_line
from tenfold.compaction.facts.todos import parse_tool_list
from tenfold.compaction.facts.tool_calls import ToolAction, find_open_file, interpret_call, parse_text_action
from tenfold.compaction.facts.tool_results import (
    UNKNOWN,
    ToolOutcome,
    has_failed,
    has_taken_effect,
    is_refused,
    judge_result,
)
from tenfold.core.record.fact import Change, ChangedFile, CommandRun, Fact, FileRead
from tenfold.core.record.message import Message, Text, get_text, get_tool_calls, get_tool_result
from tenfold.core.text.excerpts import Keep, excerpt, flatten
from tenfold.core.text.redaction import redact_cached
from tenfold.core.wire.marks import strip_harness_text

__all__ = ["extract_facts", "merge_facts"]

MAX_COMMAND_CHARS = 170
"""Most characters of a command that is shown. Its beginning and end tell it from others."""
MAX_DESCRIBED_FILES = 40
"""For how many files one call's facts say what it changed in them."""


def extract_facts(entries: Iterable[tuple[int, Message]]) -> tuple[Fact, ...]:
    """Returns the facts of original messages, given as (position, message) in order. Settled ones have `live` False."""
    reader = _FactReader()
    items = list(entries)
    for at, message in items if is_later_range(items) else items[find_task_start(items) :]:
        reader.read(at, redact_message(message))
    return merge_facts((), reader.finish())


class _FactReader:
    """Reads the messages once, and remembers open calls until their results arrive."""

    def __init__(self) -> None:
        self._facts: list[Fact] = []
        self._pending: dict[str, ToolAction] = {}
        self._text_action: ToolAction | None = None
        self._existing_paths: set[str] = set()
        self._open_file = ""
        self._has_answer = False

    def read(self, position: int, message: Message) -> None:
        if message.origin == "harness":
            self._read_shortened_step(position, get_text(message))
        if message.origin in {"harness", "tenfold"}:
            return
        if message.origin == "tool" or message.role == "tool":
            self._read_result(position, message)
        elif message.origin == "model":
            self._read_answer(position, message)
        elif message.role == "user":
            self._read_user_message(position, message)

    def finish(self) -> list[Fact]:
        return self._facts

    def _read_user_message(self, position: int, message: Message) -> None:
        texts = (strip_harness_text(part.text) for part in message.parts if isinstance(part, Text))
        text = strip_examples("\n".join(texts))
        first = not self._has_answer and position <= MAX_START_POSITION
        self._facts.extend(extract_instructions(position, text, first=first))

    def _read_answer(self, position: int, message: Message) -> None:
        self._has_answer |= message.status == "ok"
        calls = get_tool_calls(message)
        for call in calls:
            self._pending[call.id] = interpret_call(call, self._open_file)
        self._read_shortened_step(position, "\n".join(part.text for part in message.parts if isinstance(part, Text)))
        text_call = None if calls else parse_text_action(message)
        self._text_action = interpret_call(text_call, self._open_file) if text_call else None

    def _read_shortened_step(self, position: int, text: str) -> None:
        """Reads a line of ours that stands for a step, if the text is one: a host resent it, or a file holds it."""
        for action, outcome in parse_step_line(text, self._open_file):
            self._add_outcome(position, action, outcome, "")

    def _read_result(self, position: int, message: Message) -> None:
        result = get_tool_result(message)
        text = get_text(message)
        action = self._pending.pop(result.call_id, None) if result else self._text_action
        self._text_action = None
        self._open_file = find_open_file(text, self._open_file)
        if action is None:
            return
        is_error = bool(result and result.is_error)
        self._add_outcome(
            position, action, judge_result(action, text, is_error=is_error, position=position), output=text
        )

    def _add_outcome(self, position: int, action: ToolAction, outcome: ToolOutcome, output: str) -> None:
        self._facts.extend(outcome.errors)
        if action.verb in {"shell", "other"} or (action.verb == "read" and has_failed(outcome.note)):
            key = action.source if action.verb == "shell" else action.label
            self._facts.append(CommandRun(_shorten_command(action.label), position, command=key, outcome=outcome.note))
        failed = not has_taken_effect(outcome.note)
        is_shell = action.verb == "shell"
        for number, effect in enumerate(action.effects):
            if is_shell and is_refused(outcome.errors, effect):
                continue
            if not failed or (is_shell and effect.is_certain):
                content = describe_edit(action, effect) if number < MAX_DESCRIBED_FILES else ""
                self._add_file_effect(position, effect, content, is_confirmed=is_shell or outcome.note != UNKNOWN)
        for effect in list_reported_renames(action.source if is_shell else "", output):
            self._add_file_effect(position, effect, "")
        if action.verb == "todo" and not failed:
            self._facts.extend(parse_tool_list(position, action.arguments))

    def _add_file_effect(self, position: int, effect: FileEffect, content: str, *, is_confirmed: bool = True) -> None:
        path = effect.target or effect.path
        if not effect.path:
            return
        is_known = path in self._existing_paths
        self._existing_paths.add(path)
        if effect.verb == "read":
            self._facts.append(FileRead(path, position))
            return
        change = "modified" if effect.verb == "write" and is_known else _CHANGES[effect.verb]
        if change == "deleted":
            self._existing_paths.discard(path)
        self._facts.append(
            ChangedFile(
                path,
                position,
                live=effect.verb != "revert",
                change=change,
                old_path=effect.path if effect.target else "",
                content=content,
                is_unconfirmed=not is_confirmed,
            )
        )


_CHANGES: Mapping[str, Change] = MappingProxyType(
    {"write": "created", "modify": "modified", "delete": "deleted", "rename": "renamed", "revert": "modified"}
)
"""How each verb changes a file."""


def _shorten_command(command: str) -> str:
    """Returns a command on one line, without a leading `cd`; a long one loses its middle."""
    return excerpt(strip_directory_change(flatten(redact_cached(command))), MAX_COMMAND_CHARS, Keep.JOINED_ENDS)
