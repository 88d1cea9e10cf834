"""Walks a Block down to what it covers: one level, or all the way to the originals, byte for byte."""

from __future__ import annotations

from msgspec import Struct

from tenfold.errors import NotFound
from tenfold.log.base import Located, Store
from tenfold.record.block import OWN, Block, Keep, Ref, Rep, Run
from tenfold.record.entry import Entry, message_of
from tenfold.record.message import Message
from tenfold.view.path import Path


class Line(Struct, frozen=True):
    """One message behind a Block: an original with its entry, or (one level down) what an older Block showed there."""

    position: int
    entry: str
    message: Message
    original: bool


def path_to(store: Store, namespace: str, located: Located) -> Path:
    """The path from the root to a located entry, loaded as it is read."""
    leaf = located.entry.id

    def load(first: int, last: int) -> list[Entry]:
        return store.span(namespace, located.session, leaf, first, last)

    return Path(length=located.position + 1, load=load)


def expand(store: Store, namespace: str, id: str, *, deep: bool = False, session: str = "") -> list[Line]:
    """What lies behind the Block `id`, oldest first. An id of a message gives that message alone.

    With `deep` every level is opened, down to the originals; without it, older Blocks inside the range are given as
    they were shown. Raises `NotFound`, also where `session` is given and the id lies in another one.
    """
    located = store.locate(namespace, id)
    if session and located.session != session:
        raise NotFound(f"no entry {id} in this session: a search gives the ids there are")
    entry = located.entry
    if not isinstance(entry, Block):
        message = message_of(entry)
        if message is None:
            raise NotFound(f"{id} is neither a Block nor a message but a {type(entry).__name__.lower()} entry")
        return [Line(located.position, entry.id, message, original=True)]
    path = path_to(store, namespace, located)
    lines: list[Line] = []
    inner_ones = {c.index for r in entry.replacements for c in r.covers if isinstance(c, Rep) and c.block == OWN}
    outer = [r for i, r in enumerate(entry.replacements) if i not in inner_ones]
    stack: list[Ref] = [ref for r in sorted(outer, key=lambda r: -r.first) for ref in reversed(r.covers)]
    while stack:
        ref = stack.pop()
        if isinstance(ref, Run):
            lines.extend(_originals(path, ref))
            continue
        inner = entry if ref.block == OWN else path.at(ref.block)
        assert isinstance(inner, Block)
        replacement = inner.replacements[ref.index]
        if deep:
            own = ref.block
            stack.extend(
                Rep(own, c.index, c.first, c.last) if isinstance(c, Rep) and c.block == OWN else c
                for c in reversed(replacement.covers)
            )
            continue
        for show in replacement.show:
            if isinstance(show, Keep):
                lines.extend(_originals(path, Run(show.position, show.position)))
            else:
                lines.append(Line(ref.first, inner.id, show.message, original=False))
    return lines


def _originals(path: Path, run: Run) -> list[Line]:
    entries = enumerate(path.span(run.first, run.last), run.first)
    return [Line(p, e.id, m, original=True) for p, e in entries if (m := message_of(e)) is not None]
