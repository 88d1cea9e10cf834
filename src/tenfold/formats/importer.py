"""Imports parsed sessions into a store. A session that is already there only gets the entries that are new.

If the file has grown, its new entries are appended; if it has diverged, they become a branch, or a session of their
own: see `known_sessions`. An older copy of a stored session, which ends where that one goes on, is a session of its
own: what is compacted or exported of it ends there too. Entry ids become UUIDv7; the order and the bytes stay as they
were.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tenfold.compaction.facts.redacted_messages import redact_entry
from tenfold.core.meter.counters import Counter, measure_messages
from tenfold.core.record.entry import Entry, get_message
from tenfold.errors import NotFoundError
from tenfold.formats.base import ParsedSession
from tenfold.formats.known_sessions import SessionMatch, match_sessions
from tenfold.formats.summaries import with_confirmed_source
from tenfold.store.base import Store
from tenfold.store.ids import IDS


def import_sessions(sessions: Sequence[ParsedSession], store: Store, namespace: str, counter: Counter) -> list[str]:
    """Imports the sessions, each atomically, and returns their ids in the given order.

    Raises what the store raises. Sessions imported before the error stay.
    """
    if store.redact_at_rest:  # they are compared with what the store holds
        sessions = [replace(each, entries=tuple(map(redact_entry, each.entries))) for each in sessions]
    ids: dict[str, str] = {}
    for parsed, found in zip(sessions, match_sessions(sessions, store, namespace), strict=True):
        match = None if found is not None and found.is_older else found
        session = match.session if match is not None else IDS.generate()
        ids[parsed.info.id] = session
        has_new_entries = match is None or len(match.ids) < len(parsed.entries)
        if has_new_entries or (match is not None and not match.unmatched):
            parent = ids.get(parsed.info.parent, parsed.info.parent)
            store.create(namespace, replace(parsed.info, id=session, parent=parent))
        if has_new_entries:
            _append_new_entries(parsed, match, store, namespace, session=session, counter=counter)
    return list(ids.values())


def _append_new_entries(
    parsed: ParsedSession, match: SessionMatch | None, store: Store, namespace: str, *, session: str, counter: Counter
) -> None:
    parents: dict[str | None, str | None] = {None: None}
    parents.update(match.leaves if match is not None else {})
    entries: list[Entry] = []
    for entry in parsed.entries:
        if entry.id in parents:
            continue
        if entry.parent not in parents:
            raise NotFoundError(
                f"entry {entry.id!r} names the parent {entry.parent!r}, which the file does not hold before it"
            )
        parents[entry.id] = id_ = IDS.generate()
        stored = replace(entry, id=id_, parent=parents[entry.parent])
        entries.append(with_confirmed_source(stored, store, namespace))
    if not entries:
        return
    messages = [m for e in entries if (m := get_message(e)) is not None]
    counted = iter(measure_messages(messages, counter))
    counts = [next(counted) if get_message(e) is not None else 0 for e in entries]
    head = match.head if match is not None else None
    store.append(namespace, session, entries, expected=head, counts={counter.name: counts})
