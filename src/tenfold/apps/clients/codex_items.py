"""Adds a compacted view to a Codex session: the line that Codex writes when it compacts by itself, and the size after.

Codex goes on from the `replacement_history` of its newest such line. Codex versions that number their lines say their
rules and the environment again behind it, so these are left out of the view; for older ones they come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tenfold.apps.clients.view_copy import ViewCopy, append_lines, parse_lines, read_objects
from tenfold.formats.applied_lines import mark_applied
from tenfold.formats.codex import COMPACTING, FORMAT, render_items
from tenfold.formats.message_parts import dump_json
from tenfold.formats.output_pieces import unfold_restated

Json = dict[str, Any]


def add_to_codex(data: bytes, copy: ViewCopy) -> bytes:
    """Returns the rollout with a compaction behind its lines. The file's own bytes stay as they are."""
    lines = read_objects(data)
    ordinal = max((n for line in lines if isinstance(n := line.get("ordinal"), int)), default=None)
    opening = list(_find_opening(lines)) if ordinal is None else []
    shown = [item for item in _copy_items(copy) if not _is_own(item)]
    payload = {"message": "", "replacement_history": [*opening, *shown]}
    added = [{"type": "compacted", "payload": mark_applied(payload, copy.mark)}]
    if (usage := _build_usage(lines, copy.tokens)) is not None:
        added.append({"type": "event_msg", "payload": usage})
    out = []
    for line in added:
        number: Json = {}
        if ordinal is not None:
            ordinal += 1
            number = {"ordinal": ordinal}
        out.append(dump_json({"timestamp": copy.iso_time} | number | line, compact=True))
    return append_lines(data, out)


def _get_item(line: Json) -> Json | None:
    """Returns the Responses item of a line, in the layout with payloads or the older one with bare items."""
    payload = line.get("payload")
    if line.get("type") == "response_item":
        return payload if isinstance(payload, dict) else None
    return line if "payload" not in line and ("role" in line or "call_id" in line or "summary" in line) else None


def _find_opening(lines: Sequence[Json]) -> Iterator[Json]:
    """Finds what Codex itself said before the user's first words: its rules and the environment."""
    for item in filter(None, map(_get_item, lines)):
        if _is_own(item):
            yield item
        elif item.get("role") in ("user", "assistant"):
            return


def _is_own(item: Json) -> bool:
    """Returns whether Codex itself says this at the start of a session."""
    content = item.get("content")
    first = content[0] if isinstance(content, list) and content else None
    text = str(first.get("text") or "") if isinstance(first, dict) else ""
    return item.get("role") == "developer" or (item.get("role") == "user" and text.startswith("<environment_context>"))


def _copy_items(copy: ViewCopy) -> Iterator[Json]:
    for piece in (unfold_restated(piece, COMPACTING) for piece in copy.build_pieces(FORMAT)):
        if piece.exact:
            yield from filter(None, map(_get_item, parse_lines(piece)))
        else:
            yield from render_items(piece.messages)


def _build_usage(lines: Sequence[Json], tokens: int) -> Json | None:
    """Builds the report by which Codex knows how full its window is, from its newest one. None if it wrote none."""
    for line in reversed(lines):
        payload = line.get("payload")
        if isinstance(payload, dict) and payload.get("type") == "token_count" and isinstance(payload.get("info"), dict):
            last = {"input_tokens": tokens, "cached_input_tokens": 0, "output_tokens": 0, "reasoning_output_tokens": 0}
            return payload | {"info": payload["info"] | {"last_token_usage": last | {"total_tokens": tokens}}}
    return None
