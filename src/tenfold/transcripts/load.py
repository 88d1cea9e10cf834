"""Imports parsed sessions into a store. A session that is already there only gets the entries that are new.

If the file has grown, its new entries are appended; if it has diverged, they become a branch. Entry ids become UUIDv7;
the order and the bytes stay as they were.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tenfold.errors import NotFound
from tenfold.log.base import MAIN, SessionInfo, Store
from tenfold.log.ids import IDS
from tenfold.meter.counters import Counter, sizes
from tenfold.record.entry import Branch, Custom, Entry, Said, Setting, message_of
from tenfold.transcripts.base import Recorded

Foreign = Said | Branch | Setting | Custom


def load(recorded: Sequence[Recorded], store: Store, namespace: str, counter: Counter) -> list[str]:
    """Imports the sessions, each atomically, and returns their ids in the given order.

    Raises what the store raises. Sessions imported before the error stay.
    """
    stored = {_identity(row.info): row.info.id for row in store.sessions(namespace)}
    ids: dict[str, str] = {}
    for parsed in recorded:
        identity = _identity(parsed.info)
        session = stored.get(identity) or IDS.new()
        ids[parsed.info.id] = session
        parent = ids.get(parsed.info.parent, parsed.info.parent)
        store.create(namespace, replace(parsed.info, id=session, parent=parent))
        _append(parsed, store, namespace, session=session, counter=counter, fresh=identity not in stored)
    return list(ids.values())


def _identity(info: SessionInfo) -> tuple[str, str, str]:
    """Returns what identifies a session across imports: its own id in the file, or the file's name if it has none."""
    return (info.format, info.source or info.id, "" if info.source else info.file)


def _append(recorded: Recorded, store: Store, namespace: str, *, session: str, counter: Counter, fresh: bool) -> None:
    stored = [] if fresh else [e for e in store.original(namespace, session) if isinstance(e, Foreign)]
    same = 0
    while same < min(len(stored), len(recorded.entries)) and _alike(stored[same], recorded.entries[same]):
        same += 1
    new = recorded.entries[same:]
    if not new:
        return
    ids: dict[str | None, str | None] = {None: None}
    ids |= {entry.id: old.id for entry, old in zip(recorded.entries, stored[:same], strict=False)}
    leaf = store.heads(namespace, session).get(MAIN)
    if leaf is not None and same == len(stored) and stored:
        ids[recorded.entries[same - 1].id] = leaf
    entries: list[Entry] = []
    for entry in new:
        ids[entry.id] = IDS.new()
        entries.append(_renamed(entry, ids))
    messages = [m for e in entries if (m := message_of(e)) is not None]
    counted = iter(sizes(messages, counter))
    counts = [next(counted) if message_of(e) is not None else 0 for e in entries]
    store.append(namespace, session, entries, expected=leaf, counts={counter.name: counts})


def _renamed(entry: Entry, ids: dict[str | None, str | None]) -> Entry:
    own, parent = ids[entry.id], ids.get(entry.parent)
    if own is None or (parent is None and entry.parent is not None):
        raise NotFound(f"entry {entry.id!r} names the parent {entry.parent!r}, which the file does not hold before it")
    return replace(entry, id=own, parent=parent)


def _alike(stored: Entry, read: Entry) -> bool:
    if type(stored) is not type(read):
        return False
    if isinstance(stored, Foreign) and isinstance(read, Foreign):
        return _body(stored) == _body(read) and stored.source == read.source
    return False


def _body(entry: Foreign) -> bytes:
    native = entry.message.native if isinstance(entry, Said | Branch) else entry.native
    return native.body if native is not None else b""
