"""Imports parsed sessions into a store. A session that is already there only gets the entries that are new.

If the file has grown, its new entries are appended; if it has diverged, they become a branch. Entry ids become UUIDv7;
the order and the bytes stay as they were.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tenfold.errors import NotFoundError
from tenfold.facts.redacted_messages import redact_entry
from tenfold.formats.base import ParsedSession
from tenfold.formats.summaries import with_confirmed_source
from tenfold.meter.counters import Counter, measure_messages
from tenfold.record.entry import BranchSummary, CustomEntry, Entry, MessageEntry, Setting, get_message
from tenfold.store.base import MAIN, SessionInfo, Store
from tenfold.store.ids import IDS

ImportedEntry = MessageEntry | BranchSummary | Setting | CustomEntry


def import_sessions(sessions: Sequence[ParsedSession], store: Store, namespace: str, counter: Counter) -> list[str]:
    """Imports the sessions, each atomically, and returns their ids in the given order.

    Raises what the store raises. Sessions imported before the error stay.
    """
    stored = {_get_identity(row.info): row.info.id for row in store.list_sessions(namespace)}
    ids: dict[str, str] = {}
    for parsed in sessions:
        identity = _get_identity(parsed.info)
        session = stored.get(identity) or IDS.generate()
        ids[parsed.info.id] = session
        parent = ids.get(parsed.info.parent, parsed.info.parent)
        store.create(namespace, replace(parsed.info, id=session, parent=parent))
        _append_new_entries(parsed, store, namespace, session=session, counter=counter, is_new=identity not in stored)
    return list(ids.values())


def _get_identity(info: SessionInfo) -> tuple[str, str, str]:
    """Returns what identifies a session across imports: its own id in the file, or the file's name if it has none."""
    return (info.format, info.source_id or info.id, "" if info.source_id else info.file)


def _append_new_entries(
    parsed: ParsedSession, store: Store, namespace: str, *, session: str, counter: Counter, is_new: bool
) -> None:
    stored = [] if is_new else [e for e in store.read_entries(namespace, session) if isinstance(e, ImportedEntry)]
    if store.redact_at_rest:  # they are compared with what the store holds
        parsed = replace(parsed, entries=type(parsed.entries)(redact_entry(entry) for entry in parsed.entries))
    same = 0
    while same < min(len(stored), len(parsed.entries)) and _is_same_entry(stored[same], parsed.entries[same]):
        same += 1
    new = parsed.entries[same:]
    if not new:
        return
    ids: dict[str | None, str | None] = {None: None}
    ids |= {entry.id: old.id for entry, old in zip(parsed.entries, stored[:same], strict=False)}
    leaf = store.read_heads(namespace, session).get(MAIN)
    if leaf is not None and same == len(stored) and stored:
        ids[parsed.entries[same - 1].id] = leaf
    entries: list[Entry] = []
    for entry in new:
        ids[entry.id] = IDS.generate()
        entries.append(with_confirmed_source(_with_stored_ids(entry, ids), store, namespace))
    messages = [m for e in entries if (m := get_message(e)) is not None]
    counted = iter(measure_messages(messages, counter))
    counts = [next(counted) if get_message(e) is not None else 0 for e in entries]
    store.append(namespace, session, entries, expected=leaf, counts={counter.name: counts})


def _with_stored_ids(entry: Entry, ids: dict[str | None, str | None]) -> Entry:
    own, parent = ids[entry.id], ids.get(entry.parent)
    if own is None or (parent is None and entry.parent is not None):
        raise NotFoundError(
            f"entry {entry.id!r} names the parent {entry.parent!r}, which the file does not hold before it"
        )
    return replace(entry, id=own, parent=parent)


def _is_same_entry(stored: Entry, parsed: Entry) -> bool:
    if type(stored) is not type(parsed):
        return False
    if isinstance(stored, ImportedEntry) and isinstance(parsed, ImportedEntry):
        body = _get_native_body(stored)
        is_same = body == _get_native_body(parsed) if body else get_message(stored) == get_message(parsed)
        return is_same and stored.source_id == parsed.source_id
    return False


def _get_native_body(entry: ImportedEntry) -> bytes:
    native = entry.message.native if isinstance(entry, MessageEntry | BranchSummary) else entry.native
    return native.body if native is not None else b""
