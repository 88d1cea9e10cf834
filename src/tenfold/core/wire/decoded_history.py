"""Keeps a host's message list as it was last decoded, so that of the next list only the new items are decoded.

Hosts resend their whole list, mostly unchanged. They also edit messages in place, so an item is not known to be
unchanged because it is the same object. Instead it is compared with `==` to a copy of its dicts and lists (texts are
immutable and shared). In a long list, an item that is another object is compared at once, the newest items are compared
every time, and the others in turns (decision 0014).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import eq, is_
from typing import TypeVar

from msgspec import Struct

from tenfold.core.record.message import Message
from tenfold.core.wire.base import DecodedPrefix
from tenfold.core.wire.marks import OriginCallback, SummaryConfirmer
from tenfold.core.wire.registry import WIRES, WireChooser, count_items, read_sign
from tenfold.core.wire.sdk_values import encode_messages, encode_value
from tenfold.core.wire.splice import parse_value
from tenfold.core.wire.unread_text import UnreadMessage, find_unread_items, refuse_unread

T = TypeVar("T")
_PLAIN_TYPES = (int, bool)
"""Types whose equal values give the same JSON. Floats are not among them: 0.0 == -0.0."""
_COPIED_LEVELS = 50
"""Levels of a message that are copied. What is nested deeper, mostly a call's arguments, is compared as JSON."""
CHECKED_ITEMS = 32
"""How many items are compared in each list: this many of the newest, and this many of those before them."""


class _ExactValue:
    """A number or SDK object. It equals values of the same type and JSON only, since in Python `True == 1 == 1.0`."""

    __slots__ = ("_kind", "_value")

    def __init__(self, value: object) -> None:
        self._kind = type(value)
        self._value = value if self._kind in _PLAIN_TYPES else encode_value(value)

    def __eq__(self, other: object) -> bool:
        kind = type(other)
        return kind is self._kind and self._value == (other if kind in _PLAIN_TYPES else encode_value(other))

    def __hash__(self) -> int:
        return hash(self._value)


def _copy_value(value: object, levels: int = _COPIED_LEVELS) -> object:
    """Copies a value: the copy equals it until somebody changes it."""
    if value is None or isinstance(value, str | bytes):
        return value
    if levels and type(value) is list:
        return [_copy_value(inner, levels - 1) for inner in value]
    if levels and type(value) is dict and all(type(key) is str for key in value):
        return {key: _copy_value(inner, levels - 1) for key, inner in value.items()}
    return _ExactValue(value)


class DecodedHistory(Struct, frozen=True):
    """A decoded list: `DecodedHistory()` is the empty one, and `decode_next` decodes the list that follows it.

    Consecutive lists share what they have in common, so `raws` and `messages` may be longer than this list: only the
    first `item_count` and the first `message_count` belong to it. `host_items` are the host's own objects.
    `check_start` is the index of the first older item to compare next time. `unread` are the items with text that no
    message holds.
    """

    wire: str = ""
    item_count: int = 0
    message_count: int = 0
    raws: list[bytes] = []
    messages: list[Message] = []
    copies: list[object] = []
    ends: list[int] = []
    roles: list[str] = []
    wires: list[str] = []
    host_items: list[object] = []
    check_start: int = 0
    unread: list[UnreadMessage] = []

    def get_messages(self) -> list[Message]:
        """Returns the messages of the list. Do not change them: later lists share them."""
        return self.messages if len(self.messages) == self.message_count else self.messages[: self.message_count]

    def get_new_messages(self, earlier: DecodedHistory) -> list[Message]:
        """Returns the messages that were added since an earlier list."""
        return self.messages[earlier.message_count : self.message_count]

    def get_new_raws(self, earlier: DecodedHistory) -> list[bytes]:
        """Returns the native items that were added since an earlier list."""
        return self.raws[earlier.item_count : self.item_count]

    def decode_next(
        self,
        items: list[object],
        wire: str | WireChooser,
        *,
        confirm: SummaryConfirmer | None = None,
        origin: OriginCallback | None = None,
        thorough: bool = False,
    ) -> DecodedHistory:
        """Decodes the list that follows this one, and takes over from this one what is unchanged.

        The system prompts at the beginning may differ; the rest can still be taken over. With `thorough`, or if the
        list has not grown, every item is compared. Otherwise a change far from the end may be noticed in one of the
        next lists only. Raises `BadInput`, `UnknownRole`, and what the choice of the wire raises.
        """
        extended = None if thorough or len(items) == self.item_count else self._extend_items(items)
        items = list(items) if extended is None else extended  # the host may change its own list meanwhile
        kept_count, changed_prompts = self._count_kept_items(items, is_extension=extended is not None)
        new_raws = encode_messages(items[kept_count:], kept_count)
        raws = _continue_list(self.raws, kept_count, changed_prompts)
        raws[:changed_prompts] = encode_messages(items[:changed_prompts])
        raws.extend(new_raws)
        roles, wires = (
            _continue_list(self.roles, kept_count, changed_prompts),
            _continue_list(self.wires, kept_count, changed_prompts),
        )
        if not isinstance(wire, str):
            for at in range(min(changed_prompts, len(roles))):
                roles[at], wires[at] = read_sign(raws[at])
            while len(roles) < len(raws) and not (wires and wires[-1]):  # up to the first conclusive item
                role, sign = read_sign(raws[len(roles)])
                roles.append(role)
                wires.append(sign)
            wire = wire(roles, wires)
        if kept_count and wire != self.wire:
            return DecodedHistory().decode_next(items, wire, confirm=confirm, origin=origin)
        count = self.ends[kept_count - 1] if kept_count else 0
        messages, ends = (
            _continue_list(self.messages, count, changed_prompts),
            _continue_list(self.ends, kept_count, changed_prompts),
        )
        if changed_prompts:
            opening = WIRES[wire].decode(raws[:changed_prompts], confirm=confirm, origin=origin)
            if find_ends(opening, 0) != ends[:changed_prompts] or any(m.role != "system" for m in opening):
                return DecodedHistory().decode_next(items, wire, confirm=confirm, origin=origin)
            messages[: len(opening)] = opening
        prefix = DecodedPrefix(kept_count, count, messages)
        decoded = WIRES[wire].decode(new_raws, confirm=confirm, origin=origin, prefix=prefix)
        messages.extend(decoded)
        ends.extend(find_ends(decoded, count))
        copies = _continue_list(self.copies, kept_count, changed_prompts)
        copies[:changed_prompts] = [_copy_value(item) for item in items[:changed_prompts]]
        copies.extend([_copy_value(item) for item in items[kept_count:]])
        start = self._pick_checked_slices(len(items))[0].stop
        start = start if start < min(self.item_count, len(items)) - CHECKED_ITEMS else 0
        unread = [u for u in self.unread if u.index < kept_count] + find_unread_items(decoded, wire, kept_count)
        refuse_unread(unread, len(items), wire, lambda: map(parse_value, raws), is_sent=True)
        return DecodedHistory(
            wire, len(items), len(messages), raws, messages, copies, ends, roles, wires, items, start, unread
        )

    def _extend_items(self, items: list[object]) -> list[object] | None:
        """Returns the longer list if it begins with this one's objects or equal ones; equal ones are replaced by ours.

        Returns None if it does not, or if the content of a compared item has changed. The newest object is tested
        first: that shows at once whether the host copies its messages for each request.
        """
        newest = slice(self.item_count - 1, self.item_count)
        if not any(map(is_, items[newest], self.host_items[newest])):
            return None
        host_items = _continue_list(self.host_items, self.item_count, 0)
        host_items.extend(items[self.item_count :])
        is_unchanged = host_items == items and all(
            self.copies[part] == items[part] for part in self._pick_checked_slices(len(host_items))
        )
        return host_items if is_unchanged else None

    def _pick_checked_slices(self, count: int) -> tuple[slice, slice]:
        """Returns which older and which newest items to compare. A list that grew more has more older ones compared."""
        kept_count = min(self.item_count, count)
        newest = max(0, kept_count - CHECKED_ITEMS)
        return slice(
            self.check_start, min(newest, self.check_start + CHECKED_ITEMS + max(0, count - self.item_count))
        ), slice(newest, kept_count)

    def _count_kept_items(self, items: list[object], *, is_extension: bool) -> tuple[int, int]:
        """Counts the items to take over, and the changed system prompts before them, which are decoded again.

        An answer at the end of the items is not taken over, since what follows may belong to it.
        """
        kept_count, changed_prompts = min(self.item_count, len(items)), 0
        if not is_extension and self.copies[:kept_count] != items[:kept_count]:
            changed = [at for at, same in enumerate(map(eq, self.copies[:kept_count], items)) if not same]
            prompt_count = self._count_system_items()
            kept_count = next((at for at in changed if at >= prompt_count), kept_count)
            changed_prompts = prompt_count if changed[0] < prompt_count else 0
        while kept_count and self.messages[self.ends[kept_count - 1] - 1].role == "assistant":
            kept_count -= 1
        return (kept_count, changed_prompts) if kept_count >= changed_prompts else (0, 0)

    def _count_system_items(self) -> int:
        """Counts the items at the beginning of the list that are system prompts and nothing else."""
        prompt_messages = next(
            (at for at in range(self.message_count) if self.messages[at].role != "system"), self.message_count
        )
        return next((at for at in range(self.item_count) if self.ends[at] > prompt_messages), self.item_count)


def _continue_list(values: list[T], kept_count: int, changed_prompts: int) -> list[T]:
    """Returns the list to append to: `values` itself, shared with earlier lists, if the new values follow its end."""
    return values if not changed_prompts and len(values) <= kept_count else values[:kept_count]


def find_ends(messages: Sequence[Message], count: int) -> list[int]:
    """Returns, for each native item, the number of messages up to and with it. `count` messages came before."""
    ends: list[int] = []
    for end, message in enumerate(messages, count + 1):
        if message.native is not None and message.native.index:
            ends[-1] = end
        else:
            ends.extend([end] * count_items(message))
    return ends
