"""Answers a client that asks its provider to compact, and puts the view in the place of that answer later.

Codex does so, by an item at the end of its list. It keeps the content of the answer as it is, and sends it in every
later request in place of what came before. Here that content is a token, which stands for a view of a session.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable

import msgspec
from msgspec import Struct

from tenfold.apps.gateway.model_request import ModelRequest
from tenfold.core.record.message import Message
from tenfold.core.wire import get_wire
from tenfold.core.wire.api import CompactionAnswer, CompactionForm

_PREFIX = "tenfold:"
ViewReader = Callable[[str, str], list[Message]]
"""Reads the messages of the view that a session had at an entry."""


class CompactionToken(Struct, frozen=True):
    """What the content of such an answer refers to: a session, and the entry at which its view was taken."""

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


def read_token(tenant: str, form: CompactionForm, item: bytes) -> CompactionToken | None:
    """Returns the token in an answer to such a demand that this gateway gave to this tenant. None for any other."""
    text = form.read_content(item) if _PREFIX.encode() in item else ""
    if not text.startswith(_PREFIX):
        return None
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text.removeprefix(_PREFIX)), type=CompactionToken)
    except (ValueError, msgspec.ValidationError):
        return None
    return token if token == build_token(tenant, token.session, token.entry) else None


def remove_trigger(request: ModelRequest) -> ModelRequest | None:
    """Returns a request without the demand to compact at its end, None if it has none."""
    form = request.api.compaction if request.api is not None else None
    is_demanded = form is not None and request.items and form.is_demand(request.items[-1])
    return request.with_items(request.items[:-1]) if is_demanded else None


def has_compaction_token(request: ModelRequest) -> bool:
    """Whether a request may have a token of ours."""
    mark, api = f'"{_PREFIX}'.encode(), request.api
    return api is not None and api.compaction is not None and any(mark in item for item in request.items)


def expand_tokens(tenant: str, request: ModelRequest, read_view: ViewReader) -> ModelRequest:
    """Returns a request with the view in place of the newest token of ours, and of all before it.

    The system prompts at the beginning stay. A request without a token is returned as it is.
    """
    form = request.api.compaction if request.api is not None else None
    items = request.items if form is not None else ()
    tokens = ((at, read_token(tenant, form, item)) for at, item in enumerate(items) if form is not None)
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
    """Builds the response to a request that `remove_trigger` accepts: as JSON or as a stream, as it wants it.

    `tokens` are those that writing the summary took, in and out.
    """
    form = request.api.compaction if request.api is not None else None
    assert form is not None
    suffix = token.entry.replace("-", "")
    answer = CompactionAnswer(suffix, request.model, token.encode(), *tokens, is_stream=request.is_stream)
    return form.build_answer(answer)
