"""Commands about the sessions that clients keep on this machine: find, import, apply."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from tenfold.apps.cli.compact_command import CompactArguments, CompactRun, FreshOption, YesOption
from tenfold.apps.cli.compact_report import count_files, render_share
from tenfold.apps.cli.console import (
    LEAST_FIT,
    format_id,
    is_terminal,
    print_json,
    print_note,
    print_table,
    render_age,
    show,
)
from tenfold.apps.cli.pager import open_pager
from tenfold.apps.cli.process import ExitCode, explain_interrupt, join_command
from tenfold.apps.cli.progress import WorkProgress, watch_model
from tenfold.apps.cli.source_files import (
    FormatOption,
    SourceReader,
    find_on_this_machine,
    find_sources,
    find_with_reasons,
    parse_path,
)
from tenfold.apps.cli.store_access import (
    BaseUrlOption,
    JsonOption,
    ModelsOption,
    NamespaceOption,
    PolicyOption,
    StoreOption,
    complete_session,
    find_folder,
    find_location,
    list_completions,
    open_cli_store,
    parse_models,
)
from tenfold.apps.clients.applied_session import apply_view, has_view_applied, read_found_session, undo_applied
from tenfold.apps.clients.found_sessions import FoundSession, choose_session, measure_session
from tenfold.apps.clients.view_copy import ViewCopy
from tenfold.config.settings import load_settings as settings
from tenfold.core.meter.counters import choose_counter
from tenfold.core.text.terminal_safe import to_one_line
from tenfold.errors import NotFoundError, TenfoldError, UsageError
from tenfold.formats.export_items import get_view_items
from tenfold.formats.importer import StoredSessions, import_sessions
from tenfold.formats.session_files import read_data
from tenfold.session import Session
from tenfold.store.base import MEMORY_LOCATION, Store
from tenfold.store.ids import get_current_time
from tenfold.store.lookup import find_session

_BACKUPS = "applied"
"""The folder beside the store that keeps what stood in clients' sessions before."""


def complete_found(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Completes a session in a shell: those of the clients on this machine first, and then the stored ones."""
    found: Sequence[FoundSession] = ()
    with suppress(TenfoldError, OSError):
        found = find_on_this_machine(lambda _: None)
    own = ((each.id, f"{each.client} {to_one_line(each.title, 60)}") for each in found)
    return [*list_completions(own, incomplete), *complete_session(ctx, incomplete)]


_IdArgument = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="A session: an id that `tenfold find` or `tenfold sessions` lists, or its beginning.",
        autocompletion=complete_found,
    ),
]
_TargetOption = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Compact first: tokens (20000) or a share of the session (10%). By default the view that an earlier "
        "compaction left is written.",
    ),
]
_UndoForceOption = Annotated[
    bool, typer.Option("--force", help="With --undo: also if the client has gone on since; that is kept in a backup.")
]


_SHORT_ID = 8
"""Characters of an id in a terminal, as long as they tell all sessions apart."""


def find(
    *,
    only_here: Annotated[bool, typer.Option("--here", help="Only the sessions of the current folder.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="List at most this many sessions; 0 lists all.")] = 20,
    json: JsonOption = False,
) -> None:
    """Finds the sessions of coding agents on this machine.

    It knows those of Claude Code, Codex, pi, gemini-cli, opencode, cline, Qwen Code, Kimi, Continue and Copilot CLI.
    The newest comes first, and a star marks those of the current folder. `tenfold apply ID` compacts one of them where
    it lies, and `tenfold import ID` stores it, so that it can be searched.
    """
    here = Path.cwd()
    every = [each for each in find_on_this_machine(print_note) if not only_here or each.is_in(here)]
    found = every[: limit or len(every)]
    sizes = [measure_session(each) for each in found]
    if json:
        for each, size in zip(found, sizes, strict=True):
            record = {"client": each.client, "id": each.id, "path": str(each.path), "modified": each.modified}
            about = {"folder": each.folder, "here": each.is_in(here), "title": each.title, "resume": each.command}
            print_json(record | about | {"bytes": size.size, "messages": size.messages})
        return
    if not found:
        print_note(
            "no session ran in this folder; `tenfold find` lists those of the other folders"
            if only_here
            else "no client keeps a session on this machine: Claude Code, Codex, pi, gemini-cli, opencode, cline, Qwen "
            "Code, Kimi, Continue and Copilot CLI were looked for. `tenfold compact FILE` takes the file of a session"
        )
        return
    ids, now = _shorten_ids([each.id for each in every]), get_current_time()
    rows = [
        (
            "*" if each.is_in(here) else "",
            each.client,
            ids[each.id],
            render_age(now - each.modified),
            _render_bytes(size.size),
            f"{size.messages:,}",
            each.title,
        )
        for each, size in zip(found, sizes, strict=True)
    ]
    numbers = ("age", "size", "msgs")
    with open_pager():
        columns, spare = ("", "client", "session", *numbers, "title"), ("size", "msgs", "age")
        print_table(columns, rows, right=numbers, fit="title", spare=spare, usual=LEAST_FIT)
    if len(every) > len(found):
        print_note(f"{len(every) - len(found):,} older sessions are not listed; --limit 0 lists all")


def _shorten_ids(ids: Sequence[str]) -> dict[str, str]:
    """Shortens ids to beginnings that tell them apart, which `apply` and `import` take. They stay whole if piped."""
    length = _SHORT_ID
    while is_terminal() and len({id_[:length] for id_ in ids}) < len(set(ids)):
        length += 1
    return {id_: id_[:length] if is_terminal() else id_ for id_ in ids}


def _render_bytes(size: int) -> str:
    return f"{size / 1e6:.1f}M" if size >= 1_000_000 else f"{size / 1e3:.0f}k"


def import_(
    sessions: Annotated[
        list[Path],
        typer.Argument(
            parser=parse_path,
            metavar="FILE|ID...",
            help="Session files, folders of them, or ids that `tenfold find` lists.",
        ),
    ],
    *,
    format: FormatOption = None,
    skip_damaged: Annotated[bool, typer.Option("--skip-damaged", help="Skip damaged lines and report each.")] = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
    json: JsonOption = False,
) -> int:
    """Stores sessions as they are, without compacting, so that they can be searched, read and compacted later."""
    sources, reader, count = find_sources(sessions), SourceReader(format, skip_damaged=skip_damaged), 0
    said = "the same command stores the rest"
    with (
        open_cli_store(store, create=True) as place,
        explain_interrupt(lambda: f"{_count_sessions(count)} stored, each of them whole; {said}"),
        WorkProgress("files", len(sources), enabled=not (json and is_terminal())) as work,
    ):
        known = StoredSessions(place, namespace)
        for source, recorded in reader.read(sources, work.tell):
            model = next((each.info.model for each in recorded if each.info.model), None)
            ids = import_sessions(recorded, place, namespace, choose_counter(model).counter, known=known)
            rows = {row.info.id: row for row in place.list_sessions(namespace)} if json else {}
            named, count = str(source.path), count + len(ids)
            for id_, each in zip(ids, recorded, strict=True):
                with work.hide():
                    if json:
                        row = rows[id_]
                        record = {"file": named, "session": id_, "format": row.info.format, "entries": row.entry_count}
                        print_json(record)
                    else:
                        show(f"session {format_id(id_)}: {len(each.entries):,} entries of {to_one_line(named, 200)}")
            work.advance()
    if not json and count + reader.unread > 1:
        show(f"{count:,} sessions stored" + (f"; {count_files(reader.unread)} left out" if reader.unread else ""))
    return reader.exit_code


def _count_sessions(count: int) -> str:
    return f"{count:,} session{' is' if count == 1 else 's are'}"


def apply(  # noqa: PLR0913 - one parameter per flag is how typer describes a command
    session: _IdArgument,
    *,
    to: _TargetOption = None,
    policy: PolicyOption = "",
    model: ModelsOption = None,
    base_url: BaseUrlOption = "",
    is_fresh: FreshOption = False,
    is_small_accepted: YesOption = False,
    undo: Annotated[bool, typer.Option("--undo", help="Put back what stood there before the newest apply.")] = False,
    force: _UndoForceOption = False,
    store: StoreOption = None,
    namespace: NamespaceOption = "",
    json: JsonOption = False,
) -> int:
    """Writes a compacted session into the client it came from, so that the client goes on from there.

    What the client has is kept: the compacted conversation is added behind it in the client's own way, and a backup is
    made. cline and old sessions of gemini-cli keep no other: there it takes the place of the messages until --undo.
    Quit the client before. The last line printed is the command that resumes the session.
    """
    location = find_location(store)
    if location == MEMORY_LOCATION:
        raise UsageError("apply keeps backups beside the store, so it needs one that lasts: name it with --store")
    backups = find_folder(location) / _BACKUPS
    with open_cli_store(store, create=not undo) as place:
        found = _choose(place, session, namespace)
        if undo:
            record = undo_applied(found, backups, force=force)
            _report(found, json=json, said=f"undone: {found.path} is what it was", undone=record.block)
            return ExitCode.OK
        if found.refusal:
            raise UsageError(found.refusal)
        arguments = CompactArguments(
            config=settings(),
            models=parse_models(model or (), base_url),
            namespace=namespace,
            policy=policy,
            to=to,
            is_fresh=is_fresh,
            is_small_accepted=is_small_accepted,
        )
        arguments.check()
        data = read_found_session(found)
        recorded = read_data(data, file=str(found.path), format=found.client)
        run = CompactRun(arguments)
        _, opened = next(iter(run.open_sessions(place, recorded, policy)))
        _compact_first(run, opened)
        block = _get_block(opened, session)
        tokens = sum(opened.conversation.get_message_sizes().values())
        copy = ViewCopy(get_view_items(opened.view), tokens, block, get_current_time())
        if has_view_applied(found.client, data, copy):
            _report(found, json=json, said=f"{found.path} holds this compaction already", block=block)
            return run.exit_code
        record = apply_view(found, data, copy, backups, opened.policy.counter)
        place.record_export(namespace, opened.address.session, record.path, bytes.fromhex(record.digest_after))
    said = f"applied: {record.tokens:,} tokens to {found.path}; backup {record.backup}"
    _report(found, json=json, said=said, block=block, tokens=record.tokens, backup=record.backup)
    return run.exit_code


def _compact_first(run: CompactRun, session: Session) -> None:
    """Compacts the session if a target was given, and prints what came of it."""
    if run.arguments.to is None:
        return
    run.prepare_session(session)
    said = "the session is as it was, in the store and in the client"
    with explain_interrupt(lambda: said), WorkProgress(f"compacting {session.address.session}") as work:
        watch_model(session, work)
        out = run.compact_session(session)
    print_note(
        f"{out.status}: {out.reason}; {out.tokens_before:,} -> {out.tokens_after:,} tokens ({render_share(out)})"
    )


def _choose(store: Store, beginning: str, namespace: str) -> FoundSession:
    """Chooses a client's session by its own id, or by the id that it has in the store."""
    with find_with_reasons() as found:
        try:
            return choose_session(found, beginning)
        except NotFoundError as exc:
            try:
                info = find_session(store, beginning, namespace=namespace).info
            except NotFoundError:
                raise exc from None
        own = [each for each in found if each.client == info.format and each.id == info.source_id]
        if not own:
            raise NotFoundError(
                f"the session {info.id} came from {info.file or 'no file'}, and no client on this machine keeps it: "
                "`tenfold export` writes it to a file"
            )
        return own[0]


def _get_block(session: Session, named: str) -> str:
    live = session.view.state.live_blocks
    if not live:
        raise UsageError(f"the session is not compacted yet: run `tenfold apply {named} --to 10%`, or another size")
    return session.view.path.get_entry(live[-1]).id


def _report(found: FoundSession, *, json: bool, said: str, **fields: object) -> None:
    folder = ("cd", found.folder) if found.folder else ()
    if json:
        record = {"client": found.client, "id": found.id, "path": str(found.path), "resume": found.command}
        print_json(record | {"folder": found.folder} | fields)
        return
    show(to_one_line(said, 400))
    show(to_one_line(" && ".join(join_command(each) for each in (folder, found.command) if each), 400))
