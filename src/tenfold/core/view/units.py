"""One scan over original entries yields the units of a view, and repairs what arrived broken.

A unit is a message, a closed step together with what was interleaved in it, or a replaced range. Entries that show
nothing are units too, so every position lies in exactly one unit. A step closes when its last tool call is answered. If
calls stay unanswered, it closes at the next assistant entry. Calls in assistant messages that directly follow each
other are one step, since some clients record parallel calls so. An answer that refers to items which only the provider
has may contain calls that we cannot see. Its step takes all tool results that follow, and closes at the next message
of another kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from tenfold.core.record.block import BlockPart
from tenfold.core.record.entry import Entry, get_message
from tenfold.core.record.message import (
    Message,
    Text,
    ToolResult,
    get_text,
    get_tool_calls,
    get_tool_result,
    has_item_references,
)

NO_RESULT = "[no result was recorded for this call]"
LATE_RESULT = "[result of a tool call that has no place here any more{name}]"
ABORTED_ANSWER = "[this answer was {status} before it was complete{dropped}{began}]"
UNMADE_CALLS = "; what it was about to call was not called: {names}"
ANSWER_BEGINNING = "; it began: {text}"
_MAX_ABORTED_CHARACTERS = 2_000

MessageKey = tuple[int, int, int]
"""Identifies a visible message in token caches. Only the three functions below build one."""
_ORIGINAL, _REPAIR = -1, -2
"""The third number of a key where no Block shows the message. Where one does, it is the index of the item shown."""


def build_original_key(position: int) -> MessageKey:
    """Builds the key of the untouched message at a position."""
    return (position, 0, _ORIGINAL)


def build_block_key(part: BlockPart, item: int) -> MessageKey:
    """Builds the key of a message that a Block shows: the `item`th that this replacement shows."""
    return (part.block, part.index, item)


def _build_repair_key(position: int, number: int) -> MessageKey:
    """Builds the key of what stands for a broken message (`number` 0), or for the `number`th result that is missing."""
    return (position, number, _REPAIR)


class VisibleMessage(Struct, frozen=True, weakref=False):
    """One message of a view. `position` is where it comes from: its own position, or that of the Block that shows it.

    `original_position` is the original that it stands for: its own position for an untouched original, None where it
    stands for a range. `key` identifies the message in token caches. `is_original` means that the log's own message is
    shown untouched.
    """

    message: Message
    position: int
    original_position: int | None
    key: MessageKey
    is_original: bool

    @property
    def is_from_block(self) -> bool:
        """Whether a Block shows it in place of something else."""
        return self.key[2] >= 0

    @property
    def is_missing_result(self) -> bool:
        """Whether it marks a tool call that has no result."""
        return self.key[2] == _REPAIR and self.key[1] > 0


class Unit(Struct, frozen=True):
    """Positions `first` to `last` and what they show. For a replaced range, `block_part` names the replacement."""

    first: int
    last: int
    kind: Literal["message", "step", "rep", "silent"]
    visible_messages: tuple[VisibleMessage, ...]
    block_part: BlockPart | None = None


class OpenStep(Struct, frozen=True):
    """A step with unanswered tool calls: its entries so far, and the ids of the calls that still wait."""

    entries: tuple[tuple[int, Entry], ...]
    waiting_calls: tuple[str, ...]

    @property
    def first(self) -> int:
        """The position of its assistant message."""
        return self.entries[0][0]

    def is_continued_by(self, message: Message | None) -> bool:
        """Whether the next entry belongs to this step. `message` is None for an entry without a message."""
        if message is None:
            return True
        if message.role == "assistant":
            return self._is_parallel(message)
        return bool(self.waiting_calls) or message.role == "tool"

    def _is_parallel(self, message: Message) -> bool:
        """Whether an answer makes further calls, and neither a result nor anything else came since the first ones."""
        before = [each for _, entry in self.entries if (each := get_message(entry)) is not None]
        is_new = all(call.id not in self.waiting_calls for call in get_tool_calls(message))
        return is_new and all(map(_has_calls, (*before, message)))


def build_original(position: int, message: Message) -> VisibleMessage:
    """Builds the visible form of an untouched message at its own position."""
    return VisibleMessage(message, position, position, build_original_key(position), True)


def _build_repair(position: int, message: Message, index: int = 0) -> VisibleMessage:
    return VisibleMessage(message, position, position, _build_repair_key(position, index), False)


def _label_late_result(position: int, message: Message) -> VisibleMessage:
    result = get_tool_result(message)
    name = f": {result.name}" if result and result.name else ""
    rest = tuple(p for p in result.content if not isinstance(p, Text)) if result else ()
    text = LATE_RESULT.format(name=name) + "\n" + get_text(message)
    return _build_repair(position, Message("user", (Text(text), *rest), "tool"))


def _mark_aborted_answer(position: int, message: Message) -> tuple[VisibleMessage, ...]:
    if not is_visible(message):
        return ()
    text = get_text(message).strip()
    beginning = text[:_MAX_ABORTED_CHARACTERS] + ("..." if len(text) > _MAX_ABORTED_CHARACTERS else "")
    names = ", ".join(call.name for call in get_tool_calls(message))
    marker = ABORTED_ANSWER.format(
        status="aborted" if message.status == "aborted" else "cut off by an error",
        dropped=UNMADE_CALLS.format(names=names) if names else "",
        began=ANSWER_BEGINNING.format(text=beginning) if beginning else "",
    )
    return (_build_repair(position, Message("assistant", (Text(marker),), "tenfold")),)


def is_visible(message: Message) -> bool:
    """Whether a message is visible at all. An answer that was aborted before it said anything is not."""
    if message.status == "ok" or message.role != "assistant":
        return True
    return bool(get_text(message).strip() or get_tool_calls(message))


def get_step_messages(step: OpenStep, *, closing: bool) -> tuple[VisibleMessage, ...]:
    """Returns a step as a model may see it: tool calls, results in order of arrival, then interleaved messages.

    Where several assistant messages call, each is followed by its own results. Unanswered calls get a visible marker if
    the step is `closing` or if something else already follows them, because a provider refuses a call without its
    result.
    """
    answers: list[_CallingAnswer] = []
    others: list[VisibleMessage] = []
    for at, each in step.entries:
        message = get_message(each)
        if message is None:
            continue
        result = get_tool_result(message)
        if result is None and message.role == "assistant":
            answers.append(_CallingAnswer(at, message))
        elif result is None:
            others.append(build_original(at, message))
        elif not any(answer.take_result(at, message, result.call_id) for answer in answers):
            others.append(_label_late_result(at, message))
    return (
        *(
            shown
            for answer in answers
            for shown in answer.list_messages(closing=closing or bool(others) or answer is not answers[-1])
        ),
        *others,
    )


class _CallingAnswer:
    """An assistant message with calls, the results that it has so far, and the calls that wait."""

    def __init__(self, position: int, message: Message) -> None:
        self._position, self._message = position, message
        self._names = {call.id: call.name for call in get_tool_calls(message)}
        self._waiting = [call.id for call in get_tool_calls(message)]
        self._results: list[VisibleMessage] = []

    def take_result(self, position: int, message: Message, call_id: str) -> bool:
        """Takes a result if a call waits for it, or if it may be one of those that only the provider has."""
        if call_id in self._waiting:
            self._waiting.remove(call_id)
        elif call_id in self._names or not has_item_references(self._message):
            return False
        self._results.append(build_original(position, message))
        return True

    def list_messages(self, *, closing: bool) -> list[VisibleMessage]:
        """Lists the message and its results. With `closing`, calls that wait get a marker in place of a result."""
        shown = [build_original(self._position, self._message), *self._results]
        for index, call in enumerate(self._waiting if closing else ()):
            part = ToolResult(call, self._names[call], (Text(NO_RESULT),), is_error=True)
            shown.append(_build_repair(self._position, Message("tool", (part,), "tenfold"), index + 1))
        return shown


def _has_calls(message: Message) -> bool:
    """Whether a message is a whole answer that calls tools, all of which we see."""
    return (
        message.role == "assistant"
        and message.status == "ok"
        and bool(get_tool_calls(message))
        and not has_item_references(message)
    )


def close_step(step: OpenStep) -> Unit:
    """Turns the step into a unit, with a marker for each unanswered call."""
    return Unit(step.first, step.entries[-1][0], "step", get_step_messages(step, closing=True))


def scan_entries(entries: Iterable[tuple[int, Entry]], step: OpenStep | None) -> tuple[list[Unit], OpenStep | None]:
    """Continues a scan. Returns the units that closed, and the step that is open at the end."""
    units: list[Unit] = []
    for position, entry in entries:
        message = get_message(entry)
        if step is not None and step.is_continued_by(message):
            step, done = _extend_step(step, position, entry, message)
            if done is not None:
                units.append(done)
            continue
        if step is not None:
            units.append(close_step(step))
            step = None
        if message is None:
            units.append(Unit(position, position, "silent", ()))
        elif message.role == "assistant" and message.status != "ok":
            units.append(Unit(position, position, "step", _mark_aborted_answer(position, message)))
        elif message.role == "assistant" and (get_tool_calls(message) or has_item_references(message)):
            step = OpenStep(((position, entry),), tuple(c.id for c in get_tool_calls(message)))
        elif message.role == "assistant":
            units.append(Unit(position, position, "step", (build_original(position, message),)))
        elif message.role == "tool":
            units.append(Unit(position, position, "message", (_label_late_result(position, message),)))
        else:
            units.append(Unit(position, position, "message", (build_original(position, message),)))
    return units, step


def _extend_step(
    step: OpenStep, position: int, entry: Entry, message: Message | None
) -> tuple[OpenStep | None, Unit | None]:
    waiting = step.waiting_calls
    if message is not None and message.role == "assistant":
        waiting += tuple(call.id for call in get_tool_calls(message))
    result = get_tool_result(message) if message is not None else None
    if result is not None and result.call_id in waiting:
        at = waiting.index(result.call_id)
        waiting = waiting[:at] + waiting[at + 1 :]
    grown = OpenStep((*step.entries, (position, entry)), waiting)
    answer = get_message(step.entries[0][1])
    return (
        (grown, None) if waiting or (answer is not None and has_item_references(answer)) else (None, close_step(grown))
    )
