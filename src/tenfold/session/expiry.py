"""Deletes what a rule of retention lets expire, in one namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from tenfold.core.meter.counters import choose_counter
from tenfold.errors import NotFoundError
from tenfold.session import SessionAddress, Stamps
from tenfold.session.conversation import Conversation
from tenfold.store.base import Store
from tenfold.store.ids import get_current_time
from tenfold.store.lookup import list_heads
from tenfold.store.retention import ExpiredSession, RetentionRule, choose_expired, find_last_use

_IN_USE = 3_600_000_000
"""Microseconds since its last entry in which a session counts as in use: an hour."""


def find_expired(
    store: Store, namespace: str, rule: RetentionRule, *, size: int = 0, keeps_pinned: bool = True
) -> tuple[list[ExpiredSession], int]:
    """Finds the sessions that a rule lets expire, and how many of them are kept since messages are pinned there.

    Sessions used within the last hour are kept as well. `size` is what the whole store takes, if it is known: what
    indexes add to the entries is then shared out among the sessions.
    """
    rows, sizes, now = store.list_sessions(namespace), store.measure_sessions(namespace), get_current_time()
    share = max(1.0, size / max(1, sum(sizes.values())))
    sizes = {session: int(own * share) for session, own in sizes.items()}
    kept, pinned = {row.info.id for row in rows if now - (find_last_use(row) or 0) < _IN_USE}, 0
    while True:
        expired = choose_expired(rows, sizes, rule, kept=kept, now=now)
        new = {each.row.info.id for each in expired if keeps_pinned and _has_pins(store, namespace, each.row.info.id)}
        if not new:
            return expired, pinned
        pinned += len(new)
        kept |= new


def _has_pins(store: Store, namespace: str, session: str) -> bool:
    counter = choose_counter(None).counter
    heads = list_heads(store, session, namespace=namespace)
    addresses = (SessionAddress(store, session, namespace, head) for head in heads)
    return any(Conversation(address, counter, Stamps()).view.state.pins for address in addresses)


def delete_sessions(store: Store, namespace: str, sessions: Iterable[str], note: Callable[[str], None]) -> None:
    """Deletes sessions for good. `note` is told of each. One that is gone already is passed over."""
    for session in sessions:
        with suppress(NotFoundError):
            store.purge(namespace, session, None, now=get_current_time())
            note(session)
