"""A host's list as it was last read, so that of the next one, which is mostly the same, only what is new is decoded.

That an object is the same proves nothing: hosts edit their messages in place. Each item is held against a copy of its
dicts and lists (the texts are shared, since nobody can change those), at the speed of `==`. In a long list that is done
with another object at once, with the newest every time, and with the other ones in turns (decision 0014).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import eq, is_
from typing import TypeVar

from msgspec import Struct

from tenfold.record.message import Message, ToolResult
from tenfold.wire.base import Before
from tenfold.wire.container import WIRES, encoded, items_in, raw_of, sign_of
from tenfold.wire.marks import Confirm

T = TypeVar("T")
_WHOLE = (int, bool)
"""Where equal values of one kind are the same JSON: 0.0 and -0.0 are not."""
PART = 32
"""Items whose content is looked at in each list: as many of the newest, and as many of those before them."""
Choose = Callable[[Sequence[str], Sequence[str]], str]
"""Names the wire of a list by its items' signs, up to the first that is sure: roles, and the wire of each or ""."""


class _Exactly:
    """A number or an SDK's object: it equals what has the same type and JSON. In Python `True == 1 == 1.0`."""

    __slots__ = ("_kind", "_value")

    def __init__(self, value: object) -> None:
        self._kind = type(value)
        self._value = value if self._kind in _WHOLE else encoded(value)

    def __eq__(self, other: object) -> bool:
        kind = type(other)
        return kind is self._kind and self._value == (other if kind in _WHOLE else encoded(other))

    def __hash__(self) -> int:
        return hash(self._value)


def _like(value: object) -> object:
    """What equals this value for as long as nobody changes it."""
    if value is None or isinstance(value, str | bytes):
        return value
    if type(value) is list:
        return [_like(inner) for inner in value]
    if type(value) is dict and all(type(key) is str for key in value):
        return {key: _like(inner) for key, inner in value.items()}
    return _Exactly(value)


class Resent(Struct, frozen=True):
    """A list that was read: `Resent()` is the empty one, `next` reads the list that comes after it.

    Lists read one after the other share what they have in common, so `raws` and `messages` may be longer than this
    one: its own are the first `items` and the first `count`. `given` are the host's own objects, and `turn` says where
    the part begins whose content is looked at next.
    """

    wire: str = ""
    items: int = 0
    count: int = 0
    raws: list[bytes] = []
    messages: list[Message] = []
    likes: list[object] = []
    ends: list[int] = []
    roles: list[str] = []
    wires: list[str] = []
    given: list[object] = []
    turn: int = 0

    def said(self) -> list[Message]:
        """What the list says. Nobody may change it: the lists read after this one go on with it."""
        return self.messages if len(self.messages) == self.count else self.messages[: self.count]

    def since(self, known: Resent) -> tuple[int, int]:
        """The bytes and the parts of what came after a list that this one begins with."""
        new = self.messages[known.count : self.count]
        parts = sum(1 + len(p.content) if isinstance(p, ToolResult) else 1 for m in new for p in m.parts)
        return sum(map(len, self.raws[known.items : self.items])), parts

    def next(
        self, items: list[object], wire: str | Choose, *, confirm: Confirm | None = None, whole: bool = False
    ) -> Resent:
        """The list read, held against this one. Raises `BadInput`, `UnknownRole`, and what the choice of a wire does.

        System prompts in front may differ, and the rest is taken over all the same. With `whole`, and in a list that
        has not grown, the content of every item is looked at; without, what was changed in place long before the end
        is seen in one of the next lists.
        """
        grown = None if whole or len(items) == self.items else self._grown(items)
        items = list(items) if grown is None else grown  # the host may go on with its own while this is read
        kept, front = self._kept(items, grown=grown is not None)
        fresh = [raw_of(item) for item in items[kept:]]
        raws = _continued(self.raws, kept, front)
        raws[:front] = [raw_of(item) for item in items[:front]]
        raws.extend(fresh)
        roles, wires = _continued(self.roles, kept, front), _continued(self.wires, kept, front)
        if not isinstance(wire, str):
            for at in range(min(front, len(roles))):
                roles[at], wires[at] = sign_of(raws[at])
            while len(roles) < len(raws) and not (wires and wires[-1]):  # the first sure one tells
                role, sign = sign_of(raws[len(roles)])
                roles.append(role)
                wires.append(sign)
            wire = wire(roles, wires)
        if kept and wire != self.wire:
            return Resent().next(items, wire, confirm=confirm)
        count = self.ends[kept - 1] if kept else 0
        messages, ends = _continued(self.messages, count, front), _continued(self.ends, kept, front)
        if front:
            opening = WIRES[wire].decode(raws[:front], confirm=confirm)
            if _ends(opening, 0) != ends[:front] or any(m.role != "system" for m in opening):
                return Resent().next(items, wire, confirm=confirm)
            messages[: len(opening)] = opening
        decoded = WIRES[wire].decode(fresh, confirm=confirm, before=Before(kept, count, messages))
        messages.extend(decoded)
        ends.extend(_ends(decoded, count))
        likes = _continued(self.likes, kept, front)
        likes[:front] = [_like(item) for item in items[:front]]
        likes.extend([_like(item) for item in items[kept:]])
        turn = self._turns(len(items))[0].stop
        turn = turn if turn < min(self.items, len(items)) - PART else 0
        return Resent(wire, len(items), len(messages), raws, messages, likes, ends, roles, wires, items, turn)

    def _grown(self, items: list[object]) -> list[object] | None:
        """The list, if it begins with this one's objects, or with equal ones, of which it then holds the older.

        None where it does not, or where what is looked at this time says something else. One look at the newest object
        tells a host that copies its list for each request.
        """
        newest = slice(self.items - 1, self.items)
        if not any(map(is_, items[newest], self.given[newest])):
            return None
        given = _continued(self.given, self.items, 0)
        given.extend(items[self.items :])
        same = given == items and all(self.likes[part] == items[part] for part in self._turns(len(given)))
        return given if same else None

    def _turns(self, count: int) -> tuple[slice, slice]:
        """What is looked at of the older items and of the newest; the more, the faster a list of that many goes on."""
        kept = min(self.items, count)
        newest = max(0, kept - PART)
        return slice(self.turn, min(newest, self.turn + PART + max(0, count - self.items))), slice(newest, kept)

    def _kept(self, items: list[object], *, grown: bool) -> tuple[int, int]:
        """How many items are taken over, and how many system prompts before them are not.

        An answer at the end of them is not, since what follows may belong to it.
        """
        kept, front = min(self.items, len(items)), 0
        if not grown and self.likes[:kept] != items[:kept]:
            changed = [at for at, same in enumerate(map(eq, self.likes[:kept], items)) if not same]
            prompts = self._prompts()
            kept = next((at for at in changed if at >= prompts), kept)
            front = prompts if changed[0] < prompts else 0
        while kept and self.messages[self.ends[kept - 1] - 1].role == "assistant":
            kept -= 1
        return (kept, front) if kept >= front else (0, 0)

    def _prompts(self) -> int:
        """How many items the list begins with that are system prompts and nothing else."""
        said = next((at for at in range(self.count) if self.messages[at].role != "system"), self.count)
        return next((at for at in range(self.items) if self.ends[at] > said), self.items)


def _continued(values: list[T], kept: int, front: int) -> list[T]:
    """The list to append to: this very one, which earlier readings share, if it goes on just where it ends."""
    return values if not front and len(values) <= kept else values[:kept]


def _ends(messages: Sequence[Message], count: int) -> list[int]:
    """For each item that these messages came from how many there are once it is in; `count` were there before."""
    ends: list[int] = []
    for end, message in enumerate(messages, count + 1):
        if message.native is not None and message.native.index:
            ends[-1] = end
        else:
            ends.extend([end] * items_in(message))
    return ends
