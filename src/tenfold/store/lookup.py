"""Finds a session by what a person types, and tells whether a store holds a summary: only then is it Tenfold's."""

from __future__ import annotations

from collections.abc import Iterable

from tenfold.core.record.block import Block, Substitute
from tenfold.core.record.entry import BranchSummary
from tenfold.core.record.message import Message, get_text
from tenfold.core.wire.marks import find_summary_mark
from tenfold.errors import NotFoundError
from tenfold.store.base import DEFAULT_NAMESPACE, MAIN, SessionRow, Store

LAST = "last"
"""Stands for the newest session."""


def find_session(store: Store, beginning: str, *, namespace: str = DEFAULT_NAMESPACE) -> SessionRow:
    """Finds the session whose id begins with `beginning`, or the newest for "last".

    Raises `NotFoundError` if none or several match, or if it is "", with a hint where to look.
    """
    rows = store.list_sessions(namespace)
    matches = rows[:1] if beginning == LAST else [r for r in rows if beginning and r.info.id.startswith(beginning)]
    if len(matches) == 1:
        return matches[0]
    if not rows:
        raise NotFoundError("the store holds no session yet; `tenfold compact FILE` brings one in")
    what = "no session has" if not matches else f"{len(matches)} sessions have"
    raise NotFoundError(
        f"{what} an id that begins with {beginning!r}; `tenfold sessions` lists them, `last` is the newest"
    )


def list_heads(store: Store, session: str, *, namespace: str = DEFAULT_NAMESPACE) -> list[str]:
    """Lists the branches of a session, the one that was written to last first. A session without entries has "main"."""
    heads = store.read_heads(namespace, session)
    return sorted(heads, key=lambda head: heads[head], reverse=True) or [MAIN]  # ids are in the order of time


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
