"""Knows what the provider holds behind the id of an answer, so that such conversations can be compacted too.

Where a provider stores its answers, as OpenAI's Responses does, clients may send only what is new and name the answer
before it. A chain is what such a name stands for: the items of that request, and the answer. Chains are kept in memory,
the most recently used ones up to a number of names and of bytes. One that is not known, as after a restart, stays with
the provider: the request is forwarded as it came. Clients may also send their whole list with a reference in place of
each item of an answer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any
from weakref import WeakValueDictionary, finalize

import msgspec
from msgspec import Struct

from tenfold.apps.gateway.model_request import ModelRequest
from tenfold.core.wire import splice
from tenfold.core.wire.api import StoredAnswers

MAX_CHAINS = 4_096
"""Responses that can be named. Each costs only what is new in it."""
MAX_CHAIN_BYTES = 256 * 1024 * 1024
"""Bytes of all items that are remembered."""
_Key = tuple[str, str]
"""A tenant and the id of a response or of an item."""


class _Link(Struct, frozen=True, weakref=True, eq=False):
    """The items of one request and of its answer, after those of the response before it.

    `named` are the items of the answer by their ids. A link lives as long as it can be named, or one that goes on from
    it.
    """

    key: _Key
    previous: _Link | None
    items: tuple[bytes, ...]
    named: Mapping[str, bytes]


class ResponseChains:
    """The responses that clients may name. The keys are the tenant and the id.

    `size` is the number of bytes that are kept, `forgotten` the number of names that had to go so far.
    """

    def __init__(self, limit: int = MAX_CHAINS, *, max_bytes: int = MAX_CHAIN_BYTES) -> None:
        """Keeps the names of `limit` responses and `max_bytes` at most. What was used least recently goes first."""
        self._names: OrderedDict[_Key, _Link] = OrderedDict()
        self._items: WeakValueDictionary[_Key, _Link] = WeakValueDictionary()
        self._limit, self._max_bytes = limit, max_bytes
        self.size = self.forgotten = 0

    def expand(self, tenant: str, request: ModelRequest) -> ModelRequest | None:
        """Returns a request with all its items in place of the name of a response. None if it is not known."""
        field = request.find_answer_field()
        link = self._use((tenant, splice.get_text(dict(request.fields), field))) if field else None
        if link is None:
            return None
        items = [item for each in _list_chain(link) for item in each.items]
        return request.with_fields(**{field: None}).with_items([*items, *request.items])

    def expand_references(self, tenant: str, request: ModelRequest) -> ModelRequest | None:
        """Returns a request with the items themselves in place of references to them. None if one is not known."""
        stored = _find_stored(request)
        mark = f'"{stored.item_type}"'.encode() if stored is not None else b""
        if stored is None or mark not in request.body:
            return request
        items: list[bytes] = []
        for item in request.items:
            fields = (splice.parse_object(item) if mark in item else None) or {}
            if splice.get_text(fields, "type") != stored.item_type:
                items.append(item)
                continue
            name = splice.get_text(fields, "id")
            link = self._items.get((tenant, name))
            if link is None:
                return None
            self._use(link.key)
            items.append(link.named[name])
        return request.with_items(items)

    def keep(self, tenant: str, request: ModelRequest, response: Mapping[str, Any]) -> None:
        """Remembers the response to a request as the client sent it, if the provider stores it."""
        stored = _find_stored(request)
        if stored is None or splice.is_false(request.fields.get(stored.store_field)):
            return
        id_, output = response.get("id"), response.get(stored.items_field)
        if not isinstance(id_, str) or not isinstance(output, list):
            return
        previous = None
        if request.has_server_state():
            previous = self._use((tenant, splice.get_text(dict(request.fields), stored.answer_field)))
            if previous is None:
                return  # what came before is not known
        answer = [msgspec.json.encode(item) for item in output]
        named = {str(item["id"]): raw for item, raw in zip(output, answer, strict=True) if _has_id(item)}
        link = _Link((tenant, id_), previous, (*request.items, *answer), named)
        size = sum(map(len, link.items))
        finalize(link, self._release, size).atexit = False
        self.size += size
        self._names.pop(link.key, None)
        self._names[link.key] = link
        self._items.update({(tenant, name): link for name in named})
        del link, previous  # else they would outlive their names
        while len(self._names) > self._limit or self.size > self._max_bytes:
            self._names.popitem(last=False)
            self.forgotten += 1

    def _release(self, size: int) -> None:
        self.size -= size

    def _use(self, key: _Key) -> _Link | None:
        """Returns the link of a name, and marks it as used."""
        if key in self._names:
            self._names.move_to_end(key)
        return self._names.get(key)


def _list_chain(link: _Link) -> list[_Link]:
    """Lists a link and those before it, the first one first."""
    out = [link]
    while (before := out[-1].previous) is not None:
        out.append(before)
    return out[::-1]


def _find_stored(request: ModelRequest) -> StoredAnswers | None:
    return request.api.stored if request.api is not None else None


def _has_id(item: object) -> bool:
    return isinstance(item, dict) and "id" in item
