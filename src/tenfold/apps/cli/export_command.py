"""`tenfold export`: a session as a file, in its own format or as the messages of a provider."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tenfold.apps.cli.console import emit, print_note
from tenfold.apps.cli.exported_files import ForceOption, record_export, write_file
from tenfold.apps.cli.process import ExitCode
from tenfold.apps.cli.source_files import parse_path
from tenfold.apps.cli.store_access import (
    NamespaceOption,
    SessionArgument,
    StoreOption,
    complete_values,
    find_stored_session,
    open_cli_store,
    open_session,
)
from tenfold.apps.keyring import note_access
from tenfold.config.settings import load_settings
from tenfold.core.wire import DEFAULT_WIRE, WIRES
from tenfold.errors import UsageError
from tenfold.formats.export_items import FILE_KINDS
from tenfold.formats.output_file import check_output
from tenfold.session.export import render_session
from tenfold.store.base import SessionRow, Store
from tenfold.store.lookup import LAST
from tenfold.store.unreadable import SALVAGE_ADVICE, is_unreadable


def export(  # noqa: PLR0913 - the options of a command
    session: SessionArgument = LAST,
    *,
    as_: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="FORMAT",
            help=f"The format to write: {', '.join(WIRES)}. Default: the session's own, else {DEFAULT_WIRE}.",
            autocompletion=complete_values(*WIRES),
        ),
    ] = None,
    view: Annotated[
        bool, typer.Option("--view/--original", help="Write what the model sees now, or all messages as they came.")
    ] = True,
    out: Annotated[
        Path | None, typer.Option(parser=parse_path, metavar="PATH", help="Write to this file instead of printing.")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            parser=parse_path,
            metavar="FILE",
            help="Write one self-contained page for a colleague, as `tenfold inspect` shows it: secrets are redacted, "
            "and nothing is loaded from elsewhere.",
        ),
    ] = None,
    force: ForceOption = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
) -> int:
    """Exports a session: what the model sees now, or the originals byte for byte. Only --html redacts secrets."""
    if html is not None:
        if out is not None or as_ is not None or not view:
            raise UsageError("--html writes a page of its own: leave out --out, --as and --original")
        _export_page(html, session, force=force, store=store, namespace=namespace)
        return ExitCode.OK
    if out is not None:
        check_output(out, force=force)
    with open_cli_store(store) as place:
        row = find_stored_session(place, session, namespace=namespace)
        note_access(place, namespace, "export", row.info.id)
        is_complete = view or _report_unreadable(place, namespace, row)
        open_view = lambda: open_session(place, row, namespace=namespace).view  # noqa: E731 - not all exports need it
        rendered = render_session(place, namespace, row, open_view, format=as_ or "", is_original=not view)
        for note in rendered.notes:
            print_note(note)
        data = rendered.data
        if out is not None:
            write_file(out, data, force=force)
            record_export(place, namespace, [row.info.id], out, data)
    if out is None:
        emit(data)
    return ExitCode.OK if is_complete else ExitCode.FAILED


def _export_page(file: Path, name: str, *, force: bool, store: str | None, namespace: str) -> None:
    """Writes the pages about a session into a file."""
    try:
        from tenfold.apps.inspector.session_file import render_session_file  # noqa: PLC0415 - an optional extra
    except ImportError as exc:
        raise UsageError(f"the page needs {exc.name}: pip install 'tenfold[inspect]'") from exc
    check_output(file, force=force)
    config = load_settings()
    with open_cli_store(store) as place:
        row = find_stored_session(place, name, namespace=namespace)
        note_access(place, namespace, "export", row.info.id)
        opener = partial(open_session, namespace=namespace, config=config)
        data = render_session_file(place, opener(place, row), row, opener)
        write_file(file, data, force=force, option="--html")
        record_export(place, namespace, [row.info.id], file, data)


def _report_unreadable(store: Store, namespace: str, row: SessionRow) -> bool:
    """Names the entries that cannot be read and are therefore left out. Returns whether all can be read."""
    entries = store.read_entries(namespace, row.info.id)
    damaged = [entry.id for entry in entries if is_unreadable(entry) and entry.kind in FILE_KINDS]
    missing = row.entry_count - len(entries)
    if damaged:
        print_note(f"entries that cannot be read and are left out: {', '.join(damaged)}", style="red")
    if missing > 0:
        print_note(f"{missing:,} of {row.entry_count:,} entries are not found and are left out", style="red")
    if damaged or missing > 0:
        print_note(SALVAGE_ADVICE, style="red")
    return not damaged and missing <= 0
