"""What the user is asked to approve: a change of a file or a command, with the whole of its text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from msgspec import Struct

from tenfold.apps.agent.file_tree import split_lines

ApprovalKind = Literal["write", "command"]
"""What needs an approval: a change of a file, or a command."""
MAX_CONTEXT = 200
"""Characters of a line on either side of an edit that are shown with it. Beyond that, its line is not shown whole."""


class Section(NamedTuple):
    """A part of an action's text, exactly as it is.

    `sign` tells how it is meant, as in a diff: "+" lines that will be there, "-" lines that will be gone, " " lines
    that stay; "" is a command.
    """

    sign: Literal["", " ", "-", "+"]
    text: str


class Action(Struct, frozen=True):
    """What will be done if the user says yes.

    `line` says it in one line, for a list or a log: hidden characters in it are named, and the secrets of a command are
    redacted. `sections` are the whole text that will run or be written. They are not made safe for a terminal;
    `tenfold.core.text.hidden` does that.
    """

    kind: ApprovalKind
    line: str
    sections: tuple[Section, ...]


Approver = Callable[[Action], Awaitable[bool]]
"""Asks for an approval. True means yes."""


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


def _count_equal(left: list[str], right: list[str]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count
