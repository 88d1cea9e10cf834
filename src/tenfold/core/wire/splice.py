"""Cuts JSON text into exact slices and joins them again, so that unchanged bytes are never re-encoded.

This module knows JSON, but nothing about messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from tenfold.core.text.json_text import is_too_deep
from tenfold.core.text.surrogates import replace_surrogates
from tenfold.errors import BadInput

T = TypeVar("T")
Fields = dict[str, Raw]

BOM = b"\xef\xbb\xbf"
_OPEN = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*\[[ \t\r\n]*")
_GAP = re.compile(rb"[ \t\r\n]*,[ \t\r\n]*")
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(")?+|[\[\]{}]|[^][{}",: \t\r\n]+', re.DOTALL)
"""A text (with a group for the quote that ends it), a bracket, or another word of JSON."""
_COLON = re.compile(rb"[ \t\r\n]*:")
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
_ARRAY_DECODER = msgspec.json.Decoder(list[Raw])
_OBJECT_DECODER: msgspec.json.Decoder[Fields] = msgspec.json.Decoder(Fields)
_STRING_DECODER = msgspec.json.Decoder(str)
_VALUE_DECODER: msgspec.json.Decoder[object] = msgspec.json.Decoder(object)
_QUOTE = ord('"')


class Slices(Struct, frozen=True):
    """A JSON array as bytes: it is the concatenation of `leads[i] + items[i]` for each element, and `end`."""

    leads: tuple[bytes, ...]
    items: tuple[bytes, ...]
    end: bytes


class Member(Struct, frozen=True):
    """An element of a JSON array, or a value of an object under its `key`: `data[start:end]` of the sliced bytes.

    `end` is -1 if the data ends before the value does.
    """

    key: str
    start: int
    end: int


def slice_array(data: bytes, *, is_partial: bool = False) -> Slices:
    """Cuts a JSON array into exact slices. Raises `BadInput`, with the decoder's position, if it is not an array.

    With `is_partial` it may be cut off, or hold what JSON lacks (`NaN`): whole elements are sliced, the rest is `end`.
    """
    bare = data.removeprefix(BOM)
    raws, is_deep = _decode_or_cut(bare)
    if raws is not None:
        bounds = _locate_elements(data, raws)
    elif is_partial or is_deep:
        bounds = [(m.start, m.end) for m in iterate_members(data)]
    else:
        raise BadInput(f"not a JSON array: {_explain_failure(bare)}; pass the list of messages itself, as UTF-8 JSON")
    leads: list[bytes] = []
    position = 0
    for start, end in bounds:
        leads.append(data[position:start])
        position = end
    return Slices(tuple(leads), tuple([data[start:end] for start, end in bounds]), data[position:])


def _locate_elements(data: bytes, raws: Sequence[Raw]) -> list[tuple[int, int]]:
    opening = _OPEN.match(data)
    assert opening is not None
    bounds: list[tuple[int, int]] = []
    start = opening.end()
    for raw in raws:
        end = start + len(memoryview(raw))
        bounds.append((start, end))
        gap = _GAP.match(data, end)
        start = gap.end() if gap is not None else end
    return bounds


def _explain_failure(data: bytes) -> str:
    try:
        _ARRAY_DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        return str(exc)
    return "it cannot be read"


def iterate_members(data: bytes) -> Iterator[Member]:
    """Yields the members of the JSON array or object that `data` begins with, in order, as far as it goes.

    Nothing is validated. If an object is cut off inside a value, the last member is that value.
    """
    depth, start, key = 0, -1, ""
    for token in _TOKEN.finditer(data):
        first = data[token.start()]
        if first in b"[{":
            start = token.start() if depth == 1 else start
            depth += 1
        elif first in b"]}":
            depth -= 1
            if depth == 0:
                return
            if depth == 1:
                yield Member(key, start, token.end())
                key = ""
        elif first == _QUOTE and token.group(1) is None:
            break
        elif depth == 1 and first == _QUOTE and _COLON.match(data, token.end()):
            key = parse_string(token.group()) or ""
        elif depth == 1:
            yield Member(key, *token.span())
            key = ""
    if key:
        yield Member(key, len(data), -1)


def find_span(data: bytes, key: str) -> tuple[int, int] | None:
    """Finds the start and end of the array or object under `key` of the JSON object `data`. None if there is none."""
    named = [m for m in iterate_members(data) if m.key == key and data[m.start : m.start + 1] in (b"[", b"{")]
    return (named[-1].start, named[-1].end) if named else None


def parse_object(data: bytes | Raw) -> Fields | None:
    """Returns the fields of a JSON object as raw slices, None if it is not one. The last of duplicate keys wins."""
    try:
        return _decode_leniently(_OBJECT_DECODER, data)
    except RecursionError:
        members = _cut_deep(bytes(data), b"{}")
        return None if members is None else {member.key: raw for member, raw in members}


def parse_array(data: bytes | Raw | None) -> list[Raw] | None:
    """Returns the elements of a JSON array as raw slices, None if it is not one."""
    try:
        return None if data is None else _decode_leniently(_ARRAY_DECODER, data)
    except RecursionError:
        members = _cut_deep(bytes(data or b""), b"[]")
        return None if members is None else [raw for _, raw in members]


def parse_value(data: bytes | Raw) -> object:
    """Returns a JSON value as plain dicts, lists, texts and numbers.

    None if it is not JSON, is null, or is nested deeper than `MAX_DEPTH`.
    """
    try:
        value = _decode_leniently(_VALUE_DECODER, data)
    except RecursionError:
        return None
    return None if value is None or is_too_deep(bytes(data)) else value


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


def is_false(data: bytes | Raw | None) -> bool:
    """Whether `data` is JSON `false`."""
    return data is not None and bytes(data) == b"false"


def is_object(data: bytes) -> bool:
    """Whether `data` is one JSON object."""
    return parse_object(data) is not None


def quote(value: str) -> bytes:
    """Encodes a text as a JSON string. Lone surrogates, which UTF-8 cannot hold, become U+FFFD."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(replace_surrogates(value))


def build_object(**members: bytes) -> bytes:
    """Builds a JSON object from raw values, in the given order."""
    return b"{" + b",".join(b'"' + key.encode() + b'":' + value for key, value in members.items()) + b"}"


def join_fields(fields: Mapping[str, Raw]) -> bytes:
    """Builds a JSON object from fields as `parse_object` returns them."""
    return b"{" + b",".join(quote(name) + b":" + bytes(raw) for name, raw in fields.items()) + b"}"


def build_array(values: Iterable[bytes]) -> bytes:
    """Builds a JSON array from raw values."""
    return b"[" + b",".join(values) + b"]"


def _decode_leniently(decoder: msgspec.json.Decoder[T], data: bytes | Raw) -> T | None:
    """Decodes JSON, also with lone surrogates. None if it is not JSON. Raises `RecursionError` for what is too deep."""
    try:
        return decoder.decode(data)
    except (msgspec.ValidationError, UnicodeDecodeError):
        return None
    except msgspec.DecodeError:
        softened = replace_lone_surrogates(bytes(data))
    try:
        return decoder.decode(softened)
    except msgspec.DecodeError:
        return None


def _decode_or_cut(data: bytes) -> tuple[list[Raw] | None, bool]:
    """Returns the elements of an array, or None and whether it holds objects that are nested too deeply to decode."""
    try:
        return _decode_leniently(_ARRAY_DECODER, data), False
    except RecursionError:
        members = _cut_deep(data, b"[]") or ()
        return None, bool(members) and all(bytes(raw).startswith(b"{") for _, raw in members)


def _cut_deep(data: bytes, brackets: bytes) -> list[tuple[Member, Raw]] | None:
    """Cuts an array or object that is nested too deeply for a decoder, which calls itself for each level.

    Only the brackets and texts are read: what is inside the members is not known to be valid. None if it has another
    bracket, or something behind its end.
    """
    bare = data.removeprefix(BOM).strip(b" \t\r\n")
    members = list(iterate_members(bare))
    if bare[:1] != brackets[:1] or not members or members[-1].end < 0:
        return None
    if bare[members[-1].end :].strip(b" \t\r\n,") != brackets[1:]:
        return None
    return [(member, Raw(bare[member.start : member.end])) for member in members]


def has_lone_surrogate(data: bytes) -> bool:
    """Whether a text of the JSON holds one half of a surrogate pair without the other, written as an escape."""
    return b"\\u" in data and any(escape.group(1) for escape in _ESCAPE.finditer(data))


def replace_lone_surrogates(data: bytes) -> bytes:
    """Replaces every lone half of a surrogate pair by U+FFFD. The length stays the same."""
    return _ESCAPE.sub(lambda escape: b"\\ufffd" if escape.group(1) else escape.group(), data)
