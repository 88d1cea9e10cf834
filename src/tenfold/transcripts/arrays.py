"""Parses JSON documents that hold a session's messages as the elements of an array."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tenfold.errors import BadInput
from tenfold.record.message import Native
from tenfold.transcripts.spans import Span, elements, member


class Slot(Struct, frozen=True):
    """One element: `lead` is the separator before it, `raw` its bytes, and `number` its index in the array."""

    number: int
    lead: bytes
    raw: bytes
    text: str
    value: Any

    def native(self, format: str) -> Native:
        """Converts the element to the bytes that an entry keeps."""
        return Native(format, self.raw, self.lead)

    def fields(self, file: str) -> dict[str, Any]:
        """Returns the element's JSON object. Raises `BadInput` with its index if it is not an object."""
        if not isinstance(self.value, dict):
            raise BadInput(f"{file}: element {self.number} of the messages is {self.text[:40]!r}, not an object")
        return self.value


class Array(Struct, frozen=True):
    """An array in a text. `before` ends with its '[', and `after` begins behind its last element."""

    before: bytes
    slots: tuple[Slot, ...]
    after: bytes


def array(text: str, at: int, *, start: int = 0, end: int | None = None) -> Array:
    """Parses the array whose '[' is at `position`, within `text[start:end]`."""
    spans = elements(text, at)
    slots = []
    offset = at + 1
    for number, span in enumerate(spans):
        raw = text[span.start : span.end]
        slots.append(Slot(number, text[offset : span.start].encode(), raw.encode(), raw, span.value))
        offset = span.end
    return Array(text[start : at + 1].encode(), tuple(slots), text[offset:end].encode())


def array_of(text: str, top: Span, key: str, file: str) -> Span:
    """Finds the array under `key` of an object. Raises `BadInput` that names the key if there is none."""
    span = member(text, top.start, key) if isinstance(top.value, dict) else None
    if span is None or not isinstance(span.value, list):
        raise BadInput(f"{file}: there is no array under {key!r}; is this the right --format?")
    return span
