"""Knows what the provider holds behind a `previous_response_id`, so that such conversations can be compacted too.

Clients of OpenAI's Responses may send only what is new and name the response before it. A chain is what such a name
stands for: the items of that request, and the answer. Chains are kept in memory. One that is not known, as after a
restart, stays with the provider: the request is forwarded as it came.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from tenfold.gateway.model_request import ModelRequest
from tenfold.wire import splice

FIELD = "previous_response_id"
MAX_CHAINS = 4_096
"""Responses that are remembered. Each costs only what is new in it."""


class _Link(Struct, frozen=True):
    """The items of one request and of its answer, after those of `previous`."""

    previous: _Link | None
    items: tuple[bytes, ...]


class ResponseChains:
    """The responses that clients may name. The keys are the tenant and the id."""

    def __init__(self, limit: int = MAX_CHAINS) -> None:
        self._links: OrderedDict[tuple[str, str], _Link] = OrderedDict()
        self._limit = limit

    def expand(self, tenant: str, request: ModelRequest) -> ModelRequest | None:
        """Returns a request with all its items in place of the name of a response. None if it is not known."""
        link = self._links.get((tenant, splice.get_text(dict(request.fields), FIELD)))
        if link is None or request.has_conversation():
            return None
        items = request.items
        while link is not None:
            items = [*link.items, *items]
            link = link.previous
        return request.with_fields(**{FIELD: None}).with_items(items)

    def keep(self, tenant: str, request: ModelRequest, response: Mapping[str, Any]) -> None:
        """Remembers the response to a request as the client sent it, if the provider stores it."""
        id_, output = response.get("id"), response.get("output")
        if not isinstance(id_, str) or not isinstance(output, list) or splice.is_false(request.fields.get("store")):
            return
        previous = self._links.get((tenant, splice.get_text(dict(request.fields), FIELD)))
        if previous is None and request.has_server_state():
            return  # what came before is not known
        answer = (msgspec.json.encode(item) for item in output)
        self._links[tenant, id_] = _Link(previous, (*request.items, *answer))
        while len(self._links) > self._limit:
            self._links.popitem(last=False)
