"""Chooses the sessions that a rule of retention deletes: those that are too old, and the oldest of too many.

It only chooses. `Store.purge` deletes, and `Store.release_space` gives the space back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from uuid import UUID

from msgspec import Struct

from tenfold.errors import UsageError
from tenfold.store.base import SessionRow

_SECONDS = {"h": 3_600, "d": 86_400, "w": 604_800, "m": 2_592_000, "y": 31_536_000}
_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_TIME_ORDERED_ID = 7
"""The version of the UUIDs that begin with their time in milliseconds (RFC 9562)."""


class RetentionRule(Struct, frozen=True):
    """What to keep: sessions used in the last `seconds`, and no more than `size` bytes. None sets no limit."""

    seconds: int | None = None
    size: int | None = None


class ExpiredSession(Struct, frozen=True):
    """A session that a rule deletes: its last use in microseconds UTC (None if unknown), its bytes, and the reason."""

    row: SessionRow
    last_use: int | None
    size: int
    reason: str


def parse_age(text: str) -> int:
    """Parses an age such as `90d` (also h, w, m for 30 days, y) into seconds. Raises `UsageError`."""
    match = re.fullmatch(r"(\d+)\s*([hdwmy])", text.strip().lower())
    if match is None or int(match[1]) < 1:
        raise UsageError(f"{text!r} is not an age: give a number and a unit, as in 90d, 12h, 8w, 6m or 1y")
    return int(match[1]) * _SECONDS[match[2]]


def parse_size(text: str) -> int:
    """Parses a size such as `2GB` (also KB, MB, KiB, MiB, GiB, or plain bytes) into bytes. Raises `UsageError`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip(), re.IGNORECASE)
    if match is None or match[2].upper() not in _BYTES:
        raise UsageError(f"{text!r} is not a size: give a number and a unit, as in 2GB, 500MB or 800KiB")
    return int(float(match[1]) * _BYTES[match[2].upper()])


def find_last_use(row: SessionRow) -> int | None:
    """Finds when a session was last used: the time of its last entry or, if none has one, when that was stored."""
    stored = (_read_id_time(leaf) for leaf in row.heads.values())
    return row.last_time if row.last_time is not None else max((t for t in stored if t is not None), default=None)


def choose_expired(
    rows: Iterable[SessionRow], sizes: Mapping[str, int], rule: RetentionRule, *, kept: Iterable[str], now: int
) -> list[ExpiredSession]:
    """Chooses what the rule deletes, the sessions that were not used for the longest time first.

    `sizes` holds the bytes of each session, and `kept` the ids of those that stay in any case. They count towards the
    size. A session of unknown age is deleted for the size only, before the others.
    """
    protected = frozenset(kept)
    oldest_first = sorted(((find_last_use(row), row) for row in rows), key=lambda pair: (pair[0] or 0, pair[1].info.id))
    total = sum(sizes.get(row.info.id, 0) for _, row in oldest_first)
    out: list[ExpiredSession] = []
    for last_use, row in oldest_first:
        size = sizes.get(row.info.id, 0)
        reason = ""
        if rule.seconds is not None and last_use is not None and now - last_use > rule.seconds * 1_000_000:
            reason = f"not used for {(now - last_use) // 86_400_000_000:,} days"
        elif rule.size is not None and total > rule.size:
            reason = f"the oldest, while {total:,} bytes are more than {rule.size:,}"
        if reason and row.info.id not in protected:
            out.append(ExpiredSession(row, last_use, size, reason))
            total -= size
    return out


def _read_id_time(id_: str) -> int | None:
    try:
        value = UUID(id_)
    except ValueError:
        return None
    return (value.int >> 80) * 1_000 if value.version == _TIME_ORDERED_ID else None
