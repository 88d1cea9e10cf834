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
from tenfold.compaction.facts.merge import REVERTED_NOTE, UNCONFIRMED_NOTE, merge_facts
from tenfold.compaction.facts.redacted_messages import redact_message
from tenfold.compaction.facts.shell import FileEffect, list_reported_renames, strip_directory_change
from tenfold.compaction.facts.shortened_steps import parse_step_line
from tenfold.compaction.facts.todos import parse_file_list, parse_text_list, parse_tool_list
from tenfold.compaction.facts.tool_calls import ToolAction, find_open_file, interpret_call, parse_text_action
from tenfold.compaction.facts.tool_results import (
    UNKNOWN,
    ToolOutcome,
    find_error_lines,
    has_failed,
    has_taken_effect,
    is_refused,
    judge_result,
)
from tenfold.core.record.block import Fact, FactKind
from tenfold.core.record.message import Message, Text, get_text, get_tool_calls, get_tool_result
from tenfold.core.text.excerpts import MAX_SEARCHED_CHARS, Keep, excerpt, flatten, normalize_key
from tenfold.core.text.json_text import extract_prose
from tenfold.core.text.redaction import redact_cached
from tenfold.core.wire.marks import STEP_PREFIX, strip_harness_text

__all__ = ["extract_facts", "merge_facts"]

MAX_COMMAND_CHARS = 170
"""Most characters of a command that is shown. Its beginning and end tell it from others."""
MAX_DESCRIBED_FILES = 40
"""For how many files one call's facts say what it changed in them."""
_FACT_KINDS: dict[str, FactKind] = {
    "read": "file_read",
    "write": "file_created",
    "modify": "file_modified",
    "delete": "file_deleted",
    "rename": "file_renamed",
    "revert": "file_modified",
}


def extract_facts(
    entries: Iterable[tuple[int, Message]], *, known_lists: Mapping[str, int] = MappingProxyType({})
) -> tuple[Fact, ...]:
    """Returns the facts of original messages, given as (position, message) in order. Settled ones have `live` False.

    `known_lists` says up to which position the changes of a to-do list are known, by its key. Those changes are left
    out: a list may hold an item several times, and would be ticked once more.
    """
    reader = _FactReader()
    items = list(entries)
    for at, message in items if is_later_range(items) else items[find_task_start(items) :]:
        reader.read(at, redact_message(message))
    found = reader.finish()
    return merge_facts(
        (), [f for f in found if f.kind != "todo" or f.note != "part" or f.position > known_lists.get(f.key, -1)]
    )


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
        text = excerpt(text, MAX_SEARCHED_CHARS, Keep.EDGES)
        self._facts.extend(parse_text_list(position, text, user=True))
        if len(text) > 300:
            lines = find_error_lines(text, strict=True)
            self._facts.extend(Fact("error", line, normalize_key(line), position, note="user") for line in lines)

    def _read_answer(self, position: int, message: Message) -> None:
        self._has_answer |= message.status == "ok"
        calls = get_tool_calls(message)
        for call in calls:
            self._pending[call.id] = interpret_call(call, self._open_file)
        text = extract_prose("\n".join(part.text for part in message.parts if isinstance(part, Text)))
        text = excerpt(text, MAX_SEARCHED_CHARS, Keep.EDGES)
        if text.startswith(STEP_PREFIX):
            self._read_shortened_step(position, text)
        elif text:
            self._facts.extend(parse_text_list(position, text, user=False))
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
            self._facts.append(Fact("command", _shorten_command(action.label), key, position, note=outcome.note))
        failed = not has_taken_effect(outcome.note)
        is_shell = action.verb == "shell"
        for number, effect in enumerate(action.effects):
            if is_shell and is_refused(outcome.errors, effect):
                continue
            if not failed or (is_shell and effect.is_certain):
                note = UNCONFIRMED_NOTE if outcome.note == UNKNOWN and not is_shell else ""
                content = describe_edit(action, effect) if number < MAX_DESCRIBED_FILES else ""
                self._add_file_effect(position, effect, content, note)
                if effect.verb in {"write", "modify"} and not is_shell:
                    self._facts.extend(
                        parse_file_list(position, effect.path, action.arguments, is_whole_file=effect.verb == "write")
                    )
        for effect in list_reported_renames(action.source if is_shell else "", output):
            self._add_file_effect(position, effect, "", "")
        if action.verb == "todo" and not failed:
            self._facts.extend(parse_tool_list(position, action.arguments))

    def _add_file_effect(self, position: int, effect: FileEffect, content: str, note: str) -> None:
        kind = _FACT_KINDS.get(effect.verb)
        if kind is None or not effect.path:
            return
        if kind == "file_created" and effect.path in self._existing_paths:
            kind = "file_modified"
        key = effect.target or effect.path
        text = f"{effect.path} -> {effect.target}" if effect.target else effect.path
        self._existing_paths.add(key)
        if kind == "file_deleted":
            self._existing_paths.discard(key)
        is_revert = effect.verb == "revert"
        note = REVERTED_NOTE if is_revert else note if kind != "file_read" else ""
        self._facts.append(Fact(kind, text, key, position, live=not is_revert, note=note, content=content))


def _shorten_command(command: str) -> str:
    """Returns a command on one line, without a leading `cd`; a long one loses its middle."""
    return excerpt(strip_directory_change(flatten(redact_cached(command))), MAX_COMMAND_CHARS, Keep.JOINED_ENDS)
