"""Files that hold a session's messages as the elements of an array somewhere in a JSON document."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tenfold.errors import BadInput
from tenfold.record.message import Native
from tenfold.transcripts.spans import Span, elements, member


class Slot(Struct, frozen=True):
    """An element: `lead` is the separator before it, `raw` its bytes, `number` its place in the array from 0."""

    number: int
    lead: bytes
    raw: bytes
    text: str
    value: Any

    def native(self, format: str) -> Native:
        """The element's bytes as they are kept."""
        return Native(format, self.raw, self.lead)

    def fields(self, file: str) -> dict[str, Any]:
        """The element as an object. Raises `BadInput` with its place when it is something else."""
        if not isinstance(self.value, dict):
            raise BadInput(f"{file}: element {self.number} of the messages is {self.text[:40]!r}, not an object")
        return self.value


class Array(Struct, frozen=True):
    """An array in a text: `before` ends with its '[', `after` begins behind its last element."""

    before: bytes
    slots: tuple[Slot, ...]
    after: bytes


def array(text: str, at: int, *, start: int = 0, end: int | None = None) -> Array:
    """The array whose '[' stands at `at`, within `text[start:end]`."""
    found = elements(text, at)
    slots = []
    here = at + 1
    for number, span in enumerate(found):
        raw = text[span.start : span.end]
        slots.append(Slot(number, text[here : span.start].encode(), raw.encode(), raw, span.value))
        here = span.end
    return Array(text[start : at + 1].encode(), tuple(slots), text[here:end].encode())


def array_of(text: str, top: Span, key: str, file: str) -> Span:
    """The array under `key` of the document's object. Raises `BadInput` that names the key when it is missing."""
    found = member(text, top.start, key) if isinstance(top.value, dict) else None
    if found is None or not isinstance(found.value, list):
        raise BadInput(f"{file}: there is no array under {key!r}; is this the right --format?")
    return found
