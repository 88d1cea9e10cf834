"""Imports parsed sessions into a store. A session that is already there only gets the entries that are new.

If the file has grown, its new entries are appended; if it has diverged, they become a branch, or a session of their
own: see `StoredSessions`. An older copy of a stored session, which ends where that one goes on, is a session of its
own: what is compacted or exported of it ends there too. Entry ids become UUIDv7; the order and the bytes stay as they
were.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
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
from tenfold.store.base import MAIN, SessionInfo, Store
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


class StoredSessions:
    """The sessions of a namespace that parsed ones are compared with.

    For many files keep one of these: it lists the store once, and learns of what `import_sessions` adds. Sessions that
    another process adds meanwhile are not looked for.
    """

    def __init__(self, store: Store, namespace: str) -> None:
        self.store, self.namespace = store, namespace
        self._by_source: dict[tuple[str, str], dict[str, SessionInfo]] = {}
        self._beginnings: dict[str, _Beginning] = {}
        for row in reversed(store.list_sessions(namespace)):
            self.add(row.info)

    def add(self, info: SessionInfo) -> None:
        """Adds a session, or what is known of one by now."""
        infos = self._by_source.setdefault((info.format, info.source_id), {})
        infos.pop(info.id, None)
        infos[info.id] = info  # the newest is the last
        self._beginnings.pop(info.id, None)

    def match(self, sessions: Sequence[ParsedSession]) -> list[SessionMatch | None]:
        """Finds the stored session for each session of a file, None for a new one. No two get the same."""
        taken: set[str] = set()
        out: list[SessionMatch | None] = []
        for parsed in sessions:
            candidates = (info for info in self._list_candidates(parsed) if info.id not in taken)
            match = _find_match(parsed, candidates, self.store, self.namespace)
            out.append(match)
            if match is not None:
                taken.add(match.session)
        return out

    def _list_candidates(self, parsed: ParsedSession) -> list[SessionInfo]:
        """Lists those of the same id, the newest first. Without an id, those whose beginning may be the same."""
        infos = list(self._by_source.get((parsed.info.format, parsed.info.source_id), {}).values())[::-1]
        at = _find_first_words(parsed)
        if parsed.info.source_id or at is None or at >= _BEGINNING_LENGTH:
            return infos
        keys = _build_keys(parsed.entries[at])
        return [info for info in infos if self._read_beginning(info).can_hold(at, keys)]

    def _read_beginning(self, info: SessionInfo) -> _Beginning:
        found = self._beginnings.get(info.id)
        if found is None:
            leaf = self.store.read_heads(self.namespace, info.id).get(MAIN)
            last = -1 if leaf is None else min(self.store.locate(self.namespace, leaf).position, _BEGINNING_LENGTH - 1)
            entries = [] if leaf is None else self.store.read_range(self.namespace, info.id, leaf, 0, last)
            found = _Beginning(tuple(_build_keys(each) for each in entries if _is_imported(each)))
            self._beginnings[info.id] = found
        return found


_BEGINNING_LENGTH = 16
"""Entries of the beginning of a session without an id by which it is told from others before more of it is read."""


class _Beginning(Struct, frozen=True):
    """The beginning of a stored session: for each entry that came from a file, what tells it from others, if known."""

    keys: tuple[frozenset[bytes] | None, ...]

    def can_hold(self, at: int, keys: frozenset[bytes] | None) -> bool:
        """Whether the entry at this index may be the one that has one of these keys."""
        own = self.keys[at] if at < len(self.keys) else None
        return own is None or keys is None or not own.isdisjoint(keys)


def _build_keys(entry: Entry) -> frozenset[bytes] | None:
    """Builds what two entries share at least one of if `_is_same_entry`. None for what is compared in other ways."""
    message, native = get_message(entry), get_native(entry) if isinstance(entry, ImportedEntry) else None
    if message is None:
        return None
    try:
        body = json.dumps(json.loads(native.body), sort_keys=True).encode() if native is not None else b""
    except (ValueError, RecursionError):
        body = native.body if native is not None else b""
    return frozenset({fingerprint_message(message), hashlib.blake2b(body, digest_size=16).digest()})


def _find_first_words(parsed: ParsedSession) -> int | None:
    """Finds the index of a person's first words, or of the last entry. None for a tree, which only as a whole tells."""
    entries = parsed.entries
    if any(entry.parent != before.id for before, entry in pairwise(entries)):
        return None
    return next((at for at, entry in enumerate(entries) if _get_origin(entry) == "human"), len(entries) - 1)


def _find_match(
    parsed: ParsedSession, candidates: Iterable[SessionInfo], store: Store, namespace: str
) -> SessionMatch | None:
    has_id = bool(parsed.info.source_id)
    best: SessionMatch | None = None
    for info in candidates:  # the newest first, and of equal ones the oldest is taken
        head = store.read_heads(namespace, info.id).get(MAIN)
        if not has_id and not _has_same_opening(parsed, info, head, store, namespace):
            continue
        match = _match_entries(parsed.entries, store.read_entries(namespace, info.id), info.id, head)
        is_same = has_id or match.is_continued or (info.file == parsed.info.file and _has_answer(parsed, match))
        if is_same and (best is None or _rank(match) >= _rank(best)):
            best = match
    return best


def _rank(match: SessionMatch) -> tuple[bool, bool, int, int]:
    return match.is_continued, not match.is_older, len(match.ids), -match.unmatched


def _has_same_opening(parsed: ParsedSession, info: SessionInfo, head: str | None, store: Store, namespace: str) -> bool:
    """Returns whether both begin in the same way, as far as the first words of a person. Reads no more than that."""
    if _is_array(info.prefix) != _is_array(parsed.info.prefix):
        return False  # an array's bytes do not fit between lines, nor lines into an array
    last = _find_first_words(parsed)
    if head is None or last is None:
        return True
    last = min(last, store.locate(namespace, head).position)
    opening = [e for e in store.read_range(namespace, info.id, head, 0, last) if _is_imported(e)]
    return all(
        _is_same_entry(old, new) or _is_purged_form(old, new) for old, new in zip(opening, parsed.entries, strict=False)
    )


def _is_array(prefix: bytes) -> bool:
    return prefix.rstrip().endswith(b"[")


def _has_answer(parsed: ParsedSession, match: SessionMatch) -> bool:
    return any(_get_origin(e) == "model" for e in parsed.entries if e.id in match.ids)


def _get_origin(entry: Entry) -> str:
    message = get_message(entry)
    return message.origin if message is not None else ""


def _match_entries(parsed: Sequence[Entry], stored: Sequence[Entry], session: str, head: str | None) -> SessionMatch:
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
        session,
        head,
        ids,
        {key: leaves[stored_id] for key, stored_id in ids.items()},
        unmatched=unmatched,
        is_continued=is_equal or (bool(ids) and not has_diverged and (has_words or not unmatched)),
        is_older=len(ids) == len(parsed) and bool(ids) and _has_more_behind(stored, head, ids[parsed[-1].id]),
    )


def _has_more_behind(stored: Sequence[Entry], head: str | None, last: str) -> bool:
    """Returns whether the main path of a stored session has entries of a file behind this one.

    It also has if the file that this entry came from was cut off in an answer, of which the path holds more.
    """
    by_id = {entry.id: entry for entry in stored}
    entry = by_id.get(head or "")
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


def import_sessions(
    sessions: Sequence[ParsedSession],
    store: Store,
    namespace: str,
    counter: Counter,
    *,
    known: StoredSessions | None = None,
) -> list[str]:
    """Imports the sessions, each atomically, and returns their ids in the given order.

    `known` spares listing the store for each of many files. Raises what the store raises. Sessions imported before the
    error stay.
    """
    known = known or StoredSessions(store, namespace)
    if store.redact_at_rest:  # they are compared with what the store holds
        sessions = [replace(each, entries=tuple(map(redact_entry, each.entries))) for each in sessions]
    ids: dict[str, str] = {}
    for parsed, found in zip(sessions, known.match(sessions), strict=True):
        match = None if found is not None and found.is_older else found
        session = match.session if match is not None else IDS.generate()
        ids[parsed.info.id] = session
        has_new_entries = match is None or len(match.ids) < len(parsed.entries)
        if has_new_entries or (match is not None and not match.unmatched):
            parent = ids.get(parsed.info.parent, parsed.info.parent)
            info = replace(parsed.info, id=session, parent=parent)
            store.create(namespace, info)
            known.add(info)
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
