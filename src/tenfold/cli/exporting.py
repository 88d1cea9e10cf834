"""`tenfold export`: a session as a file, in its own format or as the messages of a provider."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tenfold.cli.compacting import write_whole
from tenfold.cli.place import NAMESPACE, SessionArgument, StoreOption, opened, session_of
from tenfold.cli.screen import emit, note
from tenfold.errors import UsageError
from tenfold.log.base import SessionRow, Store
from tenfold.log.finding import row_of
from tenfold.record.block import Block
from tenfold.record.entry import Attempt, Pin, Retraction
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
    as_: Annotated[
        str | None,
        typer.Option(
            "--as", metavar="FORMAT", help="anthropic, openai-chat, openai-responses, gemini, or its own (default)."
        ),
    ] = None,
    view: Annotated[
        bool, typer.Option("--view/--original", help="What the model sees now, or everything as it came.")
    ] = True,
    out: Annotated[Path | None, typer.Option(metavar="PATH", help="Write here instead of printing.")] = None,
    store: StoreOption = None,
) -> None:
    """Writes a session's view, or its originals byte for byte. Nothing is redacted: it is the data itself."""
    with opened(store) as place:
        row = row_of(place, session)
        own_format = row.info.format
        target_format = as_ or own_format
        if target_format == own_format and own_format in READERS:
            items = view_items(session_of(place, row).view) if view else originals(place, NAMESPACE, row.info.id)
            data = READERS[own_format].write(row.info, items)
        elif target_format in WIRES:
            data = _for_wire(place, row, target_format, view=view)
        else:
            raise UsageError(
                f"a {own_format or 'plain'} session cannot be written as {target_format!r}: "
                f"give {own_format + ', ' if own_format in READERS else ''}{', '.join(WIRES)}"
            )
    if out is not None:
        write_whole(out, data)
    else:
        emit(data)


def _for_wire(store: Store, row: SessionRow, wire: str, *, view: bool) -> bytes:
    session = session_of(store, row)
    encoded = WIRES[wire].encode(session.view.messages() if view else _unfolded(session))
    kinds: dict[str, int] = {}
    for adjustment in encoded.adjustments:
        kinds[adjustment.kind] = kinds.get(adjustment.kind, 0) + 1
    if encoded.system:
        note(f"{len(encoded.system)} system texts belong in the request's system field; they are not in the list")
    if kinds:
        note("adjusted: " + ", ".join(f"{kind} {count}" for kind, count in kinds.items()))
    return b"[" + b",\n".join(item.raw for item in encoded.items) + b"]\n"


def _unfolded(session: Session) -> list[Message]:
    """Returns the whole path as it could have been sent to a model, with no Block applied."""
    path = session.view.path
    entries = path.span(0, path.length - 1) if path.length else []
    return View.of(LogPath(e for e in entries if not isinstance(e, Block | Retraction | Pin | Attempt))).messages()
