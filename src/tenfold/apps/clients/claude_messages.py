"""Adds a compacted view to a Claude Code session: the boundary that Claude Code writes when it compacts, and the view.

Claude Code loads the chain of the newest message back to a line without a parent, and nothing before its newest
boundary. So the boundary has no parent, and every message of the view hangs on the one before.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

from tenfold.apps.clients.view_copy import ViewCopy, append_lines, parse_lines, read_objects
from tenfold.formats.applied_lines import mark_applied
from tenfold.formats.claude_code import FORMAT, render_line
from tenfold.formats.claude_queue import get_queued_prompt
from tenfold.formats.message_parts import dump_json
from tenfold.store.base import SessionInfo

Json = dict[str, Any]
_CARRIED = ("cwd", "sessionId", "version", "gitBranch", "userType", "entrypoint", "slug")
"""What every line of a session repeats."""
_NAMESPACE = uuid.UUID("6f1d3c5e-6a0b-4d3f-9a57-6a2c1f0e8b11")


def add_to_claude_code(data: bytes, copy: ViewCopy) -> bytes:
    """Returns the file with a boundary and the view behind its lines. The file's own bytes stay as they are."""
    lines = read_objects(data)
    linked = [line for line in lines if line.get("uuid") and line.get("isSidechain") is not True]
    newest = linked[-1] if linked else {}
    carried = {key: newest[key] for key in _CARRIED if key in newest} | {"isSidechain": False}
    boundary = {
        "parentUuid": None,
        "logicalParentUuid": newest.get("uuid"),
        "type": "system",
        "subtype": "compact_boundary",
        "content": "Conversation compacted",
        "isMeta": False,
        "level": "info",
        "compactMetadata": {"trigger": "manual", "preTokens": _measure_newest(lines)},
    }
    parent: str | None = None
    out: list[bytes] = []
    mark = f"{copy.mark}/{len(data)}"
    for value in (boundary, *_copy_messages(copy, str(carried.get("sessionId", "")), _find_model(lines))):
        own = str(uuid.uuid5(_NAMESPACE, f"{mark}/{len(out)}"))
        line = carried | _with_own_id(value, mark) | {"uuid": own, "timestamp": copy.iso_time}
        if out:
            line["parentUuid"] = parent
        out.append(dump_json(mark_applied(line, copy.mark), compact=True))
        parent = own
    return append_lines(data, out)


def _measure_newest(lines: list[Json]) -> int:
    for line in reversed(lines):
        match line.get("message"):
            case {"usage": {"input_tokens": int(fresh), **rest}}:
                cached = (rest.get("cache_read_input_tokens"), rest.get("cache_creation_input_tokens"))
                return fresh + sum(n for n in cached if isinstance(n, int))
    return 0


def _find_model(lines: list[Json]) -> str:
    models = (m.get("model") for line in reversed(lines) if isinstance(m := line.get("message"), dict))
    return next((model for model in models if isinstance(model, str) and model != "<synthetic>"), "unknown")


def _copy_messages(copy: ViewCopy, session: str, model: str) -> Iterator[Json]:
    for piece in copy.build_pieces(FORMAT):
        lines = parse_lines(piece) if piece.exact else []
        if not lines or not all("message" in line or get_queued_prompt(line) is not None for line in lines):
            raw = render_line(SessionInfo(session, FORMAT, source_id=session), piece)
            lines = [json.loads(raw)] if raw else []
        for line in lines:
            yield _with_size(line, copy.tokens, model)


def _with_own_id(line: Json, mark: str) -> Json:
    """Returns an answer with another id: Claude Code takes lines with one id for one answer, wherever they stand."""
    message = line.get("message")
    if not isinstance(message, dict) or not message.get("id"):
        return line
    own = uuid.uuid5(_NAMESPACE, f"{mark}/{message['id']}").hex[:24]
    return line | {"message": message | {"id": f"msg_{own}"}}


def _with_size(line: Json, tokens: int, model: str) -> Json:
    """Returns an answer with the size of the view as its usage: Claude Code decides by the newest when to compact."""
    message = line.get("message")
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return line
    usage = {"input_tokens": tokens, "output_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    whole = {"id": f"msg_{_build_answer_id(line)}", "type": "message", "model": model, "stop_reason": None} | message
    return line | {"message": whole | {"usage": usage}}


def _build_answer_id(line: Json) -> str:
    """Builds an id for an answer that has none."""
    return uuid.uuid5(_NAMESPACE, json.dumps(line, sort_keys=True)).hex[:24]
