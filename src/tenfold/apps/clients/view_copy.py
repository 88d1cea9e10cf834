"""What every client is given back: a copy of the compacted view, as values of the client's own format.

Every client keeps its history as a record that grows, and has a way to say "from here on, the conversation is this".
So a compacted session is added behind what stands there, and nothing of the client's own record is changed or removed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tenfold.core.record.entry import CustomEntry, Setting
from tenfold.core.record.message import Message
from tenfold.errors import BadInput
from tenfold.formats.base import ExportItem
from tenfold.formats.json_lines import LineFile
from tenfold.formats.output_pieces import OutputPiece, build_pieces
from tenfold.store.ids import convert_time

COMPACTED_NOTE = "The conversation was compacted. What is kept of it follows."
"""What stands in a client's own compaction, where it demands one with words. The view itself comes behind it."""


class ViewCopy(Struct, frozen=True):
    """A compacted view on its way into a client.

    `items` is the view as a file would hold it, `tokens` its size, `mark` the id of its newest Block, and `time` the
    moment in microseconds UTC.
    """

    items: Sequence[ExportItem]
    tokens: int
    mark: str
    time: int

    @property
    def iso_time(self) -> str:
        """The time as the clients write it: `2026-11-26T19:20:14.581Z`."""
        when = convert_time(self.time)
        return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def build_pieces(self, format: str) -> list[OutputPiece]:
        """Builds the pieces of the view's messages: original bytes where a message is untouched."""
        return build_pieces([item for item in self.items if not isinstance(item, CustomEntry | Setting)], format)

    def list_messages(self) -> list[Message]:
        """Lists the messages of the view: what the client is to send."""
        return [message for piece in self.build_pieces("") for message in piece.messages]


def read_objects(data: bytes) -> list[dict[str, Any]]:
    """Reads the objects of a client's file of lines. Raises `BadInput` if the client is writing the last one."""
    source = LineFile(data, file="the session", skip_damaged=False)
    if source.problems:
        raise BadInput(f"{source.problems[0]}: the client is writing, so quit it first")
    return [line.value for line in source.lines]


def append_lines(data: bytes, lines: Sequence[bytes]) -> bytes:
    """Returns a file of lines with these behind its own, which stay as they are."""
    end = b"" if data.endswith(b"\n") else b"\n"
    return data + end + b"\n".join(lines) + b"\n"


def parse_lines(piece: OutputPiece) -> list[dict[str, Any]]:
    """Parses the lines of a piece that has its original bytes."""
    values = (json.loads(line) for line in piece.raw.split(b"\n") if line.strip())
    return [value for value in values if isinstance(value, dict)]
