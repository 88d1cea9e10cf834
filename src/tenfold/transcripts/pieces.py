"""Turns items back into bytes: untouched lines and elements keep their bytes, everything else is rendered anew.

An `OutputPiece` is one line or array element of the output. A native message may have been split into several
messages. If all of them are present and untouched, its original bytes are used. If one was dropped or replaced, the
others are rendered together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from tenfold.record.entry import Branch, Custom, Said, Setting, Tombstone
from tenfold.record.message import Message, Native
from tenfold.transcripts.base import Item, Replaced


class Piece(Struct, frozen=True):
    """One line or element: its bytes `raw`, with the separator `lead` before it.

    `exact` says that these are the bytes of the original file. `source_id` is the foreign id of the piece. `is_orphan`
    says that its parent is not among the items. `messages` are what it is rendered from while `raw` is still empty.
    """

    lead: bytes
    raw: bytes
    exact: bool
    source: str = ""
    cut: bool = False
    messages: tuple[Message, ...] = ()


Render = Callable[[Piece, str], bytes]


def native_of(item: Item) -> Native | None:
    """Returns the bytes an item had in its file, None for items that Tenfold made."""
    if isinstance(item, Custom | Setting):
        return item.native
    if isinstance(item, Said | Branch):
        return item.message.native
    return None


def _message(item: Item) -> Message | None:
    if isinstance(item, Said | Branch | Replaced | Tombstone):
        return item.message
    return None


def pieces(items: Sequence[Item], formats: Sequence[str]) -> list[Piece]:
    """Builds the pieces of the items, in order. Only bytes whose format is one of `formats` are kept."""
    out: list[Piece] = []
    present = {item.id for item in items if not isinstance(item, Replaced)}
    for group in _groups(items, formats):
        natives = [n for n in map(native_of, group) if n is not None and n.format in formats]
        first = group[0]
        source = getattr(group[-1], "source", "")
        is_orphan = not isinstance(first, Replaced) and first.parent is not None and first.parent not in present
        lead = natives[0].lead if natives else b""
        if natives and [n.index for n in natives] == list(range(natives[0].count)):
            raw = b"".join(n.head + n.body + n.tail for n in natives)
            out.append(Piece(lead, raw, True, source, is_orphan))
            continue
        messages = tuple(m for m in map(_message, group) if m is not None)
        if messages:
            out.append(Piece(lead, b"", False, source, is_orphan, messages))
    return out


def _groups(items: Iterable[Item], formats: Sequence[str]) -> Iterable[list[Item]]:
    """Groups consecutive items of one native message; every other item is a group of its own."""
    group: list[Item] = []
    name, index = "", -1
    for item in items:
        native = native_of(item)
        is_split = native is not None and native.count > 1 and native.format in formats
        if group and is_split and native is not None and native.group == name and native.index > index:
            group.append(item)
            index = native.index
            continue
        if group:
            yield group
        group = [item]
        name, index = (native.group, native.index) if native is not None and is_split else ("", -1)
    if group:
        yield group


def rendered(found: Sequence[Piece], render: Render) -> list[Piece]:
    """Renders the pieces that have no bytes yet. `render` receives the piece and the id of the piece before it."""
    out: list[Piece] = []
    previous_id = ""
    for piece in found:
        raw = piece.raw or render(piece, previous_id)
        if raw:
            out.append(Piece(piece.lead, raw, piece.exact, piece.source, piece.cut, piece.messages))
            previous_id = piece.source or previous_id
    return out


def joined_lines(before: bytes, found: Sequence[Piece], after: bytes) -> bytes:
    """Joins pieces as lines. Each piece gets a line of its own, whatever was dropped before it."""
    out = bytearray(before)
    blank = not before.strip(b"\xef\xbb\xbf \t\r\n")
    for index, piece in enumerate(found):
        if index == 0 and blank:
            out += piece.raw
        elif b"\n" in piece.lead or out.endswith(b"\n"):
            out += piece.lead + piece.raw
        else:
            out += b"\n" + piece.raw
    return bytes(out) + after


def joined_array(before: bytes, found: Sequence[Piece], after: bytes) -> bytes:
    """Joins pieces as array elements, with one comma between two and none before the first, whatever was dropped."""
    usual = next((p.lead for p in found if b"," in p.lead), b", ")
    out = [before]
    for index, piece in enumerate(found):
        comma = b"," in piece.lead
        first = piece.lead.replace(b",", b"", 1)
        out.append((first if index == 0 else piece.lead if comma else usual) + piece.raw)
    return b"".join(out) + after
