"""Writing formats whose lines point at their parents: pointers whose target was dropped go to the line before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from tenfold.transcripts.pieces import Piece, Render
from tenfold.transcripts.spans import members


class Pointers(Struct, frozen=True):
    """The keys of a format's own id and parent id, and how long an id of its making is (36: a UUID)."""

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
    """An id for a line of ours: the foreign id it stands for, or where that is taken or absent, one from its text."""
    if piece.source and piece.source not in taken:
        return piece.source
    text = repr((piece.source, piece.messages, len(taken))).encode()
    found = hashlib.sha256(text).hexdigest()
    parts = (found[:8], found[8:12], found[12:16], found[16:20], found[20:32])
    return "-".join(parts) if digits > 32 else found[:digits]


def linked(found: Sequence[Piece], pointers: Pointers, render: Render) -> list[Piece]:
    """The pieces with bytes for those that have none, and every pointer to what was dropped set to the line before.

    So is the pointer of a line that would pass over one of ours which stands for nothing in the file (`passed` is then
    what it points at): the chain must go through it. Nothing else in the line changes.

    `render(piece, parent)` gets the piece with the id it shall carry as `source`.
    """
    exact = [_ids(p.raw, pointers.own) if p.exact and _is_json(p.raw) else [] for p in found]
    taken = {i for ids in exact for i in ids}
    out: list[Piece] = []
    before = ""
    passed = ""
    for piece, ids in zip(found, exact, strict=True):
        if not piece.exact:
            named = replace(piece, source=_fresh(piece, taken, pointers.digits))
            taken.add(named.source)
            raw = render(named, before)
            if raw:
                out.append(replace(named, raw=raw))
                passed = "" if piece.source == named.source else passed or before
                before = named.source
            continue
        raw = piece.raw
        if ids and (piece.cut or passed):
            raw = _repointed(raw, pointers.parent, before, taken - {passed})
        out.append(replace(piece, raw=raw))
        if ids:
            before, passed = ids[-1], ""
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
