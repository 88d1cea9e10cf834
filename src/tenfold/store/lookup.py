"""Finds a session by what a person types: the beginning of its id, or `last` for the newest."""

from __future__ import annotations

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
