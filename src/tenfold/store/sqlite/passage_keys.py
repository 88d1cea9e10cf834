"""The row numbers of passages: where a passage is stored, and how new it is."""

from __future__ import annotations

_NUMBER_BITS, _ENTRY_BITS = 12, 31
RANGE_BITS, MAX_SESSIONS = _NUMBER_BITS + _ENTRY_BITS, 1 << 20
"""The 63 bits of a passage's row number: session, entry, number of the passage in it."""


def build_passage_key(session: int, seq: int, number: int = 0) -> int:
    """Builds the row number of a passage, which is the `number`th of the entry with the row number `seq`.

    The passages of a session are one range, in the order of appending, so that a search of one session need not look at
    others. Sessions whose ids are a million apart share a range.
    """
    return (session % MAX_SESSIONS << _ENTRY_BITS | seq) << _NUMBER_BITS | number


def split_passage_key(key: int) -> tuple[int, int]:
    """Returns the row number of the passage's entry, and the passage's number in it."""
    return key >> _NUMBER_BITS & (1 << _ENTRY_BITS) - 1, key & (1 << _NUMBER_BITS) - 1
