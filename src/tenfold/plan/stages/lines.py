"""One line for a step or a message, in the words of the preset `blocks`, and many lines within a token budget.

Plain texts only: `overlay.py` shows each line in place of a step, and the preset's writer writes them one below the
other. When the budget is short, every line gets shorter and none is dropped. Only if even the shortest lines do not fit
do neighbouring steps share a line, which says how many they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from tenfold.record.message import Message, Text, calls_of, text_of
from tenfold.redact import redacted

LINE = "[Summary] "
"""Begins the line that stands for a step."""
USER_LINE = "[User] "
"""Begins the line that stands for a user's message that does not stay word for word."""
BLOCK_BYTES = 200
"""The most bytes of one text part that a line quotes. The design omits longer ones; here they are cut."""
_CAPS = (BLOCK_BYTES, 150, 110, 80, 56, 40, 28, 20, 12)
_TOGETHER = (2, 4, 8, 16, 32, 64, 128)
_SHARED_CHARACTERS = 60
_FOCUS_WORD = 4
_FOCUS_FACTOR = 3

Measure = Callable[[Sequence[str]], Sequence[int]]
"""Counts the tokens of each line as it will be shown."""


class Told(Struct, frozen=True):
    """A line: its `label`, its text, and whether it may share a line with the one before it."""

    label: str
    text: str
    joins: bool = True

    @property
    def line(self) -> str:
        """The whole line."""
        return self.label + self.text


class Fitted(Struct, frozen=True):
    """A line that stands for `count` of the given ones."""

    count: int
    line: str


def said(message: Message) -> str:
    """Describes an assistant message for a step's line.

    Quotes its text parts, at most `MAX_QUOTED_BYTES` of each. Without text it says how many tools were used, or, if
    there were none, just that the assistant responded.
    """
    blocks = [p.text for p in message.parts if isinstance(p, Text) and p.text.strip()]
    if blocks:
        return " ".join(bounded(_words(block)) for block in blocks)
    calls = len(calls_of(message))
    return f"[Assistant used {calls} tool(s)]" if calls else "[Assistant response]"


def _words(text: str) -> str:
    """Returns the start of a text on one line, longer than a line shows: secrets must be removed before it is cut."""
    return redacted(" ".join(text.split())[: 4 * BLOCK_BYTES])


def bounded(text: str, most: int = BLOCK_BYTES) -> str:
    """Returns the text in at most that many bytes of UTF-8. Three dots replace the end of a longer one."""
    raw = text.encode("utf-8", "surrogatepass")
    return text if len(raw) <= most else raw[: most - 3].decode("utf-8", "ignore").rstrip() + "..."


def step_line(message: Message, *, joins: bool = True) -> Told:
    """Builds the line of a step from its assistant message. A message that is such a line already stays as it is."""
    text = text_of(message)
    if message.origin == "tenfold" and text.startswith(LINE):
        return Told(LINE, text.removeprefix(LINE), joins)
    return Told(LINE, said(message), joins)


def user_line(message: Message) -> Told:
    """Builds the line of a user's message."""
    words = _words(text_of(message))
    return Told(USER_LINE, bounded(words) if words else "[no text]")


def fitted(told: Sequence[Told], budget: int, measure: Measure, *, focus: str = "") -> list[Fitted]:
    """Returns the lines in at most `budget` tokens together, with every one of them represented.

    Lines that mention the `focus` are shortened less. If even the shortest lines are too much, neighbours that may be
    joined share lines. Where nothing may be joined, the result is over the budget.
    """
    words = [w for w in focus.lower().split() if len(w) >= _FOCUS_WORD]
    whole = [Fitted(1, each.line) for each in told]
    if _total(whole, measure) <= budget:
        return whole
    shorter = whole
    for cap in _CAPS:
        shorter = [Fitted(1, each.label + _cut(each.text, cap, words)) for each in told]
        if _total(shorter, measure) <= budget:
            return shorter
    for mixed in (False, True):
        for most in _TOGETHER:
            shared = _shared(told, shorter, most, mixed=mixed)
            if _total(shared, measure) <= budget:
                return shared
    return shared


def _total(lines: Sequence[Fitted], measure: Measure) -> int:
    return sum(measure([each.line for each in lines])) if lines else 0


def _cut(text: str, cap: int, words: Sequence[str]) -> str:
    most = cap * _FOCUS_FACTOR if any(word in text.lower() for word in words) else cap
    return text if len(text) <= most else text[: most - 3].rstrip() + "..."


def _shared(told: Sequence[Told], single: Sequence[Fitted], most: int, *, mixed: bool) -> list[Fitted]:
    """Puts at most `group_size` neighbours on one line. A user's line joins steps only if `mixed`."""
    out: list[Fitted] = []
    start = 0
    while start < len(told):
        end = start + 1
        while end < len(told) and end - start < most and told[end].joins:
            if not mixed and USER_LINE in (told[start].label, told[end].label):
                break
            end += 1
        group = told[start:end]
        if len(group) == 1:
            out.append(single[start])
        else:
            begins = "; ".join(_cut(each.text, _CAPS[-1], ()) for each in group)
            label = LINE if any(each.label == LINE for each in group) else USER_LINE
            what = "steps" if all(each.label == LINE for each in group) else "messages and steps"
            out.append(Fitted(len(group), _cut(f"{label}{len(group)} {what}: {begins}", _SHARED_CHARACTERS, ())))
        start = end
    return out


def cut_lines(text: str, most: int) -> str | None:
    """Returns the first and last half of `max_lines` lines, and says how many were dropped between; None if none were.

    An odd `max_lines` gives the end one line more.
    """
    rows = text.split("\n")
    if len(rows) <= most:
        return None
    head = most // 2
    tail = most - head
    dropped = len(rows) - head - tail
    return "\n".join([*rows[:head], f"[... {dropped} lines removed ...]", *rows[len(rows) - tail :]])
