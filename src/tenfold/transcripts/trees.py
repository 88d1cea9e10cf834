"""Renders formats whose lines name their parents. If a parent was dropped, the line before takes its place."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.transcripts.pieces import Piece, Render
from tenfold.transcripts.spans import members


class Pointers(Struct, frozen=True):
    """The JSON keys of a line's own id and its parent's id, and the length of a new id (36: a UUID)."""

    own: str
    parent: str
    digits: int


def _ids(raw: bytes, key: str) -> list[str]:
    out = []
    for line in raw.split(b"\n"):
        if line.strip():
            value = json.loads(line)
            out.append(str(value.get(key) or "") if isinstance(value, dict) else "")
    return [i for i in out if i]


def _fresh(piece: Piece, taken: set[str], digits: int) -> str:
    """Chooses an id for a new line: the foreign id it stands for, or one hashed from its text if that is not free."""
    if piece.source and piece.source not in taken:
        return piece.source
    text = repr((piece.source, piece.messages, len(taken))).encode()
    digest = hashlib.sha256(text).hexdigest()
    parts = (digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32])
    return "-".join(parts) if digits > 32 else digest[:digits]


def linked(found: Sequence[Piece], pointers: Pointers, render: Render) -> list[Piece]:
    """Renders the pieces that have no bytes yet, and repairs parent ids so that the chain stays intact.

    A parent id is set to the line before in two cases: the parent was dropped, or a new line that stands for nothing
    in the file was inserted between parent and child (`bypassed` is then the id of that parent). Nothing else in a
    line changes. `render(piece, parent)` gets the piece with its new id as `source_id`.
    """
    exact = [_ids(p.raw, pointers.own) if p.exact and _is_json(p.raw) else [] for p in found]
    used_ids = {i for ids in exact for i in ids}
    out: list[Piece] = []
    previous_id = ""
    bypassed = ""
    for piece, ids in zip(found, exact, strict=True):
        if not piece.exact:
            named = replace(piece, source=_fresh(piece, used_ids, pointers.digits))
            used_ids.add(named.source)
            raw = render(named, previous_id)
            if raw:
                out.append(replace(named, raw=raw))
                bypassed = "" if piece.source == named.source else bypassed or previous_id
                previous_id = named.source
            continue
        raw = piece.raw
        if ids and (piece.cut or bypassed):
            raw = _repointed(raw, pointers.parent, previous_id, used_ids - {bypassed})
        out.append(replace(piece, raw=raw))
        if ids:
            previous_id, bypassed = ids[-1], ""
    return out


def _is_json(raw: bytes) -> bool:
    try:
        return all(isinstance(json.loads(line), dict) for line in raw.split(b"\n") if line.strip())
    except ValueError:
        return False


def _repointed(raw: bytes, key: str, before: str, known: set[str]) -> bytes:
    text = raw.decode("utf-8")
    span = next((m for m in members(text, 0) if m.key == key), None)
    if span is None or not isinstance(span.value, str) or span.value in known:
        return raw
    return (text[: span.start] + (json.dumps(before) if before else "null") + text[span.end :]).encode()
