"""Answers Codex when it asks its provider to compact, and puts the view in the place of that answer later.

The input of such a request ends with an item `compaction_trigger`. Codex wants one item `compaction` back, keeps its
`encrypted_content` as it is, and sends it in every later request in place of what came before.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable

import msgspec
from msgspec import Struct

from tenfold.apps.gateway.model_request import ModelRequest
from tenfold.core.record.message import Message
from tenfold.core.wire import get_wire, splice

_TRIGGER = "compaction_trigger"
_PREFIX = "tenfold:"
ViewReader = Callable[[str, str], list[Message]]
"""Reads the messages of the view that a session had at an entry."""


class CompactionToken(Struct, frozen=True):
    """What the content of a compaction item refers to: a session, and the entry at which its view was taken."""

    session: str
    entry: str
    seal: str

    def encode(self) -> str:
        """Returns the text that the client keeps."""
        return _PREFIX + base64.urlsafe_b64encode(msgspec.json.encode(self)).decode()


def build_token(tenant: str, session: str, entry: str) -> CompactionToken:
    """Builds a token that only requests of the same tenant can use."""
    seal = hashlib.sha256(f"tenfold-compaction\0{tenant}\0{session}\0{entry}".encode()).hexdigest()[:32]
    return CompactionToken(session, entry, seal)


def read_token(tenant: str, item: bytes) -> CompactionToken | None:
    """Returns the token of a compaction item that this gateway gave to this tenant. None for any other item."""
    if _PREFIX.encode() not in item:
        return None
    fields = splice.parse_object(item) or {}
    text = splice.get_text(fields, "encrypted_content")
    if splice.get_text(fields, "type") != "compaction" or not text.startswith(_PREFIX):
        return None
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text.removeprefix(_PREFIX)), type=CompactionToken)
    except (ValueError, msgspec.ValidationError):
        return None
    return token if token == build_token(tenant, token.session, token.entry) else None


def remove_trigger(request: ModelRequest) -> ModelRequest | None:
    """Returns a request without its trigger, None if it has none."""
    may_have = request.items and request.wire == "openai-responses" and _TRIGGER.encode() in request.items[-1]
    last = splice.parse_object(request.items[-1]) if may_have else None
    if last is None or splice.get_text(last, "type") != _TRIGGER:
        return None
    return request.with_items(request.items[:-1])


def has_compaction_token(request: ModelRequest) -> bool:
    """Whether a request may have a compaction item of ours."""
    mark = f'"{_PREFIX}'.encode()
    return request.wire == "openai-responses" and any(mark in item for item in request.items)


def expand_tokens(tenant: str, request: ModelRequest, read_view: ViewReader) -> ModelRequest:
    """Returns a request with the view in place of the newest compaction item of ours, and of all before it.

    The system prompts at the beginning stay. A request without such an item is returned as it is.
    """
    tokens = ((at, read_token(tenant, item)) for at, item in enumerate(request.items))
    at, token = next(((at, token) for at, token in reversed(list(tokens)) if token is not None), (0, None))
    if token is None:
        return request
    wire = get_wire(request.wire)
    prompts = 0
    while prompts < at and all(m.role == "system" for m in wire.decode([request.items[prompts]])):
        prompts += 1
    view = read_view(token.session, token.entry)
    opening = next((n for n, message in enumerate(view) if message.role != "system"), len(view))
    encoded = [item.raw for item in wire.encode(view[opening:]).items]
    return request.with_items([*request.items[:prompts], *encoded, *request.items[at + 1 :]])


def build_answer(request: ModelRequest, token: CompactionToken, tokens: tuple[int, int]) -> bytes:
    """Builds the response to a trigger: one compaction item, as JSON or as a stream, as the request wants it.

    `tokens` are those that writing the summary took, in and out.
    """
    suffix = token.entry.replace("-", "")
    item = {"id": f"cmp_{suffix}", "type": "compaction", "encrypted_content": token.encode()}
    usage = {
        "input_tokens": tokens[0],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": tokens[1],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sum(tokens),
    }
    response = {
        "id": f"resp_{suffix}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": request.model,
        "output": [item],
        "usage": usage,
    }
    if not request.is_stream:
        return msgspec.json.encode(response)
    opening = {**response, "status": "in_progress", "output": [], "usage": None}
    events: tuple[tuple[str, dict[str, object]], ...] = (
        ("response.created", {"response": opening}),
        ("response.output_item.added", {"output_index": 0, "item": item}),
        ("response.output_item.done", {"output_index": 0, "item": item}),
        ("response.completed", {"response": response}),
    )
    return b"".join(
        f"event: {kind}\ndata: ".encode()
        + msgspec.json.encode({"type": kind, "sequence_number": number, **fields})
        + b"\n\n"
        for number, (kind, fields) in enumerate(events)
    )
