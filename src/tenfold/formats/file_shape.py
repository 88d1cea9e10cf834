"""Finds out the shape of a file from its beginning: lines of objects, one object, or an array.

Every format uses it in `can_read`.
"""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import takewhile
from typing import Any

from msgspec import Struct

from tenfold.core.text.json_text import quote_deep
from tenfold.core.wire.splice import iterate_members, slice_array
from tenfold.formats.json_lines import split_objects

_DECODER = json.JSONDecoder()
_MAX_LINES = 20
_MAX_ITEMS = 10_000


class FileShape(Struct, frozen=True):
    """What a file begins with.

    `lines` holds the first objects of a file with one object per line. `members` holds the members of a file that is
    one object; that object is in `lines` too, because the file may have only one line. `items` holds the first
    elements of a file that is an array.
    """

    lines: tuple[dict[str, Any], ...] = ()
    members: dict[str, Any] = {}
    items: tuple[Any, ...] = ()


@lru_cache(maxsize=2)
def inspect_shape(head: bytes) -> FileShape:
    """Returns the shape of a file, as far as the given bytes show it. Damage is ignored here; `read` reports it."""
    data = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if data.startswith(b"["):
        elements = map(_parse_or_none, slice_array(data, is_partial=True).items[:_MAX_ITEMS])
        return FileShape(items=tuple(takewhile(lambda value: value is not None, elements)))
    if not data.startswith(b"{"):
        return FileShape()
    text = data.decode("utf-8", "replace")
    try:
        first, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError):
        first, end = None, 0
    has_lines = b"\n{" in data if first is None else text[end:].strip() != ""
    lines = _parse_line_objects(data) if has_lines else ()
    if lines or (has_lines and first is not None):
        return FileShape(lines=lines)
    top = first if first is not None else _parse_cut_object(data)
    return FileShape(lines=(top,), members=top)


def _parse_or_none(raw: bytes) -> Any:  # noqa: ANN401 - whatever the file holds
    try:
        return json.loads(quote_deep(raw).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _parse_line_objects(data: bytes) -> tuple[dict[str, Any], ...]:
    lines = data.split(b"\n", _MAX_LINES)[:_MAX_LINES]
    values = [_parse_or_none(piece) for line in lines for piece in split_objects(line.strip(b" \t\r"))[:_MAX_LINES]]
    return tuple(value for value in values if isinstance(value, dict))


def _parse_cut_object(data: bytes) -> dict[str, Any]:
    """Parses the complete members of an object that is cut off. The last key has the value None."""
    return {m.key: _parse_or_none(data[m.start : m.end]) for m in iterate_members(data)}
