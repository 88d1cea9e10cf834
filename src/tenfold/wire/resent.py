"""Keeps a host's message list as it was last decoded, so that of the next list only the new items are decoded.

Hosts resend their whole list, mostly unchanged. They also edit messages in place, so an item is not known to be
unchanged because it is the same object. Instead it is compared with `==` to a copy of its dicts and lists (texts are
immutable and shared). In a long list, an item that is another object is compared at once, the newest items are compared
every time, and the others in turns (decision 0014).
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
"""Types whose equal values give the same JSON. Floats are not among them: 0.0 == -0.0."""
PART = 32
"""How many items are compared in each list: this many of the newest, and this many of those before them."""
Choose = Callable[[Sequence[str], Sequence[str]], str]
"""Chooses the wire of a list from the role and the wire ("" if open) of its items, up to the first conclusive one."""


class _Exactly:
    """A number or SDK object. It equals values of the same type and JSON only, since in Python `True == 1 == 1.0`."""

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
    """Copies a value: the copy equals it until somebody changes it."""
    if value is None or isinstance(value, str | bytes):
        return value
    if type(value) is list:
        return [_like(inner) for inner in value]
    if type(value) is dict and all(type(key) is str for key in value):
        return {key: _like(inner) for key, inner in value.items()}
    return _Exactly(value)


class Resent(Struct, frozen=True):
    """A decoded list: `DecodedHistory()` is the empty one, and `decode_next` decodes the list that follows it.

    Consecutive lists share what they have in common, so `raws` and `messages` may be longer than this list: only the
    first `item_count` and the first `message_count` belong to it. `host_items` are the host's own objects.
    `check_start` is the index of the first older item to compare next time.
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
        """Returns the messages of the list. Do not change them: later lists share them."""
        return self.messages if len(self.messages) == self.count else self.messages[: self.count]

    def since(self, known: Resent) -> tuple[int, int]:
        """Returns the numbers of bytes and of parts that were added since an earlier list."""
        new = self.messages[known.count : self.count]
        parts = sum(1 + len(p.content) if isinstance(p, ToolResult) else 1 for m in new for p in m.parts)
        return sum(map(len, self.raws[known.items : self.items])), parts

    def next(
        self, items: list[object], wire: str | Choose, *, confirm: Confirm | None = None, whole: bool = False
    ) -> Resent:
        """Decodes the list that follows this one, and takes over from this one what is unchanged.

        The system prompts at the beginning may differ; the rest can still be taken over. With `thorough`, or if the
        list has not grown, every item is compared. Otherwise a change far from the end may be noticed in one of the
        next lists only. Raises `BadInput`, `UnknownRole`, and what the choice of the wire raises.
        """
        extended = None if whole or len(items) == self.items else self._grown(items)
        items = list(items) if extended is None else extended  # the host may change its own list meanwhile
        kept_count, changed_prompts = self._kept(items, grown=extended is not None)
        new_raws = [raw_of(item) for item in items[kept_count:]]
        raws = _continued(self.raws, kept_count, changed_prompts)
        raws[:changed_prompts] = [raw_of(item) for item in items[:changed_prompts]]
        raws.extend(new_raws)
        roles, wires = (
            _continued(self.roles, kept_count, changed_prompts),
            _continued(self.wires, kept_count, changed_prompts),
        )
        if not isinstance(wire, str):
            for at in range(min(changed_prompts, len(roles))):
                roles[at], wires[at] = sign_of(raws[at])
            while len(roles) < len(raws) and not (wires and wires[-1]):  # up to the first conclusive item
                role, sign = sign_of(raws[len(roles)])
                roles.append(role)
                wires.append(sign)
            wire = wire(roles, wires)
        if kept_count and wire != self.wire:
            return Resent().next(items, wire, confirm=confirm)
        count = self.ends[kept_count - 1] if kept_count else 0
        messages, ends = (
            _continued(self.messages, count, changed_prompts),
            _continued(self.ends, kept_count, changed_prompts),
        )
        if changed_prompts:
            opening = WIRES[wire].decode(raws[:changed_prompts], confirm=confirm)
            if _ends(opening, 0) != ends[:changed_prompts] or any(m.role != "system" for m in opening):
                return Resent().next(items, wire, confirm=confirm)
            messages[: len(opening)] = opening
        decoded = WIRES[wire].decode(new_raws, confirm=confirm, before=Before(kept_count, count, messages))
        messages.extend(decoded)
        ends.extend(_ends(decoded, count))
        copies = _continued(self.likes, kept_count, changed_prompts)
        copies[:changed_prompts] = [_like(item) for item in items[:changed_prompts]]
        copies.extend([_like(item) for item in items[kept_count:]])
        start = self._turns(len(items))[0].stop
        start = start if start < min(self.items, len(items)) - PART else 0
        return Resent(wire, len(items), len(messages), raws, messages, copies, ends, roles, wires, items, start)

    def _grown(self, items: list[object]) -> list[object] | None:
        """Returns the longer list if it begins with this one's objects or equal ones; equal ones are replaced by ours.

        Returns None if it does not, or if the content of a compared item has changed. The newest object is tested
        first: that shows at once whether the host copies its messages for each request.
        """
        newest = slice(self.items - 1, self.items)
        if not any(map(is_, items[newest], self.given[newest])):
            return None
        host_items = _continued(self.given, self.items, 0)
        host_items.extend(items[self.items :])
        is_unchanged = host_items == items and all(
            self.likes[part] == items[part] for part in self._turns(len(host_items))
        )
        return host_items if is_unchanged else None

    def _turns(self, count: int) -> tuple[slice, slice]:
        """Returns which older and which newest items to compare. A list that grew more has more older ones compared."""
        kept_count = min(self.items, count)
        newest = max(0, kept_count - PART)
        return slice(self.turn, min(newest, self.turn + PART + max(0, count - self.items))), slice(newest, kept_count)

    def _kept(self, items: list[object], *, grown: bool) -> tuple[int, int]:
        """Counts the items to take over, and the changed system prompts before them, which are decoded again.

        An answer at the end of the items is not taken over, since what follows may belong to it.
        """
        kept_count, changed_prompts = min(self.items, len(items)), 0
        if not grown and self.likes[:kept_count] != items[:kept_count]:
            changed = [at for at, same in enumerate(map(eq, self.likes[:kept_count], items)) if not same]
            prompt_count = self._prompts()
            kept_count = next((at for at in changed if at >= prompt_count), kept_count)
            changed_prompts = prompt_count if changed[0] < prompt_count else 0
        while kept_count and self.messages[self.ends[kept_count - 1] - 1].role == "assistant":
            kept_count -= 1
        return (kept_count, changed_prompts) if kept_count >= changed_prompts else (0, 0)

    def _prompts(self) -> int:
        """Counts the items at the beginning of the list that are system prompts and nothing else."""
        prompt_messages = next((at for at in range(self.count) if self.messages[at].role != "system"), self.count)
        return next((at for at in range(self.items) if self.ends[at] > prompt_messages), self.items)


def _continued(values: list[T], kept: int, front: int) -> list[T]:
    """Returns the list to append to: `values` itself, shared with earlier lists, if the new values follow its end."""
    return values if not front and len(values) <= kept else values[:kept]


def _ends(messages: Sequence[Message], count: int) -> list[int]:
    """Returns, for each native item, the number of messages up to and with it. `count` messages came before."""
    ends: list[int] = []
    for end, message in enumerate(messages, count + 1):
        if message.native is not None and message.native.index:
            ends[-1] = end
        else:
            ends.extend([end] * items_in(message))
    return ends
