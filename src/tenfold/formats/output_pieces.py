"""Turns items back into bytes: untouched lines and elements keep their bytes, everything else is rendered anew.

An `OutputPiece` is one line or array element of the output. A native message may have been split into several
messages. If all of them are present and untouched, its original bytes are used. If one was dropped or replaced, the
others are rendered together.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.entry import BranchSummary, CustomEntry, MessageEntry, Setting, Tombstone
from tenfold.core.record.message import Message, NativeBytes
from tenfold.core.wire.splice import iterate_members
from tenfold.formats.base import ExportItem, ReplacementMessage
from tenfold.store.base import SessionInfo


class OutputPiece(Struct, frozen=True):
    """One line or element: its bytes `raw`, with the separator `lead` before it.

    `exact` says that these are the bytes of the original file. `source_id` is the foreign id of the piece. `is_orphan`
    says that its parent is not among the items. `messages` are what it holds, and is rendered from if it is not exact.
    `parent_id` is the foreign id of the piece before, in formats whose lines name their parents.
    """

    lead: bytes
    raw: bytes
    exact: bool
    source_id: str = ""
    is_orphan: bool = False
    messages: tuple[Message, ...] = ()
    parent_id: str | None = None


PieceRenderer = Callable[[OutputPiece], bytes]


def get_native(item: ExportItem) -> NativeBytes | None:
    """Returns the bytes an item had in its file, None for items that Tenfold made."""
    if isinstance(item, CustomEntry | Setting):
        return item.native
    if isinstance(item, MessageEntry | BranchSummary):
        return item.message.native
    return None


def share_bytes(messages: Sequence[Message], native: NativeBytes, group: str) -> list[Message]:
    """Gives the messages of one record its bytes: the first has them all, and only together are they the record."""
    if len(messages) == 1:
        return [replace(messages[0], native=native)]
    first = replace(native, group=group, count=len(messages))
    rest = NativeBytes(native.format, b"", group=group, count=len(messages))
    return [
        replace(message, native=first if index == 0 else replace(rest, index=index))
        for index, message in enumerate(messages)
    ]


def has_replacements(items: Iterable[ExportItem]) -> bool:
    """Returns whether a summary or stub is shown."""
    return any(isinstance(item, ReplacementMessage) for item in items)


def drop_compactions(items: Sequence[ExportItem], kinds: Sequence[str]) -> Sequence[ExportItem]:
    """Leaves out the compactions that the tool recorded itself, entries of these kinds, if a summary or stub is shown.

    The tool would go by its own compaction, and not see the summary that stands before what that one kept.
    """
    if not has_replacements(items):
        return items
    return [item for item in items if not (isinstance(item, CustomEntry) and item.kind in kinds)]


def _get_item_message(item: ExportItem) -> Message | None:
    if isinstance(item, MessageEntry | BranchSummary | ReplacementMessage | Tombstone):
        return item.message
    return None


def build_pieces(items: Sequence[ExportItem], format: str) -> list[OutputPiece]:
    """Builds the pieces of the items, in order. Only bytes of this `format` are kept."""
    out: list[OutputPiece] = []
    present = {item.id for item in items if not isinstance(item, ReplacementMessage)}
    for group in _group_items(items, format):
        natives = [n for n in map(get_native, group) if n is not None and n.format == format]
        first = group[0]
        source = getattr(group[-1], "source_id", "")
        is_orphan = (
            not isinstance(first, ReplacementMessage) and first.parent is not None and first.parent not in present
        )
        lead = natives[0].lead if natives else b""
        messages = tuple(m for m in map(_get_item_message, group) if m is not None)
        if natives and [n.index for n in natives] == list(range(natives[0].count)):
            raw = b"".join(n.head + n.body + n.tail for n in natives)
            out.append(OutputPiece(lead, raw, True, source, is_orphan, messages))
        elif messages:
            out.append(OutputPiece(lead, b"", False, source, is_orphan, messages))
    return out


def _group_items(items: Iterable[ExportItem], format: str) -> Iterable[list[ExportItem]]:
    """Groups consecutive items of one native message; every other item is a group of its own."""
    group: list[ExportItem] = []
    name, index = "", -1
    for item in items:
        native = get_native(item)
        is_split = native is not None and native.count > 1 and native.format == format
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


def unfold_restated(piece: OutputPiece, restating: re.Pattern[bytes]) -> OutputPiece:
    """Returns the piece of a line by which a tool states the whole conversation anew as one to be rendered.

    The line begins as `restating` says. The tool would go by it, and not see what stands before it.
    """
    is_restated = piece.exact and piece.messages and restating.match(piece.raw) is not None
    return replace(piece, raw=b"", exact=False) if is_restated else piece


def render_pieces(pieces: Sequence[OutputPiece], render: PieceRenderer) -> list[OutputPiece]:
    """Renders the pieces that have no bytes yet, and leaves out those that have none then either."""
    rendered = (piece if piece.raw or piece.exact else replace(piece, raw=render(piece)) for piece in pieces)
    return [piece for piece in rendered if piece.raw]


def join_lines(info: SessionInfo, pieces: Sequence[OutputPiece]) -> bytes:
    """Joins rendered pieces as lines. Each piece gets a line of its own, whatever was dropped before it."""
    out = bytearray(info.prefix)
    blank = not info.prefix.strip(b"\xef\xbb\xbf \t\r\n")
    for index, piece in enumerate(pieces):
        if index == 0 and blank:
            out += piece.raw
        elif b"\n" in piece.lead or out.endswith(b"\n"):
            out += piece.lead + piece.raw
        else:
            out += b"\n" + piece.raw
    return bytes(out) + info.suffix


def join_results(pieces: Iterable[OutputPiece]) -> list[OutputPiece]:
    """Joins results to the answer before them, for formats in which an answer's record holds the results of its calls.

    Where one of them was replaced, the answer and its results are pieces of their own, and would be records of their
    own: a call without its result, and a result of a call that is made twice.
    """
    out: list[OutputPiece] = []
    for piece in pieces:
        follows = bool(out) and not piece.exact and not out[-1].exact and bool(out[-1].messages)
        if follows and piece.messages and piece.messages[0].role == "tool":
            out[-1] = replace(out[-1], messages=out[-1].messages + piece.messages)
        else:
            out.append(piece)
    return out


def join_elements(info: SessionInfo, pieces: Sequence[OutputPiece]) -> bytes:
    """Joins rendered pieces as elements of the session's array.

    There is one comma between two elements and none before the first, whatever was dropped.
    """
    usual = next((p.lead for p in pieces if b"," in p.lead), b", ")
    out = [info.prefix]
    for index, piece in enumerate(pieces):
        comma = b"," in piece.lead
        first = piece.lead.replace(b",", b"", 1)
        out.append((first if index == 0 else piece.lead if comma else usual) + piece.raw)
    return b"".join(out) + info.suffix


class LinkFields(Struct, frozen=True):
    """The JSON keys of a line's own id and its parent's id, and the length of a new id (36: a UUID)."""

    id_key: str
    parent_key: str
    id_length: int


def _get_ids(raw: bytes, key: str) -> list[str]:
    """Returns the ids of an object, or of each object on a line of its own. [] for anything else."""
    for texts in ([raw], [line for line in raw.split(b"\n") if line.strip()]):
        values = list(map(_parse_or_none, texts))
        if all(isinstance(value, dict) for value in values):
            return [own for value in values if (own := str(value.get(key) or ""))]
    return []


def _parse_or_none(raw: bytes) -> Any:  # noqa: ANN401 - whatever the file holds
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None


def _choose_id(piece: OutputPiece, used_ids: set[str], id_length: int) -> str:
    """Chooses an id for a new line: the foreign id it stands for, or one hashed from its text if that is not free."""
    if piece.source_id and piece.source_id not in used_ids:
        return piece.source_id
    text = repr((piece.source_id, piece.messages, len(used_ids))).encode()
    digest = hashlib.sha256(text).hexdigest()
    parts = (digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32])
    return "-".join(parts) if id_length > 32 else digest[:id_length]


def link_pieces(pieces: Sequence[OutputPiece], link_fields: LinkFields, render: PieceRenderer) -> list[OutputPiece]:
    """Renders the pieces that have no bytes yet, and repairs parent ids so that the chain stays intact.

    A parent id is set to the line before in two cases: the parent was dropped, or a new line that stands for nothing
    in the file was inserted between parent and child (`bypassed` is then the id of that parent). Nothing else in a
    line changes. `render` gets the piece with its new id as `source_id`.
    """
    exact = [_get_ids(p.raw, link_fields.id_key) if p.exact else [] for p in pieces]
    used_ids = {i for ids in exact for i in ids}
    out: list[OutputPiece] = []
    previous_id = ""
    bypassed = ""
    for piece, ids in zip(pieces, exact, strict=True):
        if not piece.exact:
            new_id = _choose_id(piece, used_ids, link_fields.id_length)
            named = replace(piece, source_id=new_id, parent_id=previous_id)
            used_ids.add(new_id)
            raw = render(named)
            if raw:
                out.append(replace(named, raw=raw))
                bypassed = "" if piece.source_id == new_id else bypassed or previous_id
                previous_id = new_id
            continue
        raw = piece.raw
        if ids and (piece.is_orphan or bypassed):
            raw = _set_parent(raw, link_fields.parent_key, previous_id, used_ids - {bypassed})
        out.append(replace(piece, raw=raw))
        if ids:
            previous_id, bypassed = ids[-1], ""
    return out


def _set_parent(raw: bytes, key: str, previous_id: str, known_ids: set[str]) -> bytes:
    span = next((m for m in iterate_members(raw) if m.key == key), None)
    value = json.loads(raw[span.start : span.end]) if span is not None else None
    if span is None or not isinstance(value, str) or value in known_ids:
        return raw
    return raw[: span.start] + (json.dumps(previous_id) if previous_id else "null").encode() + raw[span.end :]
