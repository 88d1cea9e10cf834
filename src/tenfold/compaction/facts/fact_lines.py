"""Renders one fact as a list item of the facts section. `facts/parse.py` reads these items back."""

from __future__ import annotations

import re

from tenfold.core.record.block import Fact, FactKind
from tenfold.core.text.excerpts import Keep, excerpt, flatten, normalize_key
from tenfold.core.text.memoize import memoize
from tenfold.core.text.redaction import redact

MAX_CONTENT_CHARS = 160
"""Most characters of a file's newest changes that stand beside its path, where there is no room for more."""


def render_line(fact: Fact, text: str, content_chars: int = MAX_CONTENT_CHARS) -> str:
    """Renders one fact as a list item. Further lines of a user's text are indented, so they cannot form a heading.

    Of the changes to a file at most `content_chars` characters are shown, the newest.
    """
    if fact.kind == "todo":
        return _render_list(fact, redact(text))
    line = _render_item(text, fact.kind, fact.note)
    changes = _select_changes(fact.content, content_chars)
    return f"{line} (changed: {flatten(excerpt(changes, content_chars))})" if changes else line


NUMBERED_KEY = "message "
"""How the key of words begins that were parsed with the number of their message."""
_MESSAGE_KEY = re.compile(r"(?:message )?(\d{1,9})(?: |\Z)")
_NUMBERED_ITEM = re.compile(r"\[(\d{1,9})\] ")


def add_number(fact: Fact, line: str) -> str:
    """Returns the line of what the user said with the number of its message, if that is known."""
    match = _MESSAGE_KEY.match(fact.key)
    return f"- [{match[1]}] {line[2:]}" if match else line


def parse_numbered(item: str) -> tuple[str, str]:
    """Splits an item that begins with the number of its message into the key that keeps the number, and the words."""
    match = _NUMBERED_ITEM.match(item)
    words = item[match.end() :] if match else item
    return (f"{NUMBERED_KEY}{match[1]} " if match else "earlier ") + normalize_key(words, 60), words


def _render_list(fact: Fact, text: str) -> str:
    """Renders a plan with the entry it was read from and with who wrote it, the user or the assistant."""
    entry = f"[{fact.position}] " if fact.position >= 0 else ""
    label = f"- {entry}{'user' if fact.note == 'user' else 'assistant'}:"
    return "\n  ".join((label, *(line.rstrip() for line in text.strip().split("\n"))))


def _select_changes(content: str, limit: int) -> str:
    """Returns the newest change of a file, and those before it as far as there is room, in their order."""
    *older, newest = content.split("\n")
    shown = newest
    for change in reversed(older):
        if len(change) + len(shown) + 2 > limit:
            break
        shown = f"{change}; {shown}"
    return shown


@memoize
def _render_item(text: str, kind: FactKind, note: str) -> str:
    text = redact(text)
    match kind:
        case "request" | "rule" | "correction" | "remark":
            return "- " + "\n  ".join(line.rstrip() for line in text.strip().split("\n"))
        case "claimed":
            return f"- {note}: " + "\n  ".join(line.rstrip() for line in text.strip().split("\n"))
        case "error":
            return f'- tool: "{flatten(text)}"{_render_source(note)}'
        case "command":
            return f"- [{flatten(note) or 'unknown'}] {flatten(text)}"
        case _:
            return f"- {flatten(text)}" + (f" (note: {flatten(note)})" if note else "")


_MAX_SOURCE_CHARS = 110
"""Most characters of the command or file that an error is said to come from."""


def _render_source(note: str) -> str:
    """Renders where an error comes from, as the end of its line; "" if nobody knows."""
    return f" (from: {redact(excerpt(flatten(note), _MAX_SOURCE_CHARS, Keep.JOINED_ENDS))})" if note else ""


def render_fact_line(fact: Fact, limit: int) -> str:
    """Renders a fact as one line, labelled as in the section, with at most about `limit` characters of its text."""
    return render_line(fact, excerpt(flatten(fact.text), limit))
