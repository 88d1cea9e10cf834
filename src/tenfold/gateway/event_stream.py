"""Cuts a stream of server-sent events into its events and keeps the bytes of each."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from tenfold.wire import splice

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
MAX_EVENT = 64 * 1024 * 1024
"""More bytes than this without an end of an event are passed on as they are."""


class StreamEvent(Struct, frozen=True):
    """One event: its bytes with the empty line, and its data if that is a JSON object."""

    raw: bytes
    value: dict[str, Any] | None

    @property
    def is_comment(self) -> bool:
        """Whether it has no data."""
        return self.value is None and not any(line.startswith(b"data") for line in self.raw.splitlines())

    def with_value(self, value: dict[str, Any]) -> bytes:
        """Returns the bytes of the event with other data."""
        kept = [line for line in self.raw.splitlines() if line and not line.startswith(b"data")]
        return b"\n".join([*kept, b"data: " + msgspec.json.encode(value)]) + b"\n\n"


class EventSplitter:
    """Give it the chunks of a stream in order. It keeps only the event that is not complete yet, in `rest`."""

    def __init__(self) -> None:
        self.rest = b""

    def take(self, chunk: bytes) -> list[StreamEvent]:
        """Takes the next bytes and returns the events that are complete with them."""
        data, start, events = self.rest + chunk, 0, list[StreamEvent]()
        for end in _END.finditer(data, max(0, len(self.rest) - 3)):
            events.append(_parse_event(data[start : end.end()]))
            start = end.end()
        self.rest = data[start:]
        if len(self.rest) > MAX_EVENT:
            events.append(StreamEvent(self.rest, None))
            self.rest = b""
        return events


def _parse_event(raw: bytes) -> StreamEvent:
    lines = [line[5:].removeprefix(b" ") for line in raw.splitlines() if line.startswith(b"data:")]
    value = splice.parse_value(b"\n".join(lines)) if lines else None
    return StreamEvent(raw, value if isinstance(value, dict) else None)
