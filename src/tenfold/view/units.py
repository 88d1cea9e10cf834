"""One scan over original entries yields the units of a view, and repairs what arrived broken.

A unit is a message, a closed step together with what was interleaved in it, or a replaced range. Entries that show
nothing are units too, so every position lies in exactly one unit. A step closes when its last tool call is answered. If
calls stay unanswered, it closes at the next assistant entry. An answer that refers to items which only the provider has
may contain calls that we cannot see. Its step takes all tool results that follow, and closes at the next message of
another kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from tenfold.record.block import Rep
from tenfold.record.entry import Entry, message_of
from tenfold.record.message import Message, Text, ToolResult, calls_of, refers, result_of, text_of

NO_RESULT = "[no result was recorded for this call]"
LATE = "[result of a tool call that has no place here any more{name}]"
ABORTED = "[this answer was {status} before it was complete{dropped}{began}]"
DROPPED = "; what it was about to call was not called: {names}"
BEGAN = "; it began: {text}"
_ABORTED_CHARACTERS = 2_000


class Shown(Struct, frozen=True, weakref=False):
    """One message of a view. `position` is where it comes from: its own position, or that of the Block that shows it.

    `original_position` is the original that it stands for: its own position for an untouched original, None where it
    stands for a range. `key` identifies the message in token caches. `is_original` means that the log's own message is
    shown untouched.
    """

    message: Message
    at: int
    of: int | None
    key: tuple[int, int, int]
    original: bool


class Unit(Struct, frozen=True):
    """Positions `first` to `last` and what they show. For a replaced range, `block_part` names the replacement."""

    first: int
    last: int
    kind: Literal["message", "step", "rep", "silent"]
    shown: tuple[Shown, ...]
    ref: Rep | None = None


class OpenStep(Struct, frozen=True):
    """A step with unanswered tool calls: its entries so far, and the ids of the calls that still wait."""

    entries: tuple[tuple[int, Entry], ...]
    waiting: tuple[str, ...]

    @property
    def first(self) -> int:
        """The position of its assistant message."""
        return self.entries[0][0]

    def goes_on(self, message: Message | None) -> bool:
        """Whether the next entry belongs to this step. `message` is None for an entry without a message."""
        if message is None:
            return True
        return message.role != "assistant" if self.waiting else message.role == "tool"


def original(position: int, message: Message) -> Shown:
    """Builds the visible form of an untouched message at its own position."""
    return Shown(message, position, position, (position, 0, -1), True)


def _repair(position: int, message: Message, index: int = 0) -> Shown:
    return Shown(message, position, position, (position, index, -2), False)


def _late(position: int, message: Message) -> Shown:
    result = result_of(message)
    name = f": {result.name}" if result and result.name else ""
    rest = tuple(p for p in result.content if not isinstance(p, Text)) if result else ()
    text = LATE.format(name=name) + "\n" + text_of(message)
    return _repair(position, Message("user", (Text(text), *rest), "tool"))


def _aborted(position: int, message: Message) -> tuple[Shown, ...]:
    if not shows(message):
        return ()
    text = text_of(message).strip()
    beginning = text[:_ABORTED_CHARACTERS] + ("..." if len(text) > _ABORTED_CHARACTERS else "")
    names = ", ".join(call.name for call in calls_of(message))
    marker = ABORTED.format(
        status="aborted" if message.status == "aborted" else "cut off by an error",
        dropped=DROPPED.format(names=names) if names else "",
        began=BEGAN.format(text=beginning) if beginning else "",
    )
    return (_repair(position, Message("assistant", (Text(marker),), "tenfold")),)


def shows(message: Message) -> bool:
    """Whether a message is visible at all. An answer that was aborted before it said anything is not."""
    if message.status == "ok" or message.role != "assistant":
        return True
    return bool(text_of(message).strip() or calls_of(message))


def shown_of(step: OpenStep, *, closing: bool) -> tuple[Shown, ...]:
    """Returns a step as a model may see it: tool calls, results in order of arrival, then interleaved messages.

    Unanswered calls get a visible marker if the step is `closing` or if something else already follows them, because a
    provider refuses a call without its result.
    """
    position, entry = step.entries[0]
    call_message = message_of(entry)
    assert call_message is not None
    results: list[Shown] = []
    others: list[Shown] = []
    names = {c.id: c.name for c in calls_of(call_message)}
    waiting = [c.id for c in calls_of(call_message)]
    for at, each in step.entries[1:]:
        message = message_of(each)
        if message is None:
            continue
        result = result_of(message)
        if result is None:
            others.append(original(at, message))
        elif result.call in waiting:
            waiting.remove(result.call)
            results.append(original(at, message))
        elif refers(call_message) and result.call not in names:
            results.append(original(at, message))
        else:
            others.append(_late(at, message))
    if waiting and (closing or others):
        for index, call in enumerate(waiting):
            part = ToolResult(call, names[call], (Text(NO_RESULT),), error=True)
            results.append(_repair(position, Message("tool", (part,), "tenfold"), index + 1))
    return (original(position, call_message), *results, *others)


def close(step: OpenStep) -> Unit:
    """Turns the step into a unit, with a marker for each unanswered call."""
    return Unit(step.first, step.entries[-1][0], "step", shown_of(step, closing=True))


def scan(entries: Iterable[tuple[int, Entry]], step: OpenStep | None) -> tuple[list[Unit], OpenStep | None]:
    """Continues a scan. Returns the units that closed, and the step that is open at the end."""
    units: list[Unit] = []
    for position, entry in entries:
        message = message_of(entry)
        if step is not None and step.goes_on(message):
            step, done = _into(step, position, entry, message)
            if done is not None:
                units.append(done)
            continue
        if step is not None:
            units.append(close(step))
            step = None
        if message is None:
            units.append(Unit(position, position, "silent", ()))
        elif message.role == "assistant" and message.status != "ok":
            units.append(Unit(position, position, "step", _aborted(position, message)))
        elif message.role == "assistant" and (calls_of(message) or refers(message)):
            step = OpenStep(((position, entry),), tuple(c.id for c in calls_of(message)))
        elif message.role == "assistant":
            units.append(Unit(position, position, "step", (original(position, message),)))
        elif message.role == "tool":
            units.append(Unit(position, position, "message", (_late(position, message),)))
        else:
            units.append(Unit(position, position, "message", (original(position, message),)))
    return units, step


def _into(step: OpenStep, position: int, entry: Entry, message: Message | None) -> tuple[OpenStep | None, Unit | None]:
    waiting = step.waiting
    result = result_of(message) if message is not None else None
    if result is not None and result.call in waiting:
        at = waiting.index(result.call)
        waiting = waiting[:at] + waiting[at + 1 :]
    grown = OpenStep((*step.entries, (position, entry)), waiting)
    answer = message_of(step.entries[0][1])
    return (grown, None) if waiting or (answer is not None and refers(answer)) else (None, close(grown))
