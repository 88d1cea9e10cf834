"""Handles provider messages inside the lines of session files.

The wire formats decode and encode the messages; this module adds the bytes of the envelope around them.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tenfold.formats.session_draft import SessionDraft
from tenfold.record.entry import MessageEntry
from tenfold.record.message import Message, NativeBytes, OpaquePart
from tenfold.wire import WIRES

RESPONSES_WIRE = "openai-responses"
_SEPARATE_ITEMS = ("compaction", "compaction_summary", "compaction_trigger", "additional_tools")


def decode_messages(wire: str, items: Sequence[bytes]) -> list[list[Message]]:
    """Decodes native messages. Returns for each one the list of messages it holds.

    Responses items are decoded one by one; `is_continuation` tells which of them belong to one answer.
    """
    if wire == RESPONSES_WIRE:
        return [WIRES[wire].decode([item]) for item in items]
    out: list[list[Message]] = []
    messages = iter(WIRES[wire].decode(items))
    for _ in items:
        first = next(messages)
        count = first.native.count if first.native is not None else 1
        out.append([first, *(next(messages) for _ in range(count - 1))])
    return out


def is_continuation(draft: SessionDraft, messages: Sequence[Message]) -> bool:
    """Returns whether a Responses item continues the answer that the draft ends with."""
    last = draft.entries[-1] if draft.entries else None
    if not isinstance(last, MessageEntry) or len(messages) != 1:
        return False
    old = last.message
    is_single = old.native is not None and old.native.count == 1
    return (
        is_single
        and old.role == messages[0].role == "assistant"
        and not (_is_separate(old) or _is_separate(messages[0]))
    )


def _is_separate(message: Message) -> bool:
    first = message.parts[0] if message.parts else None
    return isinstance(first, OpaquePart) and first.kind in _SEPARATE_ITEMS


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
    has_system_field = wire in ("anthropic", "gemini")
    plain = [
        replace(m, native=None, role="user" if has_system_field and m.role == "system" else m.role) for m in messages
    ]
    return [item.raw for item in WIRES[wire].encode(plain).items if item.indices]
