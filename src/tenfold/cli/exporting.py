"""`tenfold export`: a session as a file, in its own format or in a provider's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tenfold.cli.place import NAMESPACE, StoreOption, opened, row_of, session_of
from tenfold.cli.reading import SessionArgument
from tenfold.cli.screen import note
from tenfold.errors import UsageError
from tenfold.log.base import SessionRow, Store
from tenfold.record.message import Message
from tenfold.session import Session
from tenfold.transcripts import READERS
from tenfold.transcripts.export import originals, view_items
from tenfold.view.path import Path as LogPath
from tenfold.view.view import View
from tenfold.wire import WIRES


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("export", epilog="Example: tenfold export last --as anthropic --out view.json")(export)


def export(
    session: SessionArgument,
    *,
    as_: Annotated[str | None, typer.Option("--as", metavar="FORMAT", help="A provider's message format, or the session's own (default).")] = None,
    view: Annotated[bool, typer.Option("--view/--original", help="What the model sees now, or everything as it came.")] = True,
    out: Annotated[Path | None, typer.Option(help="Write here instead of printing.")] = None,
    store: StoreOption = None,
) -> None:
    """Writes a session's view, or its originals byte for byte."""
    with opened(store) as place:
        row = row_of(place, session)
        wanted = as_ or row.info.format
        if wanted in WIRES and wanted != row.info.format:
            data = _for_wire(place, row, wanted, view=view)
        elif wanted == row.info.format and wanted in READERS:
            items = view_items(session_of(place, row).view) if view else originals(place, NAMESPACE, row.info.id)
            data = READERS[wanted].write(row.info, items)
        else:
            raise UsageError(
                f"a {row.info.format or 'plain'} session cannot be written as {wanted!r}: its own format, or one of {', '.join(WIRES)}"
            )
    if out is not None:
        out.write_bytes(data)
        note(f"written: {out} ({len(data):,} bytes)")
    else:
        sys.stdout.buffer.write(data)


def _for_wire(store: Store, row: SessionRow, wire: str, *, view: bool) -> bytes:
    opened_session = session_of(store, row)
    messages = opened_session.view.messages() if view else _unfolded(opened_session)
    encoded = WIRES[wire].encode(messages)
    kinds: dict[str, int] = {}
    for adjustment in encoded.adjustments:
        kinds[adjustment.kind] = kinds.get(adjustment.kind, 0) + 1
    if encoded.system:
        note(f"{len(encoded.system)} system texts belong in the request's system field; they are not in the list")
    if kinds:
        note("adjusted: " + ", ".join(f"{kind} {count}" for kind, count in kinds.items()))
    return b"[" + b",\n".join(item.raw for item in encoded.items) + b"]\n"


def _unfolded(session: Session) -> list[Message]:
    """The whole path as a model could have been sent it, with no Block applied."""
    path = session.view.path
    entries = [e for e in path.span(0, path.length - 1)] if path.length else []
    return View.of(LogPath(e for e in entries if not _derived(e))).messages()


def _derived(entry: object) -> bool:
    return type(entry).__name__ in ("Block", "Retraction", "Pin", "Attempt")
