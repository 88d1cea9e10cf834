"""Commands about the store as a whole: retention, salvage, verify."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from tenfold.apps.cli.console import confirm, format_id, print_json, print_note, print_table, render_count, show
from tenfold.apps.cli.process import ExitCode, explain_interrupt
from tenfold.apps.cli.progress import WorkProgress
from tenfold.apps.cli.source_files import parse_path
from tenfold.apps.cli.store_access import (
    JsonOption,
    NamespaceOption,
    StoreOption,
    find_location,
    open_cli_store,
    purge_jobs,
)
from tenfold.apps.keyring import note_access
from tenfold.core.text.terminal_safe import sanitize, to_one_line
from tenfold.errors import StoreError, UsageError
from tenfold.formats.output_file import draft_output
from tenfold.session.expiry import delete_sessions, find_expired
from tenfold.store.base import MEMORY_LOCATION, Store
from tenfold.store.ids import convert_time
from tenfold.store.location import describe_location, is_database
from tenfold.store.retention import ExpiredSession, RetentionRule, parse_age, parse_size
from tenfold.store.salvage import salvage_file
from tenfold.store.sqlite.store import SqliteStore


def retention(  # noqa: PLR0913  the options of the command
    *,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="AGE", help="Delete sessions not used for so long: 90d, 12h, 8w, 6m, 1y."),
    ] = None,
    keep_under: Annotated[
        str | None,
        typer.Option(
            "--keep-under", metavar="SIZE", help="Delete the oldest sessions until the rest takes less: 2GB, 500MB."
        ),
    ] = None,
    pinned: Annotated[bool, typer.Option("--pinned", help="Delete sessions with pinned messages too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List what would be deleted, and delete nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
    json: JsonOption = False,
) -> None:
    """Deletes old sessions for good, and gives their space back to the disk.

    Sessions used within the last hour stay, and so do those with pinned messages. A session's age is that of its last
    message. The size is that of the entries; what the search index adds to it is estimated.
    """
    if older_than is None and keep_under is None:
        raise UsageError("nothing says what to delete: give --older-than 90d, --keep-under 2GB, or both")
    rule = RetentionRule(
        parse_age(older_than) if older_than is not None else None,
        parse_size(keep_under) if keep_under is not None else None,
    )
    location = find_location(store)
    before = _get_file_size(location)
    with open_cli_store(store) as place:
        expired, kept = find_expired(place, namespace, rule, size=before, keeps_pinned=not pinned)
        if kept:
            print_note(f"kept: {kept:,} sessions with pinned messages; --pinned deletes them too")
        if not json:
            _show_expired(expired, dry_run=dry_run)
        if expired and not dry_run:
            confirm(f"delete {render_count(len(expired), 'session')}", yes=yes)
            ids = [each.row.info.id for each in expired]
            purge_jobs(location, namespace, ids)
            _delete(place, namespace, ids)
    after = _get_file_size(location)
    if json:
        for each in expired:
            record = {"session": each.row.info.id, "last_use": each.last_use, "bytes": each.size, "reason": each.reason}
            print_json({**record, "deleted": not dry_run})
    elif expired and not dry_run:
        change = f"; the store takes {after:,} bytes instead of {before:,}" if before else ""
        show(f"deleted: {render_count(len(expired), 'session')}{change}")


def _delete(place: Store, namespace: str, ids: Sequence[str]) -> None:
    """Deletes sessions for good, one after the other, and shows how many are left."""
    done: list[str] = []
    with (
        explain_interrupt(lambda: f"{len(done):,} of {len(ids):,} sessions are deleted, the others are kept whole"),
        WorkProgress("deleting sessions", len(ids)) as work,
    ):

        def note(session: str) -> None:
            done.append(session)
            work.advance()
            note_access(place, namespace, "purge", session)

        delete_sessions(place, namespace, ids, note)
        work.tell("giving the space back")
        place.release_space()


def _show_expired(expired: list[ExpiredSession], *, dry_run: bool) -> None:
    if not expired:
        show("nothing to delete: every session is within the limits, in use, or pinned")
        return
    rows = [
        (
            format_id(each.row.info.id),
            "" if each.last_use is None else convert_time(each.last_use).strftime("%Y-%m-%d"),
            f"{each.size:,}",
            each.reason,
            to_one_line(each.row.info.title, 60),
        )
        for each in expired
    ]
    print_table(("session", "last used", "bytes", "why", "title"), rows, right=("bytes",), fit="title")
    if dry_run:
        show(
            f"would delete: {render_count(len(expired), 'session')}, {sum(e.size for e in expired):,} bytes; "
            "nothing was changed"
        )


def _get_file_size(location: str) -> int:
    is_file = location != MEMORY_LOCATION and not is_database(location)
    files = [Path(location + side) for side in ("", "-wal")] if is_file else []
    return sum(file.stat().st_size for file in files if file.exists())


def salvage(
    new_store: Annotated[
        Path, typer.Argument(parser=parse_path, metavar="NEW_STORE", help="The file to make, a store of its own.")
    ],
    *,
    store: StoreOption = None,
) -> None:
    """Saves everything readable of a damaged store to a new store, and names what is not readable.

    An entry that cannot be read leaves a mark in its place. The damaged store is not changed.
    """
    place = find_location(store)
    if is_database(place):
        raise UsageError(f"salvage reads damaged files, and {describe_location(place)} is a database: restore a backup")
    location = Path(place)
    if not location.is_file():
        raise UsageError(f"there is no store {location}; name one with --store")
    with draft_output(new_store, option="NEW_STORE") as draft:
        with closing(SqliteStore(draft)) as target:
            said = f"{new_store} was not made, and {location} is as it was"
            with explain_interrupt(lambda: said), WorkProgress(f"salvaging {location.name}"):
                result = salvage_file(str(location), target)
        for side in ("-wal", "-shm"):
            draft.with_name(draft.name + side).unlink(missing_ok=True)
    for problem in result.problems:
        show(sanitize(str(problem)), style="red")
    show(
        f"salvaged: {result.session_count:,} sessions with {result.entry_count:,} entries to {new_store}; "
        f"{len(result.problems):,} problems. To use it, name it with --store or TENFOLD_STORE"
    )


def _count_sessions(store: Store, namespace: str) -> int:
    try:
        return len(store.list_sessions(namespace))
    except StoreError:  # `verify` has reported why the list cannot be read
        return 0


def verify(*, store: StoreOption = None, namespace: NamespaceOption = "", json: JsonOption = False) -> int:
    """Checks that the store is undamaged: it hashes every entry again, and rebuilds and compares every view."""
    with open_cli_store(store) as place:
        said = "not all was checked, and a check changes nothing"
        with (
            explain_interrupt(lambda: said),
            WorkProgress("verifying sessions", _count_sessions(place, namespace)) as work,
        ):
            problems = place.verify(namespace, report=work.set_done)
        count = _count_sessions(place, namespace)
    for problem in problems:
        if json:
            print_json(problem)
        else:
            show(sanitize(str(problem)), style="red")
    if not json:
        found = render_count(len(problems), "problem") if problems else "no problems"
        show(f"{render_count(count, 'session')} verified, {found}")
    return ExitCode.FAILED if problems else ExitCode.OK
