"""Finds a session by what a person types: the beginning of its id, or `last` for the newest."""

from __future__ import annotations

from tenfold.errors import NotFound
from tenfold.log.base import DEFAULT_NAMESPACE, SessionRow, Store

LAST = "last"
"""Stands for the newest session."""


def row_of(store: Store, beginning: str, *, namespace: str = DEFAULT_NAMESPACE) -> SessionRow:
    """Finds the session whose id begins with `beginning`, or the newest for "last".

    Raises `NotFound` if none or several match, with a hint where to look.
    """
    rows = store.sessions(namespace)
    matches = rows[:1] if beginning == LAST else [r for r in rows if r.info.id.startswith(beginning)]
    if len(matches) == 1:
        return matches[0]
    if not rows:
        raise NotFound("the store holds no session yet; `tenfold compact FILE` brings one in")
    what = "no session has" if not matches else f"{len(matches)} sessions have"
    raise NotFound(f"{what} an id that begins with {beginning!r}; `tenfold sessions` lists them, `last` is the newest")
