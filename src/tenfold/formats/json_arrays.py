"""Parses JSON documents that hold a session's messages as the elements of an array."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tenfold.errors import BadInput
from tenfold.formats.json_spans import JsonSpan, find_member, parse_elements
from tenfold.record.message import NativeBytes


class ArrayElement(Struct, frozen=True):
    """One element: `lead` is the separator before it, `raw` its bytes, and `number` its index in the array."""

    number: int
    lead: bytes
    raw: bytes
    text: str
    value: Any

    def to_native(self, format: str) -> NativeBytes:
        """Converts the element to the bytes that an entry keeps."""
        return NativeBytes(format, self.raw, self.lead)

    def get_object(self, file: str) -> dict[str, Any]:
        """Returns the element's JSON object. Raises `BadInput` with its index if it is not an object."""
        if not isinstance(self.value, dict):
            raise BadInput(f"{file}: element {self.number} of the messages is {self.text[:40]!r}, not an object")
        return self.value


class JsonArray(Struct, frozen=True):
    """An array in a text. `before` ends with its '[', and `after` begins behind its last element."""

    before: bytes
    elements: tuple[ArrayElement, ...]
    after: bytes


def parse_array(text: str, position: int, *, start: int = 0, end: int | None = None) -> JsonArray:
    """Parses the array whose '[' is at `position`, within `text[start:end]`."""
    spans = parse_elements(text, position)
    slots = []
    offset = position + 1
    for number, span in enumerate(spans):
        raw = text[span.start : span.end]
        slots.append(ArrayElement(number, text[offset : span.start].encode(), raw.encode(), raw, span.value))
        offset = span.end
    return JsonArray(text[start : position + 1].encode(), tuple(slots), text[offset:end].encode())


def find_array(text: str, object_span: JsonSpan, key: str, file: str) -> JsonSpan:
    """Finds the array under `key` of an object. Raises `BadInput` that names the key if there is none."""
    span = find_member(text, object_span.start, key) if isinstance(object_span.value, dict) else None
    if span is None or not isinstance(span.value, list):
        raise BadInput(f"{file}: there is no array under {key!r}; is this the right --format?")
    return span
