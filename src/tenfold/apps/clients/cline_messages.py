"""Writes a compacted view into a cline session: the messages of its file are replaced, for cline keeps no others.

What stood there is in the backup alone, so cline shows only the compacted conversation until it is undone.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from tenfold.apps.clients.view_copy import ViewCopy
from tenfold.formats.envelopes import encode_messages
from tenfold.formats.message_parts import dump_json

_NAMESPACE = uuid.UUID("b1f6b7d4-95f5-4d43-a3a5-4a0f0c1f6a57")
_FORMAT, _WIRE = "cline", "anthropic"


def add_to_cline(data: bytes, copy: ViewCopy) -> bytes:
    """Returns the file with the messages of the view in place of its own. Untouched messages keep their fields."""
    document = json.loads(data)
    messages: list[dict[str, Any]] = []
    tools: dict[str, str] = {}
    for piece in copy.build_pieces(_FORMAT):
        raws = [piece.raw] if piece.exact else encode_messages(_WIRE, piece.messages)
        for raw in raws:
            message = json.loads(raw)
            content = message.get("content")
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            tools |= {b["id"]: b["name"] for b in blocks if b.get("type") == "tool_use"}
            blocks = [_with_tool(block, tools) for block in blocks]
            own = str(uuid.uuid5(_NAMESPACE, f"{copy.mark}/{len(messages)}"))
            messages.append({"id": own, "ts": copy.time // 1000} | message | {"content": blocks})
    return dump_json(document | {"messages": messages})


def _with_tool(block: dict[str, Any], tools: dict[str, str]) -> dict[str, Any]:
    """Returns a result with the name of its tool, without which cline refuses the session. Others stay as they are."""
    if block.get("type") != "tool_result" or "name" in block:
        return block
    return block | {"name": tools.get(block["tool_use_id"], "unknown")}
