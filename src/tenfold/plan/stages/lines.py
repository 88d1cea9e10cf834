"""One line for a step or a message, in the words of the preset `blocks`, and many of them within a budget.

Plain texts only: `overlay.py` shows each line in the place of a step, `summarize/lines.py` writes them one under the
other. When the budget is short every line gets shorter; none is dropped, and no neighbour is told in its place unless
even the shortest lines do not fit: then neighbouring steps share a line that says how many they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from tenfold.record.message import Message, Text, calls_of, text_of
from tenfold.redact import redacted

LINE = "[Summary] "
"""Begins the line that stands for a step."""
USER_LINE = "[User] "
"""Begins the line that stands for a user's message, where one does not stay as it was said."""
BLOCK_BYTES = 200
"""The most bytes of a text block that a line quotes. The design leaves longer blocks out; here they are cut."""
_CAPS = (BLOCK_BYTES, 150, 110, 80, 56, 40, 28, 20, 12)
_TOGETHER = (2, 4, 8, 16, 32, 64, 128)
_SHARED_CHARACTERS = 60
_FOCUS_WORD = 4
_FOCUS_FACTOR = 3

Measure = Callable[[Sequence[str]], Sequence[int]]
"""Tokens of each line as it will be shown."""


class Told(Struct, frozen=True):
    """A line: its `label`, what it says, and whether it may share one with the line before it."""

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
    """What a step's line says of an assistant message.

    Its text blocks, at most `BLOCK_BYTES` of each; without text how many tools it used; with neither, that it answered.
    """
    blocks = [p.text for p in message.parts if isinstance(p, Text) and p.text.strip()]
    if blocks:
        return " ".join(bounded(_words(block)) for block in blocks)
    calls = len(calls_of(message))
    return f"[Assistant used {calls} tool(s)]" if calls else "[Assistant response]"


def _words(text: str) -> str:
    """The beginning of a text on one line, and more of it than a line shows: secrets go before it is cut."""
    return redacted(" ".join(text.split())[: 4 * BLOCK_BYTES])


def bounded(text: str, most: int = BLOCK_BYTES) -> str:
    """The text in at most that many bytes of UTF-8, its end replaced by three dots where it is longer."""
    raw = text.encode("utf-8", "surrogatepass")
    return text if len(raw) <= most else raw[: most - 3].decode("utf-8", "ignore").rstrip() + "..."


def step_line(message: Message, *, joins: bool = True) -> Told:
    """The line of a step, from its assistant message; a line that stands for one already stays what it is."""
    text = text_of(message)
    if message.origin == "tenfold" and text.startswith(LINE):
        return Told(LINE, text.removeprefix(LINE), joins)
    return Told(LINE, said(message), joins)


def user_line(message: Message) -> Told:
    """The line of a user's message."""
    words = _words(text_of(message))
    return Told(USER_LINE, bounded(words) if words else "[no text]")


def fitted(told: Sequence[Told], budget: int, measure: Measure, *, focus: str = "") -> list[Fitted]:
    """The lines in at most `budget` tokens together, all of them represented.

    Lines that speak of the `focus` are shortened less. Only if each at its shortest is still too much do neighbours
    that may be joined share lines; where nothing may be joined the shortest lines are given, over the budget.
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
    """At most `most` neighbours in one line, which says how many they are and how the first ones begin.

    A user's line shares one with steps only if `mixed`.
    """
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
    """The first half and the last half of `most` lines, between them how many were dropped; None if there are no more.

    An odd `most` gives the end one line more.
    """
    rows = text.split("\n")
    if len(rows) <= most:
        return None
    head = most // 2
    tail = most - head
    dropped = len(rows) - head - tail
    return "\n".join([*rows[:head], f"[... {dropped} lines removed ...]", *rows[len(rows) - tail :]])
