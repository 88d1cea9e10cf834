"""`tenfold salvage`: what is readable of a damaged store, in a new one."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tenfold.apps.cli.console import print_json, show
from tenfold.apps.cli.source_files import parse_path
from tenfold.apps.cli.store_access import JsonOption, StoreOption
from tenfold.core.text.terminal_safe import sanitize
from tenfold.errors import UsageError
from tenfold.formats.output_file import draft_output
from tenfold.store.location import get_default_location
from tenfold.store.salvage import salvage_file
from tenfold.store.sqlite.store import SqliteStore


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("salvage", epilog="Example: tenfold salvage salvaged.db")(salvage)


def salvage(
    new_store: Annotated[
        Path, typer.Argument(parser=parse_path, metavar="NEW_STORE", help="The file to make, a store of its own.")
    ],
    *,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Saves everything readable of a damaged store to a new store, and names what is not readable.

    An entry that cannot be read leaves a mark in its place. The damaged store is not changed.
    """
    location = Path(store or get_default_location())
    if not location.is_file():
        raise UsageError(f"there is no store {location}; name one with --store")
    with draft_output(new_store, option="NEW_STORE") as draft:
        with closing(SqliteStore(draft)) as target:
            result = salvage_file(str(location), target)
        for side in ("-wal", "-shm"):
            draft.with_name(draft.name + side).unlink(missing_ok=True)
    if json:
        print_json(msgspec.json.encode(result))
        return
    for problem in result.problems:
        show(f"session {problem.session} entry {problem.entry}: {sanitize(problem.what)}", style="red")
    show(
        f"salvaged: {result.session_count:,} sessions with {result.entry_count:,} entries to {new_store}; "
        f"{len(result.problems):,} problems. To use it, name it with --store or TENFOLD_STORE"
    )
