"""Renders formats whose lines name their parents. If a parent was dropped, the line before takes its place."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.wire.splice import iterate_members
from tenfold.formats.output_pieces import OutputPiece, PieceRenderer


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
