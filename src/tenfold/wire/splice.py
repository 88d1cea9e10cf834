"""Cuts JSON text into exact slices and joins them again, so that unchanged bytes are never re-encoded.

This module knows JSON, but nothing about messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from tenfold.errors import BadInput

T = TypeVar("T")
Fields = dict[str, Raw]

BOM = b"\xef\xbb\xbf"
_OPEN = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*\[[ \t\r\n]*")
_GAP = re.compile(rb"[ \t\r\n]*,[ \t\r\n]*")
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_COLON = re.compile(rb"[ \t\r\n]*:")
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_HIGH = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")
_LOW = re.compile(rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_ARRAY_DECODER = msgspec.json.Decoder(list[Raw])
_OBJECT_DECODER: msgspec.json.Decoder[Fields] = msgspec.json.Decoder(Fields)
_STRING_DECODER = msgspec.json.Decoder(str)


class Slices(Struct, frozen=True):
    """A JSON array as bytes: it is the concatenation of `leads[i] + items[i]` for each element, and `end`."""

    leads: tuple[bytes, ...]
    items: tuple[bytes, ...]
    end: bytes


def slice_array(data: bytes) -> Slices:
    """Cuts a JSON array into exact slices. Raises `BadInput`, with the decoder's position, if it is not an array."""
    bare = data.removeprefix(BOM)
    raws = _decode_leniently(_ARRAY_DECODER, bare)
    if raws is None:
        raise BadInput(f"not a JSON array: {_explain_failure(bare)}; pass the list of messages itself, as UTF-8 JSON")
    opening = _OPEN.match(data)
    assert opening is not None
    leads: list[bytes] = []
    items: list[bytes] = []
    lead, position = opening.group(), opening.end()
    for raw in raws:
        leads.append(lead)
        start, position = position, position + len(memoryview(raw))
        items.append(data[start:position])
        gap = _GAP.match(data, position)
        if gap is not None:
            lead, position = gap.group(), gap.end()
    return Slices(tuple(leads), tuple(items), data[position:] if raws else data)


def _explain_failure(data: bytes) -> str:
    try:
        _ARRAY_DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        return str(exc)
    return "it cannot be read"


def find_span(data: bytes, key: str) -> tuple[int, int] | None:
    """Finds the start and end of the array or object under `key` of the JSON object `data`. None if there is none."""
    depth, start, bounds = 0, -1, None
    is_wanted = False
    for token in _TOKEN.finditer(data):
        first = data[token.start()]
        if first == 0x22:
            if depth == 1 and _COLON.match(data, token.end()):
                is_wanted = parse_string(token.group()) == key
        elif first in b"[{":
            if depth == 1 and is_wanted:
                start = token.start()
            depth += 1
        else:
            depth -= 1
            if depth == 1 and start >= 0:
                bounds, start, is_wanted = (start, token.end()), -1, False
    return bounds


def parse_object(data: bytes | Raw) -> Fields | None:
    """Returns the fields of a JSON object as raw slices, None if it is not one. The last of duplicate keys wins."""
    return _decode_leniently(_OBJECT_DECODER, data)


def parse_array(data: bytes | Raw | None) -> list[Raw] | None:
    """Returns the elements of a JSON array as raw slices, None if it is not one."""
    return None if data is None else _decode_leniently(_ARRAY_DECODER, data)


def parse_string(data: bytes | Raw | None) -> str | None:
    """Returns the value of a JSON string, None if it is not one. Lone surrogates become U+FFFD."""
    return None if data is None else _decode_leniently(_STRING_DECODER, data)


def find_text(fields: Fields, key: str) -> str | None:
    """Returns the text under a key, None if there is none."""
    return parse_string(fields.get(key))


def get_text(fields: Fields, key: str) -> str:
    """Returns the text under a key, "" if there is none."""
    return parse_string(fields.get(key)) or ""


def is_true(data: bytes | Raw | None) -> bool:
    """Whether `data` is JSON `true`."""
    return data is not None and bytes(data) == b"true"


def is_object(data: bytes) -> bool:
    """Whether `data` is one JSON object."""
    return parse_object(data) is not None


def quote(value: str) -> bytes:
    """Encodes a text as a JSON string. Lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(value.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def build_object(**members: bytes) -> bytes:
    """Builds a JSON object from raw values, in the given order."""
    return b"{" + b",".join(b'"' + key.encode() + b'":' + value for key, value in members.items()) + b"}"


def build_array(values: Iterable[bytes]) -> bytes:
    """Builds a JSON array from raw values."""
    return b"[" + b",".join(values) + b"]"


def _decode_leniently(decoder: msgspec.json.Decoder[T], data: bytes | Raw) -> T | None:
    try:
        return decoder.decode(data)
    except (msgspec.ValidationError, UnicodeDecodeError):
        return None
    except msgspec.DecodeError:
        softened = _replace_lone_surrogates(bytes(data))
    try:
        return decoder.decode(softened)
    except msgspec.DecodeError:
        return None


def _replace_lone_surrogates(data: bytes) -> bytes:
    """Replaces every lone half of a surrogate pair by U+FFFD. The length stays the same."""

    def soften(match: re.Match[bytes]) -> bytes:
        code = int(match.group(1) or b"0", 16)
        if 0xD800 <= code < 0xDC00:
            after = data[match.end() : match.end() + 6]
            return match.group() if _LOW.fullmatch(after) else b"\\ufffd"
        if 0xDC00 <= code < 0xE000:
            before = data[max(0, match.start() - 6) : match.start()]
            return match.group() if _HIGH.fullmatch(before) else b"\\ufffd"
        return match.group()

    return _ESCAPE.sub(soften, data)
