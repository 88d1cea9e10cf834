"""Expands a Block to what it covers: one level down, or all the way to the originals, byte for byte."""

from __future__ import annotations

from msgspec import Struct

from tenfold.errors import NotFoundError
from tenfold.record.block import OWN_BLOCK, Block, BlockPart, KeptOriginal, RangeRef, Run, Slot
from tenfold.record.entry import Entry, get_message
from tenfold.record.message import Message, Text, get_text, get_tool_calls, get_tool_result
from tenfold.store.base import LocatedEntry, Store
from tenfold.summarize.batches import format_batch, get_batch, list_top_batches, resolve_slot
from tenfold.view.path import Path


class ExpandedMessage(Struct, frozen=True):
    """One message behind a Block.

    It is an original with its entry, or, one level down, what an older Block showed in its place.
    """

    position: int
    entry: str
    message: Message
    original: bool


def excerpt_message(message: Message) -> str:
    """Returns the beginning of a message's text, and its calls. The caller cuts it to a line."""
    result = get_tool_result(message)
    failed = "[failed] " if result is not None and result.is_error else ""
    calls = " ".join(f"[{c.name} {c.arguments[:200]}]" for c in get_tool_calls(message))
    return f"{failed}{get_text(message)[:2_000]} {calls}".strip()


def open_path(store: Store, namespace: str, target: LocatedEntry) -> Path:
    """Opens the path from the root to an entry. Its entries are loaded when they are read."""
    leaf = target.entry.id

    def load(first: int, last: int) -> list[Entry]:
        return store.read_range(namespace, target.session, leaf, first, last)

    return Path(length=target.position + 1, load=load)


def expand(store: Store, namespace: str, id: str, *, deep: bool = False, session: str = "") -> list[ExpandedMessage]:
    """Returns what lies behind the Block `id`, oldest first. The id of a message gives that message alone.

    With `deep`, every level is opened, down to the originals. Otherwise older Blocks inside the range are returned as
    they were shown. A Block with an archive of batches gives the batches of its top level.

    The id of a batch, `<block id>/<index>`, gives its sources or its messages. Raises `NotFoundError`, also if
    `session` is given and the id is in another session.
    """
    block, slash, number = id.rpartition("/")
    target = store.locate(namespace, block if slash else id)
    if session and target.session != session:
        raise NotFoundError(f"no entry {id} in this session: a search gives the ids there are")
    entry = target.entry
    if not isinstance(entry, Block):
        message = get_message(entry)
        if message is None:
            raise NotFoundError(f"{id} is neither a Block nor a message but a {type(entry).__name__.lower()} entry")
        return [ExpandedMessage(target.position, entry.id, message, original=True)]
    path = open_path(store, namespace, target)
    if slash:
        return _expand_batch(path, target, number, deep=deep)
    if entry.top_batches and not deep:
        return [_build_batch_message(path, slot) for slot, _ in list_top_batches(path, target.position)]
    lines: list[ExpandedMessage] = []
    inner_ones = {
        c.index
        for r in entry.replacements
        for c in r.covered_ranges
        if isinstance(c, BlockPart) and c.block == OWN_BLOCK
    }
    outer = [r for i, r in enumerate(entry.replacements) if i not in inner_ones]
    stack: list[RangeRef] = [ref for r in sorted(outer, key=lambda r: -r.first) for ref in reversed(r.covered_ranges)]
    while stack:
        ref = stack.pop()
        if isinstance(ref, Run):
            lines.extend(_read_originals(path, ref))
            continue
        inner = entry if ref.block == OWN_BLOCK else path.get_entry(ref.block)
        assert isinstance(inner, Block)
        replacement = inner.replacements[ref.index]
        if deep:
            own = ref.block
            stack.extend(
                BlockPart(own, c.index, c.first, c.last) if isinstance(c, BlockPart) and c.block == OWN_BLOCK else c
                for c in reversed(replacement.covered_ranges)
            )
            continue
        for show in replacement.shown_items:
            if isinstance(show, KeptOriginal):
                lines.extend(_read_originals(path, Run(show.position, show.position)))
            else:
                lines.append(ExpandedMessage(ref.first, inner.id, show.message, original=False))
    return lines


def _expand_batch(path: Path, target: LocatedEntry, number: str, *, deep: bool) -> list[ExpandedMessage]:
    """Returns the sources of a batch, or the originals of its range with `deep` or if it has no sources."""
    entry = target.entry
    if not isinstance(entry, Block) or not number.isdecimal() or int(number) >= len(entry.batches):
        count = len(entry.batches) if isinstance(entry, Block) else 0
        raise NotFoundError(f"no batch {number} in {entry.id}: it holds {count}, numbered from 0")
    batch = entry.batches[int(number)]
    if batch.sources and not deep:
        return [_build_batch_message(path, resolve_slot(slot, target.position)) for slot in batch.sources]
    return _read_originals(path, Run(batch.first, batch.last))


def _build_batch_message(path: Path, slot: Slot) -> ExpandedMessage:
    batch = get_batch(path, slot)
    message = Message("system", (Text(format_batch(batch)),), "tenfold")
    return ExpandedMessage(batch.first, f"{path.get_entry(slot.block).id}/{slot.index}", message, original=False)


def _read_originals(path: Path, run: Run) -> list[ExpandedMessage]:
    entries = enumerate(path.get_entries(run.first, run.last), run.first)
    return [ExpandedMessage(p, e.id, m, original=True) for p, e in entries if (m := get_message(e)) is not None]
