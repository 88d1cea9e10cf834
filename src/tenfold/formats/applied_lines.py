"""Marks what `tenfold apply` added to a client's session, so that a reader knows it for a copy of what stands before.

Such a line or record holds a message of the compacted view for the client to go on from. Tenfold has the originals and
its own view of them, so these lines are kept for their bytes and are no messages.
"""

from __future__ import annotations

from typing import Any

APPLIED_KEY = "tenfoldApplied"
"""The key of an added line; its value names the compaction that the line belongs to."""
APPLIED_KIND = "tenfold_applied"
"""The kind of the entries that keep added lines."""


def is_applied(value: object) -> bool:
    """Returns whether a line's or record's value was added by `tenfold apply`."""
    return isinstance(value, dict) and APPLIED_KEY in value


def mark_applied(value: dict[str, Any], mark: str) -> dict[str, Any]:
    """Returns the line's value with the mark, which readers of the client ignore."""
    return value | {APPLIED_KEY: mark}
