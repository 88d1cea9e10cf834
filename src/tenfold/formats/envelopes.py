"""Handles provider messages inside the lines of session files.

The wire formats decode and encode the messages; this module adds the bytes of the envelope around them.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tenfold.formats.session_draft import SessionDraft
from tenfold.record.entry import MessageEntry
from tenfold.record.message import Message, NativeBytes, OpaquePart
from tenfold.wire import WIRES, Profile


def decode_messages(wire: str, items: Sequence[bytes]) -> list[list[Message]]:
    """Decodes native messages. Returns for each one the list of messages it holds.

    Items of a wire that splits answers are decoded one by one; `is_continuation` tells which belong to one answer.
    """
    if WIRES[wire].profile.splits_answers:
        return [WIRES[wire].decode([item]) for item in items]
    out: list[list[Message]] = []
    messages = iter(WIRES[wire].decode(items))
    for _ in items:
        first = next(messages)
        count = first.native.count if first.native is not None else 1
        out.append([first, *(next(messages) for _ in range(count - 1))])
    return out


def is_continuation(wire: str, draft: SessionDraft, messages: Sequence[Message]) -> bool:
    """Returns whether an item continues the answer that the draft ends with, in a wire that splits answers."""
    profile = WIRES[wire].profile
    last = draft.entries[-1] if draft.entries else None
    if not profile.splits_answers or not isinstance(last, MessageEntry) or len(messages) != 1:
        return False
    old = last.message
    is_single = old.native is not None and old.native.count == 1
    return (
        is_single
        and old.role == messages[0].role == "assistant"
        and not any(_is_standalone(message, profile) for message in (old, messages[0]))
    )


def _is_standalone(message: Message, profile: Profile) -> bool:
    first = message.parts[0] if message.parts else None
    return isinstance(first, OpaquePart) and first.kind in profile.standalone_kinds


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
    has_separate_system = WIRES[wire].profile.has_separate_system
    plain = [
        replace(m, native=None, role="user" if has_separate_system and m.role == "system" else m.role) for m in messages
    ]
    return [item.raw for item in WIRES[wire].encode(plain).items if item.indices]
