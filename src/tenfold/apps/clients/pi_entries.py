"""Adds a compacted view to a pi session: a second root in the tree of entries, which pi takes for the newest branch.

The branch repeats the settings in force, since pi reads them along the branch. A file before version 2 is no tree: pi
makes one chain of its lines when it opens it. There the view stands behind a compaction that keeps nothing. Each answer
reports the size of the compacted view, because pi decides by the newest report whether to compact by itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from tenfold.apps.clients.view_copy import COMPACTED_NOTE, ViewCopy, append_lines, parse_lines, read_objects
from tenfold.formats.applied_lines import mark_applied
from tenfold.formats.json_items import get_list
from tenfold.formats.message_parts import dump_json
from tenfold.formats.output_pieces import OutputPiece
from tenfold.formats.pi import FORMAT, render_line

_SETTINGS = ("model_change", "thinking_level_change")
_NO_COST = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}


def add_to_pi(data: bytes, copy: ViewCopy) -> bytes:
    """Returns the file with the view behind its entries. The file's own bytes stay as they are."""
    lines = read_objects(data)
    answer = next((m for m in map(_get_answer, reversed(lines)) if m is not None), {})
    messages = _copy_messages(copy, answer)
    is_chain = bool(lines) and (lines[0].get("version") or 1) < 2
    added = _build_chain(len(lines), messages, copy) if is_chain else _build_branch(lines, messages, copy, len(data))
    out = [dump_json(mark_applied(line | {"timestamp": copy.iso_time}, copy.mark), compact=True) for line in added]
    return append_lines(data, out)


def _build_branch(
    lines: list[dict[str, Any]], messages: Iterator[dict[str, Any]], copy: ViewCopy, size: int
) -> Iterator[dict[str, Any]]:
    """Builds a branch from the root, with the settings in force."""
    used = {str(line.get("id")) for line in lines}
    settings = [found for kind in _SETTINGS if (found := _find_newest(lines, kind)) is not None]
    parent: str | None = None
    for number, value in enumerate((*settings, *messages)):
        own = _choose_id(used, f"{copy.mark}{number}{size}")
        used.add(own)
        yield value | {"id": own, "parentId": parent}
        parent = own


def _build_chain(count: int, messages: Iterator[dict[str, Any]], copy: ViewCopy) -> Iterator[dict[str, Any]]:
    """Builds what a file before version 2 can hold, of which pi makes one chain: a compaction that keeps nothing.

    `count` is the number of lines before it. The settings in force stand before it and stay in force.
    """
    compaction = {"type": "compaction", "summary": COMPACTED_NOTE, "tokensBefore": copy.tokens}
    yield compaction | {"firstKeptEntryIndex": count + 1}
    for value in messages:
        yield {key: each for key, each in value.items() if key not in ("id", "parentId")}


def _find_newest(lines: list[dict[str, Any]], kind: str) -> dict[str, Any] | None:
    return next((line for line in reversed(lines) if line.get("type") == kind), None)


def _get_answer(line: dict[str, Any]) -> dict[str, Any] | None:
    message = line.get("message")
    return message if isinstance(message, dict) and message.get("role") == "assistant" else None


def _choose_id(used: set[str], text: str) -> str:
    own = hashlib.sha256(text.encode()).hexdigest()[:8]
    return own if own not in used else _choose_id(used, text + ".")


def _copy_messages(copy: ViewCopy, answer: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for piece in copy.build_pieces(FORMAT):
        for value in parse_lines(piece) if piece.exact else _render(piece):
            message = value.get("message")
            yield value if not isinstance(message, dict) else value | {"message": _complete(message, copy, answer)}


def _render(piece: OutputPiece) -> Iterator[dict[str, Any]]:
    if raw := render_line(piece):
        yield json.loads(raw)


def _complete(message: dict[str, Any], copy: ViewCopy, answer: dict[str, Any]) -> dict[str, Any]:
    """Completes a message with what pi expects of every one. An answer names its model and the size of the view."""
    completed = {"timestamp": copy.time // 1000} | message
    if message.get("role") != "assistant":
        return completed
    usage = {"input": copy.tokens, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": copy.tokens}
    named = {key: answer.get(key, "unknown") for key in ("api", "provider", "model")}
    return named | completed | {"usage": usage | {"cost": _NO_COST}, "content": get_list(message, "content")}
