"""Expands a Block to what it covers: one level down, or all the way to the originals, byte for byte."""

from __future__ import annotations

import re
from itertools import chain, islice

from msgspec import Struct

from tenfold.core.record.block import (
    OWN_BLOCK,
    Block,
    BlockPart,
    KeptOriginal,
    RangeRef,
    Run,
    Slot,
    format_batch,
    resolve_slot,
)
from tenfold.core.record.entry import Entry, get_message
from tenfold.core.record.message import Message, Text, get_text, get_tool_calls, get_tool_result
from tenfold.core.view.path import Path
from tenfold.errors import NotFoundError
from tenfold.store.base import MAIN, LocatedEntry, Store

_NUMBER = re.compile("0|[1-9][0-9]{0,8}")
"""An entry's position. No id is like that: ids are longer, and those of this century begin with a 0."""


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


def is_entry_number(name: str) -> bool:
    """Whether a name of an entry is its number, and not its id."""
    return _NUMBER.fullmatch(name) is not None


def find_entry_id(store: Store, namespace: str, session: str, name: str, *, head: str = MAIN) -> str:
    """Returns the id of the entry that a number names, its position on the head's path. An id is returned as it is.

    Raises `NotFoundError` if the path is not that long.
    """
    if not is_entry_number(name):
        return name
    state = store.open(namespace, session, head)
    if state.leaf is None or int(name) >= state.length:
        raise NotFoundError(f"no entry number {name}: this session has {state.length} entries, numbered from 0")
    (entry,) = store.read_range(namespace, session, state.leaf, int(name), int(name))
    return entry.id


def expand(  # noqa: PLR0913 - what is looked up, and where
    store: Store, namespace: str, id: str, *, deep: bool = False, session: str = "", head: str = "", around: int = 0
) -> list[ExpandedMessage]:
    """Returns what lies behind the Block `id`, oldest first. The id of a message gives that message alone.

    With `deep`, every level is opened, down to the originals. Otherwise older Blocks inside the range are returned as
    they were shown. A Block with an archive of batches gives the batches of its top level.

    The id of a batch, `<block id>/<index>`, gives its sources or its messages. If `session` is given, `id` may be a
    number, as for `find_entry_id`. With a `head` of the session, only what is on its path is looked at. With `around`,
    as many messages before and after are returned too.

    Raises `NotFoundError`, also if `session` is given and the id is in another session, or not on the path of `head`.
    """
    block, slash, number = id.rpartition("/")
    block = block if slash else find_entry_id(store, namespace, session, id, head=head or MAIN) if session else id
    target = store.locate(namespace, block)
    path = _open_head(store, namespace, session, head) if session and head else None
    if (session and target.session != session) or (path is not None and not _is_on_path(path, target)):
        raise NotFoundError(f"no entry {id} in this session: a search gives the ids there are")
    lines = _expand_entry(store, namespace, target, number if slash else None, deep=deep)
    if around <= 0:
        return lines
    return _with_neighbors(path or _open_longest_path(store, namespace, target), target, lines, around)


def _open_head(store: Store, namespace: str, session: str, head: str) -> Path:
    """Opens the path of a head. One that is not stored yet has no entry."""
    leaf = store.read_heads(namespace, session).get(head)
    return open_path(store, namespace, store.locate(namespace, leaf)) if leaf is not None else Path(length=0)


def _is_on_path(path: Path, target: LocatedEntry) -> bool:
    return target.position < path.length and path.get_entry(target.position).id == target.entry.id


def _expand_entry(
    store: Store, namespace: str, target: LocatedEntry, batch: str | None, *, deep: bool
) -> list[ExpandedMessage]:
    entry = target.entry
    if not isinstance(entry, Block):
        message = get_message(entry)
        if message is None:
            kind = type(entry).__name__.lower()
            raise NotFoundError(f"{entry.id} is neither a Block nor a message but a {kind} entry")
        return [ExpandedMessage(target.position, entry.id, message, original=True)]
    path = open_path(store, namespace, target)
    if batch is not None:
        return _expand_batch(path, target, batch, deep=deep)
    if entry.top_batches and not deep:
        return [_build_batch_message(path, slot) for slot, _ in path.list_top_batches(target.position)]
    return _expand_block(path, entry, deep=deep)


def _expand_block(path: Path, entry: Block, *, deep: bool) -> list[ExpandedMessage]:
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
        if not isinstance(inner, Block):  # its record is damaged, but not those of the originals
            lines.extend(_read_originals(path, Run(ref.first, ref.last)))
            continue
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


def _with_neighbors(
    path: Path, target: LocatedEntry, lines: list[ExpandedMessage], count: int
) -> list[ExpandedMessage]:
    """Returns the lines with the nearest `count` messages before and after them on a path."""
    first = min((line.position for line in lines), default=target.position)
    last = max((line.position for line in lines), default=target.position)
    before = chain.from_iterable(_read_originals(path, Run(p, p)) for p in range(first - 1, -1, -1))
    after = chain.from_iterable(_read_originals(path, Run(p, p)) for p in range(last + 1, path.length))
    return [*reversed(list(islice(before, count))), *lines, *islice(after, count)]


def _open_longest_path(store: Store, namespace: str, target: LocatedEntry) -> Path:
    """Opens the longest of the heads' paths that lead through an entry, or else the one that ends in it."""
    best = open_path(store, namespace, target)
    for leaf in store.read_heads(namespace, target.session).values():
        path = open_path(store, namespace, store.locate(namespace, leaf))
        if path.length > best.length and _is_on_path(path, target):
            best = path
    return best


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
    batch = path.get_batch(slot)
    message = Message("system", (Text(format_batch(batch)),), "tenfold")
    return ExpandedMessage(batch.first, f"{path.get_entry(slot.block).id}/{slot.index}", message, original=False)


def _read_originals(path: Path, run: Run) -> list[ExpandedMessage]:
    entries = enumerate(path.get_entries(run.first, run.last), run.first)
    return [ExpandedMessage(p, e.id, m, original=True) for p, e in entries if (m := get_message(e)) is not None]
