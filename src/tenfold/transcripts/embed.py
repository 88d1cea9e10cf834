"""Provider messages inside session files: the wire reads and writes them, this module puts the envelope around."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tenfold.record.entry import Said
from tenfold.record.message import Message, Native, Opaque
from tenfold.transcripts.draft import Draft
from tenfold.wire import WIRES

RESPONSES = "openai-responses"
_ALONE = ("compaction", "compaction_summary", "compaction_trigger", "additional_tools")


def decoded(wire: str, items: Sequence[bytes]) -> list[list[Message]]:
    """For each native message the messages it holds.

    Responses items are read one by one: `joins` says which belong to one answer.
    """
    if wire == RESPONSES:
        return [WIRES[wire].decode([item]) for item in items]
    out: list[list[Message]] = []
    found = iter(WIRES[wire].decode(items))
    for _ in items:
        first = next(found)
        count = first.native.count if first.native is not None else 1
        out.append([first, *(next(found) for _ in range(count - 1))])
    return out


def joins(draft: Draft, messages: Sequence[Message]) -> bool:
    """Whether a Responses item goes on with the answer that the draft ends with."""
    last = draft.entries[-1] if draft.entries else None
    if not isinstance(last, Said) or len(messages) != 1:
        return False
    old = last.message
    one = old.native is not None and old.native.count == 1
    return one and old.role == messages[0].role == "assistant" and not (_alone(old) or _alone(messages[0]))


def _alone(message: Message) -> bool:
    first = message.parts[0] if message.parts else None
    return isinstance(first, Opaque) and first.kind in _ALONE


def wrapped(messages: Sequence[Message], native: Native, prefix: bytes = b"", suffix: bytes = b"") -> list[Message]:
    """The messages of one native message with the bytes of its envelope.

    `native` gives the format, the lead, the group's name and, as body, the whole: `prefix`, message, `suffix`.
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
                native=Native(
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


def encoded(wire: str, messages: Sequence[Message]) -> list[bytes]:
    """The messages rendered by the wire, one JSON text a native message.

    System messages become user messages where the wire would take them out of the list; what the wire adds at the
    beginning of a list is left out.
    """
    apart = wire in ("anthropic", "gemini")
    plain = [replace(m, native=None, role="user" if apart and m.role == "system" else m.role) for m in messages]
    return [item.raw for item in WIRES[wire].encode(plain).items if item.of]
