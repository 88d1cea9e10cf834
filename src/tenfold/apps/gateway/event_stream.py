"""Cuts a stream of server-sent events into its events and keeps the bytes of each."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct

from tenfold.core.wire import splice

_LINE = re.compile(rb"\r\n|\r|\n")
_END = re.compile(rb"\r\n(?:\r\n?|\n)|\n(?:\r\n?|\n)|\r\r\n?")
"""Two ends of a line, of whatever kind, written so that what does not begin with one is skipped at once."""
_LONGEST_END = 4
MAX_EVENT = 64 * 1024 * 1024
"""More bytes than this without an end of an event are passed on as they are."""


class StreamEvent(Struct, frozen=True):
    """One event: its bytes with the empty line, its data, and what these say if they are a JSON object."""

    raw: bytes
    data: bytes
    value: dict[str, Any] | None

    @property
    def is_comment(self) -> bool:
        """Whether it has no data."""
        return self.value is None and not any(line.startswith(b"data") for line in _LINE.split(self.raw))

    def with_value(self, value: dict[str, Any]) -> bytes:
        """Returns the bytes of the event with other data."""
        kept = [line for line in _LINE.split(self.raw) if line and not line.startswith(b"data")]
        return b"\n".join([*kept, b"data: " + msgspec.json.encode(value)]) + b"\n\n"


class EventSplitter:
    """Give it the chunks of a stream in order. It keeps only the event that is not complete yet."""

    def __init__(self, limit: int = MAX_EVENT) -> None:
        """`limit` is in bytes: what has no end until then is taken for an event."""
        self._limit, self._open = limit, bytearray()

    @property
    def rest(self) -> bytes:
        """The bytes of the event that is not complete yet."""
        return bytes(self._open)

    def take(self, chunk: bytes) -> list[StreamEvent]:
        """Takes the next bytes and returns the events that are complete with them."""
        return list(map(parse_event, self.cut(chunk)))

    def cut(self, chunk: bytes) -> list[bytes]:
        """Takes the next bytes and returns those of the events that are complete with them."""
        start = max(0, len(self._open) - _LONGEST_END + 1)
        self._open += chunk
        ends = [end.end() for end in _END.finditer(self._open, start)]
        if not ends and len(self._open) > self._limit:
            ends = [len(self._open)]
        events = [bytes(self._open[start:end]) for start, end in zip((0, *ends), ends, strict=False)]
        del self._open[: ends[-1] if ends else 0]
        return events


def parse_event(raw: bytes) -> StreamEvent:
    """Returns the event that some bytes are."""
    lines = [line[5:].removeprefix(b" ") for line in _LINE.split(raw) if line.startswith(b"data:")]
    data = b"\n".join(lines)
    value = splice.parse_value(data) if lines and len(raw) <= MAX_EVENT else None
    return StreamEvent(raw, data, value if isinstance(value, dict) else None)
