"""Reads and writes whole JSON arrays of native messages."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tenfold.core.record.message import Message
from tenfold.core.wire import splice
from tenfold.core.wire.encoding import split_answer
from tenfold.core.wire.marks import SummaryConfirmer
from tenfold.core.wire.registry import WIRES, get_wire


def decode_bytes(data: bytes, wire: str, *, confirm: SummaryConfirmer | None = None) -> list[Message]:
    """Decodes a whole JSON array of native messages. `encode_bytes` gives the same bytes back.

    The white space inside an empty array is not kept. Raises `BadInput` if it is not an array, `UnknownRole`, and
    `UnknownFormat` for an unknown wire.
    """
    slices = splice.slice_array(data)
    messages = get_wire(wire).decode(slices.items, confirm=confirm)
    out: list[Message] = []
    position = 0
    for at, message in enumerate(messages):
        native = message.native
        assert native is not None
        if native.index == 0:
            count = count_items(message)
            native = msgspec.structs.replace(native, lead=slices.leads[position])
            if count > 1:
                body = slices.items[position] + b"".join(
                    slices.leads[i] + slices.items[i] for i in range(position + 1, position + count)
                )
                native = msgspec.structs.replace(native, body=body)
            position += count
        if at == len(messages) - 1:
            native = msgspec.structs.replace(native, tail=native.tail + slices.end)
        out.append(msgspec.structs.replace(message, native=native))
    return out


def count_items(message: Message) -> int:
    """Counts the native items of a message: one, unless its wire writes an answer as several items."""
    return len(_slice_items(message).items)


def encode_bytes(messages: Sequence[Message], wire: str) -> bytes:
    """Encodes messages as one JSON array, with the separators and the ending they came with.

    For wires that take the system prompt separately, leading system texts are left out: see `encode(...).system`.
    """
    natives = [m.native for m in messages if m.native is not None]
    between = next((n.lead for n in natives if b"," in n.lead), b",")
    end = next((n.tail[n.tail.rindex(b"]") :] for n in reversed(natives) if n.tail.rstrip().endswith(b"]")), b"]")
    out: list[bytes] = []
    part = 0
    leads: tuple[bytes, ...] = ()
    previous: tuple[int, ...] = ()
    items = get_wire(wire).encode(messages).items
    opening = messages[0].native.lead if messages and messages[0].native is not None else b""
    if items and not items[0].indices and b"[" in opening:
        items = items[1:]  # a stub is needed in a request only; in the file the list began without it
    for item in items:
        native = messages[item.indices[0]].native if item.exact else None
        if native is None:
            lead = b""
        elif item.indices == previous:
            part += 1
            lead = leads[part]
        else:
            part, lead = 0, native.lead
            leads = _slice_items(messages[item.indices[0]]).leads
        previous = item.indices if item.exact else ()
        if out:
            out.append(lead if b"," in lead else between)
        else:
            out.append(lead if b"[" in lead else b"[" + between.replace(b",", b""))
        out.append(item.raw)
    if not out:
        return b"[]"
    last = messages[-1].native
    if last is not None and last.tail.rstrip().endswith(b"]"):
        end = last.tail[last.tail.rfind(b"}") + 1 :]
    return b"".join(out) + end


def _slice_items(message: Message) -> splice.Slices:
    native = message.native
    wire = WIRES.get(native.format) if native is not None else None
    if native is None or wire is None:
        return splice.Slices((b"",), (b"",), b"")
    return split_answer(message, native.body, wire.profile)
