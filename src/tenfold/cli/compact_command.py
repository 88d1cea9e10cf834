"""`tenfold compact`: reads session files, compacts each session, prints the results, and writes the requested files.

`compact_report.py` formats the results; nothing here does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer

from tenfold.cli.compact_arguments import (
    CompactArguments,
    SourceFile,
    build_call,
    check_arguments,
    choose_agent_model,
    find_sources,
    read_sessions,
)
from tenfold.cli.compact_report import SessionOutcome, as_json, encode_preview, print_report, show_preview
from tenfold.cli.console import build_progress, is_terminal, print_json, print_note
from tenfold.cli.policy_comparison import compare_policies as side_by_side
from tenfold.cli.policy_comparison import parse_policies
from tenfold.cli.store_access import NAMESPACE, JsonOption, StoreOption, open_cli_store, open_session
from tenfold.cli.summary_models import BaseUrlOption, ModelsOption, parse_models
from tenfold.config.settings import load_settings as settings
from tenfold.engine.compact import preview
from tenfold.errors import BadInput, UsageError
from tenfold.formats import ParsedSession, render_sessions
from tenfold.formats.export_items import get_view_items
from tenfold.formats.importer import import_sessions
from tenfold.meter.counters import choose_counter
from tenfold.session import Session
from tenfold.store.base import MEMORY_LOCATION, Store
from tenfold.store.location import get_default_location
from tenfold.store.sqlite import SqliteStore
from tenfold.wire import WIRES

CompareOption = Annotated[
    str | None,
    typer.Option(
        metavar="POLICIES",
        help="Print what each of these policies would make of it side by side, `all` or a list with commas, and store "
        "nothing. Target where none is given: 10%.",
    ),
]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("compact", epilog="Example: tenfold compact session.jsonl --to 10% --out smaller.jsonl")(compact)


def compact(  # noqa: PLR0913 - one parameter per flag is how typer describes a command
    files: Annotated[list[Path], typer.Argument(help="Session files, or folders of them.", metavar="FILE...")],
    *,
    to: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Target size of the view: tokens (20000) or a share (10%).")
    ] = None,
    window: Annotated[
        int | None, typer.Option(min=1, help="The model's window in tokens: act only if the policy's trigger says so.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="The policy: of `tenfold policies`, or named in the settings.", show_default="tenfold"),
    ] = None,
    model: ModelsOption = None,
    base_url: BaseUrlOption = None,
    format: Annotated[str | None, typer.Option(help="The files' format, where it is not to be detected.")] = None,
    recall: Annotated[
        Literal["none", "tool", "cli"],
        typer.Option(help="What stubs name to get the original back: nothing, the recall tools, or this command."),
    ] = "none",
    store: StoreOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Write the compacted conversation, in the same format; a folder for several files."
        ),
    ] = None,
    only_preview: Annotated[
        bool, typer.Option("--preview", help="Print the Plan with its reasons; change nothing.")
    ] = False,
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Leave out damaged lines, and say which.")
    ] = False,
    compare: CompareOption = None,
    json: JsonOption = False,
) -> int:
    """Compacts recorded sessions: offline, with no key and no server, unless --model names one to write summaries.

    Without --to and --window the policy's trigger decides, for the known window of the session's model.
    """
    models, config = parse_models(model or (), base_url), settings()
    arguments = CompactArguments(
        to, window, policy or "", config, models, recall, format, skip_damaged, out, only_preview, json
    )
    check_arguments(arguments)
    sources = find_sources(files)
    if compare is not None:
        return side_by_side(sources, parse_policies(compare, config), arguments)
    _check_output(sources, out)
    results: list[SessionOutcome] = []
    codes: list[int] = []
    with open_cli_store(store, create=not only_preview) as place:
        try:
            _compact_files(place, sources, arguments, results, codes)
        finally:
            if not json:
                print_report(results, is_stored=(store or get_default_location()) != MEMORY_LOCATION)
    if any(r.outcome.status == "failed" for r in results):
        codes.append(4)
    return max(codes, default=0)


def _compact_files(
    store: Store,
    sources: Sequence[SourceFile],
    arguments: CompactArguments,
    results: list[SessionOutcome],
    codes: list[int],
) -> None:
    with build_progress(enabled=len(sources) > 1 and not (arguments.json and is_terminal())) as bar:
        task = bar.add_task("sessions", total=len(sources))
        for source in sources:
            try:
                recorded = read_sessions(source, arguments)
            except BadInput as exc:
                if len(sources) == 1:
                    raise
                print_note(f"tenfold: {exc}", style="red")
                codes.append(3)
                bar.advance(task)
                continue
            bar.update(task, total=(bar.tasks[0].total or 0) + max(0, len(recorded) - 1))
            for result in _compact_file(store, source, recorded, arguments):
                bar.advance(task)
                results.append(result)
                if arguments.json:
                    print_json(as_json(result))
            if not recorded:
                bar.advance(task)


def _check_output(sources: Sequence[SourceFile], out: Path | None) -> None:
    """Raises `UsageError` if --out cannot hold what will be written, or would replace what was read."""
    if out is None:
        return
    if len(sources) > 1 and not out.is_dir():
        raise UsageError(f"--out {out} must be an existing folder for {len(sources)} files; make it first")
    if not out.is_dir() and not out.absolute().parent.is_dir():
        raise UsageError(f"--out {out}: there is no folder {out.absolute().parent}; make it first")
    places: dict[Path, Path] = {}
    for source in sources:
        place = _find_output_path(out, source).absolute()
        if place in places:
            raise UsageError(f"--out {out}: {places[place]} and {source.path} would both be written to {place}")
        if place.exists() and any(place.samefile(s.path) for s in sources if s.path.exists()):
            raise UsageError(f"--out {out}: {place} is one of the files to read, and originals are never overwritten")
        places[place] = source.path


def _find_output_path(out: Path, source: SourceFile) -> Path:
    return out / source.relative_path if out.is_dir() else out


def _compact_file(
    store: Store, source: SourceFile, recorded: Sequence[ParsedSession], arguments: CompactArguments
) -> Iterator[SessionOutcome]:
    """Loads and compacts the sessions of one file, one after the other, and then writes them all."""
    if not recorded:
        return
    counter = choose_counter(choose_agent_model(recorded, arguments) or None).counter
    store = _copy_to_memory(store, recorded, source) if arguments.preview else store
    ids = import_sessions(recorded, store, NAMESPACE, counter)
    rows = {row.info.id: row for row in store.list_sessions(NAMESPACE)}
    sessions: list[Session] = []
    for id_ in ids:
        session = open_session(
            store, rows[id_], config=arguments.config, policy=arguments.policy, models=arguments.models
        )
        sessions.append(session)
        call = build_call(session, arguments)
        if arguments.preview:
            decision, plan = preview(session.view, session.policy, call, session.get_measures())
            if arguments.json:
                print_json(encode_preview(source.path, session, decision, plan))
            else:
                show_preview(source.path, session, decision, plan)
            continue
        outcome = session.compact(call)
        outcome = msgspec.structs.replace(outcome, violations=_list_violations(session))
        yield SessionOutcome(str(source.path), id_, rows[id_].info.format, session.policy.counter.name, outcome)
    if arguments.out is not None and len(sessions) == len(recorded):
        _write_sessions(_find_output_path(arguments.out, source), recorded, sessions)


def _copy_to_memory(store: Store, recorded: Sequence[ParsedSession], source: SourceFile) -> Store:
    """Copies what the store knows of these sessions into memory, so that a preview changes nothing."""
    memory_store = SqliteStore(":memory:")
    source_ids = {each.info.source_id or each.info.id for each in recorded}
    for row in store.list_sessions(NAMESPACE):
        entries = store.read_entries(NAMESPACE, row.info.id)
        if (row.info.source_id in source_ids or row.info.file == str(source.path)) and entries:
            memory_store.create(NAMESPACE, row.info)
            memory_store.append(NAMESPACE, row.info.id, entries, expected=None)
    return memory_store


def _list_violations(session: Session) -> tuple[str, ...]:
    return tuple(f"{wire}: {sentence}" for wire in WIRES for sentence in session.find_violations(wire))


def _write_sessions(path: Path, recorded: Sequence[ParsedSession], sessions: Sequence[Session]) -> None:
    """Writes the compacted sessions of one file, whole or not at all."""
    data = render_sessions([(r.info, get_view_items(s.view)) for r, s in zip(recorded, sessions, strict=True)])
    write_atomically(path, data)


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file whole or not at all: a draft beside it is moved into its place.

    Raises `OSError` with the file's name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as exc:
        draft.unlink(missing_ok=True)
        raise OSError(exc.errno, f"{path} was not written ({exc.strerror}); nothing is left half done there") from exc
    print_note(f"written: {path} ({len(data):,} bytes)")
