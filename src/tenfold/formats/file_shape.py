"""Finds out the shape of a file from its beginning: lines of objects, one object, or an array.

Every format uses it in `can_read`.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from msgspec import Struct

from tenfold.formats.json_spans import parse_members, parse_value

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
    text = head.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if text.startswith("["):
        return FileShape(items=tuple(_parse_first_items(text)))
    if not text.startswith("{"):
        return FileShape()
    try:
        first = parse_value(text, 0)
    except ValueError:
        first = None
    if first is not None and text[first.end :].strip():
        return FileShape(lines=tuple(_parse_line_objects(text)))
    if first is None and "\n{" in text and (found := _parse_line_objects(text)):
        return FileShape(lines=tuple(found))
    top = {m.key: m.value for m in parse_members(text, 0)} if first is not None else _parse_cut_object(text)
    return FileShape(lines=(top,), members=top)


def _parse_line_objects(text: str) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for line in text.split("\n", _MAX_LINES)[:_MAX_LINES]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            out.append(value)
    return out


def _parse_first_items(text: str) -> list[Any]:
    out: list[Any] = []
    at = 1
    while len(out) < _MAX_ITEMS:
        while text[at : at + 1] in {" ", "\t", "\r", "\n", ","} and at < len(text):
            at += 1
        try:
            span = parse_value(text, at)
        except ValueError:
            break
        out.append(span.value)
        at = span.end
    return out


def _parse_cut_object(text: str) -> dict[str, Any]:
    """Parses the complete members of an object that is cut off. The last key has the value None."""
    out: dict[str, Any] = {}
    at = 1
    while True:
        while text[at : at + 1] in {" ", "\t", "\r", "\n", ","} and at < len(text):
            at += 1
        try:
            key = parse_value(text, at)
            at = text.index(":", key.end) + 1
            out[str(key.value)] = None
            span = parse_value(text, at)
        except ValueError:
            return out
        out[str(key.value)] = span.value
        at = span.end
