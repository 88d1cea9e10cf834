"""Cache marks of Anthropic's: one is placed at the end of what a compaction replaced, so that this prefix is cached."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeGuard

import msgspec
from msgspec import Raw

from tenfold.apps.gateway.model_request import ModelRequest
from tenfold.core.wire import get_wire, splice
from tenfold.core.wire.fingerprint import fingerprint_message

_MARK = "cache_control"
_QUOTED = b'"cache_control"'


def mark_compacted_prefix(request: ModelRequest, own_items: Collection[bytes]) -> ModelRequest:
    """Returns the request with a mark on the last message that is not the client's own.

    It is a copy of the next mark behind it, else of the last before: the provider wants those that live longest first.
    `own_items` are the client's messages. Nothing is changed where the API has no marks, where the client uses none, or
    where there are as many as the provider takes.
    """
    limit = request.profile.max_cache_marks
    if not limit:
        return request
    own = set(own_items)
    last = max((at for at, item in enumerate(request.items) if item not in own), default=-1)
    marks = [_list_marks(Raw(item)) for item in request.items]
    before = [*_list_marks(request.fields.get("tools")), *_list_marks(request.fields.get("system"))]
    before += [mark for each in marks[: last + 1] for mark in each]
    top = request.fields.get(_MARK)  # it stands for one on the last block
    behind = [mark for each in marks[last + 1 :] for mark in each] + ([top] if _is_mark(top) else [])
    if last < 0 or not 0 < len(before) + len(behind) < limit:
        return request
    marked = _mark_message(request.items[last], (behind[:1] or before[-1:])[0])
    return (
        request if marked is None else request.with_items([*request.items[:last], marked, *request.items[last + 1 :]])
    )


def _is_mark(value: Raw | None) -> TypeGuard[Raw]:
    return value is not None and bytes(value) != b"null"


def _list_marks(value: Raw | None) -> list[Raw]:
    """Returns the marks of a message, or of a list of blocks or tools, in the order of the provider."""
    if value is None or _QUOTED not in bytes(value):
        return []
    fields = splice.parse_object(value)
    if fields is None:
        return [mark for each in splice.parse_array(value) or () for mark in _list_marks(each)]
    own = fields.get(_MARK)
    return _list_marks(fields.get("content")) + ([own] if _is_mark(own) else [])


def fingerprint_item(wire: str, item: bytes) -> list[bytes]:
    """Returns what a native message says, apart from cache marks and the like, to be compared."""
    return [fingerprint_message(message) for message in get_wire(wire).decode([item])]


def _mark_message(item: bytes, mark: Raw) -> bytes | None:
    """Returns a message with a mark on its last block, None if it has one or cannot take one."""
    fields = splice.parse_object(item)
    if fields is None or _list_marks(Raw(item)):
        return None
    text = splice.find_text(fields, "content")
    blocks = splice.parse_array(fields.get("content"))
    if text is not None:
        blocks = [Raw(msgspec.json.encode({"type": "text", "text": text}))]
    last = splice.parse_object(blocks[-1]) if blocks else None
    if not blocks or last is None or splice.get_text(last, "type") not in ("text", "tool_result", "tool_use"):
        return None
    content = splice.build_array([*map(bytes, blocks[:-1]), splice.join_fields({**last, _MARK: mark})])
    return splice.join_fields({**fields, "content": Raw(content)})
