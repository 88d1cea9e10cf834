"""The interface of a session format, and the values that formats exchange with the rest of the library.

The ids of parsed entries are keys local to the session; `import_sessions` replaces them by UUIDv7 and keeps the order.
Every entry keeps the exact bytes it came from, so the bytes of all entries, in file order, are the file. Nothing here
reads or writes a file: `session_files` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from tenfold.core.record.entry import Entry
from tenfold.core.record.message import Message
from tenfold.store.base import SessionInfo


class ParsedSession(Struct, frozen=True):
    """One session as read from a file. Parents come before children; `problems` say what was skipped or unusual."""

    info: SessionInfo
    entries: tuple[Entry, ...]
    problems: tuple[str, ...] = ()

    def __repr__(self) -> str:
        shown = self.info.source_id or self.info.file
        damage = f", {len(self.problems):,} problems" if self.problems else ""
        return f"<{type(self).__name__} {shown!r} in {self.info.format}: {len(self.entries):,} entries{damage}>"


class ReplacementMessage(Struct, frozen=True):
    """A message of a view that stands in for entries that are hidden or shortened.

    `source_id` is the foreign id of the last entry it replaces, so that the parent id of the next untouched line is
    still valid. `parent` is the foreign id of the entry before. Both are empty if the format has no ids.
    """

    message: Message
    source_id: str = ""
    parent: str = ""


def _drop_cut_line(ending: bytes) -> bytes:
    return b"\n" if ending.lstrip().startswith(b"{") else ending


ExportItem = Entry | ReplacementMessage


class SessionFormat(Protocol):
    """One format of session files. It keeps no state and raises only `BadInput` and its subclasses.

    `opaque_kinds` are the kinds of the parts that the format has and no type of ours holds, which are kept whole; a `*`
    stands for any text. `part_wires` name the wires whose parts it has besides. Parts of other kinds are unknown: if
    they hold text in many messages of a file, it is refused.
    """

    name: str
    opaque_kinds: Sequence[str] = ()
    part_wires: Sequence[str] = ()

    def can_read(self, head: bytes, name: str) -> bool:
        """Returns whether the file named `name` that begins with `head` has this format and no other.

        Pass the whole file if you have it: a part may not be enough to tell.
        """
        ...

    def read(self, data: bytes, *, file: str, skip_damaged: bool) -> list[ParsedSession]:
        """Parses the sessions in `data`. `file` is only used in error messages.

        Raises `BadInput`, which says where the problem is and what to do.
        """
        ...

    def render_body(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders the session's own part of a file: `info.prefix`, the items, `info.suffix`."""
        ...

    def build_info(self, session_id: str) -> SessionInfo:
        """Builds the info of a session that came from another format: the bytes around its items in a new file."""
        ...

    def without_damaged(self, info: SessionInfo) -> SessionInfo:
        """Returns the info without the damaged lines that its bytes hold: here a last line that is not complete."""
        return replace(
            info,
            suffix=_drop_cut_line(info.suffix),
            file_suffix=_drop_cut_line(info.file_suffix),
            standalone_suffix=_drop_cut_line(info.standalone_suffix),
        )

    def render_file(self, info: SessionInfo, items: Sequence[ExportItem]) -> bytes:
        """Renders a whole file that holds only this session. Untouched entries keep their original bytes."""
        info = info if info.format == self.name else self.build_info(info.id)
        return info.standalone_prefix + self.render_body(info, items) + info.standalone_suffix
