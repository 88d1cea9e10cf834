"""Makes ids and times for new entries. This is the library's only clock and only source of randomness."""

from __future__ import annotations

import hashlib
import itertools
import os
import threading
import time
from datetime import UTC, datetime, timedelta


class IdGenerator:
    """Makes UUIDv7 texts (RFC 9562) that sort in the order in which they were made, even within one millisecond.

    The 12 bits after the version count up within a millisecond (method 1 of section 6.2). The rest is random.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_tick = 0

    def generate(self) -> str:
        """Makes the next id."""
        with self._lock:
            tick = max((time.time_ns() // 1_000_000) << 12, self._last_tick + 1)
            self._last_tick = tick
        return _format_uuid(tick, os.urandom(8))


class ContentIdGenerator:
    """Makes ids from a content, so that two runs over the same content give the same bytes.

    They look like other ids and sort in the order in which they were made. They sort before every id made from a clock.
    """

    def __init__(self, content: bytes) -> None:
        self._seed = hashlib.blake2b(content, digest_size=32).digest()
        self._ticks = itertools.count(1)

    def generate(self) -> str:
        """Makes the next id."""
        tick = next(self._ticks)
        return _format_uuid(tick, hashlib.blake2b(tick.to_bytes(8), key=self._seed, digest_size=8).digest())


def _format_uuid(tick: int, rest: bytes) -> str:
    value = (tick >> 12) << 80 | 0x7 << 76 | (tick & 0xFFF) << 64 | 0b10 << 62
    value |= int.from_bytes(rest) & (1 << 62) - 1
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_SHORT_LENGTH = 18
"""Characters of a short id: its time, and its number within that millisecond."""


def shorten_id(id_: str) -> str:
    """Shortens an id to what a person can type."""
    return id_[:_SHORT_LENGTH]


IDS = IdGenerator()
"""The only generator of the process. The ids of two generators might not sort in the order they were made."""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def get_current_time() -> int:
    """Returns the current time in microseconds UTC."""
    return time.time_ns() // 1_000


def convert_time(moment: int) -> datetime:
    """Converts microseconds UTC, also those before 1970, which `datetime.fromtimestamp` refuses on Windows."""
    return _EPOCH + timedelta(microseconds=moment)
