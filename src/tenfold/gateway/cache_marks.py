"""Cache marks of Anthropic's: one is placed at the end of what a compaction replaced, so that this prefix is cached."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from msgspec import Raw

from tenfold.gateway.model_request import ModelRequest
from tenfold.wire import get_wire, splice
from tenfold.wire.fingerprint import fingerprint_message

_MARK = b'"cache_control"'
_EPHEMERAL = Raw(b'{"type":"ephemeral"}')


def mark_compacted_prefix(request: ModelRequest, own_items: Collection[bytes]) -> ModelRequest:
    """Returns the request with a mark on the last message that is not the client's own.

    `own_items` are the client's messages. Nothing is changed where the API has no marks, where the client uses none, or
    where there are as many as the provider takes.
    """
    limit = request.profile.max_cache_marks
    if not limit:
        return request
    beside = sum(bytes(raw).count(_MARK) for name, raw in request.fields.items() if name != request.list_field)
    used = beside + sum(item.count(_MARK) for item in request.items)
    if not used or used >= limit:
        return request
    own = set(own_items)
    last = max((at for at, item in enumerate(request.items) if item not in own), default=-1)
    marked = _mark_message(request.items[last]) if last >= 0 else None
    return (
        request if marked is None else request.with_items([*request.items[:last], marked, *request.items[last + 1 :]])
    )


def fingerprint_item(wire: str, item: bytes) -> list[bytes]:
    """Returns what a native message says, apart from cache marks and the like, to be compared."""
    return [fingerprint_message(message) for message in get_wire(wire).decode([item])]


def _mark_message(item: bytes) -> bytes | None:
    """Returns a message with a mark on its last block, None if it has one or cannot take one."""
    fields = splice.parse_object(item)
    if fields is None or _MARK in item:
        return None
    text = splice.find_text(fields, "content")
    blocks = splice.parse_array(fields.get("content"))
    if text is not None:
        blocks = [Raw(msgspec.json.encode({"type": "text", "text": text}))]
    last = splice.parse_object(blocks[-1]) if blocks else None
    if not blocks or last is None or splice.get_text(last, "type") not in ("text", "tool_result", "tool_use"):
        return None
    content = splice.build_array([*map(bytes, blocks[:-1]), splice.join_fields({**last, "cache_control": _EPHEMERAL})])
    return splice.join_fields({**fields, "content": Raw(content)})
