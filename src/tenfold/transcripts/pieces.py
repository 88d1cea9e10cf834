"""From items back to bytes: untouched native pieces as they were, everything else rendered anew.

A `Piece` is one line or array element of the output. Members of one native piece that are all present and untouched
are that piece's bytes; if one of them was dropped or replaced, the rest is rendered together with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from tenfold.record.entry import Branch, Custom, Said, Setting, Tombstone
from tenfold.record.message import Message, Native
from tenfold.transcripts.base import Item, Replaced


class Piece(Struct, frozen=True):
    """`raw` with the separator `lead` before it. `exact` says that these are the bytes of the file.

    `source` is the foreign id the piece answers to, `cut` that what it was hung on is not among the items. `messages`
    are what a piece has to be rendered from while `raw` is still empty.
    """

    lead: bytes
    raw: bytes
    exact: bool
    source: str = ""
    cut: bool = False
    messages: tuple[Message, ...] = ()


Render = Callable[[Piece, str], bytes]


def native_of(item: Item) -> Native | None:
    """The bytes an item arrived as, None for what Tenfold made."""
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
    """The items as pieces, in order. Only bytes whose `Native.format` is one of `formats` are taken as they are."""
    out: list[Piece] = []
    present = {item.id for item in items if not isinstance(item, Replaced)}
    for group in _groups(items, formats):
        natives = [n for n in map(native_of, group) if n is not None and n.format in formats]
        first = group[0]
        source = getattr(group[-1], "source", "")
        cut = not isinstance(first, Replaced) and first.parent is not None and first.parent not in present
        lead = natives[0].lead if natives else b""
        if natives and [n.index for n in natives] == list(range(natives[0].count)):
            raw = b"".join(n.head + n.body + n.tail for n in natives)
            out.append(Piece(lead, raw, True, source, cut))
            continue
        messages = tuple(m for m in map(_message, group) if m is not None)
        if messages:
            out.append(Piece(lead, b"", False, source, cut, messages))
    return out


def _groups(items: Iterable[Item], formats: Sequence[str]) -> Iterable[list[Item]]:
    """Consecutive members of one native piece together, everything else alone."""
    group: list[Item] = []
    name, index = "", -1
    for item in items:
        native = native_of(item)
        split = native is not None and native.count > 1 and native.format in formats
        if group and split and native is not None and native.group == name and native.index > index:
            group.append(item)
            index = native.index
            continue
        if group:
            yield group
        group = [item]
        name, index = (native.group, native.index) if native is not None and split else ("", -1)
    if group:
        yield group


def rendered(found: Sequence[Piece], render: Render) -> list[Piece]:
    """The same pieces with bytes for those that have none. `render` is also given the id of the piece before."""
    out: list[Piece] = []
    before = ""
    for piece in found:
        raw = piece.raw or render(piece, before)
        if raw:
            out.append(Piece(piece.lead, raw, piece.exact, piece.source, piece.cut, piece.messages))
            before = piece.source or before
    return out


def joined_lines(before: bytes, found: Sequence[Piece], after: bytes) -> bytes:
    """Lines: each piece on its own, whatever was dropped before it."""
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
    """Array elements: exactly one comma between two, none before the first, whatever was dropped."""
    usual = next((p.lead for p in found if b"," in p.lead), b", ")
    out = [before]
    for index, piece in enumerate(found):
        comma = b"," in piece.lead
        first = piece.lead.replace(b",", b"", 1)
        out.append((first if index == 0 else piece.lead if comma else usual) + piece.raw)
    return b"".join(out) + after
