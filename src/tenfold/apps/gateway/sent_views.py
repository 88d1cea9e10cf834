"""What was sent in place of a request whose beginning is hidden, so that the next one can be sent without its session.

Building a view takes the session and a write to the store. A request that only adds something to the one before is sent
as that one was, with the new messages behind it. The bytes are those that the session gives for it afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Raw, Struct

from tenfold.apps.gateway.model_request import ModelRequest
from tenfold.session import Session


class SentView(Struct, frozen=True):
    """The items of a request, and what was sent for them: `shown`, as the session gave it, and the fields.

    `fields` are only those that were changed, and `digest` is that of all fields but the list. `has_recall` says that
    the recall tools are among them. `window` is the one that it was made for.
    """

    items: list[bytes]
    shown: list[bytes]
    fields: Mapping[str, Raw]
    digest: bytes
    has_recall: bool
    window: int | None

    @classmethod
    def build(
        cls, request: ModelRequest, shown: list[bytes], sent: ModelRequest, *, has_recall: bool, window: int | None
    ) -> SentView:
        """Keeps what is needed of a request and of what was sent for it: nothing holds the whole bodies."""
        changed = {
            name: raw
            for name, raw in sent.fields.items()
            if name != request.list_field and raw is not request.fields.get(name)
        }
        return cls(request.items, shown, changed, request.digest_fields(), has_recall, window)

    def extend(self, request: ModelRequest, session: Session) -> ModelRequest | None:
        """Returns what to send for a request that goes on from this one, None if only its session can tell.

        A few of the last items may be written otherwise, as where cache marks moved, if all from there on were sent as
        they came.
        """
        count = len(self.items)
        if len(request.items) <= count or request.digest_fields() != self.digest:
            return None
        pairs = enumerate(zip(self.items, request.items, strict=False))
        changed = [at for at, (old, new) in pairs if old is not new and old != new]
        start = changed[0] if changed else count
        end = len(self.shown) - (count - start)
        if end < 0 or self.shown[end:] != self.items[start:]:
            return None
        if any(not request.has_said(at, self.items[at]) for at in changed):
            return None
        added = session.requests.encode_next(self.shown, request.items[count:])
        if added is None:
            return None
        items = [*self.shown[:end], *request.items[start:count], *added]
        return request.with_items(items, {**request.fields, **self.fields}).with_cache_mark(request.items)
