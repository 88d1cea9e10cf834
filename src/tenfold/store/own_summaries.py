"""Tells whether a store holds a summary: only then are its words those of Tenfold."""

from __future__ import annotations

from collections.abc import Iterable

from tenfold.core.record.block import Block, Substitute
from tenfold.core.record.entry import BranchSummary
from tenfold.core.record.message import Message, get_text
from tenfold.core.wire.marks import find_summary_mark
from tenfold.errors import NotFoundError
from tenfold.store.base import Store


def is_stored_summary(store: Store, namespace: str, block: str, seal: str, *, session: str = "") -> bool:
    """Tells whether the entry `block`, of this `session` if one is named, shows a summary with the hash `seal`."""
    try:
        located = store.locate(namespace, block)
    except NotFoundError:
        return False
    if located.entry.id != block or (session and located.session != session):
        return False
    summaries: Iterable[Message] = ()
    if isinstance(located.entry, Block):
        shown = (item for r in located.entry.replacements for item in r.shown_items)
        summaries = (item.message for item in shown if isinstance(item, Substitute))
    elif isinstance(located.entry, BranchSummary):
        summaries = (located.entry.message,)
    return any(find_summary_mark(get_text(m)) == (block, seal) for m in summaries)
