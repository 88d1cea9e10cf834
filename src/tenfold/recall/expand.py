"""Expands a Block to what it covers: one level down, or all the way to the originals, byte for byte."""

from __future__ import annotations

from msgspec import Struct

from tenfold.errors import NotFound
from tenfold.log.base import Located, Store
from tenfold.record.block import OWN, Block, Keep, Ref, Rep, Run, Slot
from tenfold.record.entry import Entry, message_of
from tenfold.record.message import Message, Text
from tenfold.summarize.batches import batch_at, resolved, standing, stored
from tenfold.view.path import Path


class Line(Struct, frozen=True):
    """One message behind a Block.

    It is an original with its entry, or, one level down, what an older Block showed in its place.
    """

    position: int
    entry: str
    message: Message
    original: bool


def path_to(store: Store, namespace: str, located: Located) -> Path:
    """Opens the path from the root to an entry. Its entries are loaded when they are read."""
    leaf = located.entry.id

    def load(first: int, last: int) -> list[Entry]:
        return store.span(namespace, located.session, leaf, first, last)

    return Path(length=located.position + 1, load=load)


def expand(store: Store, namespace: str, id: str, *, deep: bool = False, session: str = "") -> list[Line]:
    """Returns what lies behind the Block `id`, oldest first. The id of a message gives that message alone.

    With `deep`, every level is opened, down to the originals. Otherwise older Blocks inside the range are returned as
    they were shown. A Block with an archive of batches gives the batches of its top level.

    The id of a batch, `<block id>/<index>`, gives its sources or its messages. Raises `NotFound`, also if `session` is
    given and the id is in another session.
    """
    block, slash, number = id.rpartition("/")
    target = store.locate(namespace, block if slash else id)
    if session and target.session != session:
        raise NotFound(f"no entry {id} in this session: a search gives the ids there are")
    entry = target.entry
    if not isinstance(entry, Block):
        message = message_of(entry)
        if message is None:
            raise NotFound(f"{id} is neither a Block nor a message but a {type(entry).__name__.lower()} entry")
        return [Line(target.position, entry.id, message, original=True)]
    path = path_to(store, namespace, target)
    if slash:
        return _batch(path, target, number, deep=deep)
    if entry.standing and not deep:
        return [_line(path, slot) for slot, _ in standing(path, target.position)]
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


def _batch(path: Path, located: Located, number: str, *, deep: bool) -> list[Line]:
    """Returns the sources of a batch, or the originals of its range with `deep` or if it has no sources."""
    entry = located.entry
    if not isinstance(entry, Block) or not number.isdecimal() or int(number) >= len(entry.batches):
        count = len(entry.batches) if isinstance(entry, Block) else 0
        raise NotFound(f"no batch {number} in {entry.id}: it holds {count}, numbered from 0")
    batch = entry.batches[int(number)]
    if batch.sources and not deep:
        return [_line(path, resolved(slot, located.position)) for slot in batch.sources]
    return _originals(path, Run(batch.first, batch.last))


def _line(path: Path, slot: Slot) -> Line:
    batch = batch_at(path, slot)
    message = Message("system", (Text(stored(batch)),), "tenfold")
    return Line(batch.first, f"{path.at(slot.block).id}/{slot.index}", message, original=False)


def _originals(path: Path, run: Run) -> list[Line]:
    entries = enumerate(path.span(run.first, run.last), run.first)
    return [Line(p, e.id, m, original=True) for p, e in entries if (m := message_of(e)) is not None]
