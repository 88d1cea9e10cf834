"""Imports parsed sessions into a store. A session that is already there only gets the entries that are new.

If the file has grown, its new entries are appended; if it has diverged, they become a branch, or a session of their
own: see `known_sessions`. An older copy of a stored session, which ends where that one goes on, is a session of its
own: what is compacted or exported of it ends there too. Entry ids become UUIDv7; the order and the bytes stay as they
were.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from tenfold.compaction.facts.redacted_messages import redact_entry
from tenfold.core.meter.counters import Counter, measure_messages
from tenfold.core.record.entry import (
    BranchSummary,
    CustomEntry,
    Entry,
    MessageEntry,
    Setting,
    Tombstone,
    get_kind,
    get_message,
)
from tenfold.core.record.message import NativeBytes, get_call_ids
from tenfold.core.wire.fingerprint import fingerprint_message
from tenfold.errors import NotFoundError
from tenfold.formats.base import ParsedSession
from tenfold.formats.output_pieces import get_native
from tenfold.formats.summaries import with_confirmed_source
from tenfold.store.base import MAIN, SessionRow, Store
from tenfold.store.ids import IDS

ImportedEntry = MessageEntry | BranchSummary | Setting | CustomEntry


class SessionMatch(Struct, frozen=True):
    """What of a parsed session a stored one holds. `ids` maps the keys of those entries to their ids in the store.

    `leaves` maps the same keys to the entries that new ones hang on: what Tenfold appended directly behind, for example
    Blocks, comes between. `unmatched` is the number of stored entries that the parsed session does not hold. `head` is
    the leaf of the main head before the entries were read, so that an append after another writer's is refused.
    `is_older` says that the stored session goes on behind the last entry of the parsed one: that is an older copy.
    """

    session: str
    head: str | None
    ids: dict[str, str]
    leaves: dict[str, str]
    unmatched: int
    is_continued: bool = True
    is_older: bool = False


def match_sessions(sessions: Sequence[ParsedSession], store: Store, namespace: str) -> list[SessionMatch | None]:
    """Finds the stored session for each session of a file, None for a new one. No two get the same."""
    rows: dict[tuple[str, str], list[SessionRow]] = {}
    for row in store.list_sessions(namespace):
        rows.setdefault((row.info.format, row.info.source_id), []).append(row)
    taken: set[str] = set()
    out: list[SessionMatch | None] = []
    for parsed in sessions:
        candidates = [
            row for row in rows.get((parsed.info.format, parsed.info.source_id), ()) if row.info.id not in taken
        ]
        match = _find_match(parsed, candidates, store, namespace)
        out.append(match)
        if match is not None:
            taken.add(match.session)
    return out


def _find_match(
    parsed: ParsedSession, candidates: Sequence[SessionRow], store: Store, namespace: str
) -> SessionMatch | None:
    has_id = bool(parsed.info.source_id)
    best: SessionMatch | None = None
    for row in candidates:  # the newest first, and of equal ones the oldest is taken
        if not has_id and not _has_same_opening(parsed, row, store, namespace):
            continue
        match = _match_entries(parsed.entries, store.read_entries(namespace, row.info.id), row)
        is_same = has_id or match.is_continued or (row.info.file == parsed.info.file and _has_answer(parsed, match))
        if is_same and (best is None or _rank(match) >= _rank(best)):
            best = match
    return best


def _rank(match: SessionMatch) -> tuple[bool, bool, int, int]:
    return match.is_continued, not match.is_older, len(match.ids), -match.unmatched


def _has_same_opening(parsed: ParsedSession, row: SessionRow, store: Store, namespace: str) -> bool:
    """Returns whether both begin in the same way, as far as the first words of a person. Reads no more than that."""
    if _is_array(row.info.prefix) != _is_array(parsed.info.prefix):
        return False  # an array's bytes do not fit between lines, nor lines into an array
    leaf, entries = row.heads.get(MAIN), parsed.entries
    if leaf is None or any(e.parent != before.id for before, e in pairwise(entries)):
        return True  # not one path, so only the whole tree tells
    last = next((at for at, e in enumerate(entries) if _get_origin(e) == "human"), len(entries) - 1)
    last = min(last, store.locate(namespace, leaf).position)
    opening = [e for e in store.read_range(namespace, row.info.id, leaf, 0, last) if _is_imported(e)]
    return all(
        _is_same_entry(old, new) or _is_purged_form(old, new) for old, new in zip(opening, entries, strict=False)
    )


def _is_array(prefix: bytes) -> bool:
    return prefix.rstrip().endswith(b"[")


def _has_answer(parsed: ParsedSession, match: SessionMatch) -> bool:
    return any(_get_origin(e) == "model" for e in parsed.entries if e.id in match.ids)


def _get_origin(entry: Entry) -> str:
    message = get_message(entry)
    return message.origin if message is not None else ""


def _match_entries(parsed: Sequence[Entry], stored: Sequence[Entry], row: SessionRow) -> SessionMatch:
    """Matches two trees from their roots. An entry is matched only if its parent is."""
    children, leaves = _link_entries(stored)
    parents = {entry.parent for entry in parsed}
    ids: dict[str, str] = {}
    used: set[str] = set()
    has_diverged = False
    for entry in parsed:
        if entry.parent is not None and entry.parent not in ids:
            continue
        siblings = [e for e in children.get(ids[entry.parent] if entry.parent else None, ()) if e.id not in used]
        tests = (_is_same_entry, _is_purged_form, _is_later_form if entry.id not in parents else _is_same_entry)
        same = next((e for is_same in tests for e in siblings if is_same(e, entry)), None)
        if same is not None:
            ids[entry.id] = same.id
            used.add(same.id)
        elif any(children.get(e.id) or not _is_later_form(entry, e) for e in siblings):
            has_diverged = True
    unmatched = sum(map(len, children.values())) - len(ids)
    is_equal = not unmatched and len(ids) == len(parsed)
    has_words = any(_get_origin(e) in ("human", "model") for e in parsed if e.id in ids)
    return SessionMatch(
        row.info.id,
        row.heads.get(MAIN),
        ids,
        {key: leaves[stored_id] for key, stored_id in ids.items()},
        unmatched=unmatched,
        is_continued=is_equal or (bool(ids) and not has_diverged and (has_words or not unmatched)),
        is_older=len(ids) == len(parsed) and bool(ids) and _has_more_behind(stored, row, ids[parsed[-1].id]),
    )


def _has_more_behind(stored: Sequence[Entry], row: SessionRow, last: str) -> bool:
    """Returns whether the main path of a stored session has entries of a file behind this one.

    It also has if the file that this entry came from was cut off in an answer, of which the path holds more.
    """
    by_id = {entry.id: entry for entry in stored}
    entry = by_id.get(row.heads.get(MAIN, ""))
    behind: Entry | None = None
    while entry is not None and entry.id not in (last, by_id[last].parent):
        behind = entry if _is_imported(entry) else behind
        entry = by_id.get(entry.parent or "")
    if entry is None or behind is None:
        return False
    return entry.id == last or _is_later_form(behind, by_id[last])


def _link_entries(stored: Sequence[Entry]) -> tuple[dict[str | None, list[Entry]], dict[str, str]]:
    """Links the entries that came from a file, without those that Tenfold appended between them.

    Returns the children of each, and for each the last of Tenfold's own entries that follow it directly, or itself.
    """
    children: dict[str | None, list[Entry]] = {}
    sources: dict[str | None, str | None] = {None: None}
    leaves: dict[str, str] = {}
    for entry in stored:
        source = sources[entry.parent]
        if _is_imported(entry):
            children.setdefault(source, []).append(entry)
            sources[entry.id] = leaves[entry.id] = entry.id
            continue
        sources[entry.id] = source
        if source is not None and leaves[source] == entry.parent:
            leaves[source] = entry.id
    return children, leaves


def _is_imported(entry: Entry) -> bool:
    if isinstance(entry, Setting):
        return entry.native is not None
    return isinstance(entry, ImportedEntry | Tombstone)


def _is_same_entry(stored: Entry, parsed: Entry) -> bool:
    if not isinstance(stored, ImportedEntry) or not isinstance(parsed, ImportedEntry):
        return False
    if type(stored) is not type(parsed) or stored.source_id != parsed.source_id:
        return False
    old, new = get_message(stored), get_message(parsed)
    is_same_json = _is_same_json(get_native(stored), get_native(parsed))
    if old is None or new is None:
        return is_same_json
    is_same = is_same_json or fingerprint_message(old) == fingerprint_message(new)
    return is_same and get_call_ids(old) == get_call_ids(new)


def _is_purged_form(stored: Entry, parsed: Entry) -> bool:
    """Returns whether a tombstone stands where the entry does: what was purged must not come back."""
    return isinstance(stored, Tombstone) and stored.kind == get_kind(parsed)


def _is_same_json(stored: NativeBytes | None, parsed: NativeBytes | None) -> bool:
    if stored is None or parsed is None:
        return False
    try:
        return stored.body == parsed.body or bool(json.loads(stored.body) == json.loads(parsed.body))
    except (ValueError, RecursionError):
        return False


def _is_later_form(later: Entry, earlier: Entry) -> bool:
    """Returns whether an answer is another one as the file held it later: more of it, or with the ids of its results.

    Some formats give a call no id, and only its result has one.
    """
    if not isinstance(earlier, MessageEntry) or not isinstance(later, MessageEntry):
        return False
    count = len(earlier.message.parts)
    if earlier.message.role != "assistant" or not 0 < count <= len(later.message.parts):
        return False
    if count == len(later.message.parts) and earlier.source_id != later.source_id:
        return False
    begun = replace(later.message, parts=later.message.parts[:count])
    return fingerprint_message(earlier.message) == fingerprint_message(begun)


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
