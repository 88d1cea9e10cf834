"""Parses the JSON of session files: whole documents, and the items (lines or array elements) that hold the entries.

The exact bytes are cut by `tenfold.core.wire.splice`. Values are parsed by the standard library, which also takes
the `NaN` that Python programs write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from tenfold.core.record.message import NativeBytes
from tenfold.core.text.json_text import quote_deep
from tenfold.core.wire.splice import BOM, find_span, replace_lone_surrogates, slice_array
from tenfold.errors import BadInput, DamagedLine

_MAX_DIGITS = 4_000
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class JsonItem(Struct, frozen=True):
    """A line of a file, or an element of its array. `raw` holds its bytes, and `lead` those that separate it.

    `number` is the number of the line from 1, or the index of the element, and `place` tells objects on one line apart.
    A damaged line has a `problem` and no value. In files whose lines form a tree, `own` is the line's id, used by no
    other, and `parent` the id of the line that it hangs on: see `line_tree`.
    """

    number: int
    lead: bytes
    raw: bytes
    value: Any
    problem: str = ""
    place: int = 0
    own: str = ""
    parent: str | None = None

    def to_native(self, format: str) -> NativeBytes:
        """Converts the item to the bytes that an entry keeps."""
        return NativeBytes(format, self.raw, self.lead)

    def get_object(self, file: str) -> dict[str, Any]:
        """Returns the item's JSON object. Raises `BadInput` with its index if it is not an object."""
        if not isinstance(self.value, dict):
            raise BadInput(
                f"{file}: element {self.number} of the messages is {self.raw.decode()[:40]!r}, not an object"
            )
        return self.value


class JsonArray(Struct, frozen=True):
    """An array in a JSON text. `before` ends with its '[', and `after` begins behind its last element."""

    before: bytes
    elements: Sequence[JsonItem]
    after: bytes


def get_list(value: Mapping[str, Any], key: str) -> list[Any]:
    """Returns the list under a key, [] if there is none."""
    found = value.get(key)
    return found if isinstance(found, list) else []


def get_object(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Returns the object under a key, {} if there is none."""
    found = value.get(key)
    return found if isinstance(found, dict) else {}


def list_objects(value: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Lists the objects in the list under a key."""
    return [each for each in get_list(value, key) if isinstance(each, dict)]


def decode_utf8(data: bytes, file: str) -> str:
    """Decodes a UTF-8 file. Raises `BadInput` with the offset of the first byte that is not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise BadInput(
            f"{file}: byte {exc.start} (0x{data[exc.start]:02x}) is not UTF-8; convert the file to UTF-8 first"
        ) from exc


def parse_json(raw: bytes) -> Any:  # noqa: ANN401 - whatever the file holds
    """Parses a JSON text. Lone surrogates, which cannot be stored as UTF-8, become U+FFFD.

    What is nested deeper than `MAX_DEPTH` is a text. Raises `JSONDecodeError` with the position, and
    `UnicodeDecodeError`.
    """
    text = quote_deep(replace_lone_surrogates(raw) if _SURROGATE.search(raw) else raw).decode("utf-8")
    try:
        return _load_json(text)
    except RecursionError:  # brackets that are opened and never closed
        raise json.JSONDecodeError("nested too deeply to read", text, 0) from None


def _load_json(text: str) -> Any:  # noqa: ANN401 - whatever the file holds
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # an integer of thousands of digits, which Python refuses to convert
        return json.loads(text, parse_int=_parse_integer)


def _parse_integer(digits: str) -> int | float:
    """Parses an integer of any length. One of more digits than any count or time has is only kept as infinite."""
    return int(digits) if len(digits) <= _MAX_DIGITS else float(digits)


def parse_document(data: bytes, file: str) -> Any:  # noqa: ANN401 - whatever the file holds
    """Parses a file that is one JSON value.

    Raises `DamagedLine` with the line number, or `BadInput` if the file is not UTF-8.
    """
    decode_utf8(data, file)
    try:
        return parse_json(data.removeprefix(BOM))
    except json.JSONDecodeError as exc:
        raise DamagedLine(
            f"{file}: line {exc.lineno}, column {exc.colno}: {exc.msg}; the file is one JSON value and may have been "
            "cut off: it cannot be read in part, not even with --skip-damaged, so export or copy it again",
            line=exc.lineno,
        ) from exc


def parse_array(data: bytes, key: str, file: str) -> JsonArray:
    """Parses the array under `key` of the JSON object `data`, or the array that `data` is if `key` is empty.

    The JSON must be known to be valid. Raises `BadInput` that names the key if there is no such array.
    """
    span = find_span(data, key) if key else (data.index(b"["), len(data))
    if span is None or data[span[0] : span[0] + 1] != b"[":
        raise BadInput(f"{file}: there is no array under {key!r}; is this the right --format?")
    start, end = span
    slices = slice_array(data[start:end], is_partial=True)
    leads = (lead.removeprefix(b"[") for lead in slices.leads)
    elements = [
        JsonItem(number, lead, raw, parse_json(raw))
        for number, (lead, raw) in enumerate(zip(leads, slices.items, strict=True))
    ]
    ending = slices.end if elements else slices.end.removeprefix(b"[")
    return JsonArray(data[: start + 1], elements, ending + data[end:])
