"""Exact slices of JSON text, so that bytes nobody changed are never re-encoded.

Splits arrays and objects into the very bytes of their elements and puts such slices together again. It knows JSON and
nothing of messages.
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
_array = msgspec.json.Decoder(list[Raw])
_object: msgspec.json.Decoder[Fields] = msgspec.json.Decoder(Fields)
_string = msgspec.json.Decoder(str)


class Slices(Struct, frozen=True):
    """A JSON array as bytes: `leads[i] + items[i]` for each element, then `end`, concatenated, are the array."""

    leads: tuple[bytes, ...]
    items: tuple[bytes, ...]
    end: bytes


def array(data: bytes) -> Slices:
    """The exact slices of a JSON array. Raises `BadInput` with the decoder's position when it is none."""
    bare = data.removeprefix(BOM)
    raws = _tolerant(_array, bare)
    if raws is None:
        raise BadInput(f"not a JSON array: {_why(bare)}; pass the list of messages itself, as UTF-8 JSON")
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


def _why(data: bytes) -> str:
    try:
        _array.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        return str(exc)
    return "it cannot be read"


def span(data: bytes, key: str) -> tuple[int, int] | None:
    """Where the array or object under `key` of the JSON object `data` starts and ends; None if there is none."""
    depth, start, found = 0, -1, None
    wanted = False
    for token in _TOKEN.finditer(data):
        first = data[token.start()]
        if first == 0x22:
            if depth == 1 and _COLON.match(data, token.end()):
                wanted = text(token.group()) == key
        elif first in b"[{":
            if depth == 1 and wanted:
                start = token.start()
            depth += 1
        else:
            depth -= 1
            if depth == 1 and start >= 0:
                found, start, wanted = (start, token.end()), -1, False
    return found


def fields(data: bytes | Raw) -> Fields | None:
    """The members of a JSON object as raw slices, None when `data` is something else. The last duplicate wins."""
    return _tolerant(_object, data)


def items(data: bytes | Raw | None) -> list[Raw] | None:
    """The elements of a JSON array as raw slices, None when `data` is something else."""
    return None if data is None else _tolerant(_array, data)


def text(data: bytes | Raw | None) -> str | None:
    """A JSON string's value, None when `data` is no string. Lone surrogates become U+FFFD, as they are no text."""
    return None if data is None else _tolerant(_string, data)


def truth(data: bytes | Raw | None) -> bool:
    """Whether `data` is JSON `true`."""
    return data is not None and bytes(data) == b"true"


def valid(data: bytes) -> bool:
    """Whether `data` is one JSON object."""
    return fields(data) is not None


def quote(value: str) -> bytes:
    """A text as a JSON string. Lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(value.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


def obj(*members: tuple[str, bytes]) -> bytes:
    """A JSON object of raw values, in the order given."""
    return b"{" + b",".join(b'"' + key.encode() + b'":' + value for key, value in members) + b"}"


def arr(values: Iterable[bytes]) -> bytes:
    """A JSON array of raw values."""
    return b"[" + b",".join(values) + b"]"


def _tolerant(decoder: msgspec.json.Decoder[T], data: bytes | Raw) -> T | None:
    try:
        return decoder.decode(data)
    except (msgspec.ValidationError, UnicodeDecodeError):
        return None
    except msgspec.DecodeError:
        softened = _softened(bytes(data))
    try:
        return decoder.decode(softened)
    except msgspec.DecodeError:
        return None


def _softened(data: bytes) -> bytes:
    """The text with every half of a surrogate pair that stands alone as U+FFFD; of the same length."""

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
