"""Many lines within a token budget, each for a step or a message, in the words of the preset `blocks`.

Plain texts only: `overlay.py` shows each line in place of a step, and the preset's writer writes them one below the
other. When the budget is short, every line gets shorter and none is dropped. Only if even the shortest lines do not fit
do neighbouring steps share a line, which says how many they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from tenfold.compaction.plan.stubs import (
    MAX_QUOTED_BYTES,
    OUTCOME_MARK,
    SIZE_NOTE,
    STEP_LINE_PREFIX,
    USER_LINE_PREFIX,
    describe_step,
    quote_on_one_line,
)
from tenfold.core.record.message import Message, get_text
from tenfold.core.text.excerpts import Keep, excerpt

_CHARACTER_LIMITS = (MAX_QUOTED_BYTES, 150, 110, 80, 56, 40, 28, 20, 12)
_GROUP_SIZES = (2, 4, 8, 16, 32, 64, 128)
_SHARED_LINE_CHARACTERS = 60
_MIN_CALL_CHARACTERS = 20
_MIN_FOCUS_WORD = 4
_FOCUS_FACTOR = 3

LineMeasure = Callable[[Sequence[str]], Sequence[int]]
"""Counts the tokens of each line as it will be shown."""


class LabelledLine(Struct, frozen=True):
    """A line: its `label`, its text, and whether it may share a line with the one before it."""

    label: str
    text: str
    can_join: bool = True

    @property
    def line(self) -> str:
        """The whole line."""
        return self.label + self.text


class FittedLine(Struct, frozen=True):
    """A line that stands for `count` of the given ones."""

    count: int
    line: str


def build_step_line(step: Sequence[Message], *, can_join: bool = True) -> LabelledLine:
    """Builds the line of a step: an answer and its results. An answer that is such a line already stays as it is."""
    answer, *results = step
    text = get_text(answer)
    if answer.origin == "tenfold" and text.startswith(STEP_LINE_PREFIX):
        return LabelledLine(STEP_LINE_PREFIX, text.removeprefix(STEP_LINE_PREFIX), can_join)
    return LabelledLine(STEP_LINE_PREFIX, describe_step(answer, results), can_join)


def get_step(messages: Sequence[Message], index: int) -> Sequence[Message]:
    """Returns an answer and what follows it, up to the next answer or line of ours."""
    end = index + 1
    while end < len(messages) and messages[end].role != "assistant" and messages[end].origin != "tenfold":
        end += 1
    return messages[index:end]


def build_user_line(message: Message) -> LabelledLine:
    """Builds the line of a user's message."""
    return LabelledLine(USER_LINE_PREFIX, quote_on_one_line(get_text(message)) or "[no text]")


def fit_lines(lines: Sequence[LabelledLine], budget: int, measure: LineMeasure, *, focus: str = "") -> list[FittedLine]:
    """Returns the lines in at most `budget` tokens together, with every one of them represented.

    Lines that mention the `focus` are shortened less. If even the shortest lines are too much, neighbours that may be
    joined share lines. Where nothing may be joined, the result is over the budget.
    """
    words = [w for w in focus.lower().split() if len(w) >= _MIN_FOCUS_WORD]
    whole = [FittedLine(1, each.line) for each in lines]
    if _count_total(whole, measure) <= budget:
        return whole
    shorter = whole
    for cap in _CHARACTER_LIMITS:
        shorter = [FittedLine(1, each.label + _cut_text(each.text, cap, words)) for each in lines]
        if _count_total(shorter, measure) <= budget:
            return shorter
    for mixed in (False, True):
        for most in _GROUP_SIZES:
            shared = _share_lines(lines, shorter, most, mixed=mixed)
            if _count_total(shared, measure) <= budget:
                return shared
    return shared


def _count_total(lines: Sequence[FittedLine], measure: LineMeasure) -> int:
    return sum(measure([each.line for each in lines])) if lines else 0


def _cut_text(text: str, limit: int, words: Sequence[str]) -> str:
    """Cuts the end of a text. Of a single call the size and the middle of its arguments go, and the outcome stays."""
    most = limit * _FOCUS_FACTOR if any(word in text.lower() for word in words) else limit
    if len(text) <= most:
        return text
    call, mark, outcome = SIZE_NOTE.sub("", text).partition(OUTCOME_MARK)
    room = most - len(mark + outcome) - len(" ... ")
    if mark and OUTCOME_MARK not in outcome and room >= _MIN_CALL_CHARACTERS:
        return excerpt(call, room, Keep.EDGES).replace("\n", " ... ") + mark + outcome
    return text[: most - 3].rstrip() + "..."


def _share_lines(
    lines: Sequence[LabelledLine], single: Sequence[FittedLine], group_size: int, *, mixed: bool
) -> list[FittedLine]:
    """Puts at most `group_size` neighbours on one line. A user's line joins steps only if `mixed`."""
    out: list[FittedLine] = []
    start = 0
    while start < len(lines):
        end = start + 1
        while end < len(lines) and end - start < group_size and lines[end].can_join:
            if not mixed and USER_LINE_PREFIX in (lines[start].label, lines[end].label):
                break
            end += 1
        group = lines[start:end]
        if len(group) == 1:
            out.append(single[start])
        else:
            begins = "; ".join(_cut_text(each.text, _CHARACTER_LIMITS[-1], ()) for each in group)
            label = STEP_LINE_PREFIX if any(each.label == STEP_LINE_PREFIX for each in group) else USER_LINE_PREFIX
            what = "steps" if all(each.label == STEP_LINE_PREFIX for each in group) else "messages and steps"
            out.append(
                FittedLine(len(group), _cut_text(f"{label}{len(group)} {what}: {begins}", _SHARED_LINE_CHARACTERS, ()))
            )
        start = end
    return out
