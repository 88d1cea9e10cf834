"""The commands `tenfold store ...`, for whoever runs a store for others: migrate, copy, backup, check."""

from __future__ import annotations

from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from tenfold.apps.cli.console import is_terminal, print_json, print_note, render_count, show, show_command
from tenfold.apps.cli.process import ExitCode, explain_interrupt, join_command
from tenfold.apps.cli.progress import WorkProgress
from tenfold.apps.cli.source_files import parse_path
from tenfold.apps.cli.store_access import JsonOption, StoreOption, find_location
from tenfold.apps.keyring import note_access
from tenfold.core.text.terminal_safe import sanitize
from tenfold.errors import UsageError
from tenfold.store.base import MEMORY_LOCATION, StoreState
from tenfold.store.copy import copy_keys, copy_store
from tenfold.store.location import describe_location, is_database, migrate_store, open_store
from tenfold.store.sqlite.store import SqliteStore

PLACE_HELP = "A store: a file, or postgresql://USER@HOST/DATABASE."


def register(app: typer.Typer) -> None:
    """Adds the group `store` and its commands."""
    group = typer.Typer(
        no_args_is_help=True,
        help="Migrates, copies, backs up and checks a store.",
        epilog="Example: tenfold store check",
    )
    for command, example in ((migrate, "--store postgresql://tenfold@db/agents"), (check, "--json")):
        group.command(epilog=f"Example: tenfold store {command.__name__} {example}")(command)
    group.command(epilog="Example: tenfold store copy ~/tenfold.db postgresql://tenfold@db/agents")(copy)
    group.command("backup", epilog="Example: tenfold store backup tenfold-2026-11-30.db")(create_backup)
    app.add_typer(group, name="store")


def migrate(*, store: StoreOption = None) -> None:
    """Makes the tables of a store and of its jobs, or brings them to this release. The sessions stay as they are.

    A file is migrated when it is opened. A database is migrated by this command only, before the first program of the
    new release starts. Two that do it at once do no harm: one waits for the other.
    """
    location = find_location(store)
    before, after = migrate_store(location)
    what = f"schema {after} already" if before == after else f"schema {before} -> {after}"
    if is_database(location):
        what += f"; jobs: {_migrate_jobs(location)}"
    show(f"{describe_location(location)}: {what}")


def _migrate_jobs(location: str) -> str:
    if find_spec("dbos") is None:
        return "none, which pip install 'tenfold[jobs]' adds"
    from tenfold.apps.jobs.database import prepare_jobs  # noqa: PLC0415 - an optional extra, and slow to load

    prepare_jobs(location, migrate=True)
    return "their tables are there"


def copy(
    source: Annotated[str, typer.Argument(metavar="FROM", help=PLACE_HELP)],
    target: Annotated[str, typer.Argument(metavar="TO", help=f"{PLACE_HELP} It is made if there is none.")],
    *,
    namespace: Annotated[str, typer.Option(metavar="NAME", help="Copy one tenant only. Default: all.")] = "",
    json: JsonOption = False,
) -> int:
    """Copies all sessions and keys to another store, of the same or the other kind, and compares every entry.

    A copy that was interrupted goes on where it stopped when it is started again. What the target has already is
    compared and left alone. Sessions that went on in the target are reported, and are not changed.
    """
    if not is_database(source) and source != MEMORY_LOCATION and not Path(source).exists():
        raise UsageError(f"there is no store {source}: name the one to copy from")
    migrate_store(target)
    sessions = entries = new = problems = 0
    with closing(open_store(source)) as one, closing(open_store(target)) as other:
        note_access(one, namespace or "all", "copy", describe_location(target))
        keys = copy_keys(one, other, namespace=namespace or None)
        spaces = [namespace] if namespace else one.list_namespaces()
        total = sum(len(one.list_sessions(each)) for each in spaces)
        with (
            explain_interrupt(lambda: f"{sessions:,} of {total:,} sessions are copied; the same command goes on there"),
            WorkProgress("copying sessions", total, enabled=not (json and is_terminal())) as work,
        ):
            for each in copy_store(one, other, namespace=namespace or None):
                sessions, entries, new = sessions + 1, entries + each.entries, new + each.new_entries
                work.advance()
                work.tell(f"copied {each.session}")
                if json:
                    print_json(each)
                if each.problem is not None:
                    problems += 1
                    print_note(f"session {each.session}: {sanitize(each.problem.what)}", style="red")
    if not json:
        show(
            f"{sessions:,} sessions with {entries:,} entries compared, {new:,} of them copied now, "
            f"{f'{problems:,}' if problems else 'no'} problems" + (f"; {keys:,} keys copied" if keys else "")
        )
    return ExitCode.FAILED if problems else ExitCode.OK


def create_backup(
    file: Annotated[Path, typer.Argument(parser=parse_path, metavar="FILE", help="The file to make.")],
    *,
    store: StoreOption = None,
) -> None:
    """Copies a store that is a file to a new file, while others go on writing. For a database, says how.

    To restore, put the file in the store's place, or name it with --store. `tenfold verify` checks it.
    """
    location = find_location(store)
    if is_database(location):
        show("a database is backed up by PostgreSQL's own program (the password comes from ~/.pgpass or PGPASSWORD):")
        dump = join_command(["--format=custom", "--schema=tenfold", f"--file={file}", describe_location(location)])
        show_command(f"PGOPTIONS='-c tenfold.namespace=all' pg_dump --enable-row-security {dump}")
        show("and restored into an empty database, where btree_gin is there already:")
        show_command(f"pg_restore --dbname=... {join_command([str(file)])}")
        return
    if location == MEMORY_LOCATION or not Path(location).exists():
        raise UsageError(f"there is no store {location}: name one with --store")
    said = f"{file} is not whole: delete it; the store is as it was"
    with (
        closing(SqliteStore(location)) as place,
        explain_interrupt(lambda: said),
        WorkProgress(f"copying to {file.name}"),
    ):
        note_access(place, "all", "backup", str(file))
        place.copy_to(file)
    show(f"{location} -> {file}: {file.stat().st_size:,} bytes")


def check(*, store: StoreOption = None, json: JsonOption = False) -> None:
    """Says how a store is: its schema, its size, what its search index does not hold yet, and who waits for whom.

    `tenfold verify` checks every entry as well.
    """
    location = find_location(store)
    if not is_database(location) and location != MEMORY_LOCATION and not Path(location).exists():
        raise UsageError(f"there is no store {location} yet; `tenfold compact FILE` makes one")
    with closing(open_store(location)) as place:
        state = place.check()
    if json:
        print_json(state)
        return
    show(f"{describe_location(location)}: {state.database}, schema {state.schema}, {state.size:,} bytes")
    _show_state(state)


def _show_state(state: StoreState) -> None:
    entries = "1 entry" if state.entries == 1 else f"{state.entries:,} entries"
    show(f"{render_count(state.namespaces, 'namespace')}, {render_count(state.sessions, 'session')}, {entries}")
    late = f"{state.late_entries:,} entries, which the next search indexes" if state.late_entries else "nothing"
    show(f"not indexed yet: {late}")
    for lock in state.locks:
        show(f"locked: {sanitize(lock)}")
    for note in state.notes:
        show(f"note: {sanitize(note)}", style="yellow")
