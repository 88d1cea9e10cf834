"""What every reader of another tool's session files promises, and the values they exchange.

Entries carry session-local keys as ids; whoever stores them maps the keys to UUIDv7, keeping the order. Every entry
keeps the exact bytes it came from, so the bytes of all entries, in file order, are the file. Nothing here touches a
disk: `files.py` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from tenfold.log.base import SessionInfo
from tenfold.record.entry import Entry
from tenfold.record.message import Message


class Recorded(Struct, frozen=True):
    """One session as a file holds it. Parents come before their children; `problems` say what was skipped or odd."""

    info: SessionInfo
    entries: tuple[Entry, ...]
    problems: tuple[str, ...] = ()


class Replaced(Struct, frozen=True):
    """A shown message that stands for something a view hides or shortens.

    `source` is the foreign id of the last entry it stands for, so that the next untouched line's parent pointer
    still resolves; `parent` the foreign id of what came before. Both may be empty where a format has no ids.
    """

    message: Message
    source: str = ""
    parent: str = ""


Item = Entry | Replaced


class Reader(Protocol):
    """One session format. Readers keep no state and raise only `BadInput` and what descends from it."""

    name: str

    def sniff(self, head: bytes, name: str) -> bool:
        """Whether the file that begins with `head` and is called `name` is of this format, and of no other.

        Give the whole file where it is at hand: a part may not be enough to tell.
        """
        ...

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[Recorded]:
        """The sessions in `data`. `file` is for messages only. Raises `BadInput` with the place and the next step."""
        ...

    def body(self, info: SessionInfo, items: Sequence[Item]) -> bytes:
        """The session's own bytes as they stand in its file: `info.before`, the items, `info.after`."""
        ...

    def write(self, info: SessionInfo, items: Sequence[Item]) -> bytes:
        """A whole file of this format that holds just this session; of untouched entries, their very bytes."""
        ...
