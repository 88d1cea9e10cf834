"""Checks and errors that both stores share, so that one test suite can hold them to one contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tenfold.errors import BadInput, LostRace, NotFound, UsageError
from tenfold.record.block import Block, Keep, Rep
from tenfold.record.entry import Branch, Custom, Entry, Said, Setting
from tenfold.view.view import Snapshot


def checked_counts(entries: Sequence[Entry], counts: Mapping[str, Sequence[int]] | None) -> Mapping[str, Sequence[int]]:
    """Returns the counts of an append, or an empty mapping.

    Raises `UsageError` if there are no entries, or if a counter does not give exactly one count per entry.
    """
    if not entries:
        raise UsageError("append needs at least one entry")
    for counter, values in (counts or {}).items():
        if len(values) != len(entries):
            raise UsageError(f"{len(values)} counts by {counter} for {len(entries)} entries: give one count per entry")
    return counts or {}


def held(snapshot: Snapshot, read: Callable[[list[int]], dict[int, Entry]]) -> dict[int, Entry]:
    """Reads the entries that a snapshot refers to.

    This takes two reads: first what the snapshot names, then the originals that its Blocks show again.
    """
    positions: set[int] = set()
    for ref in snapshot.refs:
        positions.update((ref.block,) if isinstance(ref, Rep) else range(ref.first, ref.last + 1))
    entries = read(sorted(positions))
    repeated: set[int] = set()
    for ref in snapshot.refs:
        block = entries.get(ref.block) if isinstance(ref, Rep) else None
        if isinstance(block, Block) and isinstance(ref, Rep):
            repeated.update(s.position for s in block.replacements[ref.index].show if isinstance(s, Keep))
    return {**entries, **read(sorted(repeated - positions))}


def checked_limit(limit: int) -> int:
    """Returns the limit of one step of work.

    Raises `UsageError` below 1, because the work would then never come to an end.
    """
    if limit < 1:
        raise UsageError(f"a limit of {limit} entries never comes to an end: give at least 1")
    return limit


def source_of(entry: Entry) -> str:
    """Returns the id that the entry had in the file it came from, or an empty string."""
    return entry.source if isinstance(entry, Said | Branch | Setting | Custom) else ""


def fits(snapshot: Snapshot, position: int) -> None:
    """Raises `UsageError` unless the snapshot belongs to the path up to and including `position`."""
    if snapshot.length != position + 1:
        raise UsageError(
            f"the snapshot folds {snapshot.length} entries, but the last entry appended is number {position + 1} on "
            "its path: take the snapshot of the view that includes it"
        )


def lost_race(head: str, expected: str | None, leaf: str | None) -> LostRace:
    """Builds the error for a head that has moved."""
    return LostRace(
        f"head {head} is at {leaf or 'no entry'}, not at {expected or 'no entry'}: another writer moved it; nothing "
        "was written: open the session again and retry"
    )


def duplicate(entry: str) -> BadInput:
    """Builds the error for an id that is already stored."""
    return BadInput(f"entry {entry} is stored already: nothing was written; give each entry an id of its own")


def no_parent(entry: Entry) -> NotFound:
    """Builds the error for an entry whose parent is not in the session."""
    return NotFound(
        f"entry {entry.id} names the parent {entry.parent}, which is not in this session: append parents first"
    )


def unknown_session(namespace: str, session: str) -> NotFound:
    """Builds the error for a session that is not in the store."""
    return NotFound(f"no session {session} in namespace {namespace}: `tenfold sessions` lists those there are")


def unknown_entry(namespace: str, entry: str) -> NotFound:
    """Builds the error for an id, or a beginning of one, that matches no entry."""
    return NotFound(f"no entry {entry or '(empty id)'} in namespace {namespace}: `tenfold search` finds entries")


def several(beginning: str, first: str, second: str) -> NotFound:
    """Builds the error for a beginning of an id that matches more than one entry."""
    return NotFound(f"several entries begin with {beginning}, {first} and {second} among them: give more of it")
