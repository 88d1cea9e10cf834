"""Copies sessions from one store to another, of whatever kind, and compares each entry with the one it was copied from.

A copy that was interrupted goes on where it stopped: what the target has of a session is compared, and the rest is
appended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from tenfold.core.record.entry import Entry
from tenfold.core.view.fold import Snapshot
from tenfold.errors import NotFoundError
from tenfold.store.base import HeadState, Problem, SessionRow, Store

_CHUNK_SIZE = 500
"""Entries that are appended in one call, at most."""


class CopiedSession(Struct, frozen=True):
    """A session that was copied: where it belongs, its entries, how many of them are new, and what is wrong with it."""

    namespace: str
    session: str
    entries: int
    new_entries: int
    problem: Problem | None = None


class _AppendStep(Struct, frozen=True):
    """Entries that are appended in one call: the head that moves to the last of them, and the snapshot under that."""

    entries: Sequence[Entry]
    head: str
    snapshot: Snapshot | None


def copy_store(
    source: Store, target: Store, *, namespace: str | None = None, chunk_size: int = _CHUNK_SIZE
) -> Iterator[CopiedSession]:
    """Copies the sessions of a namespace (None: of all), the oldest first, and yields each when it is there.

    Entries, heads, snapshots, exports and what is known of the last request are copied. Token counts and search indexes
    are made again when they are needed. A session that went on in the target is left as it is, and reported. At most
    `chunk_size` entries are appended in one call.
    """
    for name in [namespace] if namespace is not None else source.list_namespaces():
        for row in reversed(source.list_sessions(name)):
            yield _copy_session(source, target, name, row, chunk_size)


def copy_keys(source: Store, target: Store, *, namespace: str | None = None) -> int:
    """Copies the keys of a namespace (None: all) that the target does not have, and returns how many.

    Without them, a store that asked for a key would be open where it is copied to.
    """
    there = {key.id for key in target.list_keys()}
    new = [key for key in source.list_keys() if key.id not in there and namespace in (None, key.namespace)]
    for key in new:
        target.save_key(key)
    return len(new)


def _copy_session(source: Store, target: Store, namespace: str, row: SessionRow, chunk_size: int) -> CopiedSession:
    session = row.info.id
    entries, heads = source.read_entries(namespace, session), source.read_heads(namespace, session)
    states = {head: source.open(namespace, session, head) for head in heads}
    known = _read_known(target, namespace, session)
    problem = _compare(known, entries[: len(known)])
    if problem:
        what = f"the target holds another session of this name, or it went on there, so it is left as it is: {problem}"
        return CopiedSession(namespace, session, len(entries), 0, Problem(session, "", what))
    target.create(namespace, row.info)
    at = target.read_heads(namespace, session)
    snapshots = _find_snapshots(source, namespace, session, states)
    for piece in _split_entries(entries[len(known) :], states, snapshots, chunk_size):
        target.append(
            namespace, session, piece.entries, expected=at.get(piece.head), head=piece.head, snapshot=piece.snapshot
        )
        at[piece.head] = piece.entries[-1].id
    for head, state in states.items():
        target.keep_request(namespace, session, head, usage=state.pending_usage, overhead=state.overhead)
    for path, digest in source.list_exports(namespace, session).items():
        target.record_export(namespace, session, path, digest)
    problem = _compare(target.read_entries(namespace, session), entries)
    if not problem and target.read_heads(namespace, session) != heads:
        problem = "its heads are elsewhere"
    found = Problem(session, "", f"the copy is not like the session: {problem}; copy again") if problem else None
    return CopiedSession(namespace, session, len(entries), len(entries) - len(known), found)


def _read_known(target: Store, namespace: str, session: str) -> list[Entry]:
    try:
        return target.read_entries(namespace, session)
    except NotFoundError:
        return []


def _compare(copied: Sequence[Entry], entries: Sequence[Entry]) -> str:
    """Says what the first difference is, or returns an empty string."""
    for number, (one, other) in enumerate(zip(copied, entries, strict=False), 1):
        if one != other:
            return (
                f"entry {number} is {one.id} there and {other.id} here"
                if one.id != other.id
                else f"entry {one.id} differs"
            )
    return "" if len(copied) == len(entries) else f"it has {len(copied):,} entries there and {len(entries):,} here"


def _find_snapshots(
    source: Store, namespace: str, session: str, states: Mapping[str, HeadState]
) -> dict[str, Snapshot]:
    """Finds the newest snapshot on each head's path, by the id of the entry that it is stored under."""
    out: dict[str, Snapshot] = {}
    for state in states.values():
        if state.snapshot is not None and state.leaf is not None and state.snapshot.length:
            last = state.snapshot.length - 1
            (entry,) = source.read_range(namespace, session, state.leaf, last, last)
            out[entry.id] = state.snapshot
    return out


def _split_entries(
    entries: Sequence[Entry], states: Mapping[str, HeadState], snapshots: Mapping[str, Snapshot], chunk_size: int
) -> Iterator[_AppendStep]:
    """Splits entries, in the order of appending, where a head or a snapshot is, and after so many of them.

    What comes before a head's leaf moves that head. The newest entry is where a head is.
    """
    leaves = {state.leaf: head for head, state in states.items()}
    following = [head for entry in entries if (head := leaves.get(entry.id))]
    piece: list[Entry] = []
    for entry in entries:
        piece.append(entry)
        head = leaves.get(entry.id)
        if head or entry.id in snapshots or len(piece) == chunk_size:
            yield _AppendStep(tuple(piece), following[0], snapshots.get(entry.id))
            piece = []
        if head:
            following.pop(0)
