"""`tenfold export`: a session as a file, in its own format or as the messages of a provider."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from msgspec.structs import replace

from tenfold.apps.cli.console import emit, print_note
from tenfold.apps.cli.exported_files import ForceOption, record_export, write_file
from tenfold.apps.cli.process import ExitCode
from tenfold.apps.cli.source_files import parse_path
from tenfold.apps.cli.store_access import (
    NamespaceOption,
    SessionArgument,
    StoreOption,
    note_access,
    open_cli_store,
    open_session,
)
from tenfold.core.record.block import Block
from tenfold.core.record.entry import Attempt, Pin, Retraction
from tenfold.core.record.message import Message
from tenfold.core.view.fold import View
from tenfold.core.view.path import Path as LogPath
from tenfold.core.wire import DEFAULT_WIRE, WIRES
from tenfold.errors import UsageError
from tenfold.formats import FORMATS, render_sessions
from tenfold.formats.export_items import FILE_KINDS, get_original_items, get_view_items
from tenfold.formats.output_file import check_output
from tenfold.session import Session
from tenfold.store.base import SessionRow, Store
from tenfold.store.lookup import LAST, find_session
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
        ),
    ] = None,
    view: Annotated[
        bool, typer.Option("--view/--original", help="Write what the model sees now, or all messages as they came.")
    ] = True,
    out: Annotated[
        Path | None, typer.Option(parser=parse_path, metavar="PATH", help="Write to this file instead of printing.")
    ] = None,
    force: ForceOption = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
) -> int:
    """Exports a session: what the model sees now, or the originals byte for byte. Secrets are not redacted."""
    if out is not None:
        check_output(out, force=force)
    with open_cli_store(store) as place:
        row = find_session(place, session, namespace=namespace)
        note_access(place, namespace, "export", row.info.id)
        is_complete = view or _report_unreadable(place, namespace, row)
        own_format = row.info.format
        target_format = as_ or own_format or DEFAULT_WIRE
        if not (as_ or own_format):
            print_note(f"a session of no file has no format of its own: written as {DEFAULT_WIRE}; --as names another")
        if target_format == own_format and own_format in FORMATS:
            items = (
                get_view_items(open_session(place, row, namespace=namespace).view)
                if view
                else get_original_items(place, namespace, row.info.id)
            )
            own = FORMATS[own_format]
            if not view and row.info.interleaving and not any(number for number, _, _ in row.info.interleaving):
                data = render_sessions([(row.info, items)])
            else:
                data = own.render_file(own.without_damaged(row.info) if view else row.info, items)
        elif target_format in WIRES:
            data = _encode_for_wire(open_session(place, row, namespace=namespace), target_format, view=view)
        else:
            raise UsageError(
                f"a {own_format or 'plain'} session cannot be written as {target_format!r}: "
                f"give {own_format + ', ' if own_format in FORMATS else ''}{', '.join(WIRES)}"
            )
        if out is not None:
            write_file(out, data, force=force)
            record_export(place, namespace, [row.info.id], out, data)
    if out is None:
        emit(data)
    return ExitCode.OK if is_complete else ExitCode.FAILED


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


def _encode_for_wire(session: Session, wire: str, *, view: bool) -> bytes:
    messages = session.view.get_messages() if view else _unfold_path(session)
    if WIRES[wire].profile.has_separate_system:  # the list is all that is written, so a summary has to stand in it
        messages = [replace(m, role="user") if (m.role, m.origin) == ("system", "tenfold") else m for m in messages]
    encoded = WIRES[wire].encode(messages)
    kinds = Counter(adjustment.kind for adjustment in encoded.adjustments)
    if encoded.system:
        print_note(f"the list leaves out {len(encoded.system)} system texts: put them into the request's system field")
    if kinds:
        print_note("adjusted for this format: " + ", ".join(f"{kind} {count}" for kind, count in kinds.items()))
    return b"[" + b",\n".join(item.raw for item in encoded.items) + b"]\n"


def _unfold_path(session: Session) -> list[Message]:
    """Returns the whole path as it could have been sent to a model, with no Block applied."""
    path = session.view.path
    entries = path.get_entries(0, path.length - 1) if path.length else []
    return View.from_path(
        LogPath(e for e in entries if not isinstance(e, Block | Retraction | Pin | Attempt))
    ).get_messages()
