"""What was sent in place of a request whose beginning is hidden, so that the next one can be sent without its session.

Building a view takes the session and a write to the store. A request that only adds something to the one before is sent
as that one was, with the new messages behind it. The bytes are those that the session gives for it afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw, Struct

from tenfold.gateway.cache_marks import mark_compacted_prefix
from tenfold.gateway.model_request import ModelRequest


class SentView(Struct, frozen=True):
    """The items of a request, and what was sent for them: the items, without the mark of a compaction, and the fields.

    `fields` are only those that were changed, and `digest` is that of all fields but the list. `has_recall` says that
    the recall tools are among them.
    """

    items: list[bytes]
    shown: list[bytes]
    fields: Mapping[str, Raw]
    digest: bytes
    has_recall: bool

    @classmethod
    def build(cls, request: ModelRequest, shown: list[bytes], sent: ModelRequest, *, has_recall: bool) -> SentView:
        """Keeps what is needed of a request and of what was sent for it: nothing holds the whole bodies."""
        changed = {
            name: raw
            for name, raw in sent.fields.items()
            if name != request.list_field and raw is not request.fields.get(name)
        }
        return cls(request.items, shown, changed, request.digest_fields(), has_recall)

    def extend(self, request: ModelRequest) -> ModelRequest | None:
        """Returns what to send for a request that goes on from this one, None if that cannot be known.

        A few of the last items may be written otherwise, as where cache marks moved, if all from there on were sent as
        they came.
        """
        count = start = len(self.items)
        if len(request.items) <= count or request.digest_fields() != self.digest:
            return None
        if request.items[:count] != self.items:
            start = next(at for at, (new, old) in enumerate(zip(request.items, self.items, strict=False)) if new != old)
        end = len(self.shown) - (count - start)
        if end < 0 or self.shown[end:] != self.items[start:]:
            return None
        items = [*self.shown[:end], *request.items[start:]]
        return mark_compacted_prefix(request.with_items(items, {**request.fields, **self.fields}), request.items)
