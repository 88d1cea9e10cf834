"""The values of the design behind the preset `blocks`: turns, sections, compaction blocks and loops; their JSON.

A *turn* is a step together with the user messages that led to it; a *loop* is a run. Turns are numbered within their
loop, from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, TypeVar

import msgspec
from msgspec import Struct

from tenfold.core.record.message import Message, get_tool_calls, get_tool_result
from tenfold.errors import BadInput

T = TypeVar("T")
_JSON_NAMES = {
    "start_turn": "startTurn",
    "end_turn": "endTurn",
    "loop_id": "loopId",
    "turn_index": "turnIndex",
    "turn_id": "turnId",
    "created_at": "createdAt",
}


class TurnRange(Struct, frozen=True, rename=_JSON_NAMES, forbid_unknown_fields=True):
    """The turns `start_turn` to `end_turn` of a loop, both included."""

    start_turn: int
    end_turn: int

    def __post_init__(self) -> None:
        """Raises ValueError unless 0 <= start <= end."""
        if not 0 <= self.start_turn <= self.end_turn:
            raise ValueError(f"turns {self.start_turn} to {self.end_turn} are no range: give 0 <= start <= end")


class TurnId(Struct, frozen=True, rename=_JSON_NAMES, forbid_unknown_fields=True):
    """The loop of a message, and the number of its turn in that loop."""

    loop_id: str
    turn_index: int


class TurnMessage(Struct, frozen=True, rename=_JSON_NAMES, forbid_unknown_fields=True, omit_defaults=True):
    """A message and its turn; None if it belongs to no turn."""

    message: Message
    turn_id: TurnId | None = None


class CompactedSection(Struct, frozen=True, forbid_unknown_fields=True):
    """The messages that are shown for a range of turns."""

    range: TurnRange
    messages: tuple[Message, ...]


class CompactionBlock(
    Struct, frozen=True, kw_only=True, rename=_JSON_NAMES, forbid_unknown_fields=True, omit_defaults=True
):
    """What is shown of one compacted loop, and when that was made. Only the latest loop has first and recent turns."""

    keep_first: TurnRange | None = None
    keep_compacted: CompactedSection | None = None
    keep_recent: CompactedSection | None = None
    created_at: Annotated[datetime, msgspec.Meta(tz=True)]


class LoopRecord(Struct, frozen=True, rename=_JSON_NAMES, forbid_unknown_fields=True, omit_defaults=True):
    """A loop: its original messages, and a compaction block if something else is shown in their place.

    `events` are the numbers and names of the events that a `SessionRecorder` recorded; `status` is how the loop ended.
    """

    loop_id: str
    messages: tuple[TurnMessage, ...]
    parent_loop_id: str | None = None
    compaction_block: CompactionBlock | None = None
    events: tuple[tuple[int, str], ...] = ()
    status: str = "completed"


def to_json(value: Struct) -> bytes:
    """Encodes a value of this module as JSON with the published keys (`startTurn`, `turnId`); None is left out."""
    return msgspec.json.encode(value)


def from_json(kind: type[T], data: bytes | str) -> T:
    """Decodes a value of `kind` from JSON. Raises `BadInput`, naming the path, if it does not fit; never gives None."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as exc:
        raise BadInput(f"this is no {kind.__name__}: {exc}; give what `to_json` wrote, or correct it there") from exc


# -- turns -------------------------------------------------------------------------------------------------------------


def assign_turns(messages: Sequence[Message], loop_id: str = "") -> tuple[TurnMessage, ...]:
    """Numbers the turns of one loop. A turn is an answer, its tool results and the user messages that led to it."""
    out: list[TurnMessage] = []
    index, answered = 0, False
    waiting: set[str] = set()
    for message in messages:
        result = get_tool_result(message)
        if message.role == "assistant":
            index += answered
            answered = True
            waiting = {c.id for c in get_tool_calls(message)}
        elif result is not None or message.origin == "tool":
            waiting.discard(result.call_id if result is not None else "")
        elif answered and not waiting:
            index, answered = index + 1, False
        out.append(TurnMessage(message, TurnId(loop_id, index)))
    return tuple(out)


class TurnMap(Struct, frozen=True):
    """The groups of a list of messages, as half-open index ranges. A `TurnRange` counts these groups."""

    groups: tuple[tuple[int, int], ...]

    @classmethod
    def from_messages(cls, messages: Sequence[TurnMessage | Message]) -> TurnMap:
        """Groups neighbouring messages of the same turn and loop. A message without a turn is its own group.

        A plain `Message` has no turn. `assign_turns` gives the messages of a loop theirs.
        """
        groups: list[tuple[int, int]] = []
        before: TurnId | None = None
        for index, each in enumerate(messages):
            turn = each.turn_id if isinstance(each, TurnMessage) else None
            if turn is not None and turn == before:
                groups[-1] = (groups[-1][0], index + 1)
            else:
                groups.append((index, index + 1))
            before = turn
        return cls(tuple(groups))

    def turn_count(self) -> int:
        """Returns the number of groups."""
        return len(self.groups)

    def turn_msg_range(self, turn_index: int) -> tuple[int, int] | None:
        """Returns the start and the exclusive end of a group's messages, None if there is no such group."""
        return self.groups[turn_index] if 0 <= turn_index < len(self.groups) else None

    def messages_for_range(self, range: TurnRange, all_msgs: Sequence[T]) -> Sequence[T]:
        """Returns the messages of the groups in `range`, as far as they exist; else an empty sequence."""
        groups = self.groups[range.start_turn : range.end_turn + 1]
        return all_msgs[groups[0][0] : groups[-1][1]] if groups else all_msgs[:0]
