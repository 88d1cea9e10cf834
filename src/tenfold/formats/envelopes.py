"""Handles provider messages inside the lines of session files.

The wire formats decode and encode the messages; this module adds the bytes of the envelope around them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.message import Message, NativeBytes
from tenfold.core.wire import Wire, count_items, get_wire, pydantic_ai


class DecodedMessage(Struct, frozen=True):
    """A native message, which may consist of several items (an answer of OpenAI Responses), as `messages` of ours."""

    item_count: int
    messages: list[Message]


def find_wire(name: str) -> Wire:
    """Finds a wire by its name, also the one that no provider takes. Raises `UnknownFormat` if there is none."""
    return pydantic_ai.WIRE if name == pydantic_ai.NAME else get_wire(name)


def decode_messages(wire: str, items: Sequence[bytes]) -> Iterator[DecodedMessage]:
    """Decodes native messages in order. Raises `UnknownRole`, and `BadInput` for an item that is not a JSON object."""
    messages = iter(find_wire(wire).decode(items))
    for first in messages:
        count = first.native.count if first.native is not None else 1
        yield DecodedMessage(count_items(first), [first, *(next(messages) for _ in range(count - 1))])


def wrap_messages(
    messages: Sequence[Message], native: NativeBytes, prefix: bytes = b"", suffix: bytes = b""
) -> list[Message]:
    """Returns the messages of one native message with the bytes of its envelope added.

    `native` gives the format, the lead, the group's name and, as body, the whole line: `prefix`, message, `suffix`.
    """
    if len(messages) == 1:
        return [replace(messages[0], native=replace(native, group=""))]
    out = []
    for index, message in enumerate(messages):
        own = message.native
        assert own is not None
        out.append(
            replace(
                message,
                native=NativeBytes(
                    native.format,
                    own.body,
                    native.lead if index == 0 else b"",
                    head=(prefix if index == 0 else b"") + own.head,
                    tail=own.tail + (suffix if index == len(messages) - 1 else b""),
                    group=native.group,
                    index=index,
                    count=len(messages),
                ),
            )
        )
    return out


def encode_messages(wire: str, messages: Sequence[Message]) -> list[bytes]:
    """Encodes messages in a wire format. Returns one JSON text for each native message.

    System messages become user messages if the wire format keeps them outside the list. Messages that the wire format
    would add at the beginning of a list are left out.
    """
    is_folded = find_wire(wire).profile.has_separate_system
    plain = [replace(m, native=None, role="user" if is_folded and m.role == "system" else m.role) for m in messages]
    return [item.raw for item in find_wire(wire).encode(plain).items if item.indices]
