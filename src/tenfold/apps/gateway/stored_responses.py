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


class _Link(Struct, frozen=True):
    """The items of one request and of its answer, after those of the response named `previous`.

    `named` are the ids of those of the answer.
    """

    previous: _Key | None
    items: tuple[bytes, ...]
    named: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        return sum(map(len, self.items))


class ResponseChains:
    """The responses that clients may name. The keys are the tenant and the id.

    `size` is the number of bytes that are kept, `forgotten` the number of responses that had to go so far.
    """

    def __init__(self, limit: int = MAX_CHAINS, *, max_bytes: int = MAX_CHAIN_BYTES) -> None:
        """Keeps the names of `limit` responses and `max_bytes` at most. What was used least recently goes first."""
        self._links: OrderedDict[_Key, _Link] = OrderedDict()
        self._items: dict[_Key, tuple[_Key, bytes]] = {}
        self._limit, self._max_bytes = limit, max_bytes
        self.size = self.forgotten = 0

    def expand(self, tenant: str, request: ModelRequest) -> ModelRequest | None:
        """Returns a request with all its items in place of the name of a response. None if it is not known."""
        field = request.find_answer_field()
        links = self._use_chain((tenant, splice.get_text(dict(request.fields), field))) if field else []
        if not links:
            return None
        items = [item for link in reversed(links) for item in link.items]
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
            found = self._items.get((tenant, splice.get_text(fields, "id")))
            if found is None:
                return None
            self._links.move_to_end(found[0])
            items.append(found[1])
        return request.with_items(items)

    def keep(self, tenant: str, request: ModelRequest, response: Mapping[str, Any]) -> None:
        """Remembers the response to a request as the client sent it, if the provider stores it."""
        stored = _find_stored(request)
        if stored is None or splice.is_false(request.fields.get(stored.store_field)):
            return
        id_, output = response.get("id"), response.get(stored.items_field)
        if not isinstance(id_, str) or not isinstance(output, list):
            return
        previous = (tenant, splice.get_text(dict(request.fields), stored.answer_field))
        is_first = not request.has_server_state()
        if not is_first and not self._use_chain(previous):
            return  # what came before is not known
        answer = [msgspec.json.encode(item) for item in output]
        named = {str(item["id"]): raw for item, raw in zip(output, answer, strict=True) if _has_id(item)}
        self._forget((tenant, id_))
        first = None if is_first else previous
        link = self._links[tenant, id_] = _Link(first, (*request.items, *answer), tuple(named))
        self._items |= {(tenant, name): ((tenant, id_), raw) for name, raw in named.items()}
        self.size += link.size
        while self.size > self._max_bytes:
            self._forget(next(iter(self._links)))
            self.forgotten += 1
        while len(self._links) > self._limit:
            inner = {link.previous for link in self._links.values()}  # what nobody went on from is named next
            self._fold(next((key for key in self._links if key in inner), next(iter(self._links))))
            self.forgotten += 1

    def _use_chain(self, key: _Key) -> list[_Link]:
        """Returns the links that a name stands for, newest first, and marks them as used. Empty if one is missing."""
        keys: list[_Key] = []
        at: _Key | None = key
        while at is not None:
            if at not in self._links:
                return []
            keys.append(at)
            at = self._links[at].previous
        for each in reversed(keys):
            self._links.move_to_end(each)
        return [self._links[each] for each in keys]

    def _fold(self, key: _Key) -> None:
        """Forgets the name of a response. What it stands for becomes a part of those that go on from it."""
        link, later = self._links[key], [at for at, each in self._links.items() if each.previous == key]
        owned = {name: self._items.get((key[0], name)) for name in link.named}
        named = {name: item[1] for name, item in owned.items() if item is not None and item[0] == key}
        self._forget(key)
        for at in later:
            old = self._links[at]
            self._links[at] = _Link(link.previous, link.items + old.items, (*named, *old.named))
            self._items |= {(key[0], name): (at, raw) for name, raw in named.items()}
            self.size += link.size

    def _forget(self, key: _Key) -> None:
        link = self._links.pop(key, None)
        if link is None:
            return
        self.size -= link.size
        for name in link.named:
            if self._items.get((key[0], name), ((), b""))[0] == key:  # else a later response has an item of that name
                del self._items[key[0], name]


def _find_stored(request: ModelRequest) -> StoredAnswers | None:
    return request.api.stored if request.api is not None else None


def _has_id(item: object) -> bool:
    return isinstance(item, dict) and "id" in item
