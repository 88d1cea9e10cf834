"""Reads the bill of the sessions in a store: `build_bill`. What its figures mean is in `ledger.py`."""

from __future__ import annotations

from collections.abc import Collection

from tenfold.core.meter.windows import find_window
from tenfold.core.record.entry import Usage
from tenfold.models.prices import find_prices
from tenfold.session.ledger import Bill, Grouping, LedgerRow, SessionFacts, SessionLedger, compute_bill
from tenfold.store.base import DEFAULT_NAMESPACE, SessionInfo, SessionRow, Store


def build_bill(
    store: Store,
    *,
    namespace: str = DEFAULT_NAMESPACE,
    sessions: Collection[str] | None = None,
    since: int | None = None,
    by: Grouping = "session",
) -> Bill:
    """Builds the bill of a namespace, or of those of its `sessions` that are named by their ids.

    `since` is a time in microseconds UTC: only requests from then on are billed. Every entry of a session that has such
    a request is read, a few milliseconds for a thousand. Raises whatever the store raises.
    """
    rows: list[LedgerRow] = []
    known: set[object] = set()
    for each in store.list_sessions(namespace):
        is_wanted = sessions is None or each.info.id in sessions
        if is_wanted and (since is None or each.last_time is None or each.last_time >= since):
            rows += read_rows(store, namespace, each, known)
    return compute_bill(rows, by=by, since=since, find_prices=find_prices)


def read_rows(store: Store, namespace: str, session: SessionRow, known: set[object] | None = None) -> list[LedgerRow]:
    """Reads the rows of one session from a store. For `known` see `SessionLedger`."""
    info = session.info
    window = info.window or (find_window(info.model) if info.model else None)
    facts = SessionFacts(info.id, describe_client(info), info.model, None if window is None else int(window))
    pending: dict[str, Usage] = {}
    for head in session.heads:
        state = store.open(namespace, info.id, head)
        if state.pending_usage is not None and state.leaf is not None:
            pending[state.leaf] = state.pending_usage
    return SessionLedger(facts, find_prices, known).read(store.read_entries(namespace, info.id), pending)


def describe_client(info: SessionInfo) -> str:
    """Names the program whose requests a session holds: what it said, or the format of the file it was read from."""
    return info.client or info.format or "library"
