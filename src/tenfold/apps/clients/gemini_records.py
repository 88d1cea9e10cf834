"""Adds a compacted view to a gemini-cli session: a line that sets the session's messages anew.

gemini-cli goes on from the newest line that does so. The older layout, one document, has no such lines: its messages
are replaced, and what stood there is in the backup alone.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from tenfold.apps.clients.view_copy import ViewCopy, append_lines, parse_lines
from tenfold.formats.applied_lines import mark_applied
from tenfold.formats.gemini_cli import FORMAT, RESTATING, render_records
from tenfold.formats.message_parts import dump_json
from tenfold.formats.output_pieces import join_results, unfold_restated

Json = dict[str, Any]
_NAMESPACE = uuid.UUID("0b8d0f0e-1c0f-4a55-8c1c-d2c0a9a5d7e4")


def add_to_gemini_cli(data: bytes, copy: ViewCopy) -> bytes:
    """Returns the file with a line behind its lines, whose bytes stay as they are.

    A file in the older layout is returned with the messages of the view in place of its own.
    """
    records = []
    for index, record in enumerate(_copy_records(copy)):
        own = str(uuid.uuid5(_NAMESPACE, f"{copy.mark}/{index}/{len(data)}"))
        kept = {key: value for key, value in record.items() if key not in ("id", "tokens")}
        records.append({"id": own, "timestamp": copy.iso_time} | kept)
    if not _has_lines(data):
        return dump_json(json.loads(data) | {"messages": records, "lastUpdated": copy.iso_time})
    line = mark_applied({"$set": {"messages": records, "lastUpdated": copy.iso_time}}, copy.mark)
    return append_lines(data, [dump_json(line, compact=True)])


def _has_lines(data: bytes) -> bool:
    try:
        return "messages" not in json.loads(data.split(b"\n", 1)[0])
    except ValueError:
        return False


def _copy_records(copy: ViewCopy) -> Iterator[Json]:
    for piece in join_results(unfold_restated(piece, RESTATING) for piece in copy.build_pieces(FORMAT)):
        yield from parse_lines(piece) if piece.exact else render_records(piece)
