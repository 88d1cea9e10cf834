"""Finds examples that are no part of the work: demonstrations inside a message, and example turns before the task.

Formats mark demonstrations, but conversions lose the mark. What remains is the form: text between lines or tags that
name an example, and a task that comes a second time in the same words after an episode that nobody answered.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tenfold.compaction.facts.tool_calls import parse_text_action
from tenfold.core.record.message import Message, get_text, get_tool_calls

_MARK = re.compile(
    r"^[^\w\n]*(?:(?P<end>END (?:OF )?)|(?:START|BEGIN(?:NING)?) (?:OF )?)?(?:THE )?(?P<name>EXAMPLE"
    r"|DEMONSTRATION)S?[^\w\n]*$"
    r"|<(?P<close>/)?(?P<tag>demonstrations?|few[_-]shot\w{0,20}|in_context_examples?)>",
    re.MULTILINE,
)
"""A line or tag at which an example begins or ends."""
_MIN_TEMPLATE_CHARS = 300
"""Fewest characters in whole lines that two task messages share if both were filled in from one template."""
_MIN_LINE_CHARS = 20
_TOP_FOLDER = re.compile(r"(?<![\w./~-])/([\w.@-]{3,})(?=[/\s):]|$)")
_MAX_READ_CHARS = 4_000


def strip_examples(text: str) -> str:
    """Removes demonstrations that stand between lines or tags which name them."""
    kept: list[str] = []
    position = 0
    begins: dict[str, int] = {}
    for mark in _MARK.finditer(text):
        name = mark["name"] or mark["tag"]
        if not (mark["end"] or mark["close"]):
            begins.setdefault(name, mark.start())
        elif (begin := begins.pop(name, -1)) >= position:
            kept.append(text[position:begin])
            position = mark.end()
    return "".join([*kept, text[position:]]).strip() if position else text


MAX_START_POSITION = 2
"""A range that starts deeper than this continues a conversation. System prompt and context may come before the first
words of the user."""


def is_later_range(entries: Sequence[tuple[int, Message]]) -> bool:
    """Tells whether messages, given as (position, message) in order, begin within a conversation."""
    return bool(entries) and entries[0][0] > MAX_START_POSITION


def find_task_start(entries: Sequence[tuple[int, Message]]) -> int:
    """Returns the index of the message with the task; 0 if nothing before it is an example.

    `entries` begin where the conversation begins. Turns are an example if the user's first message comes again in the
    same template, and they end with an action that got no result or happened in another folder.
    """
    users = [number for number, (_, message) in enumerate(entries) if _is_from_user(message)]
    if len(users) < 2:
        return 0
    first_lines = _list_template_lines(get_text(entries[users[0]][1]))
    for number in reversed(users[1:]):
        shared = first_lines & _list_template_lines(get_text(entries[number][1]))
        if sum(map(len, shared)) >= _MIN_TEMPLATE_CHARS and (
            _is_unanswered(entries[number - 1][1]) or _has_other_folders(entries, users[0], number)
        ):
            return number
    return 0


def _is_from_user(message: Message) -> bool:
    return message.role == "user" and message.origin == "human"


def _list_template_lines(text: str) -> set[str]:
    return {line for line in text.split("\n") if len(line) >= _MIN_LINE_CHARS}


def _is_unanswered(message: Message) -> bool:
    """Tells whether the message is an action of the assistant, so that whatever follows is not its result."""
    return message.role == "assistant" and (bool(get_tool_calls(message)) or parse_text_action(message) is not None)


def _has_other_folders(entries: Sequence[tuple[int, Message]], first: int, task: int) -> bool:
    """Tells whether the messages from the task on name none of the top folders that those before it name."""
    before = _list_top_folders(entries[first:task])
    after = _list_top_folders(entries[task : 2 * task - first])
    return bool(before) and bool(after) and not before & after


def _list_top_folders(entries: Sequence[tuple[int, Message]]) -> set[str]:
    """Returns the top folders in what tools printed and in the arguments of calls, system folders left out."""
    found: set[str] = set()
    for _, message in entries:
        texts = [call.arguments for call in get_tool_calls(message)]
        if message.role != "assistant":
            texts.append(get_text(message)[-_MAX_READ_CHARS:])
        found |= {name for text in texts for name in _TOP_FOLDER.findall(text)}
    return found - _SYSTEM_FOLDERS


_SYSTEM_NAMES = "usr bin etc dev tmp var opt lib root proc sys sbin mnt"
_SYSTEM_FOLDERS = frozenset(_SYSTEM_NAMES.split())
