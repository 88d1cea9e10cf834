"""Sessions by what a person types: the beginning of an id, or the newest one."""

from __future__ import annotations

from tenfold.errors import NotFound
from tenfold.log.base import DEFAULT_NAMESPACE, SessionRow, Store

LAST = "last"
"""Names the newest session."""


def row_of(store: Store, beginning: str, *, namespace: str = DEFAULT_NAMESPACE) -> SessionRow:
    """The session whose id begins so, or the newest for "last". Raises `NotFound` naming what there is."""
    rows = store.sessions(namespace)
    found = rows[:1] if beginning == LAST else [r for r in rows if r.info.id.startswith(beginning)]
    if len(found) == 1:
        return found[0]
    if not rows:
        raise NotFound("the store holds no session yet; `tenfold compact FILE` brings one in")
    what = "no session has" if not found else f"{len(found)} sessions have"
    raise NotFound(f"{what} an id that begins with {beginning!r}; `tenfold sessions` lists them, `last` is the newest")
