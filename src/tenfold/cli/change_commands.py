"""Commands that append to a session or remove something from the store: undo, pin, unpin, purge."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
import typer

from tenfold.cli.console import format_id, print_json, show
from tenfold.cli.store_access import NAMESPACE, JsonOption, SessionArgument, StoreOption, open_cli_store, open_session
from tenfold.errors import NotFoundError, UsageError
from tenfold.store.base import Store
from tenfold.store.ids import get_current_time
from tenfold.store.lookup import find_session

EntryArgument = Annotated[
    str,
    typer.Argument(metavar="ENTRY", help="A message: its id, or the beginning of it. `tenfold show` lists the ids."),
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("undo", epilog="Example: tenfold undo last")(undo)
    app.command("pin", epilog="Example: tenfold pin 01a2005b-7d4e-7003")(pin)
    app.command("unpin", epilog="Example: tenfold unpin 01a2005b-7d4e-7003")(unpin)
    app.command("purge", epilog="Example: tenfold purge 01a2005b-7d4e-7003 --yes")(purge)


def undo(session: SessionArgument, *, store: StoreOption = None, json: JsonOption = False) -> None:
    """Undoes the newest compaction: the model sees again what it saw before. Nothing is lost either way."""
    with open_cli_store(store) as place:
        row = find_session(place, session)
        opened_session = open_session(place, row)
        before = opened_session.take_reading().estimate
        block = opened_session.undo()
        after = opened_session.take_reading().estimate
    if json:
        record = {"session": row.info.id, "undone": block, "tokens_before": before, "tokens_after": after}
        print_json(msgspec.json.encode(record))
    else:
        show(f"undone: block {format_id(block)}; the view has {after:,} tokens again, instead of {before:,}")


def pin(entry: EntryArgument, *, store: StoreOption = None, json: JsonOption = False) -> None:
    """Pins a message: the model sees it unshortened, whatever is compacted."""
    _set_pin(entry, store, on=True, json=json)


def unpin(entry: EntryArgument, *, store: StoreOption = None, json: JsonOption = False) -> None:
    """Unpins a message: compactions may shorten and hide it again."""
    _set_pin(entry, store, on=False, json=json)


def _set_pin(entry: str, store: str | None, *, on: bool, json: bool) -> None:
    with open_cli_store(store) as place:
        location = place.locate(NAMESPACE, entry)
        session = open_session(place, find_session(place, location.session))
        if not on and location.position not in session.view.state.pins:
            raise UsageError(f"entry {location.entry.id} is not pinned; `tenfold show` marks those that are")
        id_ = session.pin(location.entry.id, on=on)
    if json:
        print_json(msgspec.json.encode({"session": location.session, "entry": id_, "pinned": on}))
    else:
        show(f"{'pinned' if on else 'unpinned'}: {format_id(id_)}")


def purge(
    what: Annotated[
        str, typer.Argument(metavar="SESSION|ENTRY", help="A session or one entry: its id, or the beginning of it.")
    ],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Purge without asking.")] = False,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Deletes a session for good, or the content of one entry with everything that quotes it."""
    with open_cli_store(store) as place:
        session, entry = _find_target(place, what)
        target = f"entry {entry} of session {session}" if entry else f"session {session} with all its entries"
        if not yes:
            if not sys.stdin.isatty():
                raise UsageError(f"without a terminal nobody can confirm to purge {target}: pass --yes to purge it")
            typer.confirm(f"Purge {target}? This cannot be undone.", abort=True, err=True)
        count = place.purge(NAMESPACE, session, entry, now=get_current_time())
    if json:
        print_json(msgspec.json.encode({"session": session, "entry": entry, "records": count}))
    else:
        show(f"purged: {target}; {count:,} records were changed or deleted")


def _find_target(store: Store, what: str) -> tuple[str, str | None]:
    matches = [r for r in store.list_sessions(NAMESPACE) if r.info.id.startswith(what)] if what else []
    if len(matches) == 1:
        return matches[0].info.id, None
    if matches:
        raise NotFoundError(f"{len(matches)} sessions have an id that begins with {what!r}; give more of it")
    location = store.locate(NAMESPACE, what)
    return location.session, location.entry.id
