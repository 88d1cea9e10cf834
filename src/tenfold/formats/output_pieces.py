"""Turns items back into bytes: untouched lines and elements keep their bytes, everything else is rendered anew.

An `OutputPiece` is one line or array element of the output. A native message may have been split into several
messages. If all of them are present and untouched, its original bytes are used. If one was dropped or replaced, the
others are rendered together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from tenfold.formats.base import ExportItem, ReplacementMessage
from tenfold.record.entry import BranchSummary, CustomEntry, MessageEntry, Setting, Tombstone
from tenfold.record.message import Message, NativeBytes


class OutputPiece(Struct, frozen=True):
    """One line or element: its bytes `raw`, with the separator `lead` before it.

    `exact` says that these are the bytes of the original file. `source_id` is the foreign id of the piece. `is_orphan`
    says that its parent is not among the items. `messages` are what it is rendered from while `raw` is still empty.
    """

    lead: bytes
    raw: bytes
    exact: bool
    source_id: str = ""
    is_orphan: bool = False
    messages: tuple[Message, ...] = ()


PieceRenderer = Callable[[OutputPiece, str], bytes]


def get_native(item: ExportItem) -> NativeBytes | None:
    """Returns the bytes an item had in its file, None for items that Tenfold made."""
    if isinstance(item, CustomEntry | Setting):
        return item.native
    if isinstance(item, MessageEntry | BranchSummary):
        return item.message.native
    return None


def _get_item_message(item: ExportItem) -> Message | None:
    if isinstance(item, MessageEntry | BranchSummary | ReplacementMessage | Tombstone):
        return item.message
    return None


def build_pieces(items: Sequence[ExportItem], formats: Sequence[str]) -> list[OutputPiece]:
    """Builds the pieces of the items, in order. Only bytes whose format is one of `formats` are kept."""
    out: list[OutputPiece] = []
    present = {item.id for item in items if not isinstance(item, ReplacementMessage)}
    for group in _group_items(items, formats):
        natives = [n for n in map(get_native, group) if n is not None and n.format in formats]
        first = group[0]
        source = getattr(group[-1], "source_id", "")
        is_orphan = (
            not isinstance(first, ReplacementMessage) and first.parent is not None and first.parent not in present
        )
        lead = natives[0].lead if natives else b""
        if natives and [n.index for n in natives] == list(range(natives[0].count)):
            raw = b"".join(n.head + n.body + n.tail for n in natives)
            out.append(OutputPiece(lead, raw, True, source, is_orphan))
            continue
        messages = tuple(m for m in map(_get_item_message, group) if m is not None)
        if messages:
            out.append(OutputPiece(lead, b"", False, source, is_orphan, messages))
    return out


def _group_items(items: Iterable[ExportItem], formats: Sequence[str]) -> Iterable[list[ExportItem]]:
    """Groups consecutive items of one native message; every other item is a group of its own."""
    group: list[ExportItem] = []
    name, index = "", -1
    for item in items:
        native = get_native(item)
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


def render_pieces(pieces: Sequence[OutputPiece], render: PieceRenderer) -> list[OutputPiece]:
    """Renders the pieces that have no bytes yet. `render` receives the piece and the id of the piece before it."""
    out: list[OutputPiece] = []
    previous_id = ""
    for piece in pieces:
        raw = piece.raw or render(piece, previous_id)
        if raw:
            out.append(OutputPiece(piece.lead, raw, piece.exact, piece.source_id, piece.is_orphan, piece.messages))
            previous_id = piece.source_id or previous_id
    return out


def join_lines(before: bytes, pieces: Sequence[OutputPiece], after: bytes) -> bytes:
    """Joins pieces as lines. Each piece gets a line of its own, whatever was dropped before it."""
    out = bytearray(before)
    blank = not before.strip(b"\xef\xbb\xbf \t\r\n")
    for index, piece in enumerate(pieces):
        if index == 0 and blank:
            out += piece.raw
        elif b"\n" in piece.lead or out.endswith(b"\n"):
            out += piece.lead + piece.raw
        else:
            out += b"\n" + piece.raw
    return bytes(out) + after


def join_array(before: bytes, pieces: Sequence[OutputPiece], after: bytes) -> bytes:
    """Joins pieces as array elements, with one comma between two and none before the first, whatever was dropped."""
    usual = next((p.lead for p in pieces if b"," in p.lead), b", ")
    out = [before]
    for index, piece in enumerate(pieces):
        comma = b"," in piece.lead
        first = piece.lead.replace(b",", b"", 1)
        out.append((first if index == 0 else piece.lead if comma else usual) + piece.raw)
    return b"".join(out) + after
