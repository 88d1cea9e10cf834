"""Checks and errors that both stores share, so that one test suite can hold them to one contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tenfold.errors import BadInput, LostRace, NotFoundError, UsageError
from tenfold.record.block import Block, BlockPart, KeptOriginal
from tenfold.record.entry import BranchSummary, CustomEntry, Entry, MessageEntry, Setting
from tenfold.view.fold import Snapshot


def check_counts(entries: Sequence[Entry], counts: Mapping[str, Sequence[int]] | None) -> Mapping[str, Sequence[int]]:
    """Returns the counts of an append, or an empty mapping.

    Raises `UsageError` if there are no entries, or if a counter does not give exactly one count per entry.
    """
    if not entries:
        raise UsageError("append needs at least one entry")
    for counter, values in (counts or {}).items():
        if len(values) != len(entries):
            raise UsageError(f"{len(values)} counts by {counter} for {len(entries)} entries: give one count per entry")
    return counts or {}


def read_snapshot_entries(snapshot: Snapshot, read: Callable[[list[int]], dict[int, Entry]]) -> dict[int, Entry]:
    """Reads the entries that a snapshot refers to.

    This takes two reads: first what the snapshot names, then the originals that its Blocks show again.
    """
    positions: set[int] = set()
    for ref in snapshot.range_refs:
        positions.update((ref.block,) if isinstance(ref, BlockPart) else range(ref.first, ref.last + 1))
    entries = read(sorted(positions))
    repeated: set[int] = set()
    for ref in snapshot.range_refs:
        block = entries.get(ref.block) if isinstance(ref, BlockPart) else None
        if isinstance(block, Block) and isinstance(ref, BlockPart):
            repeated.update(
                s.position for s in block.replacements[ref.index].shown_items if isinstance(s, KeptOriginal)
            )
    return {**entries, **read(sorted(repeated - positions))}


def check_limit(limit: int) -> int:
    """Returns the limit of one step of work.

    Raises `UsageError` below 1, because the work would then never come to an end.
    """
    if limit < 1:
        raise UsageError(f"a limit of {limit} entries never comes to an end: give at least 1")
    return limit


def get_source_id(entry: Entry) -> str:
    """Returns the id that the entry had in the file it came from, or an empty string."""
    return entry.source_id if isinstance(entry, MessageEntry | BranchSummary | Setting | CustomEntry) else ""


def check_snapshot(snapshot: Snapshot, position: int) -> None:
    """Raises `UsageError` unless the snapshot belongs to the path up to and including `position`."""
    if snapshot.length != position + 1:
        raise UsageError(
            f"the snapshot folds {snapshot.length} entries, but the last entry appended is number {position + 1} on "
            "its path: take the snapshot of the view that includes it"
        )


def build_lost_race_error(head: str, expected: str | None, leaf: str | None) -> LostRace:
    """Builds the error for a head that has moved."""
    return LostRace(
        f"head {head} is at {leaf or 'no entry'}, not at {expected or 'no entry'}: another writer moved it; nothing "
        "was written: open the session again and retry"
    )


def build_duplicate_error(entry: str) -> BadInput:
    """Builds the error for an id that is already stored."""
    return BadInput(f"entry {entry} is stored already: nothing was written; give each entry an id of its own")


def build_missing_parent_error(entry: Entry) -> NotFoundError:
    """Builds the error for an entry whose parent is not in the session."""
    return NotFoundError(
        f"entry {entry.id} names the parent {entry.parent}, which is not in this session: append parents first"
    )


def build_unknown_session_error(namespace: str, session: str) -> NotFoundError:
    """Builds the error for a session that is not in the store."""
    return NotFoundError(f"no session {session} in namespace {namespace}: `tenfold sessions` lists those there are")


def build_unknown_entry_error(namespace: str, entry: str) -> NotFoundError:
    """Builds the error for an id, or a beginning of one, that matches no entry."""
    return NotFoundError(f"no entry {entry or '(empty id)'} in namespace {namespace}: `tenfold search` finds entries")


def build_ambiguous_id_error(beginning: str, first: str, second: str) -> NotFoundError:
    """Builds the error for a beginning of an id that matches more than one entry."""
    return NotFoundError(f"several entries begin with {beginning}, {first} and {second} among them: give more of it")
