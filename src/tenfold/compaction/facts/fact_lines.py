"""Renders one fact as a list item of the facts section. `facts/parse.py` reads these items back."""

from __future__ import annotations

import re

from tenfold.core.record.fact import ChangedFile, Claim, CommandRun, Fact, Failure, FileRead, Request, TodoList
from tenfold.core.text.excerpts import Keep, excerpt, flatten
from tenfold.core.text.redaction import redact, redact_cached

MAX_CONTENT_CHARS = 160
"""Most characters of a file's newest changes that stand beside its path, where there is no room for more."""


def render_line(fact: Fact, text: str, content_chars: int = MAX_CONTENT_CHARS) -> str:
    """Renders one fact as a list item. Further lines of a user's text are indented, so they cannot form a heading.

    Of the changes to a file at most `content_chars` characters are shown, the newest.
    """
    shown = redact_cached(text)
    match fact:
        case ChangedFile():
            changes = _select_changes(fact.content, content_chars)
            change = f" (changed: {flatten(excerpt(changes, content_chars))})" if changes else ""
            return f"- {flatten(shown)}{_render_note(fact)}{change}"
        case FileRead():
            return f"- {flatten(shown)}"
        case Failure():
            return f'- tool: "{flatten(shown)}"{_render_source(fact.source)}'
        case CommandRun():
            return f"- [{flatten(redact(fact.outcome))}] {flatten(shown)}"
        case TodoList():
            entry = f"[{fact.position}] " if fact.position >= 0 else ""
            return _render_lines(f"- {entry}assistant:\n{shown.strip()}")
        case Claim():
            return _render_lines(f"- {fact.about}: {shown.strip()}")
        case _:
            return _render_lines(f"- {shown.strip()}")


def _render_lines(text: str) -> str:
    return "\n  ".join(line.rstrip() for line in text.split("\n"))


EDITED, UNCONFIRMED = "changed", "not confirmed"
"""What stands behind a renamed file that was changed as well, and behind a change that no result confirmed."""


def _render_note(fact: ChangedFile) -> str:
    if fact.is_unconfirmed:
        return f" (note: {UNCONFIRMED})"
    return f" (note: {EDITED})" if fact.is_edited else ""


_NUMBERED_ITEM = re.compile(r"\[(\d{1,9})\] ")


def add_number(fact: Request, line: str) -> str:
    """Returns the line of what the user said with the number of its message, if that is known."""
    number = fact.number if fact.line else fact.position
    return f"- [{number}] {line[2:]}" if number >= 0 else line


def parse_numbered(item: str) -> tuple[int, str]:
    """Splits an item that begins with the number of its message into that number, -1 if it has none, and the words."""
    match = _NUMBERED_ITEM.match(item)
    return (int(match[1]), item[match.end() :]) if match else (-1, item)


def _select_changes(content: str, limit: int) -> str:
    """Returns the newest change of a file, and those before it as far as there is room, in their order."""
    *older, newest = content.split("\n")
    shown = newest
    for change in reversed(older):
        if len(change) + len(shown) + 2 > limit:
            break
        shown = f"{change}; {shown}"
    return shown


_MAX_SOURCE_CHARS = 110
"""Most characters of the command or file that an error is said to come from."""


def _render_source(note: str) -> str:
    """Renders where an error comes from, as the end of its line; "" if nobody knows."""
    return f" (from: {redact(excerpt(flatten(note), _MAX_SOURCE_CHARS, Keep.JOINED_ENDS))})" if note else ""


def render_fact_line(fact: Fact, limit: int) -> str:
    """Renders a fact as one line, labelled as in the section, with at most about `limit` characters of its text."""
    return render_line(fact, excerpt(flatten(fact.text), limit))
